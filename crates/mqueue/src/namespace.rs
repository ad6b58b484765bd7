//! The superblock of a namespace of message queues: names and limits.
//!
//! # Invariants
//! The end of a namespace writes nothing: its names are dropped, and open queues stay with their descriptions. A name refers
//! to one queue. A queue is counted and its user charged only after the name is known to be free and permitted, so a
//! creation that fails because of the name never uses up a limit.
//!
//! # Locking
//! A thread that adds or removes a name holds the directory's lock, of class `dir_ilock`, from the permission check to the
//! change. The names, the limits and the root's attributes have a lock of class `mqueue`, which is held for one look-up or
//! change. Opening an existing name takes only the latter.

use crate::account::{Accounts, SharedAccounts};
use crate::description::Description;
use crate::limits::Limits;
use crate::name;
use crate::names::Names;
use crate::namespace_id::NamespaceId;
use crate::node::{Node, Place};
use crate::open_flags::MqOpen;
use crate::queue::Queue;
use crate::root::Root;
use std::sync::{Arc, OnceLock};
use uext4_sync::atomic::{AtomicU32, Ordering};
use uext4_sync::{Mutex, class};
use uext4_vfs::{
    Access, Attr, Caller, Capabilities, Errno, FileKind, Result, SetAttr, Superblock, permission,
};

/// The first number of a queue: in the directory, lower ones are positions after `.` and `..`.
pub(crate) const FIRST_QUEUE_INO: u64 = 3;

/// The message queues of an IPC namespace, and the superblock of the file system that shows them.
pub struct Namespace {
    id: NamespaceId,
    accounts: Arc<SharedAccounts>,
    /// The number of queues, with and without a name; allocated with the first queue.
    queues: OnceLock<Arc<AtomicU32>>,
    /// Held while a name is added or removed, or the root directory is changed. Taken before `entries`.
    directory: Mutex<Directory>,
    entries: Mutex<Entries>,
}

/// What only a thread that changes the directory uses.
struct Directory {
    next_ino: u64,
}

/// What look-ups use.
struct Entries {
    limits: Limits,
    names: Names,
    root: Root,
}

impl Entries {
    fn root_attr(&self) -> Attr {
        self.root.attr(self.names.len())
    }
}

impl Superblock for Namespace {
    fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

impl Namespace {
    /// A namespace without queues, whose users are charged in `accounts`. Every user may create queues in
    /// it; only the owner and root may remove a queue.
    pub(crate) fn new(id: NamespaceId, limits: Limits, accounts: Arc<SharedAccounts>) -> Namespace {
        Namespace {
            id,
            accounts,
            queues: OnceLock::new(),
            directory: Mutex::new(
                &class::DIR_ILOCK,
                Directory {
                    next_ino: FIRST_QUEUE_INO,
                },
            ),
            entries: Mutex::new(
                &class::MQUEUE,
                Entries {
                    limits,
                    names: Names::default(),
                    root: Root::new(),
                },
            ),
        }
    }

    /// The number to mount it by.
    pub fn id(&self) -> NamespaceId {
        self.id
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.entries.lock().limits
    }

    /// Sets the limits, for queues that are made from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.entries.lock().limits = limits;
    }

    /// What users are charged.
    pub fn accounts(&self) -> &Arc<Accounts> {
        self.accounts.accounts()
    }

    /// How many queues there are, with those that are open and have no name.
    pub fn queues(&self) -> u32 {
        self.queues.get().map_or(0, |n| n.load(Ordering::Acquire))
    }

    /// The names, without their slash, oldest queue first.
    pub fn names(&self) -> Vec<Box<[u8]>> {
        let entries = self.entries.lock();
        let names = entries.names.after(0);
        names.map(|(_, name)| Box::from(&**name)).collect()
    }

    /// Up to `max` numbers and names of queues, from the lowest number above `ino`.
    pub(crate) fn names_after(&self, ino: u64, max: usize) -> Vec<(u64, Arc<[u8]>)> {
        let mut entries = self.entries.lock();
        entries.root.listed();
        let names = entries.names.after(ino).take(max);
        names.map(|(ino, name)| (ino, Arc::clone(name))).collect()
    }

    /// The node of a name.
    ///
    /// # Errors
    /// `ENOENT`: no such queue. Others for an invalid name, see mq_open(3).
    pub fn find(&self, name: &[u8]) -> Result<Arc<Node>> {
        self.get(name::check(name)?)
    }

    /// The node of a name without its slash.
    pub(crate) fn get(&self, name: &[u8]) -> Result<Arc<Node>> {
        let found = self.entries.lock().names.get(name).cloned();
        found.ok_or(Errno::ENOENT.into())
    }

