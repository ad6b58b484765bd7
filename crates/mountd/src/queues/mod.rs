//! Message queues over FUSE: what queue files have besides the operations of any file system.
//!
//! # Data model
//! An open file is a [`Description`](uext4::unstable::mqueue::Description), because a queue's registrations and watches belong to
//! descriptions. Messages travel in ioctls ([`uext4::unstable::mqueue::protocol`]). A call that has to wait occupies no thread: it
//! is entered in its queue, and the thread that completes it writes the reply. So the thread that sends a message also
//! wakes the receiver. [`uext4_fuse::Server`] answers requests for names, attributes and permission.
//!
//! # Invariants
//! A request is answered once: by the thread that read it, or by the thread that takes its call out of the queue, under
//! the queue's lock. A process that is killed while it waits gets no message: the kernel interrupts the request and waits
//! for its answer.
//!
//! # Locking
//! The tables of open queues and of waiting calls have locks. None of them is held while a queue is used.
//!
//! | module | holds |
//! | --- | --- |
//! | `adapter`, `serve` | the namespace as a file system over FUSE; serving it |
//! | `server`, `call` | the request handler; an ioctl on a queue |
//! | `open_queues`, `pending_sizes` | open queues; sizes of queues that are about to be created |
//! | `messages`, `long_messages` | sending and receiving; messages that need several requests |
//! | `waiting_calls` | calls that wait, their deadlines, and replies to them |
//! | `notifications`, `registrations` | mq_notify(3) |
//! | `process` | system calls about the processes that use queues |

mod adapter;
mod call;
mod long_messages;
mod messages;
mod notifications;
mod open_queues;
mod pending_sizes;
mod process;
mod registrations;
mod serve;
mod server;
mod waiting_calls;

pub use serve::{serve_queues, threads};
#[cfg(feature = "fuzzing")]
pub(crate) use {adapter::QueueAdapter, server::QueueServer};
