//! One metadata block, and what the journal knows of it.
//!
//! # Invariants
//! - [`Buffer::tid`] is the newest transaction that may change the block; it only grows, and only
//!   under the content's lock, so a reader that finds its own transaction there needs no lock.
//! - `Journaled::pending` is set from the attachment to a transaction until commit has its copy. A
//!   buffer with `pending` set must not be written in place.

use crate::buffer::dirty_parts::DirtyParts;
use uext4_sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use uext4_sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, class};

/// The content is what the device has, or newer.
const UPTODATE: u8 = 1;
/// The owner has checked the content since it was read.
const VERIFIED: u8 = 2;

/// A cached metadata block. On cache lines of its own: every operation reads those of shared blocks. The first line has all that
/// a search of the block needs, up to where its bytes are.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Buffer {
    /// [`UPTODATE`] and [`VERIFIED`]; set under `content`, read without.
    state: AtomicU8,
    /// What the file system keeps here, for its freeze hook; immutable while attached.
    kind: AtomicU8,
    /// Used since the last sweep of the cache.
    pub(crate) referenced: AtomicU8,
    /// The checksum seed of the owner, for the freeze hook.
    seed: AtomicU32,
    /// Notes of a user about the content; lost on eviction.
    hint: AtomicU32,
    /// Counts what its owner says of changes to readers that have left the lock.
    edition: AtomicU32,
    /// The newest transaction that has write access; 0 for none. Changed under `content`.
    tid: AtomicU64,
    /// For the owner; the journal does not take it.
    owner: Mutex<OwnedChange>,
    content: RwLock<Content>,
    block: u64,
    /// Which parts changed since the last freeze, as the file system counts them.
    dirty: DirtyParts,
}

#[derive(Debug)]
#[repr(C)]
struct Content {
    data: Box<[u8]>,
    journaled: Journaled,
}

/// A change that the owner of a buffer makes as a whole; the guard of its lock gives no data.
#[derive(Debug)]
pub struct OwnedChange(());

/// What the journal keeps with a buffer, under its content's lock.
#[derive(Debug, Default)]
pub struct Journaled {
    /// The newest transaction that has the block and whose copy commit has not taken; 0 for none.
    pub pending: u64,
    /// The content as the transaction before `pending` left it, until commit takes it.
    pub frozen: Option<Box<[u8]>>,
    /// The committed transaction from whose list the block is to be written in place; 0 for none.
    pub checkpoint: u64,
    /// The transaction that freed the block; 0 for none.
    pub forgotten: u64,
}

/// A buffer's content, shared.
#[derive(Debug)]
pub struct BufferRead<'a> {
    guard: RwLockReadGuard<'a, Content>,
}

/// A buffer's content, alone.
#[derive(Debug)]
pub struct BufferWrite<'a> {
    guard: RwLockWriteGuard<'a, Content>,
}

impl Buffer {
    pub(crate) fn new(block: u64, size: usize) -> Buffer {
        Buffer {
            block,
            tid: AtomicU64::new(0),
            kind: AtomicU8::new(0),
            seed: AtomicU32::new(0),
            dirty: DirtyParts::new(size),
            hint: AtomicU32::new(0),
            edition: AtomicU32::new(0),
            state: AtomicU8::new(0),
            referenced: AtomicU8::new(1),
            content: RwLock::new(
                &class::BUFFER,
                Content {
                    data: vec![0; size].into_boxed_slice(),
                    journaled: Journaled::default(),
                },
            ),
            owner: Mutex::new(&class::DIR_LEAF, OwnedChange(())),
        }
    }

    /// The block's number on the device.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// The newest transaction that has write access, 0 for none.
    #[inline(always)]
    pub fn tid(&self) -> u64 {
        self.tid.load(Ordering::Acquire)
    }

    /// What the file system keeps here; 0 until set.
    pub fn kind(&self) -> u8 {
        self.kind.load(Ordering::Relaxed)
    }

    /// Says what the file system keeps here and the checksum seed of its owner.
    pub fn set_kind(&self, kind: u8, seed: u32) {
        if self.kind.load(Ordering::Relaxed) != kind {
            self.kind.store(kind, Ordering::Relaxed);
        }
        if self.seed.load(Ordering::Relaxed) != seed {
            self.seed.store(seed, Ordering::Relaxed);
        }
    }

    /// Whether the file system keeps this here, on behalf of the owner with this seed.
    #[inline(always)]
    pub fn has_role(&self, kind: u8, seed: u32) -> bool {
        self.kind() == kind && self.seed() == seed
    }

    /// Says what the file system keeps here, unless it keeps something else here already: false then, which is
    /// damage, as a block that is freed loses its role. The guard proves the lock.
    pub fn take_role(&self, _locked: &mut BufferWrite<'_>, kind: u8, seed: u32) -> bool {
        if self.kind() == 0 {
            self.set_kind(kind, seed);
        }
        self.has_role(kind, seed)
    }

    /// The checksum seed of the owner.
    pub fn seed(&self) -> u32 {
        self.seed.load(Ordering::Relaxed)
    }

    /// Adds to the parts that changed since the last freeze. A part has at least 128 bytes.
    ///
    /// # Panics
    /// If the block has no such part.
    #[inline(always)]
    pub fn mark_dirty(&self, part: u32) {
        self.dirty.mark(part);
    }

    /// Whether a part changed since the parts were last taken.
    ///
    /// # Panics
    /// If the block has no such part.
    pub fn is_dirty(&self, part: u32) -> bool {
        self.dirty.is_marked(part)
    }

    /// Calls `f` for each part that changed since the last call.
    pub fn take_dirty(&self, f: impl FnMut(u32)) {
        self.dirty.take(f);
    }

