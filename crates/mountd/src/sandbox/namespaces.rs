//! Namespaces of the process's own: a root directory with nothing in it, a network without interfaces; and a user that
//! owns nothing.
//!
//! # Invariants
//! A step that the host does not allow changes nothing, and the other walls stand.

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::process::{Gid, Uid, chdir, getpid, pivot_root};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A directory that every host has, in place of which there will be nothing.
const REPLACED: &str = "/proc";

/// Users from this number on exist on no host: above those of containers and below those that are negative as a
/// signed number. The process's number is added, so that no two servers are the same user.
const UNUSED_USERS: u32 = 0x7000_0000;

/// The unprivileged user and its group, if the host has no others.
const NOBODY: u32 = 65534;

/// Which namespaces the process got.
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
        // Without it, the others fail as they would have.
        let _ = unshare(CloneFlags::CLONE_NEWUSER);
    }
    let own_network = unshare(CloneFlags::CLONE_NEWNET).is_ok();
    let own_root = unshare(CloneFlags::CLONE_NEWNS).is_ok() && empty_root().is_ok();
    Namespaces {
        own_root,
        own_network,
    }
}

/// Gives the process an empty root directory. What it has open stays open.
fn empty_root() -> rustix::io::Result<()> {
    // What the host unmounts later goes here too, should a step after this one fail.
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", propagation)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("none", REPLACED, "tmpfs", flags, c"nr_inodes=2,mode=555")?;
    chdir(REPLACED)?;
    // The old root is mounted over the new one, and is taken away.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

/// Makes the process one of a user and a group that nothing else is of; false where it is not the superuser's, or may
/// not.
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
