//! Writing back what the kernel keeps of a mount's files.
//!
//! syncfs(2) of a FUSE mount begins that, and does not wait for its end on Linux 6.16 and later. So the server is asked, through
//! the mount, to make the kernel drop what it keeps of each file that was opened for writing: the kernel writes that first, and
//! the call of the server returns when it is done.

use crate::ask::{self, AskError};
use crate::question::WRITE_BACK;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Between two questions, for a server with a single thread.
const PAUSE: Duration = Duration::from_millis(1);

/// Waits until what programs had written to the mount at `dir` is written to the image. Calls `alive` each time that the server
/// has answered.
///
/// # Locks
/// Waits for the server: without an end if that hangs.
///
/// # Errors
/// The directory can't be opened; a write failed before the wait began.
pub(crate) fn write_back(dir: &Path, mut alive: impl FnMut()) -> Result<(), AskError> {
    let opened = ask::open(dir)?;
    // Begins all of it, so that the wait is not for one page at a time.
    rustix::fs::syncfs(&opened).map_err(io::Error::from)?;
    let mut question = WRITE_BACK.to_owned();
    loop {
        match ask::ask_at(&opened, &question) {
            Err(AskError::Busy(ticket)) => question = format!("{WRITE_BACK}{ticket}"),
            // Message queues, of which the kernel keeps nothing.
            Err(AskError::Unknown) => return Ok(()),
            ended => return ended,
        }
        alive();
        thread::sleep(PAUSE);
    }
}
