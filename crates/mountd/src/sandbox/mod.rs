//! The rights that a server gives up before it reads the first byte of an image, or the first request; and a check of images.
//!
//! Everything that serving needs is already open: the image, the journal's device, `/dev/fuse`, the socket to
//! the monitor. So the server needs no path, program, network or other process afterwards.
//! Threads that are started later inherit the restrictions, which cannot be undone.
//!
//! # Locking
//! None. Must be called while the process has one thread, because most restrictions apply to the calling thread only.

mod calls;
mod namespaces;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset,
    RulesetAttr, RulesetStatus, Scope,
};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The Landlock version whose rights are requested; an older kernel denies those that it knows.
const LANDLOCK: ABI = ABI::V7;

/// Why the sandbox cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel refuses a step that every kernel has.
    #[error("sandbox: {step}: {errno}; --no-sandbox goes without")]
    Step {
        /// The step.
        step: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// The kernel has Landlock, and it fails.
    #[error("sandbox: Landlock: {0}; --no-sandbox goes without")]
    Landlock(#[from] landlock::RulesetError),
    /// The filter of system calls cannot be built or installed.
    #[error("sandbox: seccomp: {0}; --no-sandbox goes without")]
    Seccomp(#[from] calls::FilterError),
}

/// How much of a Landlock rule set the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforced {
    /// All requested rights.
    Fully,
    /// The rights that the kernel knows.
    Partly,
    /// No right.
    Not,
}

/// The restrictions in force in this process, for the log and statistics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The newest version of Landlock that both the kernel and the program know; 0 for none.
    pub landlock_abi: u32,
    /// How much of the rule set is enforced.
    pub landlock: Enforced,
    /// Whether system calls are filtered.
    pub seccomp: bool,
    /// Whether it has an empty root directory of its own.
    pub own_root: bool,
    /// Whether it has a network namespace of its own, without interfaces.
    pub own_network: bool,
    /// Whether it runs as a user that owns nothing.
    pub unused_user: bool,
    /// Whether it may send signals to any process.
    pub may_signal: bool,
    /// Capabilities that could be regained by executing a program; no program can be executed.
    pub bounding_set_empty: bool,
}

impl Confinement {
    /// The restrictions that should be in force but are not, for a warning.
    pub fn warning(&self) -> Option<&'static str> {
        match self.landlock {
            Enforced::Fully => None,
            _ if self.own_root => None,
            Enforced::Partly => {
                Some("this kernel's Landlock does not know all rights that are denied")
            }
            Enforced::Not => Some(
                "this kernel has no Landlock; paths are out of reach by the filter of system calls alone",
            ),
        }
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no new privileges, ")?;
        f.write_str(match self.may_signal {
            true => "no capabilities but to send signals",
            false => "no capabilities",
        })?;
        match (self.landlock, self.landlock_abi) {
            (Enforced::Fully, abi) => write!(f, ", Landlock {abi} fully enforced")?,
            (Enforced::Partly, abi) => write!(f, ", Landlock {abi} partly enforced")?,
            (Enforced::Not, _) => f.write_str(", no Landlock")?,
        }
        for (is_so, what) in [
            (self.unused_user, ", a user that owns nothing"),
            (self.own_root, ", no paths"),
            (self.own_network, ", no network"),
        ] {
            f.write_str(if is_so { what } else { "" })?;
        }
        if self.seccomp {
            f.write_str(", system calls filtered")?;
        }
        Ok(())
    }
}

/// What a process serves, which decides the rights that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// An image, which is not trusted: keeps no right.
    Image,
    /// Reports on images that are checked, which are not trusted: keeps the rights to ask what its terminal is and how wide.
    Terminal,
    /// Message queues: keeps the rights to signal processes that registered, and to find the process of a thread.
    Queues,
}

/// Confines the calling thread and all threads that it starts, permanently.
///
/// # Errors
/// The kernel refuses a step. A kernel without Landlock is not an error, but [`Confinement::warning`].
pub fn enter(serves: Serves) -> Result<Confinement, SandboxError> {
    // All of this needs capabilities. From inside a user namespace, no process outside can be signalled.
    let as_user = serves != Serves::Queues && !rustix::process::geteuid().is_root();
    let namespaces = namespaces::leave(as_user);
    let bounding_set_empty = empty_bounding_set();
    // The superuser's signals are for all processes that ask for them.
    let unused_user = serves != Serves::Queues && namespaces::become_unused_user();
    rustix::thread::set_no_new_privs(true).map_err(step("no_new_privs"))?;
    let may_signal = drop_capabilities(serves)?;
    let (landlock_abi, landlock) = deny_paths(serves)?;
    calls::install(serves)?;
    Ok(Confinement {
        landlock_abi,
        landlock,
        seccomp: true,
        own_root: namespaces.own_root,
        own_network: namespaces.own_network,
        unused_user,
        may_signal,
        bounding_set_empty,
    })
}

fn step(step: &'static str) -> impl Fn(Errno) -> SandboxError {
    move |errno| SandboxError::Step { step, errno }
}

/// Empties the bounding set, the capabilities that executing a program could restore; false if the process lacks the
/// capability that this needs.
fn empty_bounding_set() -> bool {
    let mut is_empty = true;
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::capability_is_in_bounding_set(capability) {
            Ok(true) => {
                let dropped = rustix::thread::remove_capability_from_bounding_set(capability);
                is_empty &= dropped.is_ok();
            }
            Ok(false) => {}
            // The kernel has no such capability, nor any after it.
            Err(_) => break,
        }
    }
    is_empty
}

/// Drops every capability except the one that queues need to signal; returns whether the process has that one.
fn drop_capabilities(serves: Serves) -> Result<bool, SandboxError> {
    rustix::thread::clear_ambient_capability_set().map_err(step("ambient capabilities"))?;
    let kept = match serves {
        Serves::Image | Serves::Terminal => CapabilitySet::empty(),
        Serves::Queues => rustix::thread::capabilities(None)
            .map_err(step("capabilities"))?
            .effective
            .intersection(CapabilitySet::KILL),
    };
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets).map_err(step("capabilities"))?;
    Ok(!kept.is_empty())
}

/// Denies every access by path, to the network as far as Landlock covers it, and to other processes: the rule set
/// handles all rights and grants none.
fn deny_paths(serves: Serves) -> Result<(u32, Enforced), SandboxError> {
    let mut scope = Scope::from_all(LANDLOCK);
    if serves == Serves::Queues {
        scope.remove(Scope::Signal);
    }
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(scope)?
        .create()?
        .restrict_self()?;
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
        _ => 0,
    };
    let enforced = match status.ruleset {
        RulesetStatus::FullyEnforced => Enforced::Fully,
        RulesetStatus::PartiallyEnforced => Enforced::Partly,
        RulesetStatus::NotEnforced => Enforced::Not,
    };
    Ok((abi, enforced))
}
