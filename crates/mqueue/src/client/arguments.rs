//! What a call is refused for before its descriptor is checked, as Linux does it.

use crate::limits::PRIORITIES;
use rustix::io::Errno;

/// Nanoseconds of a second.
const SECOND_NS: i64 = 1_000_000_000;

/// When a call ends that waits, by `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    sec: i64,
    nsec: i64,
}

impl Deadline {
    /// Seconds since 1970, and nanoseconds.
    ///
    /// # Errors
    /// `EINVAL`: before 1970, or the nanoseconds exceed a second.
    pub fn new(sec: i64, nsec: i64) -> Result<Deadline, Errno> {
        if sec < 0 || !(0..SECOND_NS).contains(&nsec) {
            return Err(Errno::INVAL);
        }
        Ok(Deadline { sec, nsec })
    }

    /// Its seconds and nanoseconds.
    pub(crate) const fn parts(self) -> (i64, i64) {
        (self.sec, self.nsec)
    }
}

/// A message's priority; greater ones are received first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(u32);

impl Priority {
    /// A priority below 32768 (`MQ_PRIO_MAX`).
    ///
    /// # Errors
    /// `EINVAL`: greater.
    pub fn new(priority: u32) -> Result<Priority, Errno> {
        match priority < PRIORITIES {
            true => Ok(Priority(priority)),
            false => Err(Errno::INVAL),
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_valid() {
        assert_eq!(Deadline::new(0, 0).map(Deadline::parts), Ok((0, 0)));
        assert!(Deadline::new(i64::MAX, SECOND_NS - 1).is_ok());
        for (sec, nsec) in [(-1, 0), (0, -1), (0, SECOND_NS)] {
            assert_eq!(Deadline::new(sec, nsec), Err(Errno::INVAL));
        }
    }

    #[test]
    fn priorities_end() {
        assert_eq!(Priority::new(32_767).map(Priority::get), Ok(32_767));
        assert_eq!(Priority::new(32_768), Err(Errno::INVAL));
    }
}
