//! What a repair does about each kind of fault, and what is lost by it.

use crate::prelude::*;

/// What is done about a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Remedy {
    /// What the repair does: the second half of a sentence, "the repair ...".
    pub does: &'static str,
    /// What may be lost by it.
    pub loses: Option<&'static str>,
    /// The rest of the image leaves one right value only, and nothing is lost: it need not be asked.
    pub safe: bool,
}

const fn safe(does: &'static str) -> Option<Remedy> {
    Some(Remedy {
        does,
        loses: None,
        safe: true,
    })
}

const fn careful(does: &'static str) -> Option<Remedy> {
    Some(Remedy {
        does,
        loses: None,
        safe: false,
    })
}

const fn lossy(does: &'static str, loses: &'static str) -> Option<Remedy> {
    Some(Remedy {
        does,
        loses: Some(loses),
        safe: false,
    })
}

/// What is done about a request for recovery without a journal that could be replayed.
pub(crate) const LOST_JOURNAL: Remedy = Remedy {
    does: "clears the request for recovery",
    loses: Some("changes that were in the journal only"),
    safe: false,
};

/// What is done about a kind of fault; `None` if nothing can be.
pub(crate) fn of(kind: FaultKind) -> Option<Remedy> {
    if let FaultKind::Structure(kind) = kind {
        return of_structure(kind);
    }
    of_superblock(kind)
        .or_else(|| of_inode(kind))
        .or_else(|| of_directory(kind))
}

fn of_structure(kind: CorruptKind) -> Option<Remedy> {
    use CorruptKind as C;
    let name = format!("{kind:?}");
    let starts = |front: &str| name.starts_with(front);
    match kind {
        C::GroupDescChecksum | C::GroupDescUnusedInodes => {
            safe("computes the descriptor again from the inode table")
        }
        C::GroupDescBlockBitmap | C::GroupDescInodeBitmap | C::GroupDescInodeTable => {
            careful("takes the places of the group's metadata from a backup")
        }
        C::BlockBitmapChecksum | C::InodeBitmapChecksum => safe("computes the bitmap again"),
        C::InodeChecksum | C::ExtentChecksum | C::XattrChecksum => {
            careful("keeps what passes its checks and computes the checksum again")
        }
        C::InodeExtraSize => careful("sets the extra size to the usual one"),
        C::InodeHugeBlocks => safe("counts the blocks again"),
        C::OrphanMagic | C::OrphanChecksum | C::OrphanShort => lossy(
            "removes the orphan file, without which mounts use the list of orphans",
            "that deleted files were to be freed; those turn up as unnamed",
        ),
        C::MmpMagic | C::MmpChecksum => safe("writes the block again"),
        C::DirTail | C::DirChecksum => careful("keeps the entries and computes the checksum again"),
        _ if starts("Extent") => lossy(
            "removes the entries that can't be right",
            "the data that they named",
        ),
        _ if starts("Dx") => careful("makes the directory a linear one"),
        _ if starts("Dir") => lossy(
            "keeps the entries that can be read",
            "names; their files get names in lost+found",
        ),
        _ if starts("Xattr") => lossy("removes what can't be right", "extended attributes"),
        _ if starts("Journal") => lossy(
            "makes the journal empty",
            "changes that were in the journal only",
        ),
        _ => None,
    }
}

