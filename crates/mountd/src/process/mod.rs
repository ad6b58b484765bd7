//! The processes of a mount.
//!
//! # Data model
//! The *monitor* has the user's privileges: it mounts and unmounts, and never reads the image. The
//! *server* parses the image and answers requests, and has given up everything but its open files. They talk
//! over a socket ([`wire`]) that only they have. In the background there is, until it is mounted, a third: the
//! command that the user started, which waits for the monitor's result and exits with it.
//!
//! ```text
//! uext4 mount ── ToParent ── monitor ── ToServer, FromServer ── server ── /dev/fuse, the image
//! ```
//!
//! # Crash
//! The server dies: the monitor unmounts, and what was synced is in the journal. The monitor dies: the server runs
//! until the mount is unmounted, so nothing is lost. Both die: the kernel refuses everything, the journal has what was
//! synced.
//!
//! | module | holds |
//! | --- | --- |
//! | [`request`] | messages |
//! | [`wire`] | the transport of messages |
//! | [`monitor`], [`server`] | the two processes |
//! | [`confined`] | what the server opens, and the rights that it drops |
//! | [`background`] | the command in the background |
//! | `limits`, `server_stderr` | the server's memory limit; its last output |
//! | [`settings`] | the server's part in a remount |
//! | `report` | what the server logs, on its way to the monitor |

pub mod background;
pub mod confined;
mod descriptors;
mod limits;
pub mod monitor;
mod report;
pub mod request;
pub mod server;
mod server_stderr;
pub mod settings;
pub mod wire;

use crate::options::OptionError;
use crate::sandbox::SandboxError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::process::ExitStatus;

/// Why nothing is mounted, or why a mount did not end as it should; goes from process to process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Set if the image can't be opened: the error's number.
    pub errno: Option<i32>,
    /// What is wrong, for the user.
    pub message: String,
}

impl Failure {
    /// One that is not about opening the image.
    pub fn new(message: impl fmt::Display) -> Failure {
        Failure {
            errno: None,
            message: message.to_string(),
        }
    }

    /// The image can't be opened.
    pub fn opening(e: &uext4::Error) -> Failure {
        Failure {
            errno: Some(e.errno().0),
            message: e.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<OptionError> for Failure {
    fn from(e: OptionError) -> Failure {
        Failure::new(e)
    }
}

impl From<SandboxError> for Failure {
    fn from(e: SandboxError) -> Failure {
        Failure::new(e)
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Failure {
        Failure::new(e)
    }
}

/// How a process ended that should not have.
fn death(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(libc::SIGSYS) => format!("{status}: it made a system call that it has no use for"),
        _ => status.to_string(),
    }
}
