//! The file calls of POSIX and Linux with their errnos, made through a mount of uext4 and on the kernel's own ext4: the
//! same transcripts.
//!
//! `UEXT4_MOUNTED_CASE` is a part of the names of cases to run, `UEXT4_MOUNTED_VERBOSE` shows what the kernel answers.
//! Needs root, loop devices and /dev/fuse, and skips, saying so, without.

mod acl;
mod attributes;
mod data;
mod directories;
mod fixed;
mod handles;
mod ioctls;
mod limits;
mod locks;
mod mapping;
mod names;
mod on_attributes;
mod on_files;
mod on_names;
mod open;
mod permission;
mod privileges;
mod scene;
mod space;
mod transcript;
mod watching;
mod xattrs;

use libc::*;
use scene::{Scene, call, runs, short, text};
use transcript::{Allowed, Case, compare};

#[test]
fn canary_tmpfs_is_not_ext4() {
    transcript::canary(&names::CASES[..], 1);
    transcript::canary(&xattrs::CASES[..], 1);
    transcript::canary(&ioctls::CASES[..], 3);
}
