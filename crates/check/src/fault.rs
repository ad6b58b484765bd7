//! A fault: what is wrong, and where. Workers collect them in [`Faults`].

use std::fmt;
use uext4_ondisk::{Corrupt, CorruptKind, GroupNo, Ino, Pblk};

macro_rules! kinds {
    ($($name:ident = $text:literal,)*) => {
        /// One kind for each check.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum FaultKind {
            /// A structure that does not parse.
            Structure(CorruptKind),
            $(#[doc = $text] $name,)*
        }

        impl FaultKind {
            /// What is wrong, in a few lower-case words.
            pub const fn text(self) -> &'static str {
                match self {
                    FaultKind::Structure(kind) => kind.text(),
                    $(FaultKind::$name => $text,)*
                }
            }
        }
    };
}

kinds! {
    SuperblockChecksum = "superblock checksum is wrong",
    SuperblockGeometry = "superblock geometry is wrong",
    SuperblockField = "superblock field is out of range",
    SuperblockFreeBlocks = "superblock counts free blocks wrongly",
    SuperblockFreeInodes = "superblock counts free inodes wrongly",
    DeviceTooSmall = "device is smaller than the file system",
    BackupSuperblock = "backup superblock is damaged or disagrees",
    GroupMetadataPlace = "group metadata lies outside its group",
    GroupUninit = "group flags say uninitialised where that can't be",
    GroupFreeBlocks = "group descriptor counts free blocks wrongly",
    GroupFreeInodes = "group descriptor counts free inodes wrongly",
    GroupUsedDirs = "group descriptor counts directories wrongly",
    MetadataOverlap = "metadata of groups overlaps",
    MetadataNotMapped = "block of metadata is past the end of the file system",
    BlockBitmapClear = "block in use is free in the block bitmap",
    BlockBitmapSet = "unused block is taken in the block bitmap",
    BlockBitmapPadding = "block bitmap padding is not set",
    InodeBitmapClear = "inode in use is free in the inode bitmap",
    InodeBitmapSet = "unused inode is taken in the inode bitmap",
    InodeBitmapPadding = "inode bitmap padding is not set",
    JournalInode = "journal inode is unusable",
    JournalReplay = "journal can't be replayed",
    JournalPending = "journal holds changes that recovery would write",
    ResizeInode = "resize inode is damaged",
    OrphanIno = "orphan list names an invalid inode",
    OrphanLoop = "orphan list has a loop",
    OrphanFile = "orphan file is unusable",
    OrphanPresent = "orphan file and the feature orphan_present disagree",
    InodeMode = "inode has an invalid mode",
    InodeDtime = "inode in use has a deletion time",
    InodeZeroDtime = "deleted inode has no deletion time",
    InodeLostOrphan = "unused inode has the next of an orphan list as its deletion time",
    InodeReserved = "reserved inode is not clear",
    InodeFlags = "inode has flags that it can't have",
    InodeField = "inode field should be zero",
    InodeTime = "inode time lies too far ahead",
    InodeSize = "inode size does not fit its blocks",
    InodeBlocks = "inode block count is wrong",
    InlineData = "inline data is damaged",
    RootMode = "root inode is not a directory",
    SpecialFile = "special file is damaged",
    Symlink = "symbolic link is damaged",
    ExtentIdxKey = "extent index entry differs from the first entry of its child",
    ExtentEmptyLeaf = "extent leaf is empty",
    ExtentUnwritten = "directory or link has an unwritten extent",
    MapBlock = "block map points outside the file system",
    MapTooLarge = "block map covers more than a file may have",
    BlockShared = "block is claimed more than once",
    BlockIsMetadata = "block is claimed but holds metadata",
    XattrBlock = "extended attribute block is outside the file system",
    XattrRefcount = "extended attribute block reference count is wrong",
    XattrName = "extended attribute has no name",
    XattrContext = "encrypted inode has no encryption context, or a damaged one",
    XattrOverlap = "extended attribute values overlap",
    XattrValueInode = "extended attribute value inode is wrong",
    XattrInodeRefcount = "extended attribute value inode reference count is wrong",
    DirEmpty = "directory has no blocks",
    DirHole = "directory has a hole",
    DirDot = "directory does not start with itself as `.`",
    DirDotDot = "directory has no valid `..`",
    DirDotDotParent = "directory names another parent in `..`",
    DirLinkedTwice = "directory has more than one name",
    DirUnconnected = "directory is not connected to the root",
    DirLoop = "directory is its own ancestor",
    EntryIno = "directory entry names an invalid inode",
    EntryUnused = "directory entry names an unused inode",
    EntryName = "directory entry has an illegal name",
    EntryDuplicate = "directory entry repeats an earlier name",
    EntryType = "directory entry has the wrong file type",
    EntryRoot = "directory entry names the root",
    EntrySelf = "directory entry names its own directory",
    EntryUnencrypted = "entry of an encrypted directory names an inode that is not encrypted",
    EntryValueInode = "directory entry names an attribute value inode",
    HtreeFlag = "inode says hashed directory but can't be one",
    HtreeUnreferenced = "directory block is missing from the hash tree",
    HtreeReferencedTwice = "directory block is in the hash tree twice",
    HtreeRange = "directory block holds hashes outside its range in the hash tree",
    HtreeKind = "hash tree has a block of the wrong kind at this level",
    LinkCount = "inode link count is wrong",
    Unattached = "inode has no name",
    SuperblockTime = "superblock time lies in the future",
    QuotaInode = "superblock names an invalid quota inode",
    QuotaUsage = "quota file disagrees with the usage",
    QuotaFile = "quota file is damaged",
    QuotaTree = "quota file can't be changed",
    OrphanPending = "deleted inode waits for the next mount to free it",
    JournalErrno = "journal records an error",
    MmpInUse = "multi-mount protection says that it is being checked",
    MmpBlock = "multi-mount protection block is outside the file system",
}

