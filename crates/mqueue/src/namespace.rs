//! The superblock of a namespace of message queues: their names, and how many there may be.
//!
//! # Invariants
//! Nothing has to be written when it ends: the names go, and queues that are open stay with who has them.
//! A name refers to one queue. A queue that is made is charged to its user and counted before its name
//! appears; when another thread was faster with the name, that is taken back.
//!
//! # Locking
//! The names have a lock of class `mqueue`, which is held for a look-up or a change of them alone: what
//! needs the lock of a node or of the accounts is done without it, and looked at again after.

use crate::account::{Accounts, SharedAccounts};
use crate::description::Description;
use crate::limits::Limits;
use crate::name;
use crate::node::{Node, Place};
use crate::queue::{Queue, clock};
use bitflags::bitflags;
use std::collections::HashMap;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicU32, Ordering};
use uext4_sync::{Mutex, class};
use uext4_vfs::{
    Access, Attr, Caller, Capabilities, Errno, FileKind, Result, Superblock, Timestamp, permission,
};

/// The inode number of the root directory.
const ROOT_INO: u64 = 1;

bitflags! {
    /// How a queue is opened.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MqOpen: u8 {
        /// To receive (`O_RDONLY`, `O_RDWR`).
        const READ = 1;
        /// To send (`O_WRONLY`, `O_RDWR`).
        const WRITE = 2;
        /// Never wait (`O_NONBLOCK`).
        const NONBLOCK = 4;
        /// Make it if there is none (`O_CREAT`).
        const CREATE = 8;
        /// Fail if there is one; with `CREATE` (`O_EXCL`).
        const EXCLUSIVE = 16;
    }
}

/// What an IPC namespace has of message queues, and the superblock of the file system that shows them.
pub struct Namespace {
    accounts: Arc<SharedAccounts>,
    /// How many queues there are, with and without a name.
    queues: Arc<AtomicU32>,
    state: Mutex<State>,
}

/// What the lock guards.
struct State {
    limits: Limits,
    names: HashMap<Box<[u8]>, Arc<Node>>,
    root: Root,
    next_ino: u64,
}

/// The root directory.
#[derive(Clone, Copy)]
struct Root {
    uid: u32,
    gid: u32,
    mode: u16,
    changed: Timestamp,
}

impl Superblock for Namespace {
    fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

impl Namespace {
    /// A namespace without queues, whose users are charged in `accounts`. Everybody may make queues in
    /// it, and only the owner or root remove them.
    pub(crate) fn new(limits: Limits, accounts: Arc<SharedAccounts>) -> Namespace {
        Namespace {
            accounts,
            queues: Arc::new(AtomicU32::new(0)),
            state: Mutex::new(
                &class::MQUEUE,
                State {
                    limits,
                    names: HashMap::new(),
                    root: Root {
                        uid: 0,
                        gid: 0,
                        mode: permission::S_ISVTX | 0o777,
                        changed: clock(),
                    },
                    next_ino: ROOT_INO + 1,
                },
            ),
        }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.state.lock().limits
    }

    /// Sets the limits, for queues that are made from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.state.lock().limits = limits;
    }

    /// What users are charged.
    pub fn accounts(&self) -> &Arc<Accounts> {
        &self.accounts.0
    }

    /// How many queues there are, with those that are open and have no name.
    pub fn queues(&self) -> u32 {
        self.queues.load(Ordering::Acquire)
    }

    /// The names, without their slash, in no order.
    pub fn names(&self) -> Vec<Box<[u8]>> {
        self.state.lock().names.keys().cloned().collect()
    }

    /// The node of a name.
    ///
    /// # Errors
    /// `ENOENT`: there is none. Others as the name is wrong, see mq_open(3).
    pub fn find(&self, name: &[u8]) -> Result<Arc<Node>> {
        let name = name::check(name)?;
        let found = self.state.lock().names.get(name).cloned();
        found.ok_or(Errno::ENOENT.into())
    }

    /// The attributes of the root directory.
    pub fn root_attr(&self) -> Attr {
        let (root, entries) = {
            let state = self.state.lock();
            (state.root, state.names.len() as u64)
        };
        Attr {
            ino: ROOT_INO,
            generation: 0,
            kind: FileKind::Directory,
            mode: root.mode,
            nlink: 2,
            uid: root.uid,
            gid: root.gid,
            size: entries * 20,
            blocks: 0,
            block_size: 4096,
            atime: root.changed,
            mtime: root.changed,
            ctime: root.changed,
            crtime: root.changed,
            rdev_major: 0,
            rdev_minor: 0,
            flags: 0,
        }
    }

