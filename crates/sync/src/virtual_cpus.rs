//! As many CPUs as a measurement asks for, whatever the machine has: each thread says on which of them it runs.
//!
//! Only built with `--cfg virtual_cpus`, for `uext4-bench conflicts` and, with `--cfg shuttle`, `transfers`.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

/// The most CPUs there can be.
pub const CPUS_MAX: usize = 1024;

static COUNT: AtomicUsize = AtomicUsize::new(1);

/// What the clock of files says, in seconds since 1970; 0 while it runs.
static STOPPED_AT: AtomicI64 = AtomicI64::new(0);

#[cfg(not(shuttle))]
thread_local! {
    static CPU: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// By task, as all tasks are one thread.
#[cfg(shuttle)]
static CPUS: [AtomicUsize; 2 * CPUS_MAX] = [const { AtomicUsize::new(0) }; 2 * CPUS_MAX];

/// Gives the machine that many CPUs, 1 to [`CPUS_MAX`]. What is made from then on has values for so many.
pub fn set_count(count: usize) {
    COUNT.store(count.clamp(1, CPUS_MAX), Relaxed);
}

/// Moves the calling thread to that CPU.
pub fn move_to(cpu: usize) {
    #[cfg(not(shuttle))]
    CPU.set(cpu);
    #[cfg(shuttle)]
    CPUS[task()].store(cpu, Relaxed);
}

/// The CPU that the caller runs on.
#[inline(always)]
pub fn cpu() -> usize {
    #[cfg(not(shuttle))]
    return CPU.get();
    #[cfg(shuttle)]
    return CPUS[task()].load(Relaxed);
}

#[cfg(shuttle)]
fn task() -> usize {
    let task = shuttle::current::try_get_current_task();
    task.map_or(0, usize::from).min(CPUS.len() - 1)
}

/// The number of CPUs, rounded up to a power of two.
pub fn cpu_shards() -> usize {
    COUNT.load(Relaxed).next_power_of_two()
}

/// Stops the clock of files: what is recorded is within one tick of it.
pub fn stop_clock(seconds: i64) {
    STOPPED_AT.store(seconds, Relaxed);
}

/// The time of the clock of files, if it was stopped.
pub fn stopped_at() -> Option<i64> {
    match STOPPED_AT.load(Relaxed) {
        0 => None,
        seconds => Some(seconds),
    }
}
