//! Memory of the programs `uext4` and `uext4-bench`: mimalloc, whose threads share no lock. A program that links this crate
//! (`use uext4_malloc as _`) allocates with it.
//!
//! glibc grows the heap of a thread but the first by mprotect(2), 4 KiB at a time, and merges what is freed with its neighbours:
//! a system call for each block that enters a cache, and a quarter of the time of an unlink.
//!
//! The library `uext4` allocates as the program does that links it.
#![deny(unsafe_code)]

// Where each allocation is watched, it is the C library's.
#[cfg(all(target_os = "linux", not(any(shuttle, virtual_cpus, sanitized))))]
mod unsafe_options;

#[cfg(not(any(shuttle, virtual_cpus, sanitized)))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
