//! Bounds-checked little-endian integers in byte slices.

/// The 16-bit integer at byte `at`, or `None` beyond the end.
#[inline]
pub(crate) fn le16(b: &[u8], at: usize) -> Option<u16> {
    b.get(at..)?.first_chunk().map(|c| u16::from_le_bytes(*c))
}

/// The 32-bit integer at byte `at`, or `None` beyond the end.
#[inline]
pub(crate) fn le32(b: &[u8], at: usize) -> Option<u32> {
    b.get(at..)?.first_chunk().map(|c| u32::from_le_bytes(*c))
}

/// Stores a 16-bit integer at byte `at`; nothing beyond the end.
pub(crate) fn put16(b: &mut [u8], at: usize, v: u16) {
    if let Some(to) = b.get_mut(at..).and_then(|b| b.first_chunk_mut()) {
        *to = v.to_le_bytes();
    }
}

/// Stores a 32-bit integer at byte `at`; nothing beyond the end.
pub(crate) fn put32(b: &mut [u8], at: usize, v: u32) {
    if let Some(to) = b.get_mut(at..).and_then(|b| b.first_chunk_mut()) {
        *to = v.to_le_bytes();
    }
}
