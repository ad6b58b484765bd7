//! The directory tree that an image is made from: reading it, and later the data of its files.
//!
//! Trees are read on Linux only; elsewhere `absent` takes the place of the rest.

#[cfg(not(target_os = "linux"))]
mod absent;
#[cfg(target_os = "linux")]
mod archive;
#[cfg(target_os = "linux")]
mod data;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod open;
#[cfg(target_os = "linux")]
mod read;
#[cfg(target_os = "linux")]
mod scan;
#[cfg(target_os = "linux")]
mod xattrs;

#[cfg(not(target_os = "linux"))]
pub use absent::Scan;
#[cfg(not(target_os = "linux"))]
pub(crate) use absent::{Data, Files};
#[cfg(target_os = "linux")]
pub(crate) use data::{Data, Files};
#[cfg(target_os = "linux")]
pub use scan::Scan;
