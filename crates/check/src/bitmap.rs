//! A bitmap that many threads claim bits in.

use uext4_sync::atomic::{AtomicU64, Ordering};

/// Bits, all clear at first. Claiming is atomic for each word.
#[derive(Debug)]
pub(crate) struct ClaimBitmap {
    words: Vec<AtomicU64>,
    len: u64,
}

impl ClaimBitmap {
    /// A bitmap of `len` bits.
    pub(crate) fn new(len: u64) -> Self {
        let words = usize::try_from(len.div_ceil(64)).unwrap_or(0);
        let mut v = Vec::new();
        v.resize_with(words, || AtomicU64::new(0));
        ClaimBitmap { words: v, len }
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
            if let Some(word) = self.words.get((at / 64) as usize) {
                let mut old = word.fetch_or(mask, Ordering::Relaxed) & mask;
                while old != 0 {
                    taken(at - bit + u64::from(old.trailing_zeros()));
                    old &= old - 1;
                }
            }
            at += n;
        }
    }

    /// All bits as bytes, the first bit lowest.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.words.len().saturating_mul(8));
        for w in &self.words {
            out.extend_from_slice(&w.load(Ordering::Relaxed).to_le_bytes());
        }
        out
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

    #[test]
    fn claims_tell_what_was_taken() {
        let map = ClaimBitmap::new(200);
        let mut taken = Vec::new();
        map.claim(60, 10, |b| taken.push(b));
        assert!(taken.is_empty());
        map.claim(0, 300, |b| taken.push(b));
        assert!(taken.iter().copied().eq(60..70));
        assert_eq!(count_ones(&map.to_bytes()), 200);
        let one = ClaimBitmap::new(64);
        one.claim(0, 64, |_| panic!("was free"));
        assert!(bit(&one.to_bytes(), 63) && !bit(&one.to_bytes(), 64));
    }
}
