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
use uext4_ondisk::Generation;

/// Draws generations for new inodes.
#[derive(Debug, Default)]
pub struct Generator;

impl Generator {
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
        let generator = Generator;
        let mut last = None;
        for _ in 0..10_000 {
            let drawn = generator.draw(last);
            assert_ne!(drawn.0, 0);
            assert_ne!(Some(drawn), last);
            last = Some(drawn);
        }
    }
}
