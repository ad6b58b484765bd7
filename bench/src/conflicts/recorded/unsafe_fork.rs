//! The one system call of the program that the language cannot check.
#![allow(unsafe_code, reason = "fork(2)")]

use nix::unistd::{ForkResult, Pid};

/// A copy of this process whose only thread is the caller: `None` in the copy, its number in the original.
///
/// The copy may take no lock that another thread can hold now: all others wait for the caller.
///
/// # Errors
/// The host's.
pub fn fork() -> nix::Result<Option<Pid>> {
    // SAFETY: the other threads of the process are idle (`cpu`), so that no lock is held and no structure half changed; glibc
    // makes its allocator usable in the child. The child runs safe code and ends without destructors.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => Ok(None),
        ForkResult::Parent { child } => Ok(Some(child)),
    }
}
