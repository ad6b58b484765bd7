//! A counted reference to an inode.

use crate::inode::Inode;
use crate::prelude::*;

/// What deletes an inode without links when its last reference is dropped.
pub trait InodeOwner: Send + Sync {
    /// Deletes `inode`, to which no reference is left.
    fn delete(&self, inode: &Arc<Inode>);
}

/// From an inode to its owner. One per CPU, as making and dropping an inode counts it.
pub(crate) type Owner = Arc<CachePadded<Weak<dyn InodeOwner>>>;

/// A counted reference to an inode: while one exists, the inode does, even without a name.
///
/// # Locks
/// Dropping the last reference to an inode without links deletes it, which starts handles: never drop
/// one inside a handle.
#[derive(Debug)]
pub struct InodeRef(Arc<Inode>);

impl InodeRef {
    /// A reference, unless the inode is being deleted.
    pub fn pin(inode: Arc<Inode>) -> Option<InodeRef> {
        if inode.pins.fetch_add(1, Ordering::SeqCst) & DEAD != 0 {
            inode.pins.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        Some(InodeRef(inode))
    }

    /// The inode.
    pub fn inode(&self) -> &Arc<Inode> {
        &self.0
    }

    /// Takes the inode for deletion if this is the only reference; no other is handed out then.
    pub fn claim_deletion(&self) -> bool {
        self.0
            .pins
            .compare_exchange(1, 1 | DEAD, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }
}

impl std::ops::Deref for InodeRef {
    type Target = Inode;
    fn deref(&self) -> &Inode {
        &self.0
    }
}

impl Clone for InodeRef {
    fn clone(&self) -> InodeRef {
        self.0.pins.fetch_add(1, Ordering::SeqCst);
        InodeRef(Arc::clone(&self.0))
    }
}

impl Drop for InodeRef {
    fn drop(&mut self) {
        let before = self.0.pins.fetch_sub(1, Ordering::SeqCst);
        if before == 1 {
            self.0.snapshot.forget();
            self.0.xattr_snapshot.forget();
            if self.0.is_unlinked() {
                self.last_dropped();
            }
        }
    }
}

impl InodeRef {
    #[cold]
    fn last_dropped(&mut self) {
        let claimed = self
            .0
            .pins
            .compare_exchange(0, DEAD, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok();
        if !claimed {
            return;
        }
        if let Some(owner) = self.0.owner() {
            owner.delete(&self.0);
        }
    }
}

/// Set in `pins` when the inode is being deleted.
pub const DEAD: u32 = 1 << 31;
