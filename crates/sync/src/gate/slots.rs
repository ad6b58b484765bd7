//! Counters of threads, each on cache lines of its own.

use crate::imp::atomic::AtomicU32;
use crossbeam_utils::CachePadded;
use std::sync::OnceLock;

/// Counters that are made at once.
const CHUNK: usize = 16;
/// Threads beyond these have none.
const CHUNKS: usize = 64;

/// The counter of a thread.
pub(super) type Slot = CachePadded<AtomicU32>;

/// A counter for each thread that asked.
#[derive(Debug)]
pub(super) struct Slots {
    chunks: [OnceLock<Box<[Slot; CHUNK]>>; CHUNKS],
}

impl Slots {
    pub fn new() -> Slots {
        Slots {
            chunks: [const { OnceLock::new() }; CHUNKS],
        }
    }

    /// That of the calling thread, if it has one.
    #[inline(always)]
    pub fn of_caller(&self) -> Option<&Slot> {
        let index = index::of_caller()?;
        let chunk = self.chunks.get(index / CHUNK)?;
        let zeros = || Box::new(std::array::from_fn(|_| Slot::new(AtomicU32::new(0))));
        chunk.get_or_init(zeros).get(index % CHUNK)
    }

    /// All that were made.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.chunks
            .iter()
            .filter_map(OnceLock::get)
            .flat_map(|chunk| chunk.iter())
    }
}

/// Small numbers of the threads that run.
#[cfg(not(any(shuttle, virtual_cpus)))]
mod index {
    use crate::imp::RawMutex;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    /// Numbers below `next` that no thread has.
    struct Numbers {
        unused: BTreeSet<usize>,
        next: usize,
    }

    static NUMBERS: RawMutex<Numbers> = RawMutex::new(Numbers {
        unused: BTreeSet::new(),
        next: 0,
    });

    /// A number, until dropped.
    struct Index(usize);

    impl Index {
        fn take() -> Index {
            let mut numbers = NUMBERS.lock();
            Index(numbers.unused.pop_first().unwrap_or_else(|| {
                numbers.next += 1;
                numbers.next - 1
            }))
        }
    }

    impl Drop for Index {
        fn drop(&mut self) {
            COPY.set(NONE);
            NUMBERS.lock().unused.insert(self.0);
        }
    }

    /// Of a thread that has not asked, or ends.
    const NONE: usize = usize::MAX;

    thread_local! {
        /// A copy, which is read without asking whether it is there.
        static COPY: Cell<usize> = const { Cell::new(NONE) };
        static INDEX: Index = Index::take();
    }

    /// That of the calling thread; none while it ends.
    #[inline(always)]
    pub fn of_caller() -> Option<usize> {
        match COPY.get() {
            NONE => first(),
            index => Some(index),
        }
    }

    #[cold]
    fn first() -> Option<usize> {
        let index = INDEX.try_with(|index| index.0).ok()?;
        COPY.set(index);
        Some(index)
    }
}

#[cfg(any(shuttle, virtual_cpus))]
mod index {
    /// The number of the task, or of the virtual CPU, as a thread plays several.
    pub fn of_caller() -> Option<usize> {
        Some(if cfg!(shuttle) {
            crate::thread_number()
        } else {
            crate::percpu::cpu()
        })
    }
}
