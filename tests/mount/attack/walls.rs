//! Kernels that lack a wall: filters of system calls that are installed before the sandbox is entered, and answer as
//! such a kernel would.

use crate::User;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::collections::BTreeMap;
use uext4_mountd::process::confined::Confined;
use uext4_mountd::sandbox::Enforced;

/// What of the sandbox there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walls {
    /// No sandbox at all.
    None,
    /// All that this kernel has.
    All,
    /// All but Landlock.
    NoLandlock,
    /// All but namespaces.
    NoNamespaces,
    /// Neither Landlock nor namespaces.
    CallsAlone,
    /// All, and rings can't be restricted.
    NoRestrictions,
}

impl Walls {
    /// Each of them.
    pub const ALL: [Walls; 6] = [
        Walls::None,
        Walls::All,
        Walls::NoLandlock,
        Walls::NoNamespaces,
        Walls::CallsAlone,
        Walls::NoRestrictions,
    ];

    fn has_landlock(self) -> bool {
        !matches!(self, Walls::NoLandlock | Walls::CallsAlone | Walls::None)
    }

    /// Whether the server has an empty root directory.
    pub fn has_own_root(self) -> bool {
        !matches!(self, Walls::NoNamespaces | Walls::CallsAlone | Walls::None)
    }

    /// Makes this kernel one that lacks the others.
    pub fn remove(self) {
        let mut answers = Vec::new();
        if !self.has_landlock() && self != Walls::None {
            answers.push((libc::SYS_landlock_create_ruleset, libc::ENOSYS));
        }
        if !self.has_own_root() && self != Walls::None {
            answers.push((libc::SYS_unshare, libc::EPERM));
        }
        if self == Walls::NoRestrictions {
            answers.push((libc::SYS_io_uring_register, libc::EINVAL));
        }
        for (call, errno) in answers {
            let filter = SeccompFilter::new(
                BTreeMap::from([(call, Vec::new())]),
                SeccompAction::Allow,
                SeccompAction::Errno(errno as u32),
                std::env::consts::ARCH.try_into().unwrap(),
            );
            let program = BpfProgram::try_from(filter.unwrap()).unwrap();
            seccompiler::apply_filter(&program).unwrap();
        }
    }

    /// What this kernel has is in force.
    pub fn check(self, user: User, confined: &Confined) {
        let found = confined.confinement.as_ref().unwrap();
        assert!(found.seccomp && !found.may_signal, "{found:?}");
        assert_eq!(found.unused_user, user == User::Root, "{found:?}");
        assert_eq!(found.own_root, self.has_own_root(), "{found:?}");
        assert_eq!(found.own_network, self.has_own_root(), "{found:?}");
        let has_landlock = found.landlock != Enforced::Not;
        assert_eq!(has_landlock, self.has_landlock(), "{found:?}");
        let rings = confined.resources.has_rings();
        assert_eq!(rings, self != Walls::NoRestrictions, "rings");
        let image = &confined.devices.as_ref().unwrap().0;
        let over_rings = image.files()[0].engine() == uext4::IoEngine::Uring;
        assert_eq!(over_rings, self != Walls::NoRestrictions, "the image's");
    }
}
