//! Sizes of queues that are about to be created. An ioctl sets them, because open(2) has no argument for them.
//!
//! # Locking
//! One lock, of class `open_files`.

use std::collections::VecDeque;
use uext4_sync::{Mutex, class};

/// The most entries of one user. A process that is killed between the two calls leaves an entry behind.
const PER_USER_MAX: usize = 256;

/// The thread that creates a queue, and the queue's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creator {
    /// The thread id.
    pub tid: u32,
    /// The thread's user.
    pub uid: u32,
    /// The queue's name, without its slash.
    pub name: Box<[u8]>,
}

/// The most messages, and the length of the longest.
pub type Size = (i64, i64);

/// Sizes of queues that are about to be created.
pub struct PendingSizes {
    sizes: Mutex<VecDeque<(Creator, Size)>>,
}

impl Default for PendingSizes {
    fn default() -> PendingSizes {
        PendingSizes {
            sizes: Mutex::new(&class::OPEN_FILES, VecDeque::new()),
        }
    }
}

impl PendingSizes {
    /// Remembers a size. Replaces the one that the same thread set before for that name.
    pub fn remember(&self, creator: Creator, size: Size) {
        let mut sizes = self.sizes.lock();
        sizes.retain(|(known, _)| *known != creator);
        let is_of_user = |(known, _): &(Creator, Size)| known.uid == creator.uid;
        if sizes.iter().filter(|size| is_of_user(size)).count() >= PER_USER_MAX {
            let oldest = sizes.iter().position(is_of_user);
            drop(oldest.and_then(|at| sizes.remove(at)));
        }
        sizes.push_back((creator, size));
    }

    /// Takes the size of a queue that is created now, if one was set.
    pub fn take(&self, creator: &Creator) -> Option<Size> {
        let mut sizes = self.sizes.lock();
        let at = sizes.iter().position(|(known, _)| known == creator)?;
        sizes.remove(at).map(|(_, size)| size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_for_one_queue_of_one_thread() {
        let creator = |tid, name: &[u8]| Creator {
            tid,
            uid: 0,
            name: name.into(),
        };
        let sizes = PendingSizes::default();
        sizes.remember(creator(1, b"a"), (1, 2));
        sizes.remember(creator(1, b"a"), (3, 4));
        assert_eq!(sizes.take(&creator(2, b"a")), None);
        assert_eq!(sizes.take(&creator(1, b"b")), None);
        assert_eq!(sizes.take(&creator(1, b"a")), Some((3, 4)));
        assert_eq!(sizes.take(&creator(1, b"a")), None);
        let other = Creator {
            uid: 7,
            ..creator(1, b"a")
        };
        sizes.remember(other.clone(), (5, 6));
        for tid in 0..2000 {
            sizes.remember(creator(tid, b"a"), (1, 1));
        }
        assert_eq!(sizes.sizes.lock().len(), PER_USER_MAX + 1);
        assert_eq!(sizes.take(&other), Some((5, 6)));
        assert_eq!(sizes.take(&creator(1999, b"a")), Some((1, 1)));
    }
}
