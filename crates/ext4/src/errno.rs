//! Errors as callers are given them: an errno, and the error as its source.

use crate::prelude::*;
use uext4_vfs::errno::Error;

fn errno_of(e: &Ext4Error) -> Errno {
    match e {
        Ext4Error::Corrupt(_) | Ext4Error::DamageRecorded => Errno::EUCLEAN,
        Ext4Error::Format(_) => Errno::EINVAL,
        Ext4Error::Journal(e) => match &**e {
            JournalError::Corrupt(_) => Errno::EUCLEAN,
            JournalError::Unsupported(_) => Errno::EOPNOTSUPP,
            JournalError::TooLarge { .. } | JournalError::HostFull => Errno::ENOSPC,
            JournalError::Device(e) => device_errno(e),
            JournalError::NoThread(_) => Errno::EAGAIN,
            _ => Errno::EIO,
        },
        Ext4Error::Device(e) => device_errno(e),
        Ext4Error::NoSpace
        | Ext4Error::HostFull(_)
        | Ext4Error::NoInode
        | Ext4Error::DirectoryFull => Errno::ENOSPC,
        Ext4Error::QuotaExceeded => Errno::EDQUOT,
        Ext4Error::ReadOnly => Errno::EROFS,
        Ext4Error::Exists | Ext4Error::AttributeExists => Errno::EEXIST,
        Ext4Error::NotFound => Errno::ENOENT,
        Ext4Error::NotDirectory => Errno::ENOTDIR,
        Ext4Error::IsDirectory => Errno::EISDIR,
        Ext4Error::NotEmpty => Errno::ENOTEMPTY,
        Ext4Error::NameTooLong => Errno::ENAMETOOLONG,
        Ext4Error::TooManyLinks => Errno::EMLINK,
        Ext4Error::TooLarge => Errno::EFBIG,
        Ext4Error::Stale => Errno::ESTALE,
        Ext4Error::NoAttribute => Errno::ENODATA,
        Ext4Error::Unsupported(_) | Ext4Error::NoDescriptors => Errno::EOPNOTSUPP,
        Ext4Error::Invalid(_) | Ext4Error::JournalUuid { .. } => Errno::EINVAL,
        Ext4Error::NotPermitted => Errno::EPERM,
        Ext4Error::AccessDenied => Errno::EACCES,
        Ext4Error::WouldBlock => Errno::EAGAIN,
        Ext4Error::NoData => Errno::ENXIO,
        Ext4Error::Busy(_)
        | Ext4Error::OpenElsewhere { .. }
        | Ext4Error::BeingChecked { .. }
        | Ext4Error::LeftBehind { .. }
        | Ext4Error::Unprotected
        | Ext4Error::HoldLost => Errno::EBUSY,
        Ext4Error::Vfs(e) => e.errno(),
    }
}

fn device_errno(e: &uext4_block::BlockError) -> Errno {
    match e.raw_os_error() {
        Some(code) => Errno(code),
        None => Errno::EIO,
    }
}

impl Ext4Error {
    /// The errno that callers are given.
    pub fn errno(&self) -> Errno {
        errno_of(self)
    }

    /// Whether the journal is too small for a change.
    pub fn is_too_large_for_log(&self) -> bool {
        let Ext4Error::Journal(e) = self else {
            return false;
        };
        matches!(**e, JournalError::TooLarge { .. })
    }

    /// What a caller of a mount that failed is given. Errors of a mounted file system go through
    /// `Volume::report`, which honours `errors=`.
    pub fn of_mount(self) -> Error {
        self.into_error()
    }

