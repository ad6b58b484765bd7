//! Each block of a region once, in random order, without a table of what was taken.
//!
//! A worker counts through its share of the numbers 0 to n-1, its own number first and then in steps of the
//! count of workers. A bijection of the numbers below the next power of two mixes each; what falls
//! beyond n is mixed again until it does not, which keeps it a bijection of the numbers below n.

/// Odd, so that multiplying by them modulo a power of two loses nothing.
const FACTORS: [u64; 3] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
];

/// A worker's share of the numbers 0 to n-1, in random order.
#[derive(Clone, Debug)]
pub struct Share {
    next: u64,
    step: u64,
    count: u64,
    bits: u32,
    seed: u64,
}

impl Share {
    /// The share of `worker` of `workers` in `count` numbers; `seed` must be the same for all of them.
    pub fn new(worker: usize, workers: usize, count: u64, seed: u64) -> Share {
        Share {
            next: worker as u64,
            step: workers as u64,
            count,
            bits: count.next_power_of_two().trailing_zeros(),
            seed,
        }
    }

    fn mix(&self, mut number: u64) -> u64 {
        let mask = (1 << self.bits) - 1;
        for factor in FACTORS {
            number = number.wrapping_add(self.seed).wrapping_mul(factor) & mask;
            number ^= number >> (self.bits / 2 + 1);
        }
        number
    }
}

impl Iterator for Share {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.next >= self.count {
            return None;
        }
        let mut number = self.mix(self.next);
        while number >= self.count {
            number = self.mix(number);
        }
        self.next += self.step;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_once() {
        for (count, workers) in [
            (0, 1),
            (1, 2),
            (2, 1),
            (5, 3),
            (64, 4),
            (1000, 7),
            (4097, 24),
        ] {
            let shares = (0..workers).map(|w| Share::new(w, workers, count, 0x5eed_1234));
            let mut all: Vec<u64> = shares.flatten().collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn order_is_random_and_the_seed_changes_it() {
        let order = |seed| Share::new(0, 1, 1000, seed).collect::<Vec<u64>>();
        let (a, b) = (order(1), order(2));
        assert_ne!(a, b);
        let ascending = a.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((400..600).contains(&ascending), "{ascending}");
    }
}
