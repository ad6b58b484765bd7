//! Which features an image gets, and what can be asked of them.

use uext4_ondisk::{Compat, Feature, Incompat, RoCompat};

use crate::error::{MkfsError, Result};

/// The three feature words of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeatureSet {
    /// Compatible features.
    pub compat: Compat,
    /// Incompatible features.
    pub incompat: Incompat,
    /// Read-only-compatible features.
    pub ro_compat: RoCompat,
}

/// Features that can be enabled beyond the defaults. Some are a flag in the superblock only: the image is
/// the same without.
const MORE_COMPAT: Compat = Compat::SPARSE_SUPER2
    .union(Compat::FAST_COMMIT)
    .union(Compat::STABLE_INODES);
const MORE_INCOMPAT: Incompat = Incompat::META_BG
    .union(Incompat::MMP)
    .union(Incompat::EA_INODE)
    .union(Incompat::LARGE_DIR)
    .union(Incompat::INLINE_DATA)
    .union(Incompat::ENCRYPT)
    .union(Incompat::CASEFOLD);
const MORE_RO_COMPAT: RoCompat = RoCompat::GDT_CSUM
    .union(RoCompat::PROJECT)
    .union(RoCompat::QUOTA)
    .union(RoCompat::BIGALLOC)
    .union(RoCompat::VERITY);

const COMPAT: Compat = Compat::HAS_JOURNAL
    .union(Compat::EXT_ATTR)
    .union(Compat::RESIZE_INODE)
    .union(Compat::DIR_INDEX)
    .union(Compat::ORPHAN_FILE);
const INCOMPAT: Incompat = Incompat::FILETYPE
    .union(Incompat::EXTENT)
    .union(Incompat::BIT64)
    .union(Incompat::FLEX_BG)
    .union(Incompat::CSUM_SEED);
const RO_COMPAT: RoCompat = RoCompat::SPARSE_SUPER
    .union(RoCompat::LARGE_FILE)
    .union(RoCompat::HUGE_FILE)
    .union(RoCompat::DIR_NLINK)
    .union(RoCompat::EXTRA_ISIZE)
    .union(RoCompat::METADATA_CSUM);

impl Default for FeatureSet {
    /// What mke2fs 1.47 gives an ext4 file system.
    fn default() -> Self {
        FeatureSet {
            compat: COMPAT,
            incompat: INCOMPAT,
            ro_compat: RO_COMPAT,
        }
    }
}

impl FeatureSet {
    /// No feature at all.
    pub const NONE: FeatureSet = FeatureSet {
        compat: Compat::empty(),
        incompat: Incompat::empty(),
        ro_compat: RoCompat::empty(),
    };

    /// What mke2fs gives a file system of a type: `ext2`, `ext3` or `ext4`.
    ///
    /// # Errors
    /// [`MkfsError::Option`]: another type.
    pub fn of_type(name: &str) -> Result<Self> {
        let ext2 = FeatureSet {
            compat: Compat::EXT_ATTR | Compat::RESIZE_INODE | Compat::DIR_INDEX,
            incompat: Incompat::FILETYPE,
            ro_compat: RoCompat::SPARSE_SUPER | RoCompat::LARGE_FILE,
        };
        match name {
            "ext2" => Ok(ext2),
            "ext3" => Ok(FeatureSet {
                compat: ext2.compat | Compat::HAS_JOURNAL,
                ..ext2
            }),
            "ext4" => Ok(FeatureSet::default()),
            _ => Err(MkfsError::option("type", name, "ext2, ext3 or ext4")),
        }
    }

    /// The defaults, changed as [`FeatureSet::changed`] has it.
    ///
    /// # Errors
    /// As [`FeatureSet::changed`].
    pub fn parse(list: &str) -> Result<Self> {
        FeatureSet::default().changed(list)
    }

    /// The same, changed as a list like `-O a,^b` of mke2fs says; `none` starts from nothing.
    ///
    /// # Errors
    /// [`MkfsError::UnknownFeature`], and what [`FeatureSet::check`] says.
    pub fn changed(mut self, list: &str) -> Result<Self> {
        let set = &mut self;
        for word in list.split([',', ' ']).filter(|w| !w.is_empty()) {
            if word == "none" {
                *set = FeatureSet::NONE;
                continue;
            }
            let (name, on) = match word.strip_prefix('^') {
                Some(name) => (name, false),
                None => (word, true),
            };
            set.set(name, on)?;
        }
        self.check()?;
        Ok(self)
    }

