//! Feature bits of the superblock and the names mke2fs gives them.
//!
//! Source: Linux documentation, filesystems/ext4, "The Super Block"; ext4(5).

use bitflags::bitflags;

bitflags! {
    /// Features that a reader and writer may ignore.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Compat: u32 {
        /// Directory preallocation.
        const DIR_PREALLOC = 0x1;
        /// AFS server inodes.
        const IMAGIC_INODES = 0x2;
        /// There is a journal.
        const HAS_JOURNAL = 0x4;
        /// Extended attributes.
        const EXT_ATTR = 0x8;
        /// Reserved descriptor blocks for growing.
        const RESIZE_INODE = 0x10;
        /// Hashed directories.
        const DIR_INDEX = 0x20;
        /// Lazy block groups, never merged.
        const LAZY_BG = 0x40;
        /// Snapshot bitmap, never merged.
        const SNAPSHOT_BITMAP = 0x100;
        /// At most two backup superblocks.
        const SPARSE_SUPER2 = 0x200;
        /// Fast commits may be in the journal.
        const FAST_COMMIT = 0x400;
        /// Inode numbers and UUID must not change.
        const STABLE_INODES = 0x800;
        /// Orphans are kept in a file.
        const ORPHAN_FILE = 0x1000;
    }
}

bitflags! {
    /// Features without which the file system must not be touched.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Incompat: u32 {
        /// Compression, never merged.
        const COMPRESSION = 0x1;
        /// File types in directory entries.
        const FILETYPE = 0x2;
        /// The journal needs replay.
        const RECOVER = 0x4;
        /// External journal.
        const JOURNAL_DEV = 0x8;
        /// Descriptors in every meta group.
        const META_BG = 0x10;
        /// Extent trees.
        const EXTENT = 0x40;
        /// 64-bit block numbers.
        const BIT64 = 0x80;
        /// Multi-mount protection.
        const MMP = 0x100;
        /// Metadata of several groups together.
        const FLEX_BG = 0x200;
        /// Attribute values in inodes.
        const EA_INODE = 0x400;
        /// Data in directory entries.
        const DIRDATA = 0x1000;
        /// The checksum seed is stored.
        const CSUM_SEED = 0x2000;
        /// Three-level hash trees, directories over 2 GiB.
        const LARGE_DIR = 0x4000;
        /// Small files in the inode.
        const INLINE_DATA = 0x8000;
        /// Encryption.
        const ENCRYPT = 0x1_0000;
        /// Names without case.
        const CASEFOLD = 0x2_0000;
    }
}

bitflags! {
    /// Features without which the file system must not be written.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct RoCompat: u32 {
        /// Backups in groups 0, 1 and powers of 3, 5 and 7.
        const SPARSE_SUPER = 0x1;
        /// Files over 2 GiB.
        const LARGE_FILE = 0x2;
        /// Directories as B-trees, never merged.
        const BTREE_DIR = 0x4;
        /// Block counts of inodes in file system blocks.
        const HUGE_FILE = 0x8;
        /// Descriptor checksums by crc16 and uninitialised groups (`uninit_bg`).
        const GDT_CSUM = 0x10;
        /// More than 65000 subdirectories.
        const DIR_NLINK = 0x20;
        /// Inodes reserve space for known fields.
        const EXTRA_ISIZE = 0x40;
        /// Snapshot, never merged.
        const SNAPSHOT = 0x80;
        /// Quota files are hidden inodes.
        const QUOTA = 0x100;
        /// Allocation in clusters.
        const BIGALLOC = 0x200;
        /// Checksums everywhere, by crc32c.
        const METADATA_CSUM = 0x400;
        /// Replica, never merged.
        const REPLICA = 0x800;
        /// Never to be written.
        const READONLY = 0x1000;
        /// Project quota.
        const PROJECT = 0x2000;
        /// Blocks shared between files; read-only.
        const SHARED_BLOCKS = 0x4000;
        /// fs-verity.
        const VERITY = 0x8000;
        /// The orphan file is not empty.
        const ORPHAN_PRESENT = 0x1_0000;
    }
}

macro_rules! named {
    ($t:ident, $letter:literal, [$(($name:literal, $flag:ident),)*], aliases [$(($alias:literal, $aflag:ident),)*]) => {
        impl $t {
            /// Every known feature with its mke2fs name, in bit order.
            pub const NAMES: &[(&str, $t)] = &[$(($name, $t::$flag),)*];

            /// The feature with a mke2fs name (or an alias mke2fs takes).
            pub fn parse_name(name: &str) -> Option<Self> {
                const ALIASES: &[(&str, $t)] = &[$(($alias, $t::$aflag),)*];
                Self::NAMES.iter().chain(ALIASES).find(|(n, _)| *n == name).map(|(_, f)| *f)
            }

            /// Names of the known features that are set.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().filter(move |(_, f)| self.contains(*f)).map(|(n, _)| *n)
            }

            /// Names of everything set, with `FEATURE_` letter and bit for what has no name.
            pub fn describe(self) -> String {
                let mut out: Vec<String> = self.names().map(str::to_owned).collect();
                let unknown = self.bits() & !Self::all().bits();
                out.extend((0..32).filter(|b| unknown >> b & 1 == 1).map(|b| format!(concat!("FEATURE_", $letter, "{}"), b)));
                out.join(" ")
            }
        }
    };
}

