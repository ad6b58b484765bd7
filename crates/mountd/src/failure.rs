//! Why nothing is mounted, or why a mount did not end as it should.

use crate::options::OptionError;
use crate::sandbox::SandboxError;
use serde::{Deserialize, Serialize};
use std::fmt;

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
