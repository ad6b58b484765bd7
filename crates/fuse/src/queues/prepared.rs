//! Sizes of queues that are about to be made: told with an ioctl, as open(2) has no room for them.
//!
//! # Locking
//! One lock, of class `open_files`.

use std::collections::VecDeque;
use uext4_sync::{Mutex, class};

/// The most of a user that are remembered; who was killed between the two calls leaves one behind.
const OF_A_USER_MAX: usize = 256;

/// Who makes a queue under which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    /// The thread.
    pub tid: u32,
    /// Its user.
    pub uid: u32,
    /// The queue's name, without its slash.
    pub name: Box<[u8]>,
}

/// The most messages, and the longest.
pub type Size = (i64, i64);

/// Sizes of queues that are about to be made.
pub struct Prepared {
    sizes: Mutex<VecDeque<(Maker, Size)>>,
}

impl Default for Prepared {
    fn default() -> Prepared {
        Prepared {
            sizes: Mutex::new(&class::OPEN_FILES, VecDeque::new()),
        }
    }
}

impl Prepared {
    /// Remembers a size; what the same thread said before of that name no longer holds.
    pub fn remember(&self, maker: Maker, size: Size) {
        let mut sizes = self.sizes.lock();
        sizes.retain(|(known, _)| *known != maker);
        let is_theirs = |(known, _): &(Maker, Size)| known.uid == maker.uid;
        if sizes.iter().filter(|size| is_theirs(size)).count() >= OF_A_USER_MAX {
            let oldest = sizes.iter().position(is_theirs);
            drop(oldest.and_then(|at| sizes.remove(at)));
        }
        sizes.push_back((maker, size));
    }

    /// The size of the queue that is made now, if it was told.
    pub fn take(&self, maker: &Maker) -> Option<Size> {
        let mut sizes = self.sizes.lock();
        let at = sizes.iter().position(|(known, _)| known == maker)?;
        sizes.remove(at).map(|(_, size)| size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_for_one_queue_of_one_thread() {
        let maker = |tid, name: &[u8]| Maker {
            tid,
            uid: 0,
            name: name.into(),
        };
        let prepared = Prepared::default();
        prepared.remember(maker(1, b"a"), (1, 2));
        prepared.remember(maker(1, b"a"), (3, 4));
        assert_eq!(prepared.take(&maker(2, b"a")), None);
        assert_eq!(prepared.take(&maker(1, b"b")), None);
        assert_eq!(prepared.take(&maker(1, b"a")), Some((3, 4)));
        assert_eq!(prepared.take(&maker(1, b"a")), None);
        let other = Maker {
            uid: 7,
            ..maker(1, b"a")
        };
        prepared.remember(other.clone(), (5, 6));
        for tid in 0..2000 {
            prepared.remember(maker(tid, b"a"), (1, 1));
        }
        assert_eq!(prepared.sizes.lock().len(), OF_A_USER_MAX + 1);
        assert_eq!(prepared.take(&other), Some((5, 6)));
        assert_eq!(prepared.take(&maker(1999, b"a")), Some((1, 1)));
    }
}
