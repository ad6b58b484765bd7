//! The statistics of a server: one JSON document, the value of an attribute of the mounted directory.

use serde_json::Value;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The attribute. No file has it; the server answers for its mount.
pub const ATTRIBUTE: &str = "uext4.stats";

/// The most that an attribute can be.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Statistics are not available.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    /// Something else is mounted there, or nothing.
    #[error("not a mount of uext4")]
    NotOurs,
    /// The mount does not answer.
    #[error("{0}")]
    Host(#[from] io::Error),
    /// What it says can't be read.
    #[error("the server's statistics can't be read: {0}; is it another version?")]
    Document(#[from] serde_json::Error),
}

/// How long a server may take to answer before it counts as one that hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// As [`read`], in a process of its own: a process that asks a hanging server waits even when it is killed. None if
/// what answers is not a uext4 server.
///
/// # Errors
/// [`Hung`]: nothing answers.
pub fn read_from_afar(dir: &Path) -> Result<Option<Value>, Hung> {
    let asked = Command::new("/proc/self/exe")
        .args(["stats", "--json", "--"])
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut asked) = asked else {
        return Ok(None);
    };
    let Some(mut pipe) = asked.stdout.take() else {
        return Ok(None);
    };
    let (answer, answered) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = pipe.read_to_end(&mut text);
        // Fails if the caller has given up waiting.
        let _ = answer.send(read.map(|_| text));
    });
    match answered.recv_timeout(PATIENCE) {
        Ok(text) => {
            let _ = asked.wait();
            Ok(text.ok().and_then(|t| serde_json::from_slice(&t).ok()))
        }
        Err(_) => {
            let _ = asked.kill();
            Err(Hung)
        }
    }
}

/// The server of a mount does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hung;

/// The statistics of the mount at `dir`. Nothing of it is open when this returns.
///
/// # Errors
/// It is not ours, or does not answer.
pub fn read(dir: &Path) -> Result<Value, StatsError> {
    let mut value = vec![0; VALUE_BYTES_MAX];
    match rustix::fs::getxattr(dir, ATTRIBUTE, &mut value[..]) {
        Ok(len) => Ok(serde_json::from_slice(&value[..len])?),
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => Err(StatsError::NotOurs),
        Err(errno) => Err(StatsError::Host(errno.into())),
    }
}
