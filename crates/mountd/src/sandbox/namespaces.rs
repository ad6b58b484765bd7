//! Namespaces of the process: an empty root directory, a network without interfaces, and a user that owns nothing.
//!
//! # Invariants
//! A step that the host does not allow changes nothing, and the other restrictions hold.

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::process::{Gid, Uid, chdir, getpid, pivot_root};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A directory that every host has, on which the empty root is mounted.
const REPLACED: &str = "/proc";

/// User numbers from here on are unused on every host: above those of containers, and below those that are negative as a
/// signed number. The process's number is added, so that no two servers are the same user.
const UNUSED_USERS: u32 = 0x7000_0000;

/// The unprivileged user and its group, if the host has no others.
const NOBODY: u32 = 65534;

/// The namespaces that the process has.
#[derive(Clone, Copy, Debug)]
pub struct Namespaces {
    /// No file or directory has a path.
    pub own_root: bool,
    /// There is no network.
    pub own_network: bool,
}

/// Leaves the host's namespaces; `as_user` through a user namespace, which takes no privilege. The process must have
/// one thread.
pub fn leave(as_user: bool) -> Namespaces {
    if as_user {
        // If this fails, so do the other steps.
        let _ = unshare(CloneFlags::CLONE_NEWUSER);
    }
    let own_network = unshare(CloneFlags::CLONE_NEWNET).is_ok();
    let own_root = unshare(CloneFlags::CLONE_NEWNS).is_ok() && empty_root().is_ok();
    Namespaces {
        own_root,
        own_network,
    }
}

/// Gives the process an empty root directory. Open files stay open.
fn empty_root() -> rustix::io::Result<()> {
    // Later unmounts of the host take effect here too if a step after this one fails.
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", propagation)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("none", REPLACED, "tmpfs", flags, c"nr_inodes=2,mode=555")?;
    chdir(REPLACED)?;
    // The old root is mounted over the new one; unmount it.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

/// Changes the process to a user and a group that nothing else has; false if it does not run as root, or may not
/// change.
pub fn become_unused_user() -> bool {
    if !rustix::process::geteuid().is_root() || set_thread_groups(&[]).is_err() {
        return false;
    }
    let unused = UNUSED_USERS | getpid().as_raw_nonzero().get().cast_unsigned();
    [unused, NOBODY].into_iter().any(|id| {
        let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
        set_thread_res_gid(group, group, group).is_ok()
            && set_thread_res_uid(user, user, user).is_ok()
    })
}
