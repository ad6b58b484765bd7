//! Memory that direct I/O takes, and images for it.

#![allow(dead_code, reason = "each test binary uses what it needs")]

#[path = "../../../testkit/src/aligned.rs"]
mod aligned;

pub use aligned::Aligned;

/// An image in memory, made by our mkfs, with nothing reserved for the superuser.
#[cfg(not(shuttle))]
pub fn memory(bytes: u64, block_size: u32) -> std::sync::Arc<uext4_block::MemoryDevice> {
    let device = uext4_block::MemoryDevice::new(bytes);
    let options = uext4_build::MkfsOptions {
        size: Some(bytes),
        block_size,
        journal_size: Some(4 << 20),
        reserved_percent: Some(0.0),
        threads: 1,
        ..uext4_build::MkfsOptions::default()
    };
    uext4_build::mkfs(&device, &options, &uext4_build::NoProgress).expect("mkfs");
    std::sync::Arc::new(device)
}