/// How grave a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Level {
    /// Damage: the image is not clean.
    Fault,
    /// Odd and worth knowing, but nothing that makes an image unclean: e2fsck lets it pass.
    Note,
}

/// Something wrong with the image.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The check that failed.
    pub kind: FaultKind,
    /// How grave it is.
    pub level: Level,
    /// The inode concerned.
    pub ino: Option<Ino>,
    /// The block concerned.
    pub pblk: Option<Pblk>,
    /// The group concerned.
    pub group: Option<GroupNo>,
    /// Values, names, offsets.
    pub detail: Option<Box<str>>,
}

impl Fault {
    #[cold]
    pub(crate) fn new(kind: FaultKind) -> Self {
        Fault {
            kind,
            level: Level::Fault,
            ino: None,
            pblk: None,
            group: None,
            detail: None,
        }
    }

    /// Makes it a note.
    pub(crate) fn note(mut self) -> Self {
        self.level = Level::Note;
        self
    }

    /// Says which inode, unless that is known.
    pub(crate) fn ino(mut self, ino: Ino) -> Self {
        self.ino.get_or_insert(ino);
        self
    }

    /// Says which block, unless that is known.
    pub(crate) fn pblk(mut self, pblk: Pblk) -> Self {
        self.pblk.get_or_insert(pblk);
        self
    }

    /// Says which group.
    pub(crate) fn group(mut self, group: GroupNo) -> Self {
        self.group.get_or_insert(group);
        self
    }

    /// Adds detail.
    pub(crate) fn detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string().into_boxed_str());
        self
    }
}

