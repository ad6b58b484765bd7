//! What uext4's own programs are made of. No part of the stable interface: anything here may change or go in any
//! release.
//!
//! [`Filesystem::engine`] leads to the file system below paths and open files, where front ends live.

use crate::{Dir, File, Filesystem, ImagePath, Metadata, MkfsError, MkfsOptions, Progress};
use std::sync::Arc;
use uext4_build::{Plan, Scan};
use uext4_vfs::{Error, Result, WalkFlags};

pub use crate::image_options::ImageConfig;
pub use crate::line::{Severity, printable, to_stderr};
pub use crate::raw_key::{RawKey, key_from_hex, split_key_descriptor};
pub use crate::repair::{
    apply_repair, plan_grow, plan_repair, plan_rest, plan_shrink, plan_tune, plan_writes,
    repair_image, resume_repair, undo_repair,
};
pub use crate::reporter::{AlreadyInstalled, Reporter, UnknownLevel, level_asked_for};
#[cfg(target_os = "linux")]
pub use uext4_block::{HostExtent, HostExtentsOf, LatencyDevice, host_extents};
pub use uext4_block::{RemoteAddress, errno_of, images_of};
/// Names and paths of the host as bytes.
pub use uext4_build::host_names;
#[cfg(target_os = "linux")]
pub use uext4_build::subordinate_ids;
pub use uext4_build::{
    FeatureSet, IdRange, Input, InputKind, MkfsOptions as BuildOptions, Spare, VerityOptions,
};
pub use uext4_check::{
    ChangeError, Decide as DecideRepair, Decision as RepairDecision, EDIT_UNIT, Plan as RepairPlan,
    Policy as RepairPolicy, Remedy as RepairRemedy, Reserved, Tuning,
};
pub use uext4_ext4::{
    BackupSuperblock, BallocVariant, DirLockVariant, Durations, Exclusion, Ext4, Ext4Error,
    GenerationVariant, IallocVariant, InodeRef, KeyRing, MASTER_KEY_BYTES, MmpHold, MmpHolder,
    MountOptions, read_superblock,
};
/// POSIX message queues and their namespaces.
pub use uext4_mqueue as mqueue;
/// The structures of the format, as they are on disk and decoded.
pub use uext4_ondisk as ondisk;
pub use uext4_repair::{RepairError, UndoPlace};
/// Statistics of every lock, as `--lock-stat` prints them.
pub use uext4_sync::stat as lock_stat;
pub use uext4_vfs::{Attr, DioLock, FileSystem, IcacheVariant, NewNode, SetAttr, SuperVariant};

/// The superblock that [`mkfs()`](crate::mkfs()) would write; nothing is written.
///
/// # Errors
/// Options that can't be, or a tree that can't be read.
pub fn plan_mkfs(
    options: &MkfsOptions,
    progress: &dyn Progress,
) -> std::result::Result<ondisk::Superblock, MkfsError> {
    let options = options.for_plan()?;
    let scan = Scan::of(&options, progress)?;
    let raw = Plan::new(&options, scan)?.superblock();
    Ok(ondisk::Superblock::from_raw(raw)?)
}

impl Filesystem {
    /// The operations by inode, which front ends use: [`Ext4`] is a [`FileSystem`].
    pub fn engine(&self) -> &Arc<Ext4> {
        self.session.mount.fs()
    }

    /// The names in the blocks of a directory that can be read, and why the other blocks cannot be; for images that are damaged.
    ///
    /// # Errors
    /// Those of a path; `ENOTDIR`.
    pub fn list_readable(&self, path: impl ImagePath) -> Result<(Vec<Vec<u8>>, Vec<Error>)> {
        let dir = self.open_dir(path)?;
        self.engine().list_readable(dir.node())
    }

    /// Changes attributes, but not the size; of a symbolic link its own.
    ///
    /// # Errors
    /// As [`FileSystem::setattr`]; `EINVAL`: the size, for which there is [`Filesystem::truncate`].
    pub fn set_attr(&self, path: impl ImagePath, change: &SetAttr) -> Result<()> {
        if change.size.is_some() {
            return Err(crate::Errno::EINVAL.into());
        }
        self.change("set_attr", path, WalkFlags::empty(), change)
    }
}

impl Dir {
    /// The inode, for [`Filesystem::engine`].
    pub fn node(&self) -> &InodeRef {
        self.inode()
    }
}

impl File {
    /// Changes attributes and returns the new ones.
    ///
    /// # Errors
    /// As [`FileSystem::setattr`].
    pub fn set_attr(&self, change: &SetAttr) -> Result<Metadata> {
        self.change("set_attr", change)
    }
}
