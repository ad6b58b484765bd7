//! Bitmaps of clusters that take memory only where something is in use.

use std::sync::OnceLock;
use uext4_sync::atomic::{AtomicU64, Ordering};

/// Words of a chunk: the bitmap of a group, with blocks of 4 KiB.
const CHUNK_WORDS: usize = 512;
/// Bits of a chunk.
const CHUNK_BITS: u64 = CHUNK_WORDS as u64 * 64;

type Chunk = [AtomicU64; CHUNK_WORDS];

/// Bits that many threads claim, all clear at first. Claiming is atomic for each word.
#[derive(Debug)]
pub(crate) struct ClaimBitmap {
    /// Empty while all of its bits are clear.
    chunks: Vec<OnceLock<Box<Chunk>>>,
    len: u64,
}

impl ClaimBitmap {
    /// A bitmap of `len` bits.
    pub(crate) fn new(len: u64) -> Self {
        let count = usize::try_from(len.div_ceil(CHUNK_BITS)).unwrap_or(0);
        let mut chunks = Vec::new();
        chunks.resize_with(count, OnceLock::new);
        ClaimBitmap { chunks, len }
    }

    /// Sets the bits from `at` on and calls `taken` with each that was set before. Bits past the
    /// end are ignored.
    #[inline]
    pub(crate) fn claim(&self, at: u64, len: u64, mut taken: impl FnMut(u64)) {
        let end = at.saturating_add(len).min(self.len);
        let mut at = at;
        while at < end {
            let bit = at % 64;
            let n = (64 - bit).min(end - at);
            let mask = (!0u64 >> (64 - n)) << bit;
            let chunk = self.chunks.get((at / CHUNK_BITS) as usize);
            let chunk = chunk.map(|chunk| chunk.get_or_init(new_chunk));
            if let Some(word) = chunk.and_then(|chunk| chunk.get(word_in_chunk(at))) {
                let mut old = word.fetch_or(mask, Ordering::Relaxed) & mask;
                while old != 0 {
                    taken(at - bit + u64::from(old.trailing_zeros()));
                    old &= old - 1;
                }
            }
            at += n;
        }
    }

    /// Sets those of `len` bits from `at` on that are set in `bytes`, the first bit lowest.
    pub(crate) fn claim_bits(&self, at: u64, len: u32, bytes: &[u8]) {
        let words = bytes.as_chunks().0.iter().map(|w| u64::from_le_bytes(*w));
        for (start, mut word) in (0..len).step_by(64).zip(words) {
            word &= !0 >> 64u32.saturating_sub(len - start);
            while word != 0 {
                let first = word.trailing_zeros();
                let ones = (word >> first).trailing_ones();
                self.claim(at + u64::from(start + first), ones.into(), |_| {});
                word &= !(!0 >> (64 - ones) << first);
            }
        }
    }

    /// Sets the first bit from `at` on that is clear, and returns it.
    pub(crate) fn claim_clear(&self, at: u64) -> Option<u64> {
        (at..self.len).find(|bit| {
            let mut fresh = true;
            self.claim(*bit, 1, |_| fresh = false);
            fresh
        })
    }

    /// Clears the bits from `at` on. Bits past the end are ignored.
    pub(crate) fn release(&self, at: u64, len: u64) {
        for bit in at..at.saturating_add(len).min(self.len) {
            let chunk = self.chunks.get((bit / CHUNK_BITS) as usize);
            let word = chunk.and_then(OnceLock::get);
            if let Some(word) = word.and_then(|chunk| chunk.get(word_in_chunk(bit))) {
                word.fetch_and(!(1 << (bit % 64)), Ordering::Relaxed);
            }
        }
    }

    /// True if a bit is set.
    pub(crate) fn is_set(&self, at: u64) -> bool {
        let chunk = self.chunks.get((at / CHUNK_BITS) as usize);
        let word = chunk.and_then(OnceLock::get);
        let word = word.and_then(|chunk| chunk.get(word_in_chunk(at)));
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (at % 64) & 1 != 0)
    }

    /// True if none of these bits was ever set; false where one near them was.
    pub(crate) fn is_untouched(&self, at: u64, len: u64) -> bool {
        let end = at.saturating_add(len).div_ceil(CHUNK_BITS) as usize;
        let range = (at / CHUNK_BITS) as usize..end.min(self.chunks.len());
        let chunks = self.chunks.get(range).unwrap_or(&[]);
        chunks.iter().all(|chunk| chunk.get().is_none())
    }

    /// How many of these bits are set, `at` being a multiple of 8.
    pub(crate) fn count(&self, at: u64, len: u64) -> u64 {
        if self.is_untouched(at, len) {
            return 0;
        }
        let mut bytes = Vec::new();
        self.copy_to(at, len, &mut bytes);
        if let Some(last) = bytes.last_mut().filter(|_| !len.is_multiple_of(8)) {
            *last &= (1 << (len % 8)) - 1;
        }
        count_ones(&bytes)
    }

    /// Puts `len` bits from `at` on, a multiple of 8, into `bytes`, the first bit lowest.
    pub(crate) fn copy_to(&self, at: u64, len: u64, bytes: &mut Vec<u8>) {
        bytes.clear();
        let (first, end) = (at / 64, at.saturating_add(len).min(self.len).div_ceil(64));
        for word in first..end {
            let chunk = self.chunks.get((word * 64 / CHUNK_BITS) as usize);
            let word = chunk
                .and_then(OnceLock::get)
                .and_then(|chunk| chunk.get(word_in_chunk(word * 64)));
            let word = word.map_or(0, |word| word.load(Ordering::Relaxed));
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let skipped = ((at % 64 / 8) as usize).min(bytes.len());
        bytes.drain(..skipped);
        bytes.truncate(len.div_ceil(8) as usize);
    }
}