    /// The errno, with the error as its source. Only the boundary calls this.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Ext4Error::Vfs(e) => *e,
            // What a message adds nothing to stays without one, and without an allocation.
            Ext4Error::NotFound
            | Ext4Error::Exists
            | Ext4Error::NotDirectory
            | Ext4Error::IsDirectory
            | Ext4Error::NotEmpty
            | Ext4Error::ReadOnly
            | Ext4Error::Stale
            | Ext4Error::NoSpace
            | Ext4Error::QuotaExceeded
            | Ext4Error::WouldBlock
            | Ext4Error::NoData
            | Ext4Error::NoAttribute => Error::new(errno_of(&self)),
            e => Error::from_source(errno_of(&e), e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_block::{BlockError, BlockOp};
    use uext4_ondisk::FormatError;

    #[test]
    fn each_answer_has_its_errno() {
        let invalid = Ext4Error::Invalid("a value");
        let full = JournalError::TooLarge {
            wanted: 2,
            limit: 1,
        };
        assert!(Ext4Error::from(full.clone()).is_too_large_for_log());
        let other = Ext4Error::from(JournalError::HostFull);
        assert!(!other.is_too_large_for_log());
        let log_damage = JournalError::from(Corrupt::new(CorruptKind::JournalFirst));
        let nowhere = BlockError::OutOfRange {
            op: BlockOp::Read,
            offset: 0,
            len: 1,
            device_len: 0,
        };
        let without_code = BlockError::Io {
            op: BlockOp::Read,
            offset: 0,
            len: 1,
            source: std::io::Error::other("a device of a program"),
        };
        for (why, wanted) in [
            (without_code.into(), Errno::EIO),
            (CorruptKind::BlockRange.into(), Errno::EUCLEAN),
            (
                JournalError::Unsupported("a log".into()).into(),
                Errno::EOPNOTSUPP,
            ),
            (full.into(), Errno::ENOSPC),
            (log_damage.into(), Errno::EUCLEAN),
            (nowhere.into(), Errno::EIO),
            (
                Ext4Error::Format(FormatError::BadMagic(0).into()),
                Errno::EINVAL,
            ),
            (Ext4Error::NoInode, Errno::ENOSPC),
            (Ext4Error::QuotaExceeded, Errno::EDQUOT),
            (Ext4Error::ReadOnly, Errno::EROFS),
            (Ext4Error::Exists, Errno::EEXIST),
            (Ext4Error::NotFound, Errno::ENOENT),
            (Ext4Error::NotDirectory, Errno::ENOTDIR),
            (Ext4Error::IsDirectory, Errno::EISDIR),
            (Ext4Error::NotEmpty, Errno::ENOTEMPTY),
            (Ext4Error::NameTooLong, Errno::ENAMETOOLONG),
            (Ext4Error::TooManyLinks, Errno::EMLINK),
            (Ext4Error::TooLarge, Errno::EFBIG),
            (Ext4Error::Stale, Errno::ESTALE),
            (Ext4Error::NoAttribute, Errno::ENODATA),
            (Ext4Error::Unsupported("a call"), Errno::EOPNOTSUPP),
            (Ext4Error::NoDescriptors, Errno::EOPNOTSUPP),
            (Ext4Error::DamageRecorded, Errno::EUCLEAN),
            (invalid, Errno::EINVAL),
            (Ext4Error::NotPermitted, Errno::EPERM),
            (Ext4Error::AccessDenied, Errno::EACCES),
            (Ext4Error::WouldBlock, Errno::EAGAIN),
            (Ext4Error::NoData, Errno::ENXIO),
            (Ext4Error::Busy("a file"), Errno::EBUSY),
        ] {
            let text = why.to_string();
            assert_eq!(why.errno(), wanted, "{text}");
            assert_eq!(why.into_error().errno(), wanted, "{text}");
        }
    }

    #[test]
    fn an_aborted_journal_is_an_error_of_the_device() {
        let why = JournalError::Aborted("a write failed".into());
        assert_eq!(Ext4Error::from(why).errno(), Errno::EIO);
        let why = JournalError::HostFull;
        assert_eq!(Ext4Error::from(why).errno(), Errno::ENOSPC);
        let why = JournalError::NoThread(Arc::new(std::io::Error::other("no room")));
        assert_eq!(Ext4Error::from(why).errno(), Errno::EAGAIN);
    }
}
