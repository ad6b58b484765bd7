//! The superblock: 1024 bytes at byte 1024 of the device, and in backup groups.
//!
//! Source: Linux documentation, filesystems/ext4, "The Super Block".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{CRC_INIT, CsumSeed, crc32c};
use crate::corrupt::FormatError;
use crate::features::{Compat, Incompat, RoCompat};
use crate::types::Ino;

/// Where the primary superblock starts, in bytes.
pub const SUPERBLOCK_OFFSET: u64 = 1024;
/// Size of a superblock in bytes.
pub const SUPERBLOCK_SIZE: usize = 1024;
/// `s_magic`.
pub const EXT4_MAGIC: u16 = 0xef53;
/// `s_state`: cleanly unmounted.
pub const STATE_CLEAN: u16 = 1;
/// `s_state`: errors were seen.
pub const STATE_ERROR: u16 = 2;
/// `s_default_mount_opts`: which of the bits say what the journal does with data.
pub const DEFAULT_DATA_MASK: u32 = 0x60;
/// `s_default_mount_opts`: `data=journal`.
pub const DEFAULT_DATA_JOURNAL: u32 = 0x20;
/// `s_default_mount_opts`: `data=writeback`.
pub const DEFAULT_DATA_WRITEBACK: u32 = 0x60;
/// `s_creator_os`: GNU Hurd.
pub(crate) const CREATOR_HURD: u32 = 1;
/// `s_flags`: directory hashes take bytes as signed.
pub const FLAG_SIGNED_HASH: u32 = 1;
/// `s_flags`: directory hashes take bytes as unsigned.
pub const FLAG_UNSIGNED_HASH: u32 = 2;
/// `s_checksum_type`: crc32c.
pub const CHECKSUM_CRC32C: u8 = 1;

/// The superblock as it is on disk.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(
    missing_docs,
    reason = "fields carry the names of the format's documentation"
)]
pub struct RawSuperblock {
    pub inodes_count: U32,
    pub blocks_count_lo: U32,
    pub r_blocks_count_lo: U32,
    pub free_blocks_count_lo: U32,
    pub free_inodes_count: U32,
    pub first_data_block: U32,
    pub log_block_size: U32,
    pub log_cluster_size: U32,
    pub blocks_per_group: U32,
    pub clusters_per_group: U32,
    pub inodes_per_group: U32,
    pub mtime: U32,
    pub wtime: U32,
    pub mnt_count: U16,
    pub max_mnt_count: U16,
    pub magic: U16,
    pub state: U16,
    pub errors: U16,
    pub minor_rev_level: U16,
    pub lastcheck: U32,
    pub checkinterval: U32,
    pub creator_os: U32,
    pub rev_level: U32,
    pub def_resuid: U16,
    pub def_resgid: U16,
    pub first_ino: U32,
    pub inode_size: U16,
    pub block_group_nr: U16,
    pub feature_compat: U32,
    pub feature_incompat: U32,
    pub feature_ro_compat: U32,
    pub uuid: [u8; 16],
    pub volume_name: [u8; 16],
    pub last_mounted: [u8; 64],
    pub algorithm_usage_bitmap: U32,
    pub prealloc_blocks: u8,
    pub prealloc_dir_blocks: u8,
    pub reserved_gdt_blocks: U16,
    pub journal_uuid: [u8; 16],
    pub journal_inum: U32,
    pub journal_dev: U32,
    pub last_orphan: U32,
    pub hash_seed: [U32; 4],
    pub def_hash_version: u8,
    pub jnl_backup_type: u8,
    pub desc_size: U16,
    pub default_mount_opts: U32,
    pub first_meta_bg: U32,
    pub mkfs_time: U32,
    pub jnl_blocks: [U32; 17],
    pub blocks_count_hi: U32,
    pub r_blocks_count_hi: U32,
    pub free_blocks_count_hi: U32,
    pub min_extra_isize: U16,
    pub want_extra_isize: U16,
    pub flags: U32,
    pub raid_stride: U16,
    pub mmp_update_interval: U16,
    pub mmp_block: U64,
    pub raid_stripe_width: U32,
    pub log_groups_per_flex: u8,
    pub checksum_type: u8,
    pub encryption_level: u8,
    pub reserved_pad: u8,
    pub kbytes_written: U64,
    pub snapshot_inum: U32,
    pub snapshot_id: U32,
    pub snapshot_r_blocks_count: U64,
    pub snapshot_list: U32,
    pub error_count: U32,
    pub first_error_time: U32,
    pub first_error_ino: U32,
    pub first_error_block: U64,
    pub first_error_func: [u8; 32],
    pub first_error_line: U32,
    pub last_error_time: U32,
    pub last_error_ino: U32,
    pub last_error_line: U32,
    pub last_error_block: U64,
    pub last_error_func: [u8; 32],
    pub mount_opts: [u8; 64],
    pub usr_quota_inum: U32,
    pub grp_quota_inum: U32,
    pub overhead_clusters: U32,
    pub backup_bgs: [U32; 2],
    pub encrypt_algos: [u8; 4],
    pub encrypt_pw_salt: [u8; 16],
    pub lpf_ino: U32,
    pub prj_quota_inum: U32,
    pub checksum_seed: U32,
    pub wtime_hi: u8,
    pub mtime_hi: u8,
    pub mkfs_time_hi: u8,
    pub lastcheck_hi: u8,
    pub first_error_time_hi: u8,
    pub last_error_time_hi: u8,
    pub first_error_errcode: u8,
    pub last_error_errcode: u8,
    pub encoding: U16,
    pub encoding_flags: U16,
    pub orphan_file_inum: U32,
    pub reserved: [U32; 94],
    pub checksum: U32,
}