impl From<Corrupt> for Fault {
    fn from(e: Corrupt) -> Self {
        Fault {
            kind: FaultKind::Structure(e.kind),
            level: Level::Fault,
            ino: e.ino,
            pblk: e.pblk,
            group: None,
            detail: e.detail,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.text())?;
        let mut sep = " (";
        if let Some(i) = self.ino {
            write!(f, "{sep}inode {i}")?;
            sep = ", ";
        }
        if let Some(b) = self.pblk {
            write!(f, "{sep}block {b}")?;
            sep = ", ";
        }
        if let Some(g) = self.group {
            write!(f, "{sep}group {g}")?;
            sep = ", ";
        }
        if sep == ", " {
            f.write_str(")")?;
        }
        match &self.detail {
            Some(d) => write!(f, ": {d}"),
            None => Ok(()),
        }
    }
}

/// A name as text, on one line.
pub(crate) fn printable(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}

/// The first `max` findings of a level, and how many there were.
#[derive(Debug, Default)]
struct Found {
    list: Vec<Fault>,
    total: u64,
}

impl Found {
    fn absorb(&mut self, parts: Vec<Found>, max: usize) {
        let mut all = Vec::new();
        for part in parts {
            self.total += part.total;
            all.extend(part.list);
        }
        all.sort_by(|a, b| {
            let key = |f: &Fault| (f.ino, f.group, f.pblk);
            key(a).cmp(&key(b)).then_with(|| a.detail.cmp(&b.detail))
        });
        all.truncate(max.saturating_sub(self.list.len()));
        self.list.append(&mut all);
    }
}

/// The faults and notes of one worker.
#[derive(Debug)]
pub(crate) struct Faults {
    faults: Found,
    notes: Found,
    max: usize,
}

impl Faults {
    pub(crate) fn new(max: usize) -> Self {
        Faults {
            faults: Found::default(),
            notes: Found::default(),
            max,
        }
    }

    /// Counts a fault or note, and keeps it if there is room.
    #[cold]
    pub(crate) fn push(&mut self, fault: impl Into<Fault>) {
        let fault = fault.into();
        let found = match fault.level {
            Level::Fault => &mut self.faults,
            Level::Note => &mut self.notes,
        };
        found.total += 1;
        if found.list.len() < self.max {
            found.list.push(fault);
        }
    }

    /// The faults, then the notes, of those that are kept.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.faults.list.iter().chain(&self.notes.list)
    }

    /// How many faults and notes there are, and those that are kept.
    pub(crate) fn into_parts(self) -> ((u64, Vec<Fault>), (u64, Vec<Fault>)) {
        let parts = |found: Found| (found.total, found.list);
        (parts(self.faults), parts(self.notes))
    }

    /// Takes over what workers of a pass found, in an order that does not depend on the threads.
    pub(crate) fn absorb(&mut self, parts: impl IntoIterator<Item = Faults>) {
        let (faults, notes) = parts.into_iter().map(|p| (p.faults, p.notes)).unzip();
        self.faults.absorb(faults, self.max);
        self.notes.absorb(notes, self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_with_structure_inode_and_block() {
        let f = Fault::new(FaultKind::LinkCount)
            .ino(Ino(12))
            .pblk(Pblk(7))
            .detail("is 1, not 2");
        assert_eq!(
            f.to_string(),
            "inode link count is wrong (inode 12, block 7): is 1, not 2"
        );
        let f = Fault::new(FaultKind::SuperblockChecksum);
        assert_eq!(f.to_string(), "superblock checksum is wrong");
    }

    #[test]
    fn only_the_first_are_kept() {
        let mut a = Faults::new(2);
        let mut b = Faults::new(2);
        for i in [9, 3, 5] {
            b.push(Fault::new(FaultKind::LinkCount).ino(Ino(i)));
        }
        a.absorb([b]);
        a.push(Fault::new(FaultKind::LinkCount).note());
        let ((faults_total, faults), (notes_total, _)) = a.into_parts();
        assert_eq!((faults_total, notes_total), (3, 1));
        let inos: Vec<_> = faults.iter().map(|f| f.ino.unwrap().0).collect();
        assert_eq!(inos, [3, 9]);
    }
}
