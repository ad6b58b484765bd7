//! What each operation of a file system does, verified by e2fsck.

mod basic;
mod block_allocation;
mod block_map;
mod casefold;
mod direct_io;
mod direct_io_review;
mod directory_positions;
mod failed_create;
mod fdatasync_of_names;
mod freeze;
mod fs_verity;
mod generations;
mod grow;
mod hurd;
mod inode_allocation;
mod large_blocks;
mod lazytime;
mod move_range;
mod nowait;
mod observability;
mod paths;
mod quota;
mod remount;
mod stale_lookups;
mod swap_boot;

use std::sync::atomic::Ordering::SeqCst;
use uext4_testkit::{
    mke2fs::{mount, run},
    prelude::*,
};
