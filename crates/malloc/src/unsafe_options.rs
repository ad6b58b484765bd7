//! Options of the allocator, set before it allocates; on Linux alone. The environment overrides them (`MIMALLOC_PURGE_DELAY`).
#![allow(unsafe_code, reason = "the options have no safe form")]

use libmimalloc_sys::{mi_option_set_default, mi_option_t};
use std::ffi::c_long;

/// `mi_option_purge_delay` of version 3: how long memory that nothing uses stays the process's, in milliseconds. Memory that is taken again within that time costs no page fault: caches
/// shrink and grow with each directory that is removed and made.
const PURGE_DELAY: (mi_option_t, c_long) = (15, 300_000);
/// `mi_option_arena_reserve` of version 3: how much address space is reserved at a time, in KiB: a mount's server is bounded by what it reserves (`memory=`).
const ARENA_RESERVE: (mi_option_t, c_long) = (23, 64 << 10);

/// The C library calls it before `main`.
#[used]
// SAFETY: the section holds addresses of functions of this type.
#[unsafe(link_section = ".init_array")]
static SET: extern "C" fn() = set;

extern "C" fn set() {
    // Only libraries in C, and threads that start, take memory of glibc: it shall not reserve 64 MiB for each thread,
    // which are missing where the address space is bounded (`memory=`).
    #[cfg(target_env = "gnu")]
    // SAFETY: stores a number; no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
    for (option, value) in [PURGE_DELAY, ARENA_RESERVE] {
        // SAFETY: stores a number in a table of constant size, whose bounds are checked; no other thread runs yet.
        unsafe { mi_option_set_default(option, value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_before_main() {
        for (option, value) in [PURGE_DELAY, ARENA_RESERVE] {
            // SAFETY: reads a number from that table.
            assert_eq!(unsafe { libmimalloc_sys::mi_option_get(option) }, value);
        }
    }
}
