//! Clients of POSIX message queues that are mounted as a directory (`uext4 mqueue mount`).
//!
//! # Data model
//! [`Mounted`] is the directory: queues are opened by their names in it. What is opened is a descriptor as any
//! other, so poll(2), fork(2), passing it over a socket and closing it at exit work; [`Descriptor`] is
//! what can be done with it beside that. Nothing is kept in the process: all of it is in the descriptor and the server.
//!
//! ```no_run
//! use rustix::fs::OFlags;
//! use std::os::fd::AsFd;
//! use uext4_mqueue::client::{Descriptor, OpenArgs, Mounted, Priority};
//!
//! let how = OpenArgs { flags: OFlags::RDWR | OFlags::CREATE, mode: 0o600, size: None };
//! let jobs = Mounted::new("/run/mq").open(b"/jobs", &how)?;
//! let jobs = Descriptor::new(jobs.as_fd());
//! jobs.send(b"urgent", Priority::new(9)?, None)?;
//! let mut buffer = [0; 8192];
//! let got = jobs.receive(&mut buffer, None)?;
//! assert_eq!((&buffer[..got.len], got.priority), (&b"urgent"[..], 9));
//! # Ok::<(), rustix::io::Errno>(())
//! ```
//!
//! # Locking
//! None.
//!
//! | module | holds |
//! | --- | --- |
//! | [`mounted`] | the directory: opening and unlinking |
//! | [`descriptor`] | an open queue: attributes, notification |
//! | `send`, `receive` | messages |
//! | [`arguments`] | deadlines and priorities, which are checked before anything else |
//! | `ioctl`, `restart` | the system calls that need `unsafe`; what a signal ends |

pub mod arguments;
pub mod descriptor;
mod ioctl;
pub mod mounted;
mod receive;
mod restart;
mod send;

pub use arguments::{Deadline, Priority};
pub use descriptor::{Attributes, Descriptor, Notification, Signal};
pub use mounted::{Mounted, OpenArgs, Size};
pub use receive::Received;
