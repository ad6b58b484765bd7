//! Inode generations (mechanism 2): a generation for every use of an inode number, so that a handle to a
//! former use is refused.
//!
//! # Variants
//! | variant | draws from | same generation again |
//! | --- | --- | --- |
//! | `spinlock` (before) | one counter under one lock | after all others |
//! | `atomic` | one counter that all add to | after all others |
//! | `percpu` (after) | a counter per CPU, each started at random | whenever two counters meet |
//! | `percpu-range` | a range of the numbers per CPU, all from one random base on; a new base when one range is used up | when a new base lies near an old one |
//! | `percpu-stride` | a counter per CPU, whose low bits are the CPU | after all others of that CPU |
//! | `random` | the thread's cryptographic generator | at random |
//! | `random-prng` | a cheap generator of the thread | at random |
//! | `increment` | the inode's former generation, plus one | after all others of that inode |
//! | `none` | nothing: every new inode has generation 0 | always |
//! | `beyond` (default) | as `random` | at random, but never twice in a row for one inode |
//!
//! The counters can be predicted from a few generations, `random-prng` from more of them, `increment` from one; `random` and
//! `beyond` cannot. `none` shows what a generation costs: a handle to a former use of an inode opens the present one.
//!
//! # Invariants
//! - A generation is never 0, which Linux takes for "don't check", but in `none`.
//! - Counters start at random, so that a mount does not repeat what the one before it gave.
//!
//! # Locking
//! `spinlock` takes the class `generation`, a leaf. The others take no lock: the protocols of
//! `counters` and `ranges` are proved by loom (`make loom`), and what the random ones keep belongs to one thread.
//!
//! | module | holds |
//! | --- | --- |
//! | `counters` | what the counting variants share between threads |
//! | `ranges` | what `percpu-range` shares |
//! | `random` | words from the thread's generators |

mod counters;
mod random;
mod ranges;

use counters::Counter;
use ranges::{Bases, CpuRange};
use std::array;
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
    /// `percpu-range`: the 32-bit space divided between CPUs, from one random base on.
    PercpuRange,
    /// `percpu-stride`: the low bits are the CPU.
    PercpuStride,
    /// `random`: a draw each time.
    Random,
    /// `random-prng`: a draw each time, from a generator that is cheap and can be predicted.
    RandomPrng,
    /// `increment`: the inode's former generation plus one.
    Increment,
    /// `none`: no generation, which shows what one costs; handles are not protected.
    None,
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
    RandomPrng = "random-prng",
    Increment = "increment",
    None = "none",
    Beyond = "beyond",
);

/// Bits of the narrowest generations on up to 64 CPUs.
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
    PercpuRange(Box<CachePadded<Bases>>, PerCpu<CpuRange>),
    /// And the number of CPUs.
    PercpuStride(PerCpu<Counter>, u32),
    Random,
    RandomPrng,
    Increment,
    None,
    Beyond,
}

impl Source {
    fn new(variant: GenerationVariant, mask: u32) -> Source {
        let cpus = uext4_sync::percpu::cpu_shards();
        match variant {
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
                let bases = Bases::new(cpus, mask, random::word() & mask);
                let ranges = PerCpu::new(|cpu| CpuRange::new(cpu, &bases));
                Source::PercpuRange(Box::new(CachePadded::new(bases)), ranges)
            }
            GenerationVariant::PercpuStride => {
                // A power of two, so that the low bits stay when the counter wraps.
                let cpus = cpus as u32;
                let start = |cpu| random::word() & !(cpus - 1) | cpu as u32;
                Source::PercpuStride(PerCpu::new(|cpu| Counter::new(start(cpu))), cpus)
            }
            GenerationVariant::Random => Source::Random,
            GenerationVariant::RandomPrng => Source::RandomPrng,
            GenerationVariant::Increment => Source::Increment,
            GenerationVariant::None => Source::None,
            GenerationVariant::Beyond => Source::Beyond,
        }
    }
}

impl Generator {
    /// A generator of the given variant, for one file system.
    pub fn new(variant: GenerationVariant) -> Generator {
        Generator::with_width(variant, 32)
    }

    /// A generator of generations in `1..2^bits`, 8 to 32 bits, to measure how often they repeat. On more than 64 CPUs they
    /// have as many bits as leave four numbers for each.
    pub fn with_width(variant: GenerationVariant, bits: u32) -> Generator {
        let bits_min = BITS_MIN.max(uext4_sync::percpu::cpu_shards().ilog2() + 2);
        let mask = u32::MAX >> (32 - bits.clamp(bits_min, 32));
        Generator {
            source: Source::new(variant, mask),
            mask,
        }
    }

    /// A generation for a new inode whose number had `last`, if that is known; 0 in the variant `none`, never in
    /// another.
    ///
    /// # Locks
    /// `generation` in the variant `spinlock`, for a moment; none in the others.
    #[inline]
    pub fn draw(&self, last: Option<Generation>) -> Generation {
        let [drawn] = self.draw_each([last]);
        drawn
    }

    /// Generations for two inodes that exist and have `last`, in one draw: one acquisition of the lock, one addition
    /// to a counter. The variant `none` leaves what they have.
    ///
    /// # Locks
    /// As [`Generator::draw`].
    pub fn redraw(&self, last: [Generation; 2]) -> [Generation; 2] {
        match self.source {
            Source::None => last,
            _ => self.draw_each(last.map(Some)),
        }
    }

    #[inline(always)]
    fn draw_each<const N: usize>(&self, last: [Option<Generation>; N]) -> [Generation; N] {
        let mask = self.mask;
        let drawn = match &self.source {
            Source::Spinlock(next) => counters::take_locked(next, mask),
            Source::Atomic(counter) => counted(counter.take(1, mask)),
            Source::Percpu(counters) => counted(counters.get().take(1, mask)),
            Source::PercpuRange(bases, ranges) => counted(ranges.get().take(bases, random::word)),
            Source::PercpuStride(counters, cpus) => counted(counters.get().take(*cpus, mask)),
            Source::Random => array::from_fn(|_| self.random(random::word, 0)),
            Source::RandomPrng => array::from_fn(|_| self.random(random::cheap_word, 0)),
            Source::Increment => last.map(|last| self.after(last)),
            Source::None => [0; N],
            Source::Beyond => {
                last.map(|last| self.random(random::word, last.map_or(0, |last| last.0)))
            }
        };
        drawn.map(Generation)
    }

    /// A random generation that is neither 0 nor `not`.
    #[inline]
    fn random(&self, word: impl Fn() -> u32, not: u32) -> u32 {
        loop {
            let drawn = word() & self.mask;
            if drawn != 0 && drawn != not {
                return drawn;
            }
        }
    }

    /// The generation after `last`, but for 0.
    #[inline]
    fn after(&self, last: Option<Generation>) -> u32 {
        let last = last.map_or(0, |last| last.0);
        (last.wrapping_add(1) & self.mask).max(1)
    }
}

/// Notes one claim of an atomic counter in the lock statistics; it never fails, so none is repeated.
#[inline]
fn counted<const N: usize>(generations: [u32; N]) -> [u32; N] {
    stat::count_atomic(&class::GENERATION, 0);
    generations
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;
