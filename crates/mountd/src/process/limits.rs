//! The limits of a server: an untrusted image must not use up the host's memory.

use crate::failure::Failure;
use crate::options::Options;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

/// Code, libraries, and what a mount has before the first request, with what the allocator reserves; measured: 90 MiB.
const PROGRAM_BYTES: u64 = 256 << 20;
/// A thread's stack, its two buffers, and what the allocator or malloc(3) of a library in C reserves for it at once, of which it uses little.
const THREAD_BYTES: u64 = (2 + 2 + 64 + 4) << 20;
/// What each thread certainly takes of that.
const STACK_BYTES: u64 = 2 << 20;
/// What recovering the journal takes at most: eight million records, in vectors and tables that have just grown.
const RECOVERY_BYTES: u64 = 1 << 30;
/// How many times its limit the cache takes with blocks that are being changed, and copies of them.
const CACHE_SHARE: u64 = 4;
/// What of the machine's memory inodes may take that the kernel refers to. It has 1.1 KiB of each, the server 0.6 KiB:
/// before that much is in use here, the kernel gives some back.
const NODES_SHARE: u64 = 2;

/// How much sooner than other processes the server is killed where the host has no memory left. What it made durable is
/// in the journal, which is not so of most others.
const OOM_SCORE_RAISED: i32 = 500;
const OOM_SCORE_MAX: i32 = 1000;

/// Bounds the address space of this process, which will have so many threads, and makes it the first to go where memory
/// runs out. Returns the bound, in bytes.
///
/// # Errors
/// The host refuses, or has less to give than `memory=` asks for.
pub fn bound(options: &Options, threads: usize) -> Result<u64, Failure> {
    // Raising it is allowed to all; a host without it has no such killer.
    let _ = raise_oom_score();
    if let Some(asked) = options.memory {
        check_asked(asked, address_space(), threads as u64)?;
    }
    let wanted = options
        .memory
        .unwrap_or_else(|| default_bytes(options, threads));
    let Rlimit { maximum, .. } = getrlimit(Resource::As);
    let bytes = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let bound = Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    setrlimit(Resource::As, bound)
        .map_err(|e| Failure::new(format_args!("the server's memory can't be bounded: {e}")))?;
    Ok(bytes)
}

/// Refuses a bound below what this process has already and the stacks of its threads.
fn check_asked(asked: u64, has: u64, threads: u64) -> Result<(), Failure> {
    let least = has + STACK_BYTES * threads;
    if asked >= least {
        return Ok(());
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    Err(Failure::new(format_args!(
        "option 'memory': {asked} bytes are too few: to start takes {}M, and -o memory={}M has room for all of its {threads} threads",
        mib(least),
        mib(has + THREAD_BYTES * threads)
    )))
}

/// Bytes of address space that this process has; 0 where that is not to be seen.
fn address_space() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn default_bytes(options: &Options, threads: usize) -> u64 {
    let host = rustix::system::sysinfo();
    let physical = (host.totalram as u64).saturating_mul(u64::from(host.mem_unit));
    PROGRAM_BYTES
        + RECOVERY_BYTES
        + THREAD_BYTES * threads as u64
        + CACHE_SHARE * options.open.mount.cache_bytes
        + physical / NODES_SHARE
}

fn raise_oom_score() -> std::io::Result<()> {
    const PATH: &str = "/proc/self/oom_score_adj";
    let score: i32 = fs::read_to_string(PATH)?.trim().parse().unwrap_or(0);
    let raised = (score + OOM_SCORE_RAISED).min(OOM_SCORE_MAX);
    fs::write(PATH, raised.to_string())
}

/// Raises the limit of open files: the usual one is for programs that use select(2).
pub fn raise_open_files_max() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where that is refused, so is opening too many files, by name.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_below_what_is_there_names_one_that_is_enough() {
        assert!(address_space() > 1 << 20);
        let e = check_asked(1, 90 << 20, 2).unwrap_err();
        assert!(
            e.message.contains("takes 94M, and -o memory=234M has room"),
            "{e}"
        );
        check_asked(94 << 20, 90 << 20, 2).unwrap();
        check_asked((94 << 20) - 1, 90 << 20, 2).unwrap_err();
    }
}
