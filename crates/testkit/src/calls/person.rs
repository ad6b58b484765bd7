//! The caller of a call: the same credentials for a thread of this process and for [`Caller`].

use crate::external::*;
use std::fmt;

/// Users and groups that own things and ask for things.
pub const USERS: [u32; 4] = [0, 1001, 1002, 1003];
pub const GROUPS: [u32; 5] = [0, 1001, 2001, 2002, 2003];

/// Credentials and umask.
#[derive(Clone, PartialEq, Eq)]
pub struct Person {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub capabilities: Capabilities,
    pub umask: u16,
}

impl Person {
    /// The superuser with umask 0.
    pub fn root() -> Person {
        Person {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            capabilities: Capabilities::all(),
            umask: 0,
        }
    }

    /// A random caller: mostly the superuser with `as_root`, else mostly a user.
    pub fn random(rng: &mut Rng, as_root: bool) -> Person {
        let user = &USERS[1..];
        let (uid, capabilities) = match (as_root, rng.u8(..100)) {
            (true, 0..85) | (false, 90..95) => (0, Capabilities::all()),
            (_, 95..) => (0, some(rng)),
            (true, 85..90) | (false, 75..90) => (user[rng.usize(..3)], some(rng)),
            _ => (user[rng.usize(..3)], Capabilities::empty()),
        };
        // The first has two groups besides its own, the second one of them, the third none.
        let groups = match uid {
            1001 => vec![2001, 2002],
            1002 => vec![2002],
            _ => Vec::new(),
        };
        Person {
            uid,
            gid: match uid {
                1003 => 2003,
                uid => uid,
            },
            groups,
            capabilities,
            umask: [0, 0o22, 0o27, 0o77][rng.usize(..4)],
        }
    }

    /// As the inode-level calls take it.
    pub fn caller(&self) -> Caller {
        let mut caller = Caller::user(self.uid, self.gid).with_groups(&self.groups);
        caller.capabilities = self.capabilities;
        caller.with_umask(self.umask)
    }
}

/// Every capability with one chance in two.
fn some(rng: &mut Rng) -> Capabilities {
    Capabilities::all()
        .iter()
        .filter(|_| rng.bool())
        .fold(Capabilities::empty(), |all, one| all | one)
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}{:?}", self.uid, self.gid, self.groups)?;
        if self.capabilities == Capabilities::all() {
            write!(f, "+all")?;
        } else if !self.capabilities.is_empty() {
            write!(f, "+{:?}", self.capabilities)?;
        }
        write!(f, " umask {:03o}", self.umask)
    }
}