fn new_chunk() -> Box<Chunk> {
    Box::new(std::array::from_fn(|_| AtomicU64::new(0)))
}

fn word_in_chunk(bit: u64) -> usize {
    (bit % CHUNK_BITS / 64) as usize
}

/// Numbers in runs, which are sorted and apart from each other. Immutable.
#[derive(Debug, Default)]
pub(crate) struct Runs(Vec<(u64, u64)>);

impl Runs {
    /// The numbers of runs from a first to before an end, in any order.
    pub(crate) fn new(runs: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut sorted: Vec<(u64, u64)> = runs.collect();
        sorted.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, end) in sorted {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        merged.shrink_to_fit();
        Runs(merged)
    }

    /// The runs that have a number from `at` on and before `end`, cut to those.
    fn between(&self, at: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.0.partition_point(|run| run.1 <= at);
        let runs = self.0.get(first..).unwrap_or(&[]).iter();
        runs.take_while(move |run| run.0 < end)
            .map(move |run| (run.0.max(at), run.1.min(end)))
    }

    /// Whether a number is among them.
    pub(crate) fn contain(&self, at: u64) -> bool {
        self.between(at, at.saturating_add(1)).next().is_some()
    }

    /// Sets the bits of those from `at` on, the first bit lowest.
    pub(crate) fn set_bits(&self, at: u64, bytes: &mut [u8]) {
        let end = at.saturating_add((bytes.len() as u64).saturating_mul(8));
        for (start, end) in self.between(at, end) {
            for bit in start - at..end - at {
                if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                    *byte |= 1 << (bit % 8);
                }
            }
        }
    }
}

/// Bits set in `bytes`.
pub(crate) fn count_ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let n: u64 = words
        .iter()
        .map(|w| u64::from(u64::from_le_bytes(*w).count_ones()))
        .sum();
    n + rest.iter().map(|b| u64::from(b.count_ones())).sum::<u64>()
}

/// True if the bit is set; false past the end.
#[inline]
pub(crate) fn bit(bytes: &[u8], at: usize) -> bool {
    bytes.get(at / 8).is_some_and(|b| b >> (at % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(map: &ClaimBitmap, at: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![7];
        map.copy_to(at, len, &mut bytes);
        bytes
    }

    #[test]
    fn claims_tell_what_was_taken() {
        let map = ClaimBitmap::new(200);
        let mut taken = Vec::new();
        map.claim(60, 10, |b| taken.push(b));
        assert!(taken.is_empty());
        map.claim(0, 300, |b| taken.push(b));
        assert!(taken.iter().copied().eq(60..70));
        assert_eq!(count_ones(&bytes(&map, 0, 300)), 200);
        let one = ClaimBitmap::new(64);
        one.claim(0, 64, |_| panic!("was free"));
        let all = bytes(&one, 0, 64);
        assert!(bit(&all, 63) && !bit(&all, 64));
    }

    #[test]
    fn bits_of_another_bitmap_are_claimed() {
        let words = [!0, 0, 0x8000_0000_0000_f0f1, 0xff];
        let of_words = words.map(u64::to_le_bytes).concat();
        let map = ClaimBitmap::new(1000);
        map.claim_bits(40, 196, &of_words);
        let mut expected = of_words.clone();
        // The last four are past the end.
        expected[24] = 0x0f;
        assert_eq!(bytes(&map, 40, 256), expected);
        assert_eq!(
            (map.count(40, 196), map.count(40, 195), map.count(400, 90)),
            (78, 77, 0)
        );
    }

    #[test]
    fn chunks_are_made_where_bits_are_set() {
        let map = ClaimBitmap::new(1 << 40);
        assert!(map.is_untouched(0, 1 << 40));
        let edge = 5 * CHUNK_BITS;
        map.claim(edge - 3, 7, |_| panic!("was free"));
        let made = map.chunks.iter().filter(|chunk| chunk.get().is_some());
        assert_eq!(made.count(), 2);
        assert!(!map.is_untouched(edge, 1) && !map.is_untouched(edge - 1, 1));
        assert!(map.is_untouched(0, 4 * CHUNK_BITS));
        assert!(map.is_untouched(edge + CHUNK_BITS, u64::MAX));
        // From any byte, over the edge and beyond what was made.
        assert_eq!(bytes(&map, edge - 8, 24), [0xe0, 0x0f, 0]);
        assert_eq!(bytes(&map, edge + 8, 16), [0, 0]);
        assert_eq!(bytes(&map, 3 * CHUNK_BITS + 8, 64), [0; 8]);
        assert!(bytes(&map, 1 << 40, 64).is_empty());
    }

    #[test]
    fn runs_are_merged() {
        let runs = [
            (30, 31),
            (3, 5),
            (10, 20),
            (5, 6),
            (12, 14),
            (20, 22),
            (30, 40),
        ];
        let runs = Runs::new(runs.into_iter());
        assert_eq!(runs.0, [(3, 6), (10, 22), (30, 40)]);
        let inside = |n: &u64| runs.contain(*n);
        assert!(
            (0..50)
                .filter(inside)
                .eq((3..6).chain(10..22).chain(30..40))
        );
        let mut bytes = [0; 3];
        runs.set_bits(8, &mut bytes);
        assert_eq!(bytes, [0xfc, 0x3f, 0xc0]);
        assert!(!Runs::default().contain(0));
    }
}
