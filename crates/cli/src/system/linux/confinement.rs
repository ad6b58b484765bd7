//! What a process of root gives up: every path, network, capability and user.

use anyhow::Result;
use uext4_mountd::process::limits;
use uext4_mountd::sandbox::{self, Serves};

/// Whether [`enter`] confines this process.
pub fn is_for_this_process() -> bool {
    rustix::process::geteuid().is_root()
}

/// Lets the process have as many files open as it may.
pub fn raise_open_files_max() {
    limits::raise_open_files_max();
}

/// Confines the process, which must have one thread.
///
/// # Errors
/// The host refuses a step.
pub fn enter() -> Result<()> {
    sandbox::enter(Serves::Terminal)?;
    Ok(())
}