    /// What [`Buffer::set_hint`] left, or 0.
    #[inline(always)]
    pub fn hint(&self) -> u32 {
        self.hint.load(Ordering::Relaxed)
    }

    /// Remembers something of the content that need not be true.
    #[inline(always)]
    pub fn set_hint(&self, hint: u32) {
        self.hint.store(hint, Ordering::Relaxed);
    }

    /// Adds bits to what [`Buffer::hint`] gives.
    #[inline(always)]
    pub fn add_hint(&self, bits: u32) {
        self.hint.fetch_or(bits, Ordering::Relaxed);
    }

    /// Takes bits from what [`Buffer::hint`] gives.
    #[inline(always)]
    pub fn clear_hint(&self, bits: u32) {
        self.hint.fetch_and(!bits, Ordering::Relaxed);
    }

    /// How often [`Buffer::new_edition`] was called. What was read with the content locked is still so where this is still the same.
    #[inline(always)]
    pub fn edition(&self) -> u32 {
        self.edition.load(Ordering::Acquire)
    }

    /// Says that what a reader found may no longer be so. The guard proves the lock.
    #[inline(always)]
    pub fn new_edition(&self, _locked: &mut BufferWrite<'_>) {
        self.edition.fetch_add(1, Ordering::Release);
    }

    /// Excludes other changes that its owner makes as a whole: of a leaf of a directory, from the search for a name to the change of
    /// its entry. Nothing in the journal takes this lock, so it may be held while a handle starts.
    ///
    /// # Locks
    /// Takes `dir_leaf`, of two buffers that of the lower number first; may sleep.
    #[inline]
    pub fn lock_owner(&self) -> MutexGuard<'_, OwnedChange> {
        self.owner.lock_keyed(self.block.saturating_add(1))
    }

    /// The content, shared.
    ///
    /// # Locks
    /// Takes the buffer's lock; may sleep.
    #[inline]
    pub fn read(&self) -> BufferRead<'_> {
        BufferRead {
            guard: self.content.read(),
        }
    }

    /// The content, alone. Change it only as `jbd2::Handle` does: after attaching the buffer.
    ///
    /// # Locks
    /// Takes the buffer's lock; may sleep.
    #[inline]
    pub fn write(&self) -> BufferWrite<'_> {
        BufferWrite {
            guard: self.content.write(),
        }
    }

    /// The content, shared, unless it is locked exclusively.
    pub fn try_read(&self) -> Option<BufferRead<'_>> {
        let guard = self.content.try_read()?;
        Some(BufferRead { guard })
    }

    /// The content, alone, if the lock is free.
    pub fn try_write(&self) -> Option<BufferWrite<'_>> {
        let guard = self.content.try_write()?;
        Some(BufferWrite { guard })
    }

    /// Whether the content was read or made.
    #[inline(always)]
    pub fn is_uptodate(&self) -> bool {
        self.state.load(Ordering::Acquire) & UPTODATE != 0
    }

    /// Whether the owner has checked the content.
    #[inline(always)]
    pub fn is_verified(&self) -> bool {
        self.state.load(Ordering::Acquire) & VERIFIED != 0
    }

    /// Says that the content was read or made. The guard proves the lock.
    pub fn set_uptodate(&self, _locked: &mut BufferWrite<'_>) {
        self.state.fetch_or(UPTODATE, Ordering::Release);
    }

    /// Says that the owner has checked the content. The guard proves the lock.
    pub fn set_verified(&self, _locked: &mut BufferWrite<'_>) {
        self.state.fetch_or(VERIFIED, Ordering::Release);
    }

    /// Says that the content means nothing any more. The guard proves the lock.
    pub fn clear_uptodate(&self, _locked: &mut BufferWrite<'_>) {
        self.state
            .fetch_and(!(UPTODATE | VERIFIED), Ordering::Release);
    }

    /// Records that transaction `tid` has write access. The guard proves the lock.
    pub fn set_tid(&self, _locked: &mut BufferWrite<'_>, tid: u64) {
        self.tid.store(tid, Ordering::Release);
    }
}

impl BufferRead<'_> {
    /// The block's bytes.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        &self.guard.data
    }

    /// What the journal keeps.
    pub fn journaled(&self) -> &Journaled {
        &self.guard.journaled
    }
}

impl BufferWrite<'_> {
    /// The block's bytes.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        &self.guard.data
    }

    /// The block's bytes, to change.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.guard.data
    }

    /// What the journal keeps.
    pub fn journaled(&mut self) -> &mut Journaled {
        &mut self.guard.journaled
    }

    /// The bytes and what the journal keeps, both to change.
    pub fn parts(&mut self) -> (&mut [u8], &mut Journaled) {
        let content = &mut *self.guard;
        (&mut content.data, &mut content.journaled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_bits_that_are_set_and_cleared() {
        let buffer = Buffer::new(3, 16);
        buffer.set_hint(0b0011);
        buffer.add_hint(0b0110);
        assert_eq!(buffer.hint(), 0b0111);
        buffer.clear_hint(0b0001);
        assert_eq!(buffer.hint(), 0b0110);
    }

    #[test]
    fn a_role_is_a_kind_and_an_owner() {
        let buffer = Buffer::new(3, 16);
        let mut content = buffer.write();
        assert!(buffer.take_role(&mut content, 1, 7));
        assert!(buffer.take_role(&mut content, 1, 7));
        for (kind, seed) in [(1, 8), (2, 7), (0, 0)] {
            assert!(
                !buffer.take_role(&mut content, kind, seed),
                "{kind}, {seed}"
            );
            assert!(!buffer.has_role(kind, seed));
        }
        assert_eq!((buffer.block(), buffer.kind(), buffer.seed()), (3, 1, 7));
        assert!(buffer.try_read().is_none() && buffer.try_write().is_none());
    }
}