    /// The node with this number, while it has its name.
    pub(crate) fn by_ino(&self, ino: u64) -> Option<Arc<Node>> {
        self.entries.lock().names.by_ino(ino).cloned()
    }

    /// The attributes of the root directory.
    pub fn root_attr(&self) -> Attr {
        self.entries.lock().root_attr()
    }

    /// Changes owner, mode or times of the root directory, and gives its attributes.
    ///
    /// # Locks
    /// Takes `dir_ilock`, `mqueue`.
    ///
    /// # Errors
    /// As [`permission::prepare_setattr`].
    pub(crate) fn set_root(&self, caller: &Caller, change: &SetAttr) -> Result<Attr> {
        let _directory = self.directory.lock();
        let mut entries = self.entries.lock();
        let before = entries.root_attr();
        entries.root.setattr(&before, caller, change)?;
        Ok(entries.root_attr())
    }

    /// Opens a queue (mq_open(3)). One that is made gets `mode` without the caller's umask, and `size` (most
    /// messages, longest message in bytes) or the default.
    ///
    /// # Locks
    /// Takes `mqueue`, and to make a queue `dir_ilock`.
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
            match self.get(name) {
                Ok(node) => return open_existing(node, caller, how),
                Err(e) if e == Errno::ENOENT && how.contains(MqOpen::CREATE) => {}
                Err(e) => return Err(e),
            }
            match self.make(caller, name, mode, size) {
                Ok(node) => return Ok(Arc::new(Description::new(node, how))),
                // Another thread created it meanwhile.
                Err(e) if e == Errno::EEXIST => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Creates a queue with an unused name (without its slash), as mq_open(3) and creat(2) do.
    ///
    /// # Locks
    /// Takes `dir_ilock`, `mqueue`.
    ///
    /// # Errors
    /// `EEXIST`. Others as [`Namespace::open`].
    pub(crate) fn make(
        &self,
        caller: &Caller,
        name: &[u8],
        mode: u16,
        size: Option<(i64, i64)>,
    ) -> Result<Arc<Node>> {
        let mut directory = self.directory.lock();
        if self.get(name).is_ok() {
            return Err(Errno::EEXIST.into());
        }
        permission::may_create(&self.root_attr(), caller)?;
        let node = Arc::new(self.new_node(&mut directory, caller, mode, size)?);
        let mut entries = self.entries.lock();
        entries.names.insert(name, Arc::clone(&node));
        entries.root.changed();
        Ok(node)
    }

    /// A queue without a name, counted and charged.
    fn new_node(
        &self,
        directory: &mut Directory,
        caller: &Caller,
        mode: u16,
        size: Option<(i64, i64)>,
    ) -> Result<Node> {
        let ino = directory.next_ino;
        directory.next_ino += 1;
        let (limits, root) = {
            let entries = self.entries.lock();
            (entries.limits, entries.root_attr())
        };
        let queues = self.queues.get_or_init(Arc::default);
        let count = queues.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(queues));
        if count >= limits.queues_max && !caller.has(Capabilities::SYS_RESOURCE) {
            return Err(Errno::ENOSPC.into());
        }
        let size = limits.queue_size(caller, size)?;
        let charge =
            self.accounts
                .charge(caller.uid, size.charged_bytes(), limits.user_bytes_max)?;
        let mut owner = permission::new_owner(&root, caller, FileKind::Regular, mode);
        // A queue has the group of its maker, be the directory set-group-id.
        owner.gid = caller.gid;
        Ok(Node::new(Queue::new(size), ino, owner, charge, place))
    }

    /// Removes a name (mq_unlink(3)). Its queue is freed when no description has it open.
    ///
    /// # Locks
    /// Takes `dir_ilock`, `mqueue`.
    ///
    /// # Errors
    /// `ENOENT`: nothing has the name. `EACCES`: the queue belongs to others, or the name is wrong.
    /// `EINVAL`, `ENAMETOOLONG`: the name is wrong.
    pub fn unlink(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        match self.remove(caller, name::check(name)?) {
            // POSIX has no EPERM here, so neither has the C library.
            Err(e) if e == Errno::EPERM => Err(Errno::EACCES.into()),
            other => other,
        }
    }

    /// Removes a name (without its slash), as mq_unlink(3) and unlink(2) do.
    ///
    /// # Locks
    /// Takes `dir_ilock`, `mqueue`.
    ///
    /// # Errors
    /// `ENOENT`: nothing has it. Others as [`permission::may_delete`].
    pub(crate) fn remove(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        let directory = self.directory.lock();
        let found = self.get(name)?;
        permission::may_delete(&self.root_attr(), &found.attr(), caller, false)?;
        let mut entries = self.entries.lock();
        let gone = entries.names.remove(name);
        entries.root.changed();
        drop(entries);
        found.unlinked();
        drop(directory);
        drop((found, gone));
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
