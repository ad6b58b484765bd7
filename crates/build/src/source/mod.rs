//! What an image is filled from: reading it, and later the data of its files.
//!
//! | module | holds |
//! | --- | --- |
//! | `read` | the sources of an image, put on top of each other |
//! | `scan` | a tree that was read |
//! | `directory`, `open`, `xattrs`, `files` | a directory of the host, on Linux |
//! | `portable` | the same elsewhere, by what `std` has |
//! | `archive` | archives and container images |
//! | `part` | files of the host that hold data, and parts of them |
//! | `positioned` | reads and writes at an offset |
//! | `data` | where the data of each file is |

mod archive;
mod data;
#[cfg(target_os = "linux")]
mod directory;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod open;
mod part;
#[cfg(not(target_os = "linux"))]
mod portable;
mod positioned;
mod read;
mod scan;
#[cfg(target_os = "linux")]
mod xattrs;

pub(crate) use crate::metadata::describe;
pub(crate) use data::{Data, Files};
#[cfg(target_os = "linux")]
use files::{HostFiles, Root};
#[cfg(not(target_os = "linux"))]
use portable::{HostFiles, Root};
pub use scan::Scan;
