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
    let (bytes, journal) = size_for(cpus, inodes);
    mounted(bytes, Some(journal), options)
}

/// A new image in memory, mounted.
///
/// # Errors
/// The sizes do not fit.
pub fn mounted(bytes: u64, journal_size: Option<u64>, options: &MountOptions) -> Result<Arc<Ext4>> {
    let device = make(bytes, journal_size)?;
    let fs = Ext4::mount(device, quiet(options))?;
    virtual_cpus::stop_clock(uext4_vfs::Timestamp::coarse().sec + 1);
    Ok(fs)
}

/// As [`mounted_for`], with the public API.
///
/// # Errors
/// As [`mounted`].
#[cfg(shuttle)]
pub fn opened_for(cpus: usize, inodes: u32, options: &MountOptions) -> Result<uext4::Filesystem> {
    let (bytes, journal) = size_for(cpus, inodes);
    let config = uext4::unstable::ImageConfig {
        mount: quiet(options),
        ..uext4::unstable::ImageConfig::read_write()
    };
    let fs = uext4::Filesystem::open_device(make(bytes, Some(journal))?, &config.into())?;
    virtual_cpus::stop_clock(uext4_vfs::Timestamp::coarse().sec + 1);
    Ok(fs)
}

/// Bytes of an image and of its journal.
fn size_for(cpus: usize, inodes: u32) -> (u64, u64) {
    let of_cpu = CPU_BYTES.max(u64::from(inodes) * BYTES_PER_INODE);
    let journal = JOURNAL_BYTES_MIN.max(cpus as u64 * JOURNAL_BYTES_PER_CPU);
    let bytes = 2 * journal + (cpus as u64 + SPARE_CPUS) * of_cpu;
    (bytes, journal)
}

fn make(bytes: u64, journal_size: Option<u64>) -> Result<Arc<MemoryDevice>> {
    let device = Arc::new(MemoryDevice::new(bytes));
    let mkfs = MkfsOptions {
        size: Some(bytes),
        journal_size,
        threads: 1,
        ..MkfsOptions::default()
    };
    uext4_build::mkfs(&*device, &mkfs, &NoProgress)?;
    Ok(device)
}

fn quiet(options: &MountOptions) -> MountOptions {
    MountOptions {
        commit_interval: Duration::from_secs(3600),
        ..options.clone()
    }
}
