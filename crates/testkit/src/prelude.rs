//! What most tests use: `use uext4_testkit::prelude::*`.

pub use crate::external::*;
pub use crate::image::{kernel_mounts, recovered_tree};
pub use crate::require;
pub use crate::with;
pub use crate::{
    acl::acl_against,
    aligned::Aligned,
    as_root::AsRoot,
    built::{self, WORKSPACE},
    device::{Cut, FaultCall, FaultDevice, FaultPlan, FaultRule, RecordDevice},
    env_number,
    exclusive::Exclusive,
    image::Shape,
    mke2fs::{DIR, FILE, TempImage, debugfs, fsck, image, within},
    mounted_dir::{Driver, MountedDir, can_mount, is_mounted, unmount_what_is_left},
    operation::{Op, apply, find},
    oracle::{self, KernelMount},
    program::is_installed,
    server::{pid_of, transports},
    tree::{self, Tree},
    workload::{Habits, Worker},
};
