//! What is wrong with bytes from the disk.

use std::fmt;

use crate::types::{Ino, Pblk};

/// Result of parsing disk bytes.
pub type Result<T> = std::result::Result<T, Corrupt>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// One kind for each check.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum CorruptKind {
            $(#[doc = $text] $name,)*
        }

        impl CorruptKind {
            /// Every kind.
            pub const ALL: &[CorruptKind] = &[$(CorruptKind::$name,)*];

            /// What is wrong, in a few lower-case words.
            pub const fn text(self) -> &'static str {
                match self {
                    $(CorruptKind::$name => $text,)*
                }
            }
        }
    };
}

kinds! {
    GroupDescShort = "group descriptor is too short",
    GroupDescChecksum = "group descriptor checksum is wrong",
    GroupDescBlockBitmap = "group descriptor names a block bitmap outside the file system",
    GroupDescInodeBitmap = "group descriptor names an inode bitmap outside the file system",
    GroupDescInodeTable = "group descriptor names an inode table outside the file system",
    GroupDescFreeBlocks = "group descriptor counts more free blocks than the group has",
    GroupDescFreeInodes = "group descriptor counts more free inodes than a group has",
    GroupDescUnusedInodes = "group descriptor counts more unused inodes than a group has",
    BlockRoles = "block is used for two purposes",
    ExtentFixed = "extent names a block of the file system's own",
    DirHashShared = "too many names of a directory share one hash",
    JournalLost = "journal transaction is damaged, and later ones are complete",
    JournalRecords = "journal holds more records than recovery takes into memory",
    BlockBitmapCount = "block bitmap and descriptor count free blocks differently",
    InodeBitmapCount = "inode bitmap and descriptor count free inodes differently",
    BlockBitmapChecksum = "block bitmap checksum is wrong",
    InodeBitmapChecksum = "inode bitmap checksum is wrong",
    InodeShort = "inode is shorter than 128 bytes",
    InodeExtraSize = "inode extra size does not fit the inode",
    InodeMode = "inode has an invalid mode",
    InodeSize = "inode size is beyond the last block number",
    InodeChecksum = "inode checksum is wrong",
    InodeHugeBlocks = "inode block count overflows",
    InlineMissing = "inode with inline data has no attribute for it",
    InlineSize = "inode size does not fit its inline data",
    InlineMapped = "inode cannot have inline data",
    ExtentShort = "extent node is too short for its header",
    ExtentMagic = "extent header magic is wrong",
    ExtentMax = "extent header maximum exceeds the node",
    ExtentMaxZero = "extent header maximum is zero",
    ExtentEntries = "extent header counts more entries than its maximum",
    ExtentDepth = "extent node depth is wrong",
    ExtentDepthMax = "extent tree is too deep",
    ExtentEmptyIndex = "extent index node is empty",
    ExtentLenZero = "extent has length zero",
    ExtentWraps = "extent passes the last file block",
    ExtentOrder = "extents overlap or are out of order",
    ExtentPblk = "extent lies outside the file system",
    ExtentIdxOrder = "extent index entries are out of order",
    ExtentIdxPblk = "extent index entry points outside the file system",
    ExtentLblkRange = "extent node covers file blocks outside its parent's range",
    ExtentChecksum = "extent block checksum is wrong",
    DirSize = "directory has blocks beyond its size",
    DirShort = "directory entry header passes the end of the block",
    DirRecLenSmall = "directory entry record is shorter than its name",
    DirRecLenAlign = "directory entry record length is not a multiple of four",
    DirRecLenEnd = "directory entry record passes the end of the block",
    DirRecLenRest = "directory entry leaves a rest too small for a record",
    DirNameEmpty = "directory entry in use has an empty name",
    DirInoRange = "directory entry names an inode beyond the inode count",
    DirOffset = "directory entry offset is not an entry",
    DirTail = "directory block has no checksum tail",
    DirChecksum = "directory block checksum is wrong",
    DirNotDot = "directory block does not start with `.`",
    DirNotDotDot = "directory block has no `..` after `.`",
    DxShort = "hash tree block is too short",
    DxRootDot = "hash tree root does not start with a `.` entry of 12 bytes",
    DxRootDotDot = "hash tree root has no `..` entry spanning the block",
    DxRootReserved = "hash tree root has a reserved field set",
    DxRootHash = "hash tree root names an unknown hash",
    DxRootInfoLen = "hash tree root information has the wrong length",
    DxRootLevels = "hash tree has too many levels",
    DxRootFlags = "hash tree root has unknown flags",
    DxNodeDirent = "hash tree node does not start with an empty entry spanning the block",
    DxLimit = "hash tree limit is wrong",
    DxCountZero = "hash tree count is zero",
    DxCount = "hash tree count exceeds its limit",
    DxOrder = "hash tree entries are out of order",
    DxBlock = "hash tree entry points beyond the directory",
    DxChecksum = "hash tree block checksum is wrong",
    XattrHeaderMagic = "extended attribute block magic is wrong",
    XattrBlocks = "extended attribute block count is not one",
    XattrShort = "extended attribute area is too short",
    XattrEntryEnd = "extended attribute entry passes the end of its area",
    XattrValueEnd = "extended attribute value passes the end of its area",
    XattrValueOverlap = "extended attribute value overlaps the entries",
    XattrValueSize = "extended attribute value is too large",
    XattrValueInode = "extended attribute names an invalid value inode",
    XattrEntryHash = "extended attribute entry hash is wrong",
    XattrChecksum = "extended attribute block checksum is wrong",
    AclVersion = "access control list version is unknown",
    AclSize = "access control list has a partial entry",
    AclHeader = "access control list has no header",
    AclTag = "access control list tag is unknown",
    JournalShort = "journal block is too short",
    JournalMagic = "journal block magic is wrong",
    JournalBlockType = "journal block has the wrong type",
    JournalBlockSize = "journal block size is wrong",
    JournalMaxLen = "journal is too short",
    JournalFirst = "journal first block is outside the journal",
    JournalStart = "journal start block is outside the journal",
    JournalFastCommit = "journal fast commit area is too large",
    JournalUsers = "journal counts too many users",
    JournalFeature = "journal has an unsupported incompatible feature",
    JournalRoFeature = "journal has an unsupported read-only feature",
    JournalTwoChecksums = "journal has more than one checksum version",
    JournalChecksumType = "journal checksum type is not crc32c",
    JournalSuperChecksum = "journal superblock checksum is wrong",
    JournalTagUuid = "journal descriptor tag uuid passes the end of the block",
    JournalTailChecksum = "journal descriptor or revoke block checksum is wrong",
    JournalCommitChecksum = "journal commit block checksum is wrong",
    JournalDataChecksum = "journaled block checksum is wrong",
    JournalRevokeCount = "journal revoke count is outside the block",
    JournalRevokePartial = "journal revoke block ends in a partial record",
    FastCommit = "fast commit contradicts the file system",
    OrphanShort = "orphan file block is too short",
    OrphanMagic = "orphan file block magic is wrong",
    OrphanChecksum = "orphan file block checksum is wrong",
    QuotaFile = "quota file is damaged",
    MmpShort = "mmp block is too short",
    MmpMagic = "mmp block magic is wrong",
    MmpChecksum = "mmp block checksum is wrong",
    BlockRange = "block number is outside the file system",
    MapPointer = "block map names a block outside the file system",
    MapFixed = "block map names a block of fixed metadata",
    MapCycle = "block map names a block that leads to it",
    InoRange = "inode number is outside the file system",
}

