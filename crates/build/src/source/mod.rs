//! What an image is filled from: reading it, and later the data of its files.
//!
//! Sources are read on Linux only; elsewhere `absent` takes the place of the rest.
//!
//! | module | holds |
//! | --- | --- |
//! | `read` | the sources of an image, put on top of each other |
//! | `scan`, `open`, `xattrs`, `files` | a directory of the host |
//! | `archive` | archives and container images |
//! | `part` | files of the host that hold data, and parts of them |
//! | `data` | where the data of each file is |

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
mod part;
#[cfg(target_os = "linux")]
mod read;
#[cfg(target_os = "linux")]
mod scan;
#[cfg(target_os = "linux")]
mod xattrs;

#[cfg(target_os = "linux")]
pub(crate) use crate::metadata::describe;
#[cfg(not(target_os = "linux"))]
pub use absent::Scan;
#[cfg(not(target_os = "linux"))]
pub(crate) use absent::{Data, Files, describe};
#[cfg(target_os = "linux")]
pub(crate) use data::{Data, Files};
#[cfg(target_os = "linux")]
pub use scan::Scan;
