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

pub mod background;
pub mod confined;
mod descriptors;
pub mod limits;
pub mod monitor;
pub mod request;
pub mod server;
mod server_stderr;
pub mod settings;
pub mod wire;

use std::process::ExitStatus;

/// How a process ended that should not have.
fn death(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(libc::SIGSYS) => format!("{status}: it made a system call that it has no use for"),
        _ => status.to_string(),
    }
}