/// A damaged structure: what, and where as far as the check knew.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Corrupt {
    /// The check that failed.
    pub kind: CorruptKind,
    /// The inode the structure belongs to, or is.
    pub ino: Option<Ino>,
    /// The block the structure lies in, or names.
    pub pblk: Option<Pblk>,
    /// Anything else worth a word, such as values or an offset.
    pub detail: Option<Box<str>>,
}

impl Corrupt {
    /// The error of one check.
    #[cold]
    pub fn new(kind: CorruptKind) -> Self {
        Corrupt {
            kind,
            ino: None,
            pblk: None,
            detail: None,
        }
    }

    /// Says which inode, unless that is known.
    #[must_use]
    pub fn ino(mut self, ino: Ino) -> Self {
        self.ino.get_or_insert(ino);
        self
    }

    /// Says which block, unless that is known.
    #[must_use]
    pub fn pblk(mut self, pblk: Pblk) -> Self {
        self.pblk.get_or_insert(pblk);
        self
    }

    /// Adds detail, unless there is some.
    #[must_use]
    pub fn detail(mut self, detail: impl fmt::Display) -> Self {
        if self.detail.is_none() {
            self.detail = Some(detail.to_string().into_boxed_str());
        }
        self
    }
}

impl From<CorruptKind> for Corrupt {
    #[cold]
    fn from(kind: CorruptKind) -> Self {
        Corrupt::new(kind)
    }
}

