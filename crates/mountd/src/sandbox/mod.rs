//! What a process that serves strangers gives up before it reads the first byte of an image, or the first request.
//!
//! Everything that serving needs is open by then: the image, the journal's device, `/dev/fuse`, the socket to
//! the monitor. So no path, no program, no network and no other process has to be within reach afterwards.
//! Threads that are started later inherit all of it; it can't be taken back.
//!
//! # Locking
//! None. To be called while the process has one thread: most of it is the calling thread's alone.

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

/// The Landlock version whose rights are asked for; an older kernel denies those of them that it knows.
const LANDLOCK: ABI = ABI::V7;

/// The sandbox can't be entered.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel refuses a step that every kernel has.
    #[error("sandbox: {step}: {errno}; --no-sandbox goes without")]
    Step {
        /// What it was.
        step: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// Landlock is there, and fails.
    #[error("sandbox: Landlock: {0}; --no-sandbox goes without")]
    Landlock(#[from] landlock::RulesetError),
    /// The filter of system calls can't be made or installed.
    #[error("sandbox: seccomp: {0}; --no-sandbox goes without")]
    Seccomp(#[from] calls::FilterError),
}

/// How much of a Landlock rule set the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforced {
    /// All that is asked for.
    Fully,
    /// What it knows.
    Partly,
    /// Nothing.
    Not,
}

/// What is in force in this process; for the log, and for statistics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The version of Landlock that kernel and program share; 0 for none.
    pub landlock_abi: u32,
    /// How much of it is enforced.
    pub landlock: Enforced,
    /// Whether system calls are filtered.
    pub seccomp: bool,
    /// Whether it has a root directory of its own, which is empty.
    pub own_root: bool,
    /// Whether the process is in a network of its own, which has no interface.
    pub own_network: bool,
    /// Whether it runs as a user that owns nothing.
    pub unused_user: bool,
    /// Whether it may send signals to any process.
    pub may_signal: bool,
    /// Capabilities that could be regained by executing a program; no program can be executed.
    pub bounding_set_empty: bool,
}

impl Confinement {
    /// What should be in force, and is not; for a warning.
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

/// What a process serves, and so what it cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// An image, which may come from anywhere: nothing.
    Image,
    /// Message queues: it sends signals to processes that asked for them, and knows which thread is whose.
    Queues,
}

/// Confines the calling thread and all that it starts, for good.
///
/// # Errors
/// The kernel refuses a step. A kernel without Landlock is not an error, but [`Confinement::warning`].
pub fn enter(serves: Serves) -> Result<Confinement, SandboxError> {
    // All of this takes capabilities. Of a user namespace, nothing outside can be signalled.
    let as_user = serves == Serves::Image && !rustix::process::geteuid().is_root();
    let namespaces = namespaces::leave(as_user);
    let bounding_set_empty = empty_bounding_set();
    // The superuser's signals are for all processes that ask for them.
    let unused_user = serves == Serves::Image && namespaces::become_unused_user();
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

/// Empties the set of capabilities that executing a program could bring back; false where that takes a capability that
/// the process does not have.
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

/// Drops every capability, but what queues need to signal; whether that is there.
fn drop_capabilities(serves: Serves) -> Result<bool, SandboxError> {
    rustix::thread::clear_ambient_capability_set().map_err(step("ambient capabilities"))?;
    let kept = match serves {
        Serves::Image => CapabilitySet::empty(),
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

/// Denies every access by path, the network as far as Landlock knows it, and other processes: there are
/// rights that are denied, and no rule that gives any.
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
