//! The time for inodes.

use uext4_ondisk::Timestamp;

/// The time for inodes; precise to a clock tick, as in the kernel.
pub fn now() -> Timestamp {
    let now = uext4_vfs::Timestamp::coarse();
    Timestamp::new(now.sec, now.nsec)
}

/// The same in whole seconds, as deletion times have them.
pub fn now_s() -> u32 {
    u32::try_from(now().sec).unwrap_or(u32::MAX)
}