impl fmt::Display for CorruptKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.text())?;
        match (self.ino, self.pblk) {
            (Some(i), Some(b)) => write!(f, " (inode {i}, block {b})")?,
            (Some(i), None) => write!(f, " (inode {i})")?,
            (None, Some(b)) => write!(f, " (block {b})")?,
            (None, None) => (),
        }
        match &self.detail {
            Some(d) => write!(f, ": {d}"),
            None => Ok(()),
        }
    }
}

/// Adds the place to an error on its way up.
pub trait CorruptContext<T> {
    /// Says which inode.
    ///
    /// # Errors
    /// The same error, with the inode.
    fn in_ino(self, ino: Ino) -> Result<T>;
    /// Says which block.
    ///
    /// # Errors
    /// The same error, with the block.
    fn in_pblk(self, pblk: Pblk) -> Result<T>;
}

impl<T> CorruptContext<T> for Result<T> {
    #[inline]
    fn in_ino(self, ino: Ino) -> Result<T> {
        self.map_err(|e| e.ino(ino))
    }

    #[inline]
    fn in_pblk(self, pblk: Pblk) -> Result<T> {
        self.map_err(|e| e.pblk(pblk))
    }
}

/// Why a superblock is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Fewer than 1024 bytes.
    #[error("superblock is too short: {0} bytes")]
    Short(usize),
    /// Not ext2, ext3 or ext4.
    #[error("superblock magic is {0:#06x}, not 0xef53: not an ext4 file system")]
    BadMagic(u16),
    /// A revision from the future.
    #[error("superblock revision {0} is unknown")]
    Revision(u32),
    /// An external journal, where a file system is wanted.
    #[error("device is an external journal, not a file system")]
    JournalDevice,
    /// A file system, where an external journal is wanted.
    #[error("device is a file system, not an external journal")]
    NotJournalDevice,
    /// Incompatible features that this crate does not know, by name.
    #[error("superblock has unsupported incompatible features: {0}")]
    UnsupportedIncompat(String),
    /// A field that contradicts itself or another.
    #[error("superblock geometry is wrong: {what} is {value}")]
    BadGeometry {
        /// The field, and what is the matter.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// Names in an encoding that this crate does not know.
    #[error("superblock encoding of names {encoding} with flags {flags:#x} is unknown")]
    Encoding {
        /// The number of the encoding.
        encoding: u16,
        /// Its flags.
        flags: u16,
    },
    /// A checksum type other than crc32c.
    #[error("superblock checksum type {0} is unknown")]
    ChecksumType(u8),
    /// Bytes changed since the checksum was made.
    #[error("superblock checksum is wrong: stored {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// On disk.
        stored: u32,
        /// Of the bytes.
        computed: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_structure_inode_and_block() {
        let e = Corrupt::new(CorruptKind::ExtentMagic)
            .ino(Ino(12))
            .pblk(Pblk(345))
            .detail("0x0000");
        assert_eq!(
            e.to_string(),
            "extent header magic is wrong (inode 12, block 345): 0x0000"
        );
        assert_eq!(e.ino(Ino(1)).ino, Some(Ino(12)), "the first place stays");
    }
}
