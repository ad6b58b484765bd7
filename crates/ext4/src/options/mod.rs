//! How a file system is mounted.
//!
//! `mountd::options` parses them from `-o`, and `uext4::ImageOptions` sets them. A part of the file system reads
//! `volume.options`, or `volume.settings` for what a remount can change.
//!
//! | module | holds |
//! | --- | --- |
//! | `dir_lock_variant` | the variants of the lock of a directory's entries |
//! | `ialloc_variant` | the variants of inode allocation |
//! | `balloc_variant` | the variants of block allocation |

pub(crate) mod balloc_variant;
pub(crate) mod dir_lock_variant;
pub(crate) mod ialloc_variant;

use crate::encryption::KeyRing;
use crate::generation::GenerationVariant;
use crate::options::balloc_variant::BallocVariant;
use crate::options::dir_lock_variant::DirLockVariant;
use crate::options::ialloc_variant::IallocVariant;
use crate::prelude::*;
use uext4_vfs::icache::IcacheVariant;

/// When reading changes a file's access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtimeUpdate {
    /// `relatime`: if it is not after the last change, or a day old.
    #[default]
    Relative,
    /// `strictatime`: always.
    Strict,
    /// `noatime`: never.
    Never,
}

/// What the journal does with the data of files (`data=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataMode {
    /// It is written to the device before the transaction that publishes it commits.
    Ordered,
    /// It need not: but as nothing here keeps dirty data in memory, it does, as with `Ordered`.
    Writeback,
    /// It is journalled, as metadata is.
    Journal,
}

impl DataMode {
    /// As `data=` names it.
    pub fn parse(name: &str) -> Option<DataMode> {
        match name {
            "ordered" => Some(DataMode::Ordered),
            "writeback" => Some(DataMode::Writeback),
            "journal" => Some(DataMode::Journal),
            _ => None,
        }
    }
}

/// What reads of files with fs-verity do (`fsverity=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsVerityReads {
    /// Data is compared with the hashes that the file has of it, as the kernel does.
    #[default]
    Check,
    /// It is read as it is.
    Ignore,
}

impl FsVerityReads {
    /// As `fsverity=` names it.
    pub fn parse(name: &str) -> Option<FsVerityReads> {
        match name {
            "check" => Some(FsVerityReads::Check),
            "ignore" => Some(FsVerityReads::Ignore),
            _ => None,
        }
    }
}

/// How other hosts are kept from a file system that is open to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclusion {
    /// By its multi-mount protection (`mmp`). What a server has, which other hosts may write unseen
    /// ([`DeviceId::is_remote`](uext4_block::DeviceId::is_remote)), must have it, and is refused if another host left it behind.
    #[default]
    Hold,
    /// The same, and the caller knows that no other host has it open: what one left behind is taken over after the wait.
    Alone,
    /// The caller does it ([`MmpHold`](crate::MmpHold)), or nothing that is written reaches the device.
    Held,
}

/// The kinds of owners whose limits are enforced, of an image with the feature `quota`. Usage is kept in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnforcedQuotas {
    /// `usrquota`.
    pub user: bool,
    /// `grpquota`.
    pub group: bool,
    /// `prjquota`.
    pub project: bool,
}

/// Options of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Nothing is written, not even a recovered journal's result unless the device allows it.
    pub read_only: bool,
    /// How other hosts are kept out.
    pub exclusion: Exclusion,
    /// Does not recover the journal; needs `read_only`.
    pub noload: bool,
    /// A transaction is committed when it is this old.
    pub commit_interval: Duration,
    /// Whether the device is flushed around a commit.
    pub barrier: bool,
    /// What to do when damage is found, besides recording it in the superblock; None for what that says.
    /// `Panic` ends the mount, not the process: nothing is written any more.
    pub errors: Option<ErrorsBehaviour>,
    /// Blocks that are freed are discarded on the device once that is durable.
    pub discard: bool,
    /// What the journal does with data; None for what the superblock says, which is `Ordered` unless an administrator
    /// changed it (`tune2fs -o`). `Journal` needs a journal.
    pub data: Option<DataMode>,
    /// What reads of files with fs-verity do.
    pub fs_verity: FsVerityReads,
    /// Keys of encrypted inodes; more may be added at any time.
    pub keys: KeyRing,
    /// Bytes of clean metadata blocks to keep.
    pub cache_bytes: u64,
    /// Unused inodes to keep in memory.
    pub inodes_max: usize,
    /// How inode numbers are claimed (mechanism 1).
    pub ialloc: IallocVariant,
    /// How blocks are allocated and freed (mechanism 6).
    pub balloc: BallocVariant,
    /// How generations are drawn (mechanism 2); with [`GenerationVariant::None`] handles are not protected.
    pub generation: GenerationVariant,
    /// How the inode cache is locked (mechanism 3).
    pub icache: IcacheVariant,
    /// How direct I/O takes the inode lock (mechanism 4).
    pub dio_lock: DioLock,
    /// How changes of a directory's entries exclude each other (mechanism 7).
    pub dir_lock: DirLockVariant,
    /// Direct writes into holes allocate unwritten extents, which become written when the data is on
    /// the device; so direct reads need not wait for them.
    pub dioread_nolock: bool,
    /// Timestamps stay in memory until the inode is written for another reason, a sync, its
    /// eviction, or [`MountOptions::lazytime_max_age`].
    pub lazytime: bool,
    /// How old a pending timestamp may get before it is written; a day, as in the kernel.
    pub lazytime_max_age: Duration,
    /// When reading changes the access time.
    pub atime: AtimeUpdate,
    /// Reading a directory never changes its access time.
    pub nodiratime: bool,
    /// Whose limits are enforced.
    pub quotas: EnforcedQuotas,
    /// The inode number at which every search for a free inode starts, 0 for none; as the kernel's
    /// `inode_goal`.
    pub inode_goal: u32,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            read_only: false,
            exclusion: Exclusion::default(),
            noload: false,
            commit_interval: Duration::from_secs(5),
            barrier: true,
            errors: None,
            discard: false,
            data: None,
            fs_verity: FsVerityReads::default(),
            keys: KeyRing::new(),
            cache_bytes: 256 << 20,
            inodes_max: 1 << 18,
            ialloc: IallocVariant::default(),
            balloc: BallocVariant::default(),
            generation: GenerationVariant::default(),
            icache: IcacheVariant::default(),
            dio_lock: DioLock::default(),
            dir_lock: DirLockVariant::default(),
            dioread_nolock: true,
            lazytime: false,
            lazytime_max_age: Duration::from_secs(24 * 60 * 60),
            atime: AtimeUpdate::default(),
            nodiratime: false,
            quotas: EnforcedQuotas::default(),
            inode_goal: 0,
        }
    }
}
