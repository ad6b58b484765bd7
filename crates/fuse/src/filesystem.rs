//! What the server needs of a file system besides [`FileSystem`].

use serde_json::Value;
use uext4_vfs::{Caller, Errno, FileSystem, Result};
use zerocopy::FromBytes;

/// For how many seconds the kernel may cache names and attributes: for ever, because only its own requests change the
/// file system.
pub const VALID_SECONDS: u64 = u32::MAX as u64;

/// A counted reference to an inode of the file system that `F` serves.
pub type Node<F> = <<F as FuseFileSystem>::Fs as FileSystem>::Node;

/// An ioctl request.
#[derive(Clone, Copy, Debug)]
pub struct IoctlCall<'a> {
    /// The command number.
    pub command: u32,
    /// The input, with the length that the command number encodes.
    pub input: &'a [u8],
}

impl IoctlCall<'_> {
    /// The structure at the beginning of the input.
    ///
    /// # Errors
    /// `EINVAL`: the input is shorter.
    pub fn argument<T: FromBytes>(&self) -> Result<T, Errno> {
        match T::read_from_prefix(self.input) {
            Ok((value, _)) => Ok(value),
            Err(_) => Err(Errno::EINVAL),
        }
    }
}

/// Which cached state of an inode the kernel must drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// None.
    Nothing,
    /// The attributes.
    Attributes,
    /// The attributes and the data.
    Data,
}

/// A file system that a [`Server`](crate::server::Server) serves: it owns a reference to the file system and adds what only FUSE
/// needs of it.
pub trait FuseFileSystem: Send + Sync + 'static {
    /// The file system.
    type Fs: FileSystem;

    /// The file system.
    fn fs(&self) -> &Self::Fs;

    /// The inode with that number and any generation; the kernel compares generations itself.
    ///
    /// # Errors
    /// `ESTALE`: no such inode.
    fn node_by_number(&self, ino: u64) -> Result<Node<Self>>;

    /// The root directory of what is served: the file system's, unless a part is served.
    ///
    /// # Errors
    /// `EUCLEAN`: it cannot be read.
    fn root(&self) -> Result<Node<Self>> {
        self.fs().root().cloned()
    }

    /// The number of the root directory's inode.
    fn root_number(&self) -> u64;

    /// For how many seconds the kernel may cache the attributes of an inode: for ever if only requests change them.
    fn attributes_valid_s(&self, ino: u64) -> u64 {
        let _ = ino;
        VALID_SECONDS
    }

    /// For how many seconds the kernel may cache what a name in `dir` names: not at all if a change of one name changes what another one
    /// names, as the kernel drops only the name that a request has.
    fn names_valid_s(&self, dir: &Node<Self>) -> u64 {
        let _ = dir;
        VALID_SECONDS
    }

    /// For how many seconds the kernel may cache that a directory has no such name.
    fn absence_valid_s(&self) -> u64 {
        VALID_SECONDS
    }

    /// Answers an ioctl: writes its output to `out` and returns the output's length.
    ///
    /// # Errors
    /// `ENOTTY`: the file system has no such ioctl.
    fn ioctl(
        &self,
        caller: &Caller,
        node: &Node<Self>,
        call: &IoctlCall<'_>,
        out: &mut [u8],
    ) -> Result<usize> {
        let _ = (caller, node, call, out);
        Err(Errno::ENOTTY.into())
    }

    /// Whether an ioctl is refused with `ETXTBSY` while the file is open for writing.
    fn excludes_writers(&self, command: u32) -> bool {
        let _ = command;
        false
    }

    /// What the kernel has to drop after an ioctl with that command number.
    fn invalidated_by(&self, command: u32) -> Invalidation {
        let _ = command;
        Invalidation::Nothing
    }

    /// The sizes of the file system's caches, for the statistics of the mount.
    fn cache_statistics(&self) -> Value;

    /// Blocks of the file system and bytes of a block, for the statistics of the mount.
    fn size_statistics(&self) -> Option<Value> {
        None
    }

    /// What a client of a server did that has the image, if one has it, for the statistics of the mount.
    fn remote_statistics(&self) -> Option<Value> {
        None
    }

    /// What the file system's journal did, if there is one, for the statistics of the mount.
    fn journal_statistics(&self) -> Option<Value> {
        None
    }
}
