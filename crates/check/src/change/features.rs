//! Features: flags, and what else some of them mean.

use super::{ChangeError, Result, Tuning, files};
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::superblock::clear_journal;
use uext4_ondisk::{
    CsumSeed, ENCODING_UTF8_12_1, Feature, MMP_INTERVAL_DEFAULT, MMP_SEQ_CLEAN, Mmp, QuotaKind,
    RawSuperblock, quota_inodes,
};

/// Features that are a flag only, which can be set while the image is in use by no one.
const SET_COMPAT: Compat = Compat::DIR_INDEX.union(Compat::STABLE_INODES);
const SET_INCOMPAT: Incompat = Incompat::EXTENT
    .union(Incompat::FLEX_BG)
    .union(Incompat::EA_INODE)
    .union(Incompat::LARGE_DIR)
    .union(Incompat::INLINE_DATA)
    .union(Incompat::ENCRYPT);
const SET_RO_COMPAT: RoCompat = RoCompat::LARGE_FILE
    .union(RoCompat::HUGE_FILE)
    .union(RoCompat::DIR_NLINK)
    .union(RoCompat::READONLY)
    .union(RoCompat::VERITY);
/// Those that can be cleared as well.
const CLEAR_RO_COMPAT: RoCompat = RoCompat::READONLY;
/// Bytes of an inode from which on it has extra fields.
const EXTRA_INODE_SIZE: u16 = 256;

/// True if the image had a journal that the new superblock does not name.
pub(super) fn drops_journal(old: &Superblock, new: &Superblock) -> bool {
    old.journal_ino().is_some() && new.journal_ino().is_none()
}

/// Makes the changes that are asked for in `raw`, and elsewhere in `ed`.
///
/// # Errors
/// The device's; a feature that can't be changed.
pub(super) fn change(
    tuning: &Tuning,
    folding: &[Ino],
    ed: &mut Editor<'_, '_>,
    raw: &mut RawSuperblock,
) -> Result<()> {
    // Descriptors of another size are a step of their own.
    let wide = Feature::Incompat(Incompat::BIT64);
    let mut changer = Changer {
        tuning,
        folding,
        ed,
        raw,
    };
    for (feature, on) in tuning.features.iter().filter(|(f, _)| *f != wide) {
        let raw = &mut *changer.raw;
        let is_on = match feature {
            Feature::Compat(f) => raw.compat().contains(*f),
            Feature::Incompat(f) => raw.incompat().contains(*f),
            Feature::RoCompat(f) => raw.ro_compat().contains(*f),
        };
        if is_on != *on {
            changer.one(*feature, *on)?;
            set(changer.raw, *feature, *on);
        }
    }
    match tuning.quotas.is_empty() {
        true => Ok(()),
        false => changer.change_quotas(),
    }
}

fn set(raw: &mut RawSuperblock, feature: Feature, on: bool) {
    let (mut compat, mut incompat, mut ro_compat) = (raw.compat(), raw.incompat(), raw.ro_compat());
    match feature {
        Feature::Compat(f) => compat.set(f, on),
        Feature::Incompat(f) => incompat.set(f, on),
        Feature::RoCompat(f) => ro_compat.set(f, on),
    }
    raw.set_features(compat, incompat, ro_compat);
}

fn name_of(feature: Feature) -> String {
    match feature {
        Feature::Compat(f) => f.describe(),
        Feature::Incompat(f) => f.describe(),
        Feature::RoCompat(f) => f.describe(),
    }
}

/// Where the usage of a kind of owner is.
fn quota_inode(raw: &RawSuperblock, kind: QuotaKind) -> Ino {
    let mut all = quota_inodes(raw).into_iter();
    all.find(|q| q.0 == kind).map_or(Ino::NONE, |q| q.1)
}

fn needs(feature: Feature, what: &str) -> ChangeError {
    ChangeError::refused(format!("{} needs {what}", name_of(feature)))
}

struct Changer<'a, 'c, 'd> {
    tuning: &'a Tuning,
    /// Directories that ignore case.
    folding: &'a [Ino],
    ed: &'a mut Editor<'c, 'd>,
    raw: &'a mut RawSuperblock,
}

