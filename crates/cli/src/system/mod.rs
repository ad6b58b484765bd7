//! What differs between the systems that the command runs on. Nothing else of it has a part for one system, but for the
//! commands that are Linux's alone, which [`commands`](crate::commands) lists.
//!
//! | module | holds |
//! | --- | --- |
//! | [`creation`] | how files of the host are opened to be written |
//! | [`files`] | files of the host: attributes, kinds, holes, how they are opened and made |
//! | [`paths`] | names and paths as bytes |
//! | [`process`] | processes and their users |
//! | [`signals`] | signals that end a command |
//! | [`mounts`] | images that are mounted here, and the kernel's mounts: of Linux |
//! | [`confinement`] | rights that a process drops: of Linux |
//! | [`inode_flags`], [`host_extents`], [`extents`] | flags and extents of files of the host: of Linux |
//! | [`users`] | ranges of users that the caller has: of Linux |
//!
//! The first four are of `unix` (Linux, macOS) or `windows`, the last ones of `linux` or `elsewhere`.

pub mod creation;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
pub mod extents;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{confinement, host_extents, inode_flags, mounts, users};
#[cfg(target_os = "linux")]
pub use linux::{confinement, host_extents, inode_flags, mounts, users};
#[cfg(unix)]
pub use unix::{files, paths, process, signals};
#[cfg(windows)]
pub use windows::{files, paths, process, signals};