named!(Compat, "C", [
    ("dir_prealloc", DIR_PREALLOC),
    ("imagic_inodes", IMAGIC_INODES),
    ("has_journal", HAS_JOURNAL),
    ("ext_attr", EXT_ATTR),
    ("resize_inode", RESIZE_INODE),
    ("dir_index", DIR_INDEX),
    ("lazy_bg", LAZY_BG),
    ("snapshot_bitmap", SNAPSHOT_BITMAP),
    ("sparse_super2", SPARSE_SUPER2),
    ("fast_commit", FAST_COMMIT),
    ("stable_inodes", STABLE_INODES),
    ("orphan_file", ORPHAN_FILE),
], aliases []);

named!(Incompat, "I", [
    ("compression", COMPRESSION),
    ("filetype", FILETYPE),
    ("needs_recovery", RECOVER),
    ("journal_dev", JOURNAL_DEV),
    ("meta_bg", META_BG),
    ("extent", EXTENT),
    ("64bit", BIT64),
    ("mmp", MMP),
    ("flex_bg", FLEX_BG),
    ("ea_inode", EA_INODE),
    ("dirdata", DIRDATA),
    ("metadata_csum_seed", CSUM_SEED),
    ("large_dir", LARGE_DIR),
    ("inline_data", INLINE_DATA),
    ("encrypt", ENCRYPT),
    ("casefold", CASEFOLD),
], aliases [("extents", EXTENT),]);

named!(RoCompat, "R", [
    ("sparse_super", SPARSE_SUPER),
    ("large_file", LARGE_FILE),
    ("btree_dir", BTREE_DIR),
    ("huge_file", HUGE_FILE),
    ("uninit_bg", GDT_CSUM),
    ("dir_nlink", DIR_NLINK),
    ("extra_isize", EXTRA_ISIZE),
    ("snapshot", SNAPSHOT),
    ("quota", QUOTA),
    ("bigalloc", BIGALLOC),
    ("metadata_csum", METADATA_CSUM),
    ("replica", REPLICA),
    ("read-only", READONLY),
    ("project", PROJECT),
    ("shared_blocks", SHARED_BLOCKS),
    ("verity", VERITY),
    ("orphan_present", ORPHAN_PRESENT),
], aliases [("uninit_groups", GDT_CSUM),]);

impl Incompat {
    /// Features this crate can parse; anything else is refused.
    pub const SUPPORTED: Incompat = Self::COMPRESSION
        .union(Self::DIRDATA)
        .union(Self::JOURNAL_DEV)
        .complement();
    /// Features that are read-only at first.
    pub const READ_ONLY: Incompat = Self::ENCRYPT;
}

impl RoCompat {
    /// Features this crate can write.
    pub const WRITABLE: RoCompat = Self::SPARSE_SUPER
        .union(Self::LARGE_FILE)
        .union(Self::HUGE_FILE)
        .union(Self::GDT_CSUM)
        .union(Self::DIR_NLINK)
        .union(Self::EXTRA_ISIZE)
        .union(Self::QUOTA)
        .union(Self::METADATA_CSUM)
        .union(Self::PROJECT)
        .union(Self::ORPHAN_PRESENT);
}

/// A feature of any of the three words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Feature {
    /// Of the compatible word.
    Compat(Compat),
    /// Of the incompatible word.
    Incompat(Incompat),
    /// Of the read-only-compatible word.
    RoCompat(RoCompat),
}

impl Feature {
    /// The feature with a mke2fs name, as `-O` takes it.
    pub fn parse_name(name: &str) -> Option<Feature> {
        Compat::parse_name(name)
            .map(Feature::Compat)
            .or_else(|| Incompat::parse_name(name).map(Feature::Incompat))
            .or_else(|| RoCompat::parse_name(name).map(Feature::RoCompat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_one_name() {
        assert_eq!(Compat::NAMES.len(), Compat::all().iter().count());
        assert_eq!(Incompat::NAMES.len(), Incompat::all().iter().count());
        assert_eq!(RoCompat::NAMES.len(), RoCompat::all().iter().count());
        assert_eq!(
            Feature::parse_name("metadata_csum"),
            Some(Feature::RoCompat(RoCompat::METADATA_CSUM))
        );
        assert_eq!(
            Feature::parse_name("extents"),
            Some(Feature::Incompat(Incompat::EXTENT))
        );
        assert_eq!(Feature::parse_name("no_such"), None);
    }

    #[test]
    fn unknown_bits_are_named_by_number() {
        let f = Incompat::from_bits_retain(0x8000_0002);
        assert_eq!(f.describe(), "filetype FEATURE_I31");
        assert!(!Incompat::SUPPORTED.contains(f));
    }
}
