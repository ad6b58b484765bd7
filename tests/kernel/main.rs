//! The same images used by us and by the kernel's ext4. Needs root and loop devices, and skips what it has not.

mod bigalloc;
mod block_map;
mod calls;
mod debugfs_journal;
mod direct_io;
mod encryption;
mod encryption_damage;
mod encryption_edges;
mod external_journal;
mod external_journal_path;
mod fast_commit;
mod fast_commits_of_ours;
mod feature_pairs;
mod fiemap;
mod flags;
mod inline_data;
mod journal;
mod large_values;
mod matrix;
mod multi_mount;

use uext4_testkit::{
    image::{mount, mount_as},
    prelude::*,
};
