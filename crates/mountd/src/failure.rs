//! Why nothing is mounted, or why a mount did not end as it should.

use crate::options::OptionError;
use crate::sandbox::SandboxError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::ErrorKind;
use uext4::Errno;

/// What helps where memory is short.
pub const MORE_MEMORY: &str = "give the server more with -o memory=SIZE";

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
        let message = match e.errno() {
            // No room for a thread's stack is reported as this.
            Errno::EAGAIN | Errno::ENOMEM => format!("{e}; {MORE_MEMORY}"),
            _ => e.to_string(),
        };
        Failure {
            errno: Some(e.errno().0),
            message,
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
        match e.kind() {
            // No room for a thread's stack is reported as this.
            ErrorKind::WouldBlock | ErrorKind::OutOfMemory => {
                Failure::new(format_args!("no room for a thread: {e}; {MORE_MEMORY}"))
            }
            _ => Failure::new(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_room_names_the_option() {
        let said = |errno| Failure::from(std::io::Error::from_raw_os_error(errno)).message;
        for errno in [libc::EAGAIN, libc::ENOMEM] {
            assert!(said(errno).ends_with("-o memory=SIZE"), "{}", said(errno));
        }
        assert!(!said(libc::EIO).contains("memory"));
    }
}
