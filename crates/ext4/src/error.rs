//! What can go wrong in the file system.

use uext4_block::BlockError;
use uext4_jbd2::JournalError;
use uext4_jbd2::buffer::BufferError;
use uext4_ondisk::{Corrupt, FormatError};

/// Why an operation failed. `vfs_impl` alone turns it into an errno.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message says what it is")]
pub enum Ext4Error {
    #[error(transparent)]
    Corrupt(Box<Corrupt>),
    #[error(transparent)]
    Format(Box<FormatError>),
    #[error(transparent)]
    Journal(Box<JournalError>),
    #[error(transparent)]
    Device(Box<BlockError>),
    #[error("no free block")]
    NoSpace,
    #[error(transparent)]
    HostFull(Box<BlockError>),
    #[error("no free inode")]
    NoInode,
    #[error("quota exceeded")]
    QuotaExceeded,
    #[error("mounted read-only")]
    ReadOnly,
    #[error("name exists")]
    Exists,
    #[error("no such name")]
    NotFound,
    #[error("not a directory")]
    NotDirectory,
    #[error("is a directory")]
    IsDirectory,
    #[error("directory not empty")]
    NotEmpty,
    #[error("name longer than 255 bytes")]
    NameTooLong,
    #[error("too many links")]
    TooManyLinks,
    #[error("directory has no room for another entry")]
    DirectoryFull,
    #[error("file too large")]
    TooLarge,
    #[error("stale handle")]
    Stale,
    #[error("no such attribute")]
    NoAttribute,
    #[error("attribute exists")]
    AttributeExists,
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    #[error("the journal device has UUID {found}, the file system's journal {wanted}")]
    JournalUuid { wanted: String, found: String },
    #[error("not permitted")]
    NotPermitted,
    #[error("access denied")]
    AccessDenied,
    #[error("would have to wait")]
    WouldBlock,
    #[error("no data from there on")]
    NoData,
    #[error("damage was recorded: unmount it, and repair it with `uext4 check`")]
    DamageRecorded,
    #[error(
        "no blocks are reserved for the descriptors of so many groups: unmount it, and `uext4 resize` makes the image larger"
    )]
    NoDescriptors,
    #[error("busy: {0}")]
    Busy(&'static str),
    #[error("host {host} has it open (multi-mount protection; there it is {device})")]
    OpenElsewhere { host: String, device: String },
    #[error(
        "e2fsck runs on it on host {host}, or was ended there (multi-mount protection); if none does, `tune2fs -f -E clear_mmp` frees it"
    )]
    BeingChecked { host: String },
    #[error(
        "host {host} has it open, or left it so (multi-mount protection); if no host has it open, --exclusive-elsewhere takes it over"
    )]
    LeftBehind { host: String },
    #[error(
        "other hosts can write it unseen, as it has no multi-mount protection (`uext4 tune -O mmp` on the server adds it); if none has it open, --exclusive-elsewhere opens it"
    )]
    Unprotected,
    #[error("another host may have opened it since (multi-mount protection)")]
    HoldLost,
    #[error(transparent)]
    Vfs(Box<uext4_vfs::errno::Error>),
}

impl Ext4Error {
    /// Whether it is a fault of the file system, the journal or the device, and not an answer to the caller.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(
            self,
            Ext4Error::Corrupt(_)
                | Ext4Error::Format(_)
                | Ext4Error::Journal(_)
                | Ext4Error::Device(_)
                | Ext4Error::Stale
        )
    }

    /// Whether there is no space for what it was asked for, in the file system or on the host: less, or blocks that become
    /// free, may do.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Ext4Error::NoSpace | Ext4Error::HostFull(_))
    }

    /// Says whose damage it is, unless that is known.
    #[cold]
    pub(crate) fn of_inode(self, ino: uext4_ondisk::Ino) -> Self {
        match self {
            Ext4Error::Corrupt(e) => e.ino(ino).into(),
            e => e,
        }
    }
}

/// What the file system's calls return.
pub type Result<T> = std::result::Result<T, Ext4Error>;

impl From<Corrupt> for Ext4Error {
    #[cold]
    fn from(e: Corrupt) -> Self {
        Ext4Error::Corrupt(Box::new(e))
    }
}

impl From<uext4_ondisk::CorruptKind> for Ext4Error {
    #[cold]
    fn from(e: uext4_ondisk::CorruptKind) -> Self {
        Corrupt::new(e).into()
    }
}

impl From<FormatError> for Ext4Error {
    fn from(e: FormatError) -> Self {
        Ext4Error::Format(Box::new(e))
    }
}

impl From<JournalError> for Ext4Error {
    #[cold]
    fn from(e: JournalError) -> Self {
        if matches!(e, JournalError::Closed) {
            return Ext4Error::ReadOnly;
        }
        Ext4Error::Journal(Box::new(e))
    }
}

impl From<BlockError> for Ext4Error {
    #[cold]
    fn from(e: BlockError) -> Self {
        Ext4Error::Device(Box::new(e))
    }
}

impl From<BufferError> for Ext4Error {
    #[cold]
    fn from(e: BufferError) -> Self {
        match e {
            BufferError::Device(e) => e.into(),
            BufferError::TwoRoles { block } => Corrupt::new(uext4_ondisk::CorruptKind::BlockRoles)
                .pblk(uext4_ondisk::Pblk(block))
                .into(),
            BufferError::OutOfRange { block, .. } => {
                Corrupt::new(uext4_ondisk::CorruptKind::BlockRange)
                    .pblk(uext4_ondisk::Pblk(block))
                    .into()
            }
        }
    }
}

impl From<uext4_vfs::errno::Error> for Ext4Error {
    fn from(e: uext4_vfs::errno::Error) -> Self {
        Ext4Error::Vfs(Box::new(e))
    }
}
