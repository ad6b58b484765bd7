//! Inode generations (mechanism 2): a generation for every use of an inode number, so that a handle to a
//! former use is refused.
//!
//! # Variants
//! | variant | draws from | same generation again |
//! | --- | --- | --- |
//! | `spinlock` (before) | one counter under one lock | after all others |
//! | `atomic` | one counter that all add to | after all others |
//! | `percpu` (after) | a counter per CPU, each started at random | whenever two counters meet |
//! | `percpu-range` | a slice of the numbers per CPU, from a random base on | on one CPU only, when a new base lies before an old one |
//! | `percpu-stride` | a counter per CPU, whose low bits are the CPU | after all others of that CPU |
//! | `random` | the thread's cryptographic generator | at random |
//! | `beyond` (default) | as `random` | at random, but never twice in a row for one inode |
//!
//! The first five can be predicted from a few of them; the last two cannot.
//!
//! # Invariants
//! - A generation is never 0, which Linux takes for "don't check".
//! - Counters start at random, so that a mount does not repeat what the one before it gave.
//!
//! # Locking
//! `spinlock` takes the class `generation`, a leaf. The others take no lock: the protocols of
//! `counters` are proved by loom (`make loom`), and what `random` keeps belongs to one thread.
//!
//! | module | holds |
//! | --- | --- |
//! | `counters` | what the counting variants share between threads |
//! | `random` | words from the thread's generator |

mod counters;
mod random;

use counters::{Counter, Slice};
use uext4_ondisk::Generation;
use uext4_sync::{CachePadded, Mutex, PerCpu, class, stat};

/// The variants of mechanism 2 (`generation=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GenerationVariant {
    /// `spinlock` (before): one counter under one lock.
    Spinlock,
    /// `atomic`: one shared atomic counter.
    Atomic,
    /// `percpu` (after): a counter per CPU, each started at random.
    Percpu,
    /// `percpu-range`: the 32-bit space divided between CPUs.
    PercpuRange,
    /// `percpu-stride`: the low bits are the CPU.
    PercpuStride,
    /// `random`: a draw each time.
    Random,
    /// `beyond`: a cryptographic draw that is never the generation the inode had last.
    #[default]
    Beyond,
}

uext4_vfs::variants!(
    GenerationVariant,
    "generation",
    Spinlock = "spinlock",
    Atomic = "atomic",
    Percpu = "percpu",
    PercpuRange = "percpu-range",
    PercpuStride = "percpu-stride",
    Random = "random",
    Beyond = "beyond",
);

/// Bits of the narrowest generations: a share of the numbers must be left for each of 64 CPUs.
const BITS_MIN: u32 = 8;

/// Draws generations for new inodes.
#[derive(Debug)]
pub struct Generator {
    source: Source,
    /// The bits that generations have.
    mask: u32,
}

#[derive(Debug)]
enum Source {
    Spinlock(Mutex<u32>),
    Atomic(Box<CachePadded<Counter>>),
    Percpu(PerCpu<Counter>),
    PercpuRange(PerCpu<Slice>),
    /// And the number of CPUs.
    PercpuStride(PerCpu<Counter>, u32),
    Random,
    Beyond,
}

impl Generator {
    /// A generator of the given variant, for one file system.
    pub fn new(variant: GenerationVariant) -> Generator {
        Generator::with_width(variant, 32)
    }

    /// A generator of generations in `1..2^bits`, 8 to 32 bits, to measure how often they repeat.
    pub fn with_width(variant: GenerationVariant, bits: u32) -> Generator {
        let bits = bits.clamp(BITS_MIN, 32);
        let source = match variant {
            GenerationVariant::Spinlock => {
                Source::Spinlock(Mutex::new(&class::GENERATION, random::word()))
            }
            GenerationVariant::Atomic => {
                Source::Atomic(Box::new(CachePadded::new(Counter::new(random::word()))))
            }
            GenerationVariant::Percpu => {
                Source::Percpu(PerCpu::new(|_| Counter::new(random::word())))
            }
            GenerationVariant::PercpuRange => {
                let cpus = uext4_sync::percpu::cpu_shards();
                Source::PercpuRange(PerCpu::new(|cpu| {
                    Slice::new(cpu, cpus, bits, random::below)
                }))
            }
            GenerationVariant::PercpuStride => {
                // A power of two, so that the low bits stay when the counter wraps.
                let cpus = uext4_sync::percpu::cpu_shards() as u32;
                let start = |cpu| random::word() & !(cpus - 1) | cpu as u32;
                Source::PercpuStride(PerCpu::new(|cpu| Counter::new(start(cpu))), cpus)
            }
            GenerationVariant::Random => Source::Random,
            GenerationVariant::Beyond => Source::Beyond,
        };
        Generator {
            source,
            mask: u32::MAX >> (32 - bits),
        }
    }

    /// A generation for an inode that had `last`, if it is known; never 0.
    ///
    /// # Locks
    /// `generation` in the variant `spinlock`, for a moment; none in the others.
    #[inline]
    pub fn draw(&self, last: Option<Generation>) -> Generation {
        Generation(match &self.source {
            Source::Spinlock(next) => counters::take_locked(next, self.mask),
            Source::Atomic(counter) => counted(counter.take(1, self.mask)),
            Source::Percpu(counters) => counted(counters.get().take(1, self.mask)),
            Source::PercpuRange(slices) => counted(slices.get().take(random::below)),
            Source::PercpuStride(counters, cpus) => counted(counters.get().take(*cpus, self.mask)),
            Source::Random => self.random(0),
            Source::Beyond => self.random(last.map_or(0, |last| last.0)),
        })
    }

    /// A random generation that is neither 0 nor `not`.
    #[inline]
    fn random(&self, not: u32) -> u32 {
        loop {
            let drawn = random::word() & self.mask;
            if drawn != 0 && drawn != not {
                return drawn;
            }
        }
    }
}

/// Notes one claim of an atomic counter in the lock statistics; it never fails, so none is repeated.
#[inline]
fn counted(generation: u32) -> u32 {
    stat::count_atomic(&class::GENERATION, 0);
    generation
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;
