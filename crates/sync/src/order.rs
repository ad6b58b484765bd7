//! The debug check of the lock order.
//!
//! Each thread keeps the classes it holds. Release builds keep nothing.

use crate::class::LockClass;

#[cfg(all(debug_assertions, not(shuttle)))]
mod check {
    use super::LockClass;
    use crate::class::SameRank;
    use std::cell::RefCell;

    struct Held {
        class: &'static LockClass,
        key: u64,
        lock: usize,
    }

    thread_local! {
        static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
    }

    pub fn before_wait(class: &'static LockClass, key: u64) {
        let _ = HELD.try_with(|held| {
            for h in held.borrow().iter() {
                let fine = h.class.rank < class.rank
                    || (h.class.rank == class.rank
                        && match class.same_rank {
                            SameRank::Refused => false,
                            SameRank::Ascending => key > h.key,
                            SameRank::ParentFirst => true,
                        });
                if !fine {
                    panic!(
                        "lock order: taking {} (rank {}) while holding {} (rank {})",
                        class.name, class.rank as u8, h.class.name, h.class.rank as u8
                    );
                }
            }
        });
    }

    pub fn acquired(class: &'static LockClass, key: u64, lock: usize) {
        let _ = HELD.try_with(|held| held.borrow_mut().push(Held { class, key, lock }));
    }

    pub fn released(class: &'static LockClass, lock: usize) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held
                .iter()
                .rposition(|h| h.lock == lock && std::ptr::eq(h.class, class))
            {
                held.remove(at);
            }
        });
    }

    pub fn assert_may_block(what: &'static str) {
        let _ = HELD.try_with(|held| {
            for h in held.borrow().iter() {
                assert!(
                    h.class.rank.may_block(),
                    "{what} while holding {} (rank {})",
                    h.class.name,
                    h.class.rank as u8
                );
            }
        });
    }
}

#[cfg(not(all(debug_assertions, not(shuttle))))]
mod check {
    use super::LockClass;
    #[inline(always)]
    pub fn before_wait(_class: &'static LockClass, _key: u64) {}
    #[inline(always)]
    pub fn acquired(_class: &'static LockClass, _key: u64, _lock: usize) {}
    #[inline(always)]
    pub fn released(_class: &'static LockClass, _lock: usize) {}
    #[inline(always)]
    pub fn assert_may_block(_what: &'static str) {}
}

pub(crate) use check::{acquired, before_wait, released};

/// Panics in debug builds when the calling thread holds a lock of rank `group` or below.
///
/// Every device I/O and every wait calls it, which is how the rule "no I/O under a spin-like lock"
/// is kept.
#[inline(always)]
pub fn assert_may_block(what: &'static str) {
    check::assert_may_block(what);
}

/// Stands for something that is not a lock but has a place in the lock order: a journal handle.
///
/// Dropped on the thread that made it.
#[derive(Debug)]
pub struct Held {
    class: &'static LockClass,
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Held {
    /// Checks the order, then counts as held until dropped. Call [`Held::check`] first where the
    /// thread may wait.
    #[inline(always)]
    pub fn new(class: &'static LockClass) -> Held {
        acquired(class, 0, 0);
        Held {
            class,
            _not_send: std::marker::PhantomData,
        }
    }

    /// Panics in debug builds when waiting for `class` here would break the order.
    #[inline(always)]
    pub fn check(class: &'static LockClass) {
        before_wait(class, 0);
    }
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        released(self.class, 0);
    }
}

#[cfg(all(test, debug_assertions, not(shuttle)))]
mod tests {
    use crate::{Mutex, class};

    #[test]
    fn ascending_order_passes() {
        let outer = Mutex::new(&class::TEST_OUTER, 1);
        let leaf = Mutex::new(&class::TEST_LEAF, 2);
        let a = outer.lock();
        let b = leaf.lock();
        assert_eq!(*a + *b, 3);
    }

    #[test]
    #[should_panic(expected = "taking test_outer (rank 4) while holding test_leaf (rank 17)")]
    fn descending_order_panics() {
        let outer = Mutex::new(&class::TEST_OUTER, 1);
        let leaf = Mutex::new(&class::TEST_LEAF, 2);
        let _b = leaf.lock();
        let _a = outer.lock();
    }

    #[test]
    fn out_of_order_release_is_forgotten() {
        let outer = Mutex::new(&class::TEST_OUTER, 1);
        let leaf = Mutex::new(&class::TEST_LEAF, 2);
        let a = outer.lock();
        let b = leaf.lock();
        drop(a);
        drop(b);
        let _a = outer.lock();
    }

    #[test]
    #[should_panic(expected = "device read while holding test_leaf")]
    fn io_under_a_leaf_panics() {
        let leaf = Mutex::new(&class::TEST_LEAF, 2);
        let _b = leaf.lock();
        super::assert_may_block("device read");
    }

    #[test]
    fn try_lock_is_free_of_the_order() {
        let outer = Mutex::new(&class::TEST_OUTER, 1);
        let leaf = Mutex::new(&class::TEST_LEAF, 2);
        let _b = leaf.lock();
        assert!(outer.try_lock().is_some());
    }
}
