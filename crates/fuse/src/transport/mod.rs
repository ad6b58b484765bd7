//! How requests come from the kernel and replies go back.
//!
//! # Data model
//! A [`Transport`] has threads, each with a number and memory of its own. It knows bytes, headers and when the mount
//! is gone; what requests mean is the [`Handler`]'s.
//!
//! | module | holds |
//! | --- | --- |
//! | [`dev`] | `/dev/fuse`: threads with a cloned descriptor each, a read and a write for each request |
//! | `awake` | how long a thread waits before it sleeps, where CPUs are few |
//! | `placed` | which of those threads reads a request: the one on the caller's CPU, if it can |
//! | `reader` | how a thread waits for a request |
//! | [`uring`] | FUSE over io_uring: queues of each CPU, one system call for a reply and the next request |
//! | [`buffer`] | memory for requests and replies |
//! | [`reply`] | replies over `/dev/fuse`, at once or later |
//! | `device`, `ring` | the system calls that need `unsafe` |

mod awake;
pub mod buffer;
pub mod dev;
mod device;
mod placed;
mod reader;
pub mod reply;
mod ring;
pub mod uring;

use crate::handler::Handler;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::JoinHandle;

pub use device::{ask_settings, grow_mounted, open_device};

/// Moves requests from the kernel to a handler.
pub trait Transport {
    /// How many threads it has.
    fn workers(&self) -> usize;

    /// Serves until the mount is gone. `started` is called once all threads are there.
    ///
    /// # Errors
    /// As the host says, where it cannot go on.
    fn run<H: Handler>(self, handler: &Arc<H>, started: impl FnOnce()) -> io::Result<()>;
}

/// Waits for all threads, and gives the first error.
fn join_all(threads: Vec<JoinHandle<io::Result<()>>>) -> io::Result<()> {
    let mut outcome = Ok(());
    for thread in threads {
        let served = thread.join();
        let served = served.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        outcome = outcome.and(served);
    }
    outcome
}

/// Which transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportKind {
    /// io_uring where the kernel has it enabled, else `/dev/fuse`.
    #[default]
    Auto,
    /// `/dev/fuse`.
    Dev,
    /// io_uring.
    Uring,
}

impl TransportKind {
    /// As options name it.
    pub const fn name(self) -> &'static str {
        match self {
            TransportKind::Auto => "auto",
            TransportKind::Dev => "dev",
            TransportKind::Uring => "uring",
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TransportKind {
    type Err = String;

    fn from_str(name: &str) -> Result<TransportKind, String> {
        let all = [
            TransportKind::Auto,
            TransportKind::Dev,
            TransportKind::Uring,
        ];
        let found = all.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("'{name}' is none of auto, dev, uring"))
    }
}