const _: () = assert!(size_of::<RawSuperblock>() == SUPERBLOCK_SIZE);

/// What to do about errors (`s_errors`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorsBehaviour {
    /// Go on.
    Continue,
    /// Go on reading only.
    RemountRo,
    /// Stop the machine; here, the process.
    Panic,
}

/// One of the two errors that the superblock remembers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorRecord {
    /// Seconds since 1970.
    pub time: u64,
    /// Inode concerned, or 0.
    pub ino: Ino,
    /// Block concerned, or 0.
    pub block: u64,
    /// Function that saw it, cut to 32 bytes.
    pub func: [u8; 32],
    /// Line that saw it.
    pub line: u32,
    /// ext4's code of an errno.
    pub errcode: u8,
}

fn wide(lo: U32, hi: U32) -> u64 {
    u64::from(hi.get()) << 32 | u64::from(lo.get())
}

fn split(v: u64) -> (U32, U32) {
    (U32::new(v as u32), U32::new((v >> 32) as u32))
}

fn time40(lo: U32, hi: u8) -> u64 {
    u64::from(hi) << 32 | u64::from(lo.get())
}

impl RawSuperblock {
    /// All zeros, to be filled in by mkfs.
    pub fn zeroed() -> Self {
        zerocopy::FromZeros::new_zeroed()
    }

    /// The superblock in a block's bytes, to be changed there; `None` unless there are 1024.
    pub fn mut_from(bytes: &mut [u8]) -> Option<&mut Self> {
        Self::mut_from_bytes(bytes).ok()
    }

    /// Compatible features, unknown bits kept.
    pub fn compat(&self) -> Compat {
        Compat::from_bits_retain(self.feature_compat.get())
    }

    /// Incompatible features, unknown bits kept.
    pub fn incompat(&self) -> Incompat {
        Incompat::from_bits_retain(self.feature_incompat.get())
    }

    /// Read-only-compatible features, unknown bits kept.
    pub fn ro_compat(&self) -> RoCompat {
        RoCompat::from_bits_retain(self.feature_ro_compat.get())
    }

