//! Memory that direct I/O accepts.

/// What direct I/O of any host asks of memory.
const ALIGNMENT: usize = 4096;

/// Memory for direct I/O: aligned to 4 KiB.
#[derive(Debug)]
pub struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> AlignedBuf {
        let bytes = vec![0; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        AlignedBuf { bytes, start, len }
    }

    /// `len` random bytes.
    pub fn random(len: usize) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(len);
        fastrand::fill(buf.bytes_mut());
        buf
    }

    /// To write from.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }

    /// To read into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned() {
        for len in [512, 4096, 100_000] {
            let mut buf = AlignedBuf::random(len);
            assert_eq!(buf.bytes().len(), len);
            assert_eq!(buf.bytes().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(buf.bytes_mut().as_ptr().align_offset(ALIGNMENT), 0);
        }
    }
}
