//! Images of what is counted on virtual CPUs: no transaction ends by its age, and the clock of files stands still.

use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;
use uext4_block::MemoryDevice;
use uext4_build::{MkfsOptions, NoProgress};
use uext4_ext4::{Ext4, MountOptions};
use uext4_sync::virtual_cpus;

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