    /// Opens a queue (mq_open(3)). One that is made gets `mode`, the umask applied, and `size` (most
    /// messages, longest message in bytes) or the default.
    ///
    /// # Errors
    /// `EINVAL`: the name has no slash in front, neither reading nor writing, or `size` is none that the
    /// caller may have. `ENOENT`: the name is a slash, or nothing has it and `CREATE` is not asked for.
    /// `EACCES`: the name has another slash; the mode forbids it. `ENAMETOOLONG`. `EEXIST`: there is
    /// one, with `EXCLUSIVE`. `ENOSPC`: `queues_max`. `EMFILE`: the user's bytes.
    pub fn open(
        &self,
        caller: &Caller,
        name: &[u8],
        how: MqOpen,
        mode: u16,
        size: Option<(i64, i64)>,
    ) -> Result<Arc<Description>> {
        let name = name::check(name)?;
        if !how.intersects(MqOpen::READ | MqOpen::WRITE) {
            return Err(Errno::EINVAL.into());
        }
        loop {
            let found = self.state.lock().names.get(name).cloned();
            if let Some(node) = found {
                return open_existing(node, caller, how);
            }
            if !how.contains(MqOpen::CREATE) {
                return Err(Errno::ENOENT.into());
            }
            permission::may_create(&self.root_attr(), caller)?;
            let node = Arc::new(self.new_node(caller, mode, size)?);
            let mut state = self.state.lock();
            if state.names.contains_key(name) {
                // Another thread was faster; the node is dropped without the lock.
                drop(state);
                continue;
            }
            state.names.insert(Box::from(name), Arc::clone(&node));
            state.root.changed = clock();
            drop(state);
            return Ok(Arc::new(Description::new(node, how)));
        }
    }

    /// A queue without a name, counted and charged.
    fn new_node(&self, caller: &Caller, mode: u16, size: Option<(i64, i64)>) -> Result<Node> {
        let (limits, ino) = {
            let mut state = self.state.lock();
            state.next_ino += 1;
            (state.limits, state.next_ino - 1)
        };
        let count = self.queues.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(&self.queues));
        if count >= limits.queues_max && !caller.has(Capabilities::SYS_RESOURCE) {
            return Err(Errno::ENOSPC.into());
        }
        let size = limits.queue_size(caller, size)?;
        let charge =
            self.accounts()
                .charge(caller.uid, size.charged_bytes(), limits.user_bytes_max)?;
        let root = self.root_attr();
        let owner = permission::new_owner(&root, caller, FileKind::Regular, mode);
        Ok(Node::new(Queue::new(size), ino, owner, charge, place))
    }

    /// Takes a name away (mq_unlink(3)); its queue goes when nobody has it open.
    ///
    /// # Errors
    /// `ENOENT`: nothing has the name. `EACCES`: the queue belongs to others, or the name is wrong.
    /// `EINVAL`, `ENAMETOOLONG`: the name is wrong.
    pub fn unlink(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        let found = self.find(name)?;
        let name = name::check(name)?;
        let root = self.root_attr();
        match permission::may_delete(&root, &found.attr(), caller, false) {
            // POSIX has no EPERM here, so neither has the C library.
            Err(e) if e == Errno::EPERM => return Err(Errno::EACCES.into()),
            other => other?,
        }
        let mut state = self.state.lock();
        match state.names.get(name) {
            Some(node) if Arc::ptr_eq(node, &found) => {}
            // Another thread removed it; what may have the name by now is not what was asked for.
            _ => return Err(Errno::ENOENT.into()),
        }
        let gone = state.names.remove(name);
        state.root.changed = clock();
        drop(state);
        found.unlinked();
        drop(gone);
        Ok(())
    }
}

/// Opens a queue that is there.
fn open_existing(node: Arc<Node>, caller: &Caller, how: MqOpen) -> Result<Arc<Description>> {
    if how.contains(MqOpen::CREATE | MqOpen::EXCLUSIVE) {
        return Err(Errno::EEXIST.into());
    }
    let mut want = Access::empty();
    want.set(Access::READ, how.contains(MqOpen::READ));
    want.set(Access::WRITE, how.contains(MqOpen::WRITE));
    permission::check_access(&node.attr(), caller, want)?;
    Ok(Arc::new(Description::new(node, how)))
}
