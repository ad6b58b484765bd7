//! The calls of the program that the language cannot check.
#![allow(unsafe_code, reason = "fork(2), mallopt(3)")]

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

/// Arenas of malloc(3) for each CPU, as glibc has them.
const ARENAS_PER_CPU: usize = 8;

/// Gives malloc(3) as many arenas as on a machine with so many CPUs: threads that share one get memory on the same lines.
pub fn set_arenas(cpus: usize) {
    let arenas = libc::c_int::try_from(cpus * ARENAS_PER_CPU).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call takes two numbers and no memory; no other thread runs yet.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
}
