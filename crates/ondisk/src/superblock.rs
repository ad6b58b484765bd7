//! The superblock, decoded.

use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use crate::checksum::CsumSeed;
use crate::corrupt::FormatError;
use crate::extent_node::EXTENT_MAGIC;
use crate::features::{Compat, Incompat, RoCompat};
use crate::geometry::Geometry;
use crate::hash::{HashParams, HashVersion};
use crate::jbd2_super::RawJournalSuper;
use crate::raw_superblock::{FLAG_UNSIGNED_HASH, RawSuperblock};
use crate::types::Ino;

/// A superblock that passed every check, with what follows from it.
#[derive(Clone, Debug)]
pub struct Superblock {
    /// The bytes, to be changed and written back. Changing what [`Geometry`] holds needs a new
    /// [`Superblock::from_raw`].
    pub raw: RawSuperblock,
    /// Sizes and places.
    pub geometry: Geometry,
    /// Compatible features.
    pub compat: Compat,
    /// Incompatible features, all known.
    pub incompat: Incompat,
    /// Read-only-compatible features.
    pub ro_compat: RoCompat,
    /// Seed of all metadata checksums.
    pub csum_seed: CsumSeed,
    /// How directories hash names.
    pub hash: HashParams,
}

fn read_raw(bytes: &[u8]) -> Result<RawSuperblock, FormatError> {
    RawSuperblock::read_from_prefix(bytes)
        .map(|(raw, _)| raw)
        .map_err(|_| FormatError::Short(bytes.len()))
}

impl Superblock {
    /// Parses and checks the 1024 bytes of a superblock.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let raw = read_raw(bytes)?;
        raw.check_magic()?;
        raw.check_checksum()?;
        Self::from_raw(raw)
    }

    /// Checks everything but the checksum, for a superblock that was changed or made.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn from_raw(raw: RawSuperblock) -> Result<Self, FormatError> {
        raw.check_magic()?;
        let incompat = raw.incompat();
        if incompat.contains(Incompat::JOURNAL_DEV) {
            return Err(FormatError::JournalDevice);
        }
        let unknown = incompat.difference(Incompat::SUPPORTED);
        if !unknown.is_empty() {
            return Err(FormatError::UnsupportedIncompat(unknown.describe()));
        }
        let geometry = Geometry::from_raw(&raw)?;
        Ok(Superblock {
            compat: raw.compat(),
            incompat,
            ro_compat: raw.ro_compat(),
            csum_seed: raw.csum_seed(),
            hash: HashParams {
                seed: raw.hash_seed.map(U32::get),
                version: HashVersion::from_disk(raw.def_hash_version)
                    .unwrap_or(HashVersion::HalfMd4),
                unsigned: raw.flags.get() & FLAG_UNSIGNED_HASH != 0,
            },
            geometry,
            raw,
        })
    }

    /// True with crc32c checksums on all metadata.
    #[inline]
    pub fn has_metadata_csum(&self) -> bool {
        self.ro_compat.contains(RoCompat::METADATA_CSUM)
    }

    /// True if groups can be uninitialised (`uninit_bg` or `metadata_csum`).
    #[inline]
    pub fn has_group_csum(&self) -> bool {
        self.ro_compat
            .intersects(RoCompat::METADATA_CSUM | RoCompat::GDT_CSUM)
    }

    /// True if there is a journal, internal or external.
    pub fn has_journal(&self) -> bool {
        self.compat.contains(Compat::HAS_JOURNAL)
    }

    /// UUID of the file system.
    pub fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::from_bytes(self.raw.uuid)
    }

    /// The orphan file, if the file system has one.
    pub fn orphan_file(&self) -> Option<Ino> {
        let ino = self.raw.orphan_file_inum.get();
        (self.compat.contains(Compat::ORPHAN_FILE) && ino != 0).then_some(Ino(ino))
    }

    /// Head of the list of orphans.
    pub fn last_orphan(&self) -> Ino {
        Ino(self.raw.last_orphan.get())
    }

    /// The inode of an internal journal.
    pub fn journal_ino(&self) -> Option<Ino> {
        let ino = self.raw.journal_inum.get();
        (self.has_journal() && ino != 0).then_some(Ino(ino))
    }

    /// Whether the journal may hold what the image does not have yet. Backups do not record it, so this asks the journal's own
    /// superblock, whose place comes from the copy of what the journal's inode maps its blocks by. `read` reads at an offset in
    /// bytes, and returns false if it can't.
    pub fn may_need_recovery(&self, read: impl FnOnce(u64, &mut [u8]) -> bool) -> bool {
        if self.journal_ino().is_none() {
            return false;
        }
        if self.raw.jnl_backup_type != 1 {
            return true;
        }
        let words = self.raw.jnl_blocks.map(|word| word.get());
        let [header, depth, high, low] = [words[0], words[1], words[4] >> 16, words[5]];
        let block = match (header & 0xffff == u32::from(EXTENT_MAGIC), depth >> 16) {
            (true, 0) => u64::from(high) << 32 | u64::from(low),
            (true, _) => return true,
            (false, _) => u64::from(header),
        };
        let offset = block.saturating_mul(self.geometry.block_size.into());
        let at = std::mem::offset_of!(RawJournalSuper, start) as u64;
        let mut start = [0; 4];
        !read(offset.saturating_add(at), &mut start) || start != [0; 4]
    }
}

/// The ext4 superblock that an external journal device starts with.
#[derive(Clone, Debug)]
pub struct JournalDevice {
    /// The bytes.
    pub raw: RawSuperblock,
    /// Block size in bytes.
    pub block_size: u32,
    /// Blocks of the device; the journal superblock is the block after this superblock's.
    pub blocks_count: u64,
}

impl JournalDevice {
    /// Parses the superblock of an external journal.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let raw = read_raw(bytes)?;
        raw.check_magic()?;
        if !raw.incompat().contains(Incompat::JOURNAL_DEV) {
            return Err(FormatError::NotJournalDevice);
        }
        raw.check_checksum()?;
        let block_size = crate::geometry::block_size(&raw)?;
        Ok(JournalDevice {
            block_size,
            blocks_count: raw.blocks_count(),
            raw,
        })
    }

    /// The block of the journal superblock.
    pub fn journal_super_block(&self) -> u64 {
        if self.block_size == 1024 { 2 } else { 1 }
    }
}
