//! The blocks that a directory remembers, and what guards the tree of hashes in them.
//!
//! # Invariants
//! - A directory's block never moves and never goes before the directory does, so a slot that is filled
//!   stays as it is.
//! - The tree changes with `tree` held (class `dir_tree`), and `changes` is odd meanwhile.
//!
//! # Locking
//! None for blocks: a slot is filled once.

use crate::prelude::*;
use uext4_sync::MutexGuard;

/// Slots in the first segment; each one that follows has twice as many.
const FIRST: u32 = 16;
/// Enough for as many blocks as numbers exist.
const SEGMENTS: usize = 29;

type Segment = Box<[OnceLock<Arc<Buffer>>]>;

/// The tree of hashes of a directory. It is in buffers, so a guard of the lock gives no data but proves access.
#[derive(Debug)]
pub struct DirTree(());

/// The buffers of a directory's blocks, by their number in it.
#[derive(Debug)]
pub struct DirBlocks {
    segments: [OnceLock<Segment>; SEGMENTS],
    tree: Mutex<DirTree>,
    /// How often a change of the tree began or ended.
    changes: AtomicU64,
    /// When two changes of entries last met, in milliseconds since 1970.
    met_ms: AtomicU64,
}

impl Default for DirBlocks {
    fn default() -> DirBlocks {
        DirBlocks {
            segments: Default::default(),
            tree: Mutex::new(&class::DIR_TREE, DirTree(())),
            changes: AtomicU64::new(0),
            met_ms: AtomicU64::new(0),
        }
    }
}

/// For how long changes share a directory in which two have met.
const SHARED_MS: u64 = 100;

fn now_ms() -> u64 {
    let now = uext4_vfs::Timestamp::coarse();
    now.sec.cast_unsigned() * 1000 + u64::from(now.nsec / 1_000_000)
}

/// Held while the tree of hashes changes.
#[derive(Debug)]
pub struct TreeChange<'a> {
    changes: &'a AtomicU64,
    _locked: MutexGuard<'a, DirTree>,
}

impl Drop for TreeChange<'_> {
    fn drop(&mut self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

/// The segment of a block, and the slot in it.
fn place(lblk: Lblk) -> (usize, usize) {
    let n = u64::from(lblk.0) / u64::from(FIRST) + 1;
    let segment = n.ilog2();
    let before = u64::from(FIRST) * ((1 << segment) - 1);
    (segment as usize, (u64::from(lblk.0) - before) as usize)
}

impl DirBlocks {
    /// Whether two changes of entries have met a short while ago. Always for schedule tests, which explore what is shared.
    #[inline]
    pub fn have_changes_met(&self) -> bool {
        let met = self.met_ms.load(Ordering::Relaxed);
        cfg!(shuttle) || (met != 0 && now_ms().wrapping_sub(met) < SHARED_MS)
    }

    /// Says that two changes of entries have met.
    pub fn changes_met(&self) {
        let now = now_ms();
        if self.met_ms.load(Ordering::Relaxed) != now {
            self.met_ms.store(now, Ordering::Relaxed);
        }
    }

    /// Which tree there is; none while it changes. What was read between two calls that give the same is of one tree.
    #[inline]
    pub fn tree_edition(&self) -> Option<u64> {
        let changes = self.changes.load(Ordering::SeqCst);
        changes.is_multiple_of(2).then_some(changes)
    }

    /// Keeps the tree as it is.
    ///
    /// # Locks
    /// Takes `dir_tree`.
    pub fn lock_tree(&self) -> MutexGuard<'_, DirTree> {
        self.tree.lock()
    }

    /// Lets the caller change the tree.
    ///
    /// # Locks
    /// Takes `dir_tree`.
    pub fn change_tree(&self) -> TreeChange<'_> {
        let locked = self.tree.lock();
        self.changes.fetch_add(1, Ordering::SeqCst);
        TreeChange {
            changes: &self.changes,
            _locked: locked,
        }
    }

    /// The buffer of block `lblk`, if it is remembered.
    #[inline]
    pub fn get(&self, lblk: Lblk) -> Option<&Arc<Buffer>> {
        let (segment, slot) = place(lblk);
        self.segments.get(segment)?.get()?.get(slot)?.get()
    }

    /// Remembers a block's buffer, which is the one that the cache has while a reference exists.
    pub fn put(&self, lblk: Lblk, buffer: &Arc<Buffer>) {
        let (segment, slot) = place(lblk);
        let Some(of) = self.segments.get(segment) else {
            return;
        };
        let slots = of.get_or_init(|| {
            (0..(FIRST as usize) << segment)
                .map(|_| OnceLock::new())
                .collect()
        });
        if let Some(slot) = slots.get(slot) {
            let kept = slot.get_or_init(|| Arc::clone(buffer));
            debug_assert!(Arc::ptr_eq(kept, buffer), "two buffers of one block");
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn places_are_dense() {
        let mut want = (0, 0);
        for lblk in 0..10_000 {
            assert_eq!(place(Lblk(lblk)), want, "block {lblk}");
            want.1 += 1;
            if want.1 == (FIRST as usize) << want.0 {
                want = (want.0 + 1, 0);
            }
        }
        assert!(place(Lblk(u32::MAX)).0 < SEGMENTS);
    }
}
