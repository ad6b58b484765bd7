//! Windows.

pub mod files;
pub mod paths;
pub mod process;
pub mod signals;