    /// Stores the three feature words.
    pub fn set_features(&mut self, compat: Compat, incompat: Incompat, ro_compat: RoCompat) {
        self.feature_compat = compat.bits().into();
        self.feature_incompat = incompat.bits().into();
        self.feature_ro_compat = ro_compat.bits().into();
    }

    fn has_64bit(&self) -> bool {
        self.incompat().contains(Incompat::BIT64)
    }

    /// Blocks in the file system; the upper half counts with `64bit` only.
    pub fn blocks_count(&self) -> u64 {
        let all = wide(self.blocks_count_lo, self.blocks_count_hi);
        if self.has_64bit() {
            all
        } else {
            all & 0xffff_ffff
        }
    }

    /// Stores the number of blocks.
    pub fn set_blocks_count(&mut self, v: u64) {
        (self.blocks_count_lo, self.blocks_count_hi) = split(v);
    }

    /// Blocks kept for the reserved user.
    pub fn reserved_blocks_count(&self) -> u64 {
        let all = wide(self.r_blocks_count_lo, self.r_blocks_count_hi);
        if self.has_64bit() {
            all
        } else {
            all & 0xffff_ffff
        }
    }

    /// Stores the number of reserved blocks.
    pub fn set_reserved_blocks_count(&mut self, v: u64) {
        (self.r_blocks_count_lo, self.r_blocks_count_hi) = split(v);
    }

    /// Free blocks (clusters, with `bigalloc`).
    pub fn free_blocks_count(&self) -> u64 {
        let all = wide(self.free_blocks_count_lo, self.free_blocks_count_hi);
        if self.has_64bit() {
            all
        } else {
            all & 0xffff_ffff
        }
    }

    /// Stores the number of free blocks.
    pub fn set_free_blocks_count(&mut self, v: u64) {
        (self.free_blocks_count_lo, self.free_blocks_count_hi) = split(v);
    }

    /// Last mount, seconds since 1970.
    pub fn mount_time(&self) -> u64 {
        time40(self.mtime, self.mtime_hi)
    }

    /// Stores the time of the last mount.
    pub fn set_mount_time(&mut self, secs: u64) {
        (self.mtime, self.mtime_hi) = ((secs as u32).into(), (secs >> 32) as u8);
    }

    /// Last write, seconds since 1970.
    pub fn write_time(&self) -> u64 {
        time40(self.wtime, self.wtime_hi)
    }

    /// Stores the time of the last write.
    pub fn set_write_time(&mut self, secs: u64) {
        (self.wtime, self.wtime_hi) = ((secs as u32).into(), (secs >> 32) as u8);
    }

    /// Creation, seconds since 1970.
    pub fn mkfs_time(&self) -> u64 {
        time40(self.mkfs_time, self.mkfs_time_hi)
    }

    /// Stores the time of creation.
    pub fn set_mkfs_time(&mut self, secs: u64) {
        (self.mkfs_time, self.mkfs_time_hi) = ((secs as u32).into(), (secs >> 32) as u8);
    }

    /// Stores the time of the last full check.
    pub fn set_lastcheck_time(&mut self, secs: u64) {
        (self.lastcheck, self.lastcheck_hi) = ((secs as u32).into(), (secs >> 32) as u8);
    }

    /// What to do about errors; an unknown value means go on, as in Linux.
    pub fn errors_behaviour(&self) -> ErrorsBehaviour {
        match self.errors.get() {
            2 => ErrorsBehaviour::RemountRo,
            3 => ErrorsBehaviour::Panic,
            _ => ErrorsBehaviour::Continue,
        }
    }

    /// The first error since the last check, if there was one.
    pub fn first_error(&self) -> Option<ErrorRecord> {
        (self.error_count.get() != 0).then(|| ErrorRecord {
            time: time40(self.first_error_time, self.first_error_time_hi),
            ino: Ino(self.first_error_ino.get()),
            block: self.first_error_block.get(),
            func: self.first_error_func,
            line: self.first_error_line.get(),
            errcode: self.first_error_errcode,
        })
    }

