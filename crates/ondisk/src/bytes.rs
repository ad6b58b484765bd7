//! Bounds-checked integers in byte slices: little-endian for ext4, big-endian for jbd2.

macro_rules! accessors {
    ($get:ident, $put:ident, $t:ty, $from:ident, $to:ident) => {
        /// The integer at byte `at`, or `None` beyond the end.
        #[inline]
        pub(crate) fn $get(b: &[u8], at: usize) -> Option<$t> {
            b.get(at..)?.first_chunk().map(|c| <$t>::$from(*c))
        }

        /// Stores the integer at byte `at`; `None` beyond the end.
        #[inline]
        pub(crate) fn $put(b: &mut [u8], at: usize, v: $t) -> Option<()> {
            *b.get_mut(at..)?.first_chunk_mut()? = v.$to();
            Some(())
        }
    };
}

accessors!(le16, put_le16, u16, from_le_bytes, to_le_bytes);
accessors!(le32, put_le32, u32, from_le_bytes, to_le_bytes);
accessors!(be16, put_be16, u16, from_be_bytes, to_be_bytes);
accessors!(be32, put_be32, u32, from_be_bytes, to_be_bytes);
accessors!(be64, put_be64, u64, from_be_bytes, to_be_bytes);

/// Rounds up to a multiple of four, the unit of names and values on disk.
#[inline]
pub(crate) const fn round4(n: usize) -> usize {
    n.saturating_add(3) & !3
}
