//! Values per CPU.
//!
//! A thread may move to another CPU between the look-up and the use, so what is stored must be safe
//! to share; the gain is that it is hardly ever shared at the same moment.

use crossbeam_utils::CachePadded;
use std::sync::OnceLock;

/// The CPU that the caller runs on, or ran on a moment ago.
#[cfg(all(target_os = "linux", not(miri), not(shuttle), not(virtual_cpus)))]
#[inline(always)]
pub fn cpu() -> usize {
    unsafe extern "C" {
        safe fn sched_getcpu() -> std::ffi::c_int;
    }
    usize::try_from(sched_getcpu()).unwrap_or(0)
}

/// The CPU that the caller runs on.
#[cfg(not(any(all(target_os = "linux", not(miri)), shuttle, virtual_cpus)))]
#[inline(always)]
pub fn cpu() -> usize {
    0
}

/// One of two CPUs: a task has a home, and is found away from it one time in four.
#[cfg(all(shuttle, not(virtual_cpus)))]
pub fn cpu() -> usize {
    use shuttle::rand::{RngCore, thread_rng};
    match shuttle::current::try_get_current_task() {
        Some(task) => {
            let away = thread_rng().next_u32().is_multiple_of(4);
            (usize::from(task) + usize::from(away)) % 2
        }
        None => 0,
    }
}

#[cfg(virtual_cpus)]
pub use crate::virtual_cpus::{cpu, cpu_shards};

/// A number for the calling thread: threads are counted as they first ask. Zero again while a thread ends.
#[cfg(not(shuttle))]
#[inline]
pub fn thread_number() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Relaxed);
    }
    // A thread that ends has none any more.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// The number of the task.
#[cfg(shuttle)]
pub fn thread_number() -> usize {
    shuttle::current::try_get_current_task().map_or(0, usize::from)
}

/// The number of CPUs this process may use, rounded up to a power of two.
#[cfg(not(any(shuttle, virtual_cpus)))]
pub fn cpu_shards() -> usize {
    static SHARDS: OnceLock<usize> = OnceLock::new();
    *SHARDS.get_or_init(|| {
        std::thread::available_parallelism()
            .map_or(1, std::num::NonZero::get)
            .next_power_of_two()
    })
}

/// Two: few schedules explore two shards, and more show nothing new.
#[cfg(all(shuttle, not(virtual_cpus)))]
pub fn cpu_shards() -> usize {
    2
}

/// Values for CPUs, each on its own cache lines: as many as there were CPUs for the process at its first use of one, rounded up to a power of
/// two. CPUs whose numbers are equal modulo that share one; off Linux, all do.
#[derive(Debug)]
pub struct PerCpu<T> {
    values: Box<[CachePadded<T>]>,
}

impl<T> PerCpu<T> {
    /// Makes a value for each CPU; `make` gets the index.
    pub fn new(mut make: impl FnMut(usize) -> T) -> PerCpu<T> {
        PerCpu {
            values: (0..cpu_shards())
                .map(|i| CachePadded::new(make(i)))
                .collect(),
        }
    }

    /// The value of the CPU that the caller runs on.
    #[inline(always)]
    pub fn get(&self) -> &T {
        &self.values[self.index()]
    }

    /// The index of the value of the CPU that the caller runs on.
    #[inline(always)]
    pub fn index(&self) -> usize {
        cpu() & (self.values.len() - 1)
    }

    /// The value at `index`.
    ///
    /// # Panics
    /// There are fewer values.
    #[inline(always)]
    pub fn at(&self, index: usize) -> &T {
        &self.values[index]
    }

    /// Every value.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().map(|v| &**v)
    }
}

/// As [`PerCpu`], but the value of a CPU is made when that CPU first asks for it: for what exists many times and is
/// used by few CPUs each time. Sixteen bytes for each CPU, and a value for each that asked.
#[derive(Debug)]
pub struct PerUsedCpu<T> {
    values: Box<[OnceLock<Box<CachePadded<T>>>]>,
}

impl<T> PerUsedCpu<T> {
    /// Without values.
    pub fn new() -> PerUsedCpu<T> {
        PerUsedCpu {
            values: (0..cpu_shards()).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The value of the CPU that the caller runs on; `make` gets its index, and must not use this. Another caller waits meanwhile.
    #[inline(always)]
    pub fn get_or_init(&self, make: impl FnOnce(usize) -> T) -> &T {
        let index = cpu() & (self.values.len() - 1);
        self.values[index].get_or_init(|| Box::new(CachePadded::new(make(index))))
    }

    /// The values of the CPUs that asked.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().filter_map(|v| v.get().map(|v| &***v))
    }
}

impl<T> Default for PerUsedCpu<T> {
    fn default() -> Self {
        PerUsedCpu::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn sums_over_threads() {
        let p = PerCpu::new(|_| AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    (0..1000).for_each(|_| {
                        p.get().fetch_add(1, Relaxed);
                    })
                });
            }
        });
        assert_eq!(p.iter().map(|v| v.load(Relaxed)).sum::<u64>(), 4000);
    }
}
