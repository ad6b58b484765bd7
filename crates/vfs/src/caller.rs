//! The caller of an operation: the credentials that permission checks use.

use bitflags::bitflags;
use std::sync::Arc;

bitflags! {
    /// The capabilities of capabilities(7) that file systems ask for; the bits are Linux's numbers.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Capabilities: u64 {
        /// Change the owner of any file.
        const CHOWN = 1 << 0;
        /// Read, write and search anything, and execute any file with an execute bit.
        const DAC_OVERRIDE = 1 << 1;
        /// Read anything and search any directory.
        const DAC_READ_SEARCH = 1 << 2;
        /// Do what only a file's owner may.
        const FOWNER = 1 << 3;
        /// Keep set-id bits on files that are changed or belong to another group.
        const FSETID = 1 << 4;
        /// Set the immutable and append-only flags.
        const LINUX_IMMUTABLE = 1 << 9;
        /// Use `trusted.` extended attributes.
        const SYS_ADMIN = 1 << 21;
        /// Use reserved space and override limits.
        const SYS_RESOURCE = 1 << 24;
        /// Create device files.
        const MKNOD = 1 << 27;
        /// Give capabilities to files.
        const SETFCAP = 1 << 31;
    }
}

/// The credentials of the caller of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The file system user.
    pub uid: u32,
    /// The file system group.
    pub gid: u32,
    /// The supplementary groups; `None` for none, which costs no allocation.
    pub groups: Option<Arc<[u32]>>,
    /// What is allowed beyond the mode bits.
    pub capabilities: Capabilities,
    /// The permission bits that files it makes do not get (umask(2)), but in a directory with a default access
    /// control list, which stands in for it. 0 for a front end that took them away itself.
    pub umask: u16,
}

impl Caller {
    /// The superuser: user 0, group 0, every capability.
    pub const fn root() -> Caller {
        Caller {
            uid: 0,
            gid: 0,
            groups: None,
            capabilities: Capabilities::all(),
            umask: 0,
        }
    }

    /// A user without supplementary groups; every capability for user 0, none for others.
    pub const fn user(uid: u32, gid: u32) -> Caller {
        Caller {
            uid,
            gid,
            groups: None,
            capabilities: if uid == 0 {
                Capabilities::all()
            } else {
                Capabilities::empty()
            },
            umask: 0,
        }
    }

    /// The same with supplementary groups.
    pub fn with_groups(mut self, groups: &[u32]) -> Caller {
        self.groups = (!groups.is_empty()).then(|| Arc::from(groups));
        self
    }

    /// The same with a umask.
    pub const fn with_umask(mut self, umask: u16) -> Caller {
        self.umask = umask & 0o777;
        self
    }

    /// Whether it is a member of `gid`.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.as_ref().is_some_and(|g| g.contains(&gid))
    }

    /// Whether it has every one of `capabilities`.
    #[inline(always)]
    pub const fn has(&self, capabilities: Capabilities) -> bool {
        self.capabilities.contains(capabilities)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn groups_and_capabilities() {
        let user = Caller::user(10, 20).with_groups(&[30, 40]);
        assert!(user.in_group(20) && user.in_group(40) && !user.in_group(10));
        assert!(!user.has(Capabilities::FOWNER));
        assert!(Caller::root().has(Capabilities::DAC_OVERRIDE | Capabilities::MKNOD));
        assert_eq!(Caller::user(0, 0), Caller::root());
        assert_eq!(
            Caller::user(1, 1).with_groups(&[]).groups,
            None,
            "no groups, no allocation"
        );
    }
}
