//! What is known of the attributes of an inode that restrict access, so that an inode without them costs one
//! load of an atomic.
//!
//! # Data model
//! Of each [`Subject`] it is unknown, known that there is none, or known that there is one; ACLs are kept decoded.
//! A counter distinguishes what was found before a change and after it.
//!
//! # Locking
//! A change of attributes is recorded under the inode's `xattr` lock ([`AclCache::forget`]). Finding out takes
//! none: what is found is kept only if nothing was forgotten meanwhile. The decoded ACLs are a leaf's.

use crate::prelude::*;

/// An attribute that restricts access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The access ACL.
    Access,
    /// A directory's default ACL.
    Default,
    /// The capabilities of a program, which go when it is written to.
    Capability,
}

impl Subject {
    /// Its name.
    pub fn name(self) -> (XattrIndex, &'static [u8]) {
        match self {
            Subject::Access => (XattrIndex::POSIX_ACL_ACCESS, b""),
            Subject::Default => (XattrIndex::POSIX_ACL_DEFAULT, b""),
            Subject::Capability => (XattrIndex::SECURITY, b"capability"),
        }
    }

    /// The bits that say that there is none, and that there is one.
    const fn bits(self) -> (u32, u32) {
        let shift = 2 * self as u32;
        (1 << shift, 2 << shift)
    }
}

/// The bits of all subjects; the counter is above.
const KNOWN: u32 = 0x3f;
const ONE_CHANGE: u32 = 0x40;

type Acl = Arc<[AclEntry]>;

/// What is known of an inode; see the module.
#[derive(Debug)]
pub(crate) struct AclCache {
    known: AtomicU32,
    /// The access and the default ACL, where there is any.
    acls: OnceLock<Box<Mutex<[Option<Acl>; 2]>>>,
}

impl AclCache {
    /// Nothing is known.
    pub fn new() -> AclCache {
        AclCache {
            known: AtomicU32::new(0),
            acls: OnceLock::new(),
        }
    }

    /// Says that a new inode has nothing.
    pub fn set_none(&self) {
        let none = |s: Subject| s.bits().0;
        let all = none(Subject::Access) | none(Subject::Default) | none(Subject::Capability);
        self.known.store(all, Ordering::Release);
    }

    /// Says that attributes changed.
    pub fn forget(&self) {
        let forgotten = |known: u32| Some((known & !KNOWN).wrapping_add(ONE_CHANGE));
        let set = self
            .known
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, forgotten);
        debug_assert!(set.is_ok(), "the change is never refused");
    }

    /// Whether it is known that there is none.
    #[inline]
    pub fn has_none(&self, subject: Subject) -> bool {
        self.known.load(Ordering::Acquire) & subject.bits().0 != 0
    }

    /// The decoded ACL, if one is known.
    pub fn get(&self, subject: Subject) -> Option<Acl> {
        let slot = slot_of(subject)?;
        let acls = self.acls.get()?.lock();
        let is_known = self.known.load(Ordering::Acquire) & subject.bits().1 != 0;
        acls.get(slot).filter(|_| is_known)?.clone()
    }

    /// A snapshot that detects later changes.
    pub fn change_count(&self) -> u32 {
        self.known.load(Ordering::Acquire) & !KNOWN
    }

    /// Keeps what was found, unless anything changed since `change_count`.
    pub fn keep(&self, subject: Subject, found: Option<&Acl>, change_count: u32) {
        let (none, some) = subject.bits();
        let set = |bit: u32| {
            let unchanged = |known: u32| (known & !KNOWN == change_count).then_some(known | bit);
            // Refused where something changed: then it is found out again.
            let _ = self
                .known
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, unchanged);
        };
        let Some(acl) = found else {
            set(none);
            return;
        };
        let Some(slot) = slot_of(subject) else {
            return;
        };
        let acls = self
            .acls
            .get_or_init(|| Box::new(Mutex::new(&class::INODE_STATE, [None, None])));
        let mut acls = acls.lock();
        if self.change_count() == change_count
            && let Some(kept) = acls.get_mut(slot)
        {
            *kept = Some(Arc::clone(acl));
            set(some);
        }
    }
}

fn slot_of(subject: Subject) -> Option<usize> {
    match subject {
        Subject::Access => Some(0),
        Subject::Default => Some(1),
        Subject::Capability => None,
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_before_a_change_is_not_kept() {
        let cache = AclCache::new();
        assert!(!cache.has_none(Subject::Access));
        let acl: Acl = Arc::from(Vec::new());
        let before = cache.change_count();
        cache.forget();
        cache.keep(Subject::Access, Some(&acl), before);
        cache.keep(Subject::Default, None, before);
        assert_eq!(cache.get(Subject::Access), None);
        assert!(!cache.has_none(Subject::Default));
        let now = cache.change_count();
        cache.keep(Subject::Access, Some(&acl), now);
        cache.keep(Subject::Default, None, now);
        assert_eq!(cache.get(Subject::Access), Some(acl));
        assert!(cache.has_none(Subject::Default));
        cache.forget();
        assert_eq!(cache.get(Subject::Access), None);
        cache.set_none();
        assert!(cache.has_none(Subject::Capability));
    }
}