impl Changer<'_, '_, '_> {
    /// All of a change but the flag.
    fn one(&mut self, feature: Feature, on: bool) -> Result<()> {
        match (feature, on) {
            (Feature::Compat(Compat::HAS_JOURNAL), true) => self.add_journal(),
            (Feature::Compat(Compat::HAS_JOURNAL), false) => self.remove_journal(),
            (Feature::Compat(Compat::ORPHAN_FILE), true) => self.add_orphan_file(feature),
            (Feature::Compat(Compat::ORPHAN_FILE), false) => self.remove_orphan_file(),
            (Feature::Compat(Compat::FAST_COMMIT), true) => match self.raw.journal_inum.get() {
                0 => Err(needs(feature, "a journal in the image: has_journal")),
                _ => Ok(()),
            },
            (Feature::Compat(Compat::FAST_COMMIT), false) => Ok(()),
            (Feature::Compat(Compat::RESIZE_INODE), false) => {
                self.raw.reserved_gdt_blocks = 0.into();
                files::remove(self.ed, Ino::RESIZE)
            }
            (Feature::Incompat(Incompat::MMP), true) => self.add_mmp(),
            (Feature::Incompat(Incompat::MMP), false) => {
                self.raw.mmp_block = 0.into();
                self.raw.mmp_update_interval = 0.into();
                Ok(())
            }
            (Feature::Incompat(Incompat::CSUM_SEED), _) => self.keep_seed(feature, on),
            (Feature::Incompat(Incompat::CASEFOLD), true) => {
                self.raw.encoding = ENCODING_UTF8_12_1.into();
                self.raw.encoding_flags = 0.into();
                Ok(())
            }
            (Feature::Incompat(Incompat::CASEFOLD), false) => self.remove_casefold(),
            (Feature::RoCompat(RoCompat::QUOTA), true) => self.add_quota(),
            (Feature::RoCompat(RoCompat::QUOTA), false) => self.remove_quota(),
            (Feature::RoCompat(RoCompat::PROJECT), true) => self.add_project(feature),
            (Feature::RoCompat(RoCompat::EXTRA_ISIZE), true) => self.add_extra_size(feature),
            (Feature::RoCompat(RoCompat::METADATA_CSUM), true) => {
                set(self.raw, Feature::RoCompat(RoCompat::GDT_CSUM), false);
                Ok(())
            }
            // Flags of groups that are not initialised stay valid.
            (Feature::RoCompat(RoCompat::METADATA_CSUM), false) => {
                set(self.raw, Feature::RoCompat(RoCompat::GDT_CSUM), true);
                set(self.raw, Feature::Incompat(Incompat::CSUM_SEED), false);
                self.raw.checksum_seed = 0.into();
                Ok(())
            }
            (Feature::RoCompat(RoCompat::GDT_CSUM), true) => {
                match self.raw.ro_compat().contains(RoCompat::METADATA_CSUM) {
                    true => Err(ChangeError::refused(
                        "uninit_bg and metadata_csum exclude each other",
                    )),
                    false => Ok(()),
                }
            }
            _ if is_flag(feature, on) => Ok(()),
            _ => {
                let (name, verb) = (name_of(feature), if on { "enabled" } else { "disabled" });
                Err(ChangeError::refused(format!("{name} can't be {verb}")))
            }
        }
    }

    fn add_journal(&mut self) -> Result<()> {
        let geo = self.ed.cx.geo;
        let blocks = match self.tuning.journal_blocks {
            Some(blocks) => blocks,
            None => uext4_ondisk::journal_blocks_default(geo.blocks_count),
        };
        if blocks < uext4_ondisk::JOURNAL_BLOCKS_MIN {
            return Err(ChangeError::refused(format!(
                "a journal has at least {} blocks, for which the image is too small",
                uext4_ondisk::JOURNAL_BLOCKS_MIN
            )));
        }
        let inode = files::add(self.ed, Ino::JOURNAL, blocks)?;
        files::write_journal(self.ed, &inode, blocks, self.raw.uuid)?;
        self.raw.journal_inum = Ino::JOURNAL.0.into();
        self.raw.journal_dev = 0.into();
        self.raw.journal_uuid = [0; 16];
        files::back_up_journal(self.raw, &inode);
        Ok(())
    }

    /// What the journal's inode has is freed when the image is checked without it.
    fn remove_journal(&mut self) -> Result<()> {
        if self.raw.journal_inum.get() == 0 {
            return Err(ChangeError::refused(
                "the journal is on another device, of which `tune2fs -O ^has_journal` removes it",
            ));
        }
        clear_journal(self.raw);
        set(self.raw, Feature::Compat(Compat::FAST_COMMIT), false);
        let orphan_file = Feature::Compat(Compat::ORPHAN_FILE);
        if self.raw.compat().contains(Compat::ORPHAN_FILE) {
            self.remove_orphan_file()?;
            set(self.raw, orphan_file, false);
        }
        Ok(())
    }

    fn add_orphan_file(&mut self, feature: Feature) -> Result<()> {
        if !self.raw.compat().contains(Compat::HAS_JOURNAL) {
            return Err(needs(feature, "has_journal"));
        }
        let geo = self.ed.cx.geo;
        let ino = files::free_inode(self.ed)?;
        let blocks = uext4_ondisk::orphan_file_blocks_default(geo.blocks_count);
        let inode = files::add(self.ed, ino, blocks)?;
        let seed = self.ed.cx.seed;
        files::write_orphans(self.ed, ino, &inode, seed)?;
        self.raw.orphan_file_inum = ino.0.into();
        Ok(())
    }

    fn remove_orphan_file(&mut self) -> Result<()> {
        let ino = Ino(self.raw.orphan_file_inum.get());
        files::remove(self.ed, ino)?;
        self.raw.orphan_file_inum = 0.into();
        set(self.raw, Feature::RoCompat(RoCompat::ORPHAN_PRESENT), false);
        Ok(())
    }

    fn add_mmp(&mut self) -> Result<()> {
        let at = self.ed.allocate().ok_or_else(files::no_space)?;
        let mmp = Mmp {
            seq: MMP_SEQ_CLEAN,
            time: crate::repair::editor::now().into(),
            nodename: [0; 64],
            bdevname: [0; 32],
            check_interval: MMP_INTERVAL_DEFAULT,
        };
        let mut block = vec![0; self.ed.cx.block_size()];
        mmp.encode_into(&mut block, self.ed.cx.seed);
        self.ed.put_block(at, &block);
        self.raw.mmp_block = at.0.into();
        self.raw.mmp_update_interval = MMP_INTERVAL_DEFAULT.into();
        Ok(())
    }

    /// The seed stays as it is with the feature, and follows from the UUID without.
    fn keep_seed(&mut self, feature: Feature, on: bool) -> Result<()> {
        if on && !self.raw.ro_compat().contains(RoCompat::METADATA_CSUM) {
            return Err(needs(feature, "metadata_csum"));
        }
        let seed = match on {
            true => self.ed.cx.sb.csum_seed,
            false => CsumSeed(0),
        };
        self.raw.checksum_seed = seed.0.into();
        Ok(())
    }

    fn remove_casefold(&mut self) -> Result<()> {
        if let Some(ino) = self.folding.first() {
            return Err(ChangeError::refused(format!(
                "directory {ino} ignores case; `uext4 chattr -F` on an empty one removes that"
            )));
        }
        self.raw.encoding = 0.into();
        self.raw.encoding_flags = 0.into();
        Ok(())
    }

    fn add_quota(&mut self) -> Result<()> {
        self.add_quota_file(QuotaKind::User)?;
        self.add_quota_file(QuotaKind::Group)?;
        match self.raw.ro_compat().contains(RoCompat::PROJECT) {
            true => self.add_quota_file(QuotaKind::Project),
            false => Ok(()),
        }
    }

    fn add_quota_file(&mut self, kind: QuotaKind) -> Result<()> {
        let differs = Incompat::EA_INODE | Incompat::INLINE_DATA;
        if self.raw.incompat().intersects(differs) {
            return Err(ChangeError::refused(
                "quota can't be enabled with ea_inode or inline_data, where e2fsck counts otherwise than Linux",
            ));
        }
        if self.raw.ro_compat().contains(RoCompat::BIGALLOC) {
            return Err(ChangeError::refused("quota can't be enabled with bigalloc"));
        }
        let ino = match kind {
            QuotaKind::User => Ino::USER_QUOTA,
            QuotaKind::Group => Ino::GROUP_QUOTA,
            QuotaKind::Project => files::free_inode(self.ed)?,
        };
        files::add(self.ed, ino, 0)?;
        self.name_quota_file(kind, ino);
        Ok(())
    }

    fn name_quota_file(&mut self, kind: QuotaKind, ino: Ino) {
        let field = match kind {
            QuotaKind::User => &mut self.raw.usr_quota_inum,
            QuotaKind::Group => &mut self.raw.grp_quota_inum,
            QuotaKind::Project => &mut self.raw.prj_quota_inum,
        };
        *field = ino.0.into();
    }

    fn remove_quota(&mut self) -> Result<()> {
        for kind in QuotaKind::ALL {
            self.remove_quota_file(kind)?;
        }
        Ok(())
    }

    fn remove_quota_file(&mut self, kind: QuotaKind) -> Result<()> {
        let ino = quota_inode(self.raw, kind);
        if ino != Ino::NONE {
            files::remove(self.ed, ino)?;
        }
        self.name_quota_file(kind, Ino::NONE);
        Ok(())
    }

    /// Adds and removes kinds; the feature is on while there is one.
    fn change_quotas(&mut self) -> Result<()> {
        for (kind, on) in &self.tuning.quotas {
            // As of tune2fs, the feature comes and goes with its quota.
            if *kind == QuotaKind::Project {
                let project = Feature::RoCompat(RoCompat::PROJECT);
                self.need_fields(project)?;
                set(self.raw, project, *on);
            }
            match (on, quota_inode(self.raw, *kind) == Ino::NONE) {
                (true, true) => self.add_quota_file(*kind)?,
                (false, false) => self.remove_quota_file(*kind)?,
                _ => {}
            }
        }
        let some = quota_inodes(self.raw)
            .iter()
            .any(|(_, ino)| *ino != Ino::NONE);
        set(self.raw, Feature::RoCompat(RoCompat::QUOTA), some);
        Ok(())
    }

    fn add_project(&mut self, feature: Feature) -> Result<()> {
        self.need_fields(feature)?;
        match self.raw.ro_compat().contains(RoCompat::QUOTA) {
            true => self.add_quota_file(QuotaKind::Project),
            false => Ok(()),
        }
    }

    /// Extra fields of inodes.
    fn need_fields(&self, feature: Feature) -> Result<()> {
        match self.raw.inode_size.get() < EXTRA_INODE_SIZE {
            true => Err(needs(feature, "inodes of 256 bytes")),
            false => Ok(()),
        }
    }

    fn add_extra_size(&mut self, feature: Feature) -> Result<()> {
        self.need_fields(feature)?;
        if self.raw.want_extra_isize.get() == 0 {
            self.raw.min_extra_isize = uext4_ondisk::EXTRA_ISIZE_KNOWN.into();
            self.raw.want_extra_isize = uext4_ondisk::EXTRA_ISIZE_KNOWN.into();
        }
        Ok(())
    }
}

fn is_flag(feature: Feature, on: bool) -> bool {
    match (feature, on) {
        (Feature::Compat(f), true) => SET_COMPAT.contains(f),
        (Feature::Incompat(f), true) => SET_INCOMPAT.contains(f),
        (Feature::RoCompat(f), true) => SET_RO_COMPAT.contains(f),
        (Feature::RoCompat(f), false) => CLEAR_RO_COMPAT.contains(f),
        _ => false,
    }
}
