//! Images of what is counted on virtual CPUs: no transaction ends by its age, and the clock of files stands still.

use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;
use uext4_block::MemoryDevice;
use uext4_build::{MkfsOptions, NoProgress};
use uext4_ext4::{Ext4, MountOptions};
use uext4_sync::virtual_cpus;

/// So large a journal that no transaction ends because it is full: at least so, and for each CPU so, as each CPU takes credits
/// in advance.
const JOURNAL_BYTES_MIN: u64 = 1 << 30;
const JOURNAL_BYTES_PER_CPU: u64 = 16 << 20;
/// The image has an inode for so many bytes.
const BYTES_PER_INODE: u64 = 16 << 10;
/// For each CPU four cache lines of an inode bitmap, and for the rest those of so many CPUs.
const CPU_BYTES: u64 = 4 * 512 * BYTES_PER_INODE;
const SPARE_CPUS: u64 = 64;

/// An image with room for what so many CPUs do side by side, `inodes` of each.
///
/// # Errors
/// As [`mounted`].
pub fn mounted_for(cpus: usize, inodes: u32, options: &MountOptions) -> Result<Arc<Ext4>> {
    let of_cpu = CPU_BYTES.max(u64::from(inodes) * BYTES_PER_INODE);
    let journal = JOURNAL_BYTES_MIN.max(cpus as u64 * JOURNAL_BYTES_PER_CPU);
    let bytes = 2 * journal + (cpus as u64 + SPARE_CPUS) * of_cpu;
    mounted(bytes, Some(journal), options)
}

/// A new image in memory, mounted.
///
/// # Errors
/// The sizes do not fit.
pub fn mounted(bytes: u64, journal_size: Option<u64>, options: &MountOptions) -> Result<Arc<Ext4>> {
    let device = Arc::new(MemoryDevice::new(bytes));
    let mkfs = MkfsOptions {
        size: Some(bytes),
        journal_size,
        threads: 1,
        ..MkfsOptions::default()
    };
    uext4_build::mkfs(&*device, &mkfs, &NoProgress)?;
    let options = MountOptions {
        commit_interval: Duration::from_secs(3600),
        ..options.clone()
    };
    let fs = Ext4::mount(device, options)?;
    virtual_cpus::stop_clock(uext4_vfs::Timestamp::coarse().sec + 1);
    Ok(fs)
}
