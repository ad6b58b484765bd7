//! What the server of a mount is asked through the mounted directory, and what it answers.

use serde::{Deserialize, Serialize};

/// Why a mount stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Something is in use; it may be free in a moment.
    pub is_busy: bool,
    /// For the user.
    pub message: String,
}

/// What a server answers.
pub type Answer = Result<(), Refusal>;

/// The request to freeze the image, and the one to thaw it. No option of a mount has such a name.
pub const FREEZE: &str = "freeze";
/// See [`FREEZE`].
pub const THAW: &str = "thaw";
/// The request to add the key that follows, in hexadecimal digits, and the one to remove the key whose name follows.
pub const ADD_KEY: &str = "add-encryption-key ";
/// See [`ADD_KEY`].
pub const REMOVE_KEY: &str = "remove-encryption-key ";
/// The request to make the kernel send what it keeps, alone or followed by a ticket. Until all is sent, the answer is that the mount is
/// busy, with the ticket and how many writes were answered.
pub const WRITE_BACK: &str = "write-back ";