    /// Counts an error and remembers it, as the latest and, if it is, as the first.
    pub fn record_error(&mut self, e: &ErrorRecord) {
        if self.error_count.get() == 0 {
            (self.first_error_time, self.first_error_time_hi) =
                ((e.time as u32).into(), (e.time >> 32) as u8);
            self.first_error_ino = e.ino.0.into();
            self.first_error_block = e.block.into();
            self.first_error_func = e.func;
            self.first_error_line = e.line.into();
            self.first_error_errcode = e.errcode;
        }
        (self.last_error_time, self.last_error_time_hi) =
            ((e.time as u32).into(), (e.time >> 32) as u8);
        self.last_error_ino = e.ino.0.into();
        self.last_error_block = e.block.into();
        self.last_error_func = e.func;
        self.last_error_line = e.line.into();
        self.last_error_errcode = e.errcode;
        self.error_count = self.error_count.get().saturating_add(1).into();
        self.state = (self.state.get() | STATE_ERROR).into();
    }

    /// The label, without trailing zeros.
    pub fn label(&self) -> &[u8] {
        self.volume_name.split(|b| *b == 0).next().unwrap_or(&[])
    }

    /// Stores the label, cut to 16 bytes.
    pub fn set_label(&mut self, label: &[u8]) {
        self.volume_name = [0; 16];
        for (to, from) in self.volume_name.iter_mut().zip(label) {
            *to = *from;
        }
    }

    /// The checksum that the bytes ought to have.
    pub fn compute_checksum(&self) -> u32 {
        let bytes = self.as_bytes();
        crc32c(CRC_INIT, bytes.get(..SUPERBLOCK_SIZE - 4).unwrap_or(bytes))
    }

    /// Stores the checksum, if the file system has one. The last step before writing.
    pub fn update_checksum(&mut self) {
        if self.ro_compat().contains(RoCompat::METADATA_CSUM) {
            self.checksum_type = CHECKSUM_CRC32C;
            self.checksum = self.compute_checksum().into();
        }
    }

    /// Asks for recovery of the journal.
    pub fn ask_for_recovery(&mut self) {
        self.feature_incompat = (self.incompat() | Incompat::RECOVER).bits().into();
        self.update_checksum();
    }

    /// The superblock that asks for recovery, of which only the request, or only its checksum, was written here; none if the checksum is
    /// right, or more is wrong.
    pub fn torn_request(&self) -> Option<RawSuperblock> {
        let mut asking = self.clone();
        let flag = Incompat::RECOVER.bits();
        asking.feature_incompat = (self.feature_incompat.get() ^ flag).into();
        if self.check_checksum().is_ok() || asking.compute_checksum() != self.checksum.get() {
            return None;
        }
        asking.ask_for_recovery();
        Some(asking)
    }

    /// The seed of all metadata checksums.
    pub fn csum_seed(&self) -> CsumSeed {
        if self.incompat().contains(Incompat::CSUM_SEED) {
            CsumSeed(self.checksum_seed.get())
        } else {
            CsumSeed::from_uuid(&self.uuid)
        }
    }

    pub(crate) fn check_magic(&self) -> Result<(), FormatError> {
        if self.magic.get() != EXT4_MAGIC {
            return Err(FormatError::BadMagic(self.magic.get()));
        }
        if self.rev_level.get() > 1 {
            return Err(FormatError::Revision(self.rev_level.get()));
        }
        Ok(())
    }

    pub(crate) fn check_checksum(&self) -> Result<(), FormatError> {
        if !self.ro_compat().contains(RoCompat::METADATA_CSUM) {
            return Ok(());
        }
        if self.checksum_type != CHECKSUM_CRC32C {
            return Err(FormatError::ChecksumType(self.checksum_type));
        }
        let (stored, computed) = (self.checksum.get(), self.compute_checksum());
        if stored != computed {
            return Err(FormatError::Checksum { stored, computed });
        }
        Ok(())
    }
}
