//! POSIX message queues in process, as mq_overview(7) describes them.
//!
//! # Data model
//! A [`MqueueType`] has IPC namespaces, each of them a superblock in its registry. An [`IpcNamespace`]
//! has named [`Node`]s, each a [`Queue`] with an owner, a mode and times. Opening a name gives a
//! [`Description`], which holds the allowed operations and whether they block.
//!
//! ```
//! use uext4_mqueue::{Limits, MqOpen, MqueueType, Wait};
//! use uext4_vfs::Caller;
//!
//! let queues = MqueueType::default();
//! let namespace = queues.create(Limits::default());
//! let how = MqOpen::READ | MqOpen::WRITE | MqOpen::CREATE;
//! let queue = namespace.open(&Caller::root(), b"/jobs", how, 0o600, Some((10, 64)))?;
//! queue.send(b"first", 1, &Wait::default())?;
//! queue.send(b"urgent", 9, &Wait::default())?;
//! let mut buffer = [0; 64];
//! let got = queue.receive(&mut buffer, &Wait::default())?;
//! assert_eq!((&buffer[..got.len], got.priority), (&b"urgent"[..], 9));
//!
//! let again = queues.mount(namespace.id())?;
//! assert_eq!(again.names().len(), 1);
//! # Ok::<(), uext4_vfs::Error>(())
//! ```
//!
//! # References
//! A description keeps its node, and a node what its user and its namespace are charged for it. A name
//! keeps its node too, until it is unlinked; the last of them lets the queue and its messages go.
//!
//! # Locking
//! The locks of a namespace's names, a node, a queue and the accounts are leaves of class `mqueue`: none is
//! taken under another. Names come and go under the directory's lock (`dir_ilock`). Notifications run and waiters are woken with none held.
//!
//! | module | holds |
//! | --- | --- |
//! | [`mqueue_type`], [`ipc_namespace`] | creating namespaces, mounting them (`mqueue-super=`) |
//! | [`namespace`], [`namespace_id`] | the superblock: names, opening, unlinking; its key |
//! | `names`, `root` | what it is made of |
//! | [`vfs_impl`] | a namespace as a [`uext4_vfs::FileSystem`] |
//! | [`description`], [`open_flags`] | an open queue; the flags of mq_open(3) |
//! | [`node`] | a queue as a file |
//! | [`queue`] | messages, waiters, the registration |
//! | [`message`], `buffer`, [`wait`], [`notify`] | what a queue is made of |
//! | [`protocol`] | what the queues of a mounted namespace are asked for |
//! | [`limits`], [`account`], [`name`] | limits, charges of users, names |
//! | [`client`] | the same queues, by a process that finds them mounted |
#![deny(unsafe_code)]

pub mod account;
mod buffer;
#[cfg(target_os = "linux")]
pub mod client;
pub mod description;
pub mod ipc_namespace;
pub mod limits;
pub mod message;
pub mod mqueue_type;
pub mod name;
mod names;
pub mod namespace;
pub mod namespace_id;
pub mod node;
pub mod notify;
pub mod open_flags;
pub mod protocol;
pub mod queue;
mod root;
pub mod vfs_impl;
pub mod wait;

pub use account::Accounts;
pub use description::{Description, MqAttr};
pub use ipc_namespace::IpcNamespace;
pub use limits::{Limits, PRIORITIES, QueueSize};
pub use mqueue_type::MqueueType;
pub use namespace::Namespace;
pub use namespace_id::NamespaceId;
pub use node::Node;
pub use notify::Notification;
pub use open_flags::MqOpen;
pub use queue::{Queue, Ready, Received, Started};
pub use vfs_impl::MqFile;
pub use wait::{Deferred, Interrupt, Wait};
