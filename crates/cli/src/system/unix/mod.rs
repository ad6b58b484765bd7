//! Linux and macOS.

pub mod files;
#[cfg(not(target_os = "linux"))]
mod nodes;
pub mod paths;
pub mod process;
pub mod signals;

#[cfg(target_os = "linux")]
use super::linux::nodes;
