//! Writing back what the kernel keeps of a mount's files.
//!
//! syncfs(2) of a FUSE mount begins that, and returns before the server has all of it (seen on Linux 6.18). So the server is asked, through
//! the mount, to make the kernel drop what it keeps of each file that was opened for writing: the kernel writes that first, and
//! the call of the server returns when it is done.

use crate::ask::{self, AskError};
use crate::question::WRITE_BACK;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Between two questions, in which a server with a single thread answers writes: the length of its own wait in each.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until what programs had written to the mount at `dir` is written to the image. Calls `progress` when the server has
/// answered writes since the last question.
///
/// # Locks
/// Waits for the server: without an end if that hangs, or if a write does.
///
/// # Errors
/// The directory can't be opened; a write failed; the image was frozen meanwhile.
pub(crate) fn write_back(dir: &Path, mut progress: impl FnMut()) -> Result<(), AskError> {
    let opened = ask::open(dir)?;
    let sync = || rustix::fs::syncfs(&opened).map_err(io::Error::from);
    // Begins all of it, so that the wait is not for one page at a time.
    sync()?;
    let (mut question, mut last) = (WRITE_BACK.to_owned(), String::new());
    loop {
        match ask::ask_at(&opened, &question) {
            Err(AskError::Busy(answer)) if answer != last => {
                let ticket = answer.split(' ').next().unwrap_or_default();
                question = format!("{WRITE_BACK}{ticket}");
                last = answer;
                progress();
            }
            Err(AskError::Busy(_)) => {}
            // Message queues, of which the kernel keeps nothing; a frozen image; a server that does not know the question.
            Err(AskError::Unknown | AskError::Refused(_)) if last.is_empty() => break,
            Ok(()) => break,
            Err(e) => return Err(e),
        }
        thread::sleep(PAUSE);
    }
    // Reports writes that failed since the first call.
    Ok(sync()?)
}