    /// Turns a feature on or off by its mke2fs name.
    ///
    /// # Errors
    /// [`MkfsError::UnknownFeature`].
    pub fn set(&mut self, name: &str, on: bool) -> Result<()> {
        match Feature::parse_name(name) {
            Some(Feature::Compat(f)) => self.compat.set(f, on),
            Some(Feature::Incompat(f)) => self.incompat.set(f, on),
            Some(Feature::RoCompat(f)) => self.ro_compat.set(f, on),
            None => return Err(MkfsError::UnknownFeature(name.to_owned())),
        }
        Ok(())
    }

    /// Refuses what can't be made, by name.
    ///
    /// # Errors
    /// [`MkfsError::UnsupportedFeature`], [`MkfsError::Conflict`].
    pub fn check(&self) -> Result<()> {
        let unsupported = [
            self.compat.difference(COMPAT | MORE_COMPAT).describe(),
            self.incompat
                .difference(INCOMPAT | MORE_INCOMPAT)
                .describe(),
            self.ro_compat
                .difference(RO_COMPAT | MORE_RO_COMPAT)
                .describe(),
        ];
        if let Some(names) = unsupported.into_iter().find(|n| !n.is_empty()) {
            return Err(MkfsError::UnsupportedFeature(names));
        }
        if self.incompat.contains(Incompat::META_BG) && self.compat.contains(Compat::RESIZE_INODE) {
            return Err(MkfsError::Conflict("meta_bg", "resize_inode"));
        }
        if self.has_clusters() && !self.incompat.contains(Incompat::EXTENT) {
            return Err(MkfsError::Conflict("bigalloc", "^extent"));
        }
        if self.ro_compat.contains(RoCompat::QUOTA) && self.incompat.contains(Incompat::EA_INODE) {
            return Err(MkfsError::Conflict("quota", "ea_inode"));
        }
        Ok(())
    }

    /// Names of all features that can be enabled.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let compat = (COMPAT | MORE_COMPAT).names();
        let incompat = (INCOMPAT | MORE_INCOMPAT).names();
        let ro_compat = (RO_COMPAT | MORE_RO_COMPAT).names();
        compat.chain(incompat).chain(ro_compat)
    }

    /// Leaves out what means nothing without another feature that is not there, as mke2fs does.
    #[must_use]
    pub(crate) fn settled(mut self) -> Self {
        if self.ro_compat.contains(RoCompat::METADATA_CSUM) {
            self.ro_compat.remove(RoCompat::GDT_CSUM);
        } else {
            self.incompat.remove(Incompat::CSUM_SEED);
        }
        if !self.compat.contains(Compat::HAS_JOURNAL) {
            self.compat
                .remove(Compat::ORPHAN_FILE | Compat::FAST_COMMIT);
        }
        if !self.incompat.contains(Incompat::EXTENT) {
            self.incompat.remove(Incompat::BIT64);
        }
        self
    }

    /// The same without a journal and what needs one.
    #[must_use]
    pub(crate) fn without_journal(mut self) -> Self {
        self.compat.remove(Compat::HAS_JOURNAL);
        self.settled()
    }

    pub(crate) fn has_journal(&self) -> bool {
        self.compat.contains(Compat::HAS_JOURNAL)
    }

    pub(crate) fn has_orphan_file(&self) -> bool {
        self.compat.contains(Compat::ORPHAN_FILE)
    }

    /// Whether blocks are allocated in clusters.
    pub(crate) fn has_clusters(&self) -> bool {
        self.ro_compat.contains(RoCompat::BIGALLOC)
    }

    pub(crate) fn has_metadata_csum(&self) -> bool {
        self.ro_compat.contains(RoCompat::METADATA_CSUM)
    }

    /// True if groups can be left uninitialised.
    pub(crate) fn has_group_csum(&self) -> bool {
        self.ro_compat
            .intersects(RoCompat::METADATA_CSUM | RoCompat::GDT_CSUM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_as_mke2fs_does() {
        let set = FeatureSet::parse("^has_journal,^metadata_csum,uninit_bg").unwrap();
        let set = set.settled();
        assert!(!set.has_journal() && !set.has_orphan_file() && set.has_group_csum());
        assert!(!set.incompat.contains(Incompat::CSUM_SEED));
        let bare = FeatureSet::parse("none,extent,filetype").unwrap();
        assert_eq!(bare.ro_compat, RoCompat::empty());
    }

    #[test]
    fn refuses_by_name() {
        let error = |list| FeatureSet::parse(list).unwrap_err().to_string();
        assert_eq!(error("frob"), "feature \"frob\" is unknown");
        assert_eq!(error("journal_dev"), "feature journal_dev is not supported");
        assert_eq!(
            error("bigalloc,^extent"),
            "features bigalloc and ^extent can't go together"
        );
        assert_eq!(
            error("meta_bg"),
            "features meta_bg and resize_inode can't go together"
        );
        FeatureSet::parse("meta_bg,^resize_inode").unwrap();
    }
}
