//! What a file system adds to [`FileSystem`] to be served to the kernel.

mod ext4;
mod queues;

use crate::server::VALID_SECONDS;
use serde_json::Value;
use uext4::{Caller, Errno, FileSystem, Result};

/// An ioctl as the kernel passes it on.
#[derive(Clone, Copy, Debug)]
pub struct IoctlCall<'a> {
    /// Its number.
    pub command: u32,
    /// What the caller passes in, as long as the number says.
    pub input: &'a [u8],
}

/// What the kernel knows of a file, and is out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated {
    /// Nothing.
    Nothing,
    /// Its attributes.
    Attributes,
    /// Its data too.
    All,
}

/// A file system that can be served to the kernel.
pub trait Served: FileSystem {
    /// The inode with that number, whatever its generation is: the kernel compares that itself.
    ///
    /// # Errors
    /// `ESTALE`: there is none.
    fn node_by_number(&self, ino: u64) -> Result<Self::Node>;

    /// The number of the root directory's inode.
    fn root_number(&self) -> u64;

    /// How long what the kernel knows of an inode's attributes holds, in seconds; for good where nobody but the kernel
    /// changes them.
    fn attributes_hold_s(&self, ino: u64) -> u64 {
        let _ = ino;
        VALID_SECONDS
    }

    /// Answers an ioctl: writes what the caller gets to `out`, and gives its length.
    ///
    /// # Errors
    /// `ENOTTY`: it is none of this file system.
    fn ioctl(
        &self,
        caller: &Caller,
        node: &Self::Node,
        call: &IoctlCall<'_>,
        out: &mut [u8],
    ) -> Result<usize> {
        let _ = (caller, node, call, out);
        Err(Errno::ENOTTY.into())
    }

    /// What an ioctl has changed behind the kernel's back.
    fn outdated_by(&self, command: u32) -> Outdated {
        let _ = command;
        Outdated::Nothing
    }

    /// What it says about itself in the statistics of a mount: its caches.
    fn describe(&self) -> Value;
}