fn of_superblock(kind: FaultKind) -> Option<Remedy> {
    use FaultKind as F;
    match kind {
        F::SuperblockChecksum | F::SuperblockGeometry => {
            careful("takes what does not change from a backup")
        }
        F::DeviceTooSmall => careful("takes the size from a backup, if one fits the device"),
        F::SuperblockField => careful("sets the field to its usual value"),
        F::SuperblockFreeBlocks | F::SuperblockFreeInodes => safe("counts again"),
        F::BackupSuperblock => safe("copies the superblock"),
        F::GroupMetadataPlace | F::MetadataOverlap | F::MetadataNotMapped => {
            careful("takes the places of the groups' metadata from a backup")
        }
        F::GroupUninit
        | F::GroupFreeBlocks
        | F::GroupFreeInodes
        | F::GroupUsedDirs
        | F::BlockBitmapClear
        | F::BlockBitmapSet
        | F::BlockBitmapPadding
        | F::InodeBitmapClear
        | F::InodeBitmapSet
        | F::InodeBitmapPadding => safe("computes bitmap and counters again"),
        F::QuotaUsage => safe("writes the usage that was counted"),
        F::QuotaTree => safe("writes the file again"),
        F::QuotaFile => lossy(
            "writes the file again",
            "limits that the file does not lead to any more",
        ),
        F::QuotaInode => careful("corrects or removes the number in the superblock"),
        F::OrphanIno | F::OrphanLoop | F::OrphanFile => {
            careful("ends the list, or clears the entry")
        }
        F::OrphanPresent => safe("sets the feature by what the file holds"),
        F::OrphanPending => safe("frees or truncates the file, as the next mount would"),
        F::JournalPending => safe("writes them, as a mount would"),
        F::JournalErrno => safe("clears the error"),
        F::JournalInode => lossy(
            "removes the journal, and makes another where there is space",
            "changes that were in the journal only",
        ),
        F::MmpInUse => careful("marks it as not in use"),
        F::MmpBlock => careful("removes the feature"),
        F::ResizeInode => careful("writes the resize inode again"),
        _ => None,
    }
}

fn of_inode(kind: FaultKind) -> Option<Remedy> {
    use FaultKind as F;
    match kind {
        F::InodeMode | F::RootMode => careful("gives the inode the type that its data has"),
        F::InodeDtime | F::InodeZeroDtime | F::InodeLostOrphan => safe("corrects the time"),
        F::InodeReserved => careful("clears the inode"),
        F::InodeFlags | F::HtreeFlag => {
            careful("clears the flags, or sets the one that is missing")
        }
        F::InodeField | F::InodeTime => safe("clears what has no meaning"),
        F::InodeSize => careful("sets the size by the blocks"),
        F::InodeBlocks => safe("counts the blocks again"),
        F::InlineData => lossy("keeps what can be read", "the end of the data"),
        F::SpecialFile => safe("clears what has no meaning"),
        F::Symlink => lossy(
            "sets size and target by each other, or deletes a link without a target",
            "a link whose target was overwritten",
        ),
        F::ExtentIdxKey => safe("sets the key by the first entry"),
        F::ExtentEmptyLeaf => safe("removes the leaf"),
        F::ExtentUnwritten => careful("marks the extent as written"),
        F::MapBlock | F::MapTooLarge => lossy("clears the pointer", "the data that it led to"),
        F::BlockShared | F::BlockIsMetadata => lossy(
            "copies the blocks, so that each file has its own",
            "data, where there is not enough space for copies",
        ),
        F::XattrBlock | F::XattrName | F::XattrOverlap | F::XattrValueInode => {
            lossy("removes what can't be right", "extended attributes")
        }
        F::XattrContext => lossy("clears the flag", "that the data is encrypted"),
        F::XattrRefcount | F::XattrInodeRefcount => safe("counts again"),
        _ => None,
    }
}

fn of_directory(kind: FaultKind) -> Option<Remedy> {
    use FaultKind as F;
    match kind {
        F::DirEmpty => careful("gives the directory an empty block"),
        F::DirHole => careful("closes the hole"),
        F::DirDot | F::DirDotDot => careful("writes the entry"),
        F::DirDotDotParent => safe("sets `..` to the directory that has the name"),
        F::DirLinkedTwice => lossy("keeps the first name", "the other names"),
        F::DirUnconnected | F::DirLoop | F::Unattached => careful("gives it a name in lost+found"),
        F::EntryIno | F::EntryUnused => lossy("removes the entry", "a name without a file"),
        F::EntryUnencrypted => careful("removes the entry; the file gets a name in lost+found"),
        F::EntryName => careful("replaces the characters, or removes the entry"),
        F::EntryDuplicate => careful("renames the later entry"),
        F::EntryType => safe("sets the type that the inode has"),
        F::EntryRoot | F::EntrySelf => lossy("removes the entry", "a second name of a directory"),
        F::HtreeUnreferenced | F::HtreeReferencedTwice | F::HtreeRange | F::HtreeKind => {
            careful("makes the directory a linear one")
        }
        F::LinkCount => safe("sets the number of names that were found"),
        _ => None,
    }
}
