//! Requests to the server of a mount, through the mounted directory.

use crate::question::{Answer, Refusal};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use uext4_fuse::ask_settings;
use uext4_fuse::settings::SETTINGS_BYTES;

/// A server does not do what it is asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The directory can't be opened, or the kernel refuses.
    #[error("{0}")]
    Host(#[from] io::Error),
    /// Its server knows no such requests.
    #[error("its server knows no such request")]
    Unknown,
    /// Something is in use that may be free in a moment.
    #[error("in use: {0}")]
    Busy(String),
    /// The reason is for the user.
    #[error("{0}")]
    Refused(String),
}

/// The mounted directory `dir`, open.
///
/// # Errors
/// It can't be opened.
pub(crate) fn open(dir: &Path) -> Result<OwnedFd, AskError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| unanswered(e.into()))
}

/// Asks the server of the mount at `dir` for something.
///
/// # Errors
/// It is not done.
pub(crate) fn ask(dir: &Path, question: &str) -> Result<(), AskError> {
    ask_at(&open(dir)?, question)
}

/// As [`ask`], of a mounted directory that is open.
///
/// # Errors
/// It is not done.
pub(crate) fn ask_at(opened: &OwnedFd, question: &str) -> Result<(), AskError> {
    let mut memory = [0_u8; SETTINGS_BYTES];
    let room = memory.get_mut(..question.len());
    // The last byte stays zero.
    let room = room.filter(|room| room.len() < SETTINGS_BYTES);
    let room = room.ok_or_else(|| AskError::Refused("the options are too long".to_owned()))?;
    room.copy_from_slice(question.as_bytes());
    ask_settings(opened, &mut memory).map_err(unanswered)?;
    let answer = memory.split(|byte| *byte == 0).next().unwrap_or(&memory);
    let answer: Answer = serde_json::from_slice(answer)
        .map_err(|e| AskError::Refused(format!("the server can't be understood: {e}")))?;
    answer.map_err(|Refusal { is_busy, message }| match is_busy {
        true => AskError::Busy(message),
        false => AskError::Refused(message),
    })
}

/// Why a server does not take the question.
fn unanswered(e: io::Error) -> AskError {
    match e.raw_os_error() {
        Some(libc::ENOTTY | libc::ENOSYS | libc::EOPNOTSUPP) => AskError::Unknown,
        Some(libc::ENOTCONN | libc::ECONNABORTED) => AskError::Refused(
            "its server is gone; uext4 umount takes it away, and the next mount recovers the image"
                .to_owned(),
        ),
        Some(libc::EACCES) => AskError::Refused(
            "permission denied; without allow_other, only the user that mounted it may access it"
                .to_owned(),
        ),
        _ => AskError::Host(e),
    }
}
