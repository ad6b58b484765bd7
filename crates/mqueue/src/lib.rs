//! POSIX message queues in process, as mq_overview(7) describes them.
//!
//! # Data model
//! An [`IpcNamespace`] has named [`Node`]s, each a [`Queue`] with an owner, a mode and times. Opening a
//! name gives a [`Description`], which says what may be done with the queue, and whether it waits.
//!
//! # References
//! A description keeps its node, and a node what its user and its namespace are charged for it. A name
//! keeps its node too, until it is unlinked; the last of them lets the queue and its messages go.
//!
//! # Locking
//! The locks of a namespace, a node, a queue and the accounts are leaves of class `mqueue`: none is taken
//! under another. Notifications run and waiters are woken with none held.
//!
//! | module | holds |
//! | --- | --- |
//! | [`namespace`] | names, opening, unlinking |
//! | [`description`] | an open queue |
//! | [`node`] | a queue with owner, mode and times |
//! | [`queue`] | messages, who waits for them, who is told |
//! | [`message`], [`wait`], [`notify`] | what a queue is made of |
//! | [`limits`], [`account`], [`name`] | how many, how large, for whom, under which name |
#![forbid(unsafe_code)]

pub mod account;
pub mod description;
pub mod limits;
pub mod message;
pub mod name;
pub mod namespace;
pub mod node;
pub mod notify;
pub mod queue;
pub mod wait;

pub use account::Accounts;
pub use description::{Description, MqAttr};
pub use limits::{Limits, QueueSize};
pub use namespace::{IpcNamespace, MqOpen};
pub use node::Node;
pub use notify::Notification;
pub use queue::{PRIORITIES, Queue, Ready, Received};
pub use wait::{Interrupt, Wait};
