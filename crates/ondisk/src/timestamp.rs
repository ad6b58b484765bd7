//! Inode times: 32 signed bits of seconds, and an extra word with two more bits and nanoseconds.
//!
//! Source: Linux documentation, filesystems/ext4, "Inode Timestamps".

/// A point in time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub sec: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nsec: u32,
}

impl Timestamp {
    /// The earliest time an inode can hold.
    pub const MIN_SEC: i64 = i32::MIN as i64;
    /// The latest time an inode of 256 bytes can hold.
    pub const MAX_SEC: i64 = (3 << 32) + i32::MAX as i64;
    /// The latest time an inode of 128 bytes can hold.
    pub const MAX_SEC_SHORT: i64 = i32::MAX as i64;

    /// Makes a time.
    pub const fn new(sec: i64, nsec: u32) -> Self {
        Timestamp { sec, nsec }
    }

    /// Decodes the two words; `extra` is `None` in inodes without room for it.
    #[inline]
    pub fn decode(base: u32, extra: Option<u32>) -> Self {
        let sec = i64::from(base as i32);
        match extra {
            None => Timestamp { sec, nsec: 0 },
            Some(e) => Timestamp {
                sec: sec + (i64::from(e & 3) << 32),
                // 30 bits can hold more than a second has; the kernel hands that on, we do not.
                nsec: (e >> 2).min(999_999_999),
            },
        }
    }

    /// The two words; a time out of range becomes the nearest one in range.
    #[inline]
    pub fn encode(self) -> (u32, u32) {
        let sec = self.sec.clamp(Self::MIN_SEC, Self::MAX_SEC);
        let epoch = ((sec - i64::from(sec as i32)) >> 32) as u32 & 3;
        (sec as u32, epoch | self.nsec.min(999_999_999) << 2)
    }

    /// The base word where there is no extra one.
    #[inline]
    pub fn encode_short(self) -> u32 {
        self.sec.clamp(Self::MIN_SEC, Self::MAX_SEC_SHORT) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_examples() {
        // From the table of the kernel documentation: extra bits, base, seconds.
        for (epoch, base, sec) in [
            (0, 0x8000_0000u32, -0x8000_0000i64),
            (0, 0xffff_ffff, -1),
            (0, 0x7fff_ffff, 0x7fff_ffff),
            (1, 0x8000_0000, 0x8000_0000),
            (1, 0, 0x1_0000_0000),
            (2, 0x8000_0000, 0x1_8000_0000),
            (3, 0x7fff_ffff, 0x3_7fff_ffff),
        ] {
            let t = Timestamp::decode(base, Some(epoch | 123 << 2));
            assert_eq!(t, Timestamp::new(sec, 123));
            assert_eq!(t.encode(), (base, epoch | 123 << 2));
        }
    }

    #[test]
    fn out_of_range_is_clamped() {
        let t = Timestamp::new(i64::MAX, u32::MAX).encode();
        assert_eq!(
            Timestamp::decode(t.0, Some(t.1)),
            Timestamp::new(Timestamp::MAX_SEC, 999_999_999)
        );
        assert_eq!(Timestamp::new(i64::MAX, 0).encode_short(), 0x7fff_ffff);
    }
}
