//! The call of the program that the language cannot check.
#![allow(unsafe_code, reason = "clone(2)")]

use nix::libc::SIGCHLD;
use nix::sched::{CloneFlags, clone};
use nix::sys::wait::waitpid;

/// Bytes of the child's stack, which does nothing.
const STACK_BYTES: usize = 16 << 10;

/// A child in an IPC namespace of its own, and its end.
///
/// # Errors
/// The host's: `EPERM`, `ENOSPC`.
pub fn child_in_new_namespace() -> nix::Result<()> {
    let mut stack = [0; STACK_BYTES];
    let flags = CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: the child returns at once, on a stack that lives until it has ended, for which CLONE_VFORK suspends the caller.
    let child = unsafe { clone(Box::new(|| 0), &mut stack, flags, Some(SIGCHLD)) }?;
    waitpid(child, None).map(drop)
}
