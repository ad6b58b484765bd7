//! What answers requests: between the transports, which only move bytes, and what is served.

use crate::request::Request;
use uext4_vfs::Errno;
use zerocopy::{Immutable, IntoBytes};

/// Answers requests, from many threads at once.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request: writes the reply's body to `out`, which has room for what the kernel asks for at most,
    /// and gives its length; `None` where there is no reply, or where it is given later, through what the transport
    /// gave the handler for that.
    ///
    /// `worker` is the number of the thread, below the number of threads that the transport has.
    ///
    /// # Errors
    /// What the caller is told.
    fn handle(
        &self,
        worker: usize,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Errno>;

    /// From now on requests get `ENOTCONN`; returns when none is being answered any more, and what was kept for the
    /// kernel is let go of. Not to be called by a thread that answers one. Who serves nothing that lasts has nothing
    /// to do.
    ///
    /// # Locks
    /// May sleep.
    fn stop(&self) {}
}

/// Writes a structure to the start of a reply, and gives its length.
///
/// # Errors
/// `EIO`: there is no room.
pub fn put<T: IntoBytes + Immutable>(out: &mut [u8], value: &T) -> Result<usize, Errno> {
    put_bytes(out, value.as_bytes())
}

/// Writes bytes to the start of a reply, and gives their number.
///
/// # Errors
/// `EIO`: there is no room.
pub fn put_bytes(out: &mut [u8], bytes: &[u8]) -> Result<usize, Errno> {
    let room = out.get_mut(..bytes.len()).ok_or(Errno::EIO)?;
    room.copy_from_slice(bytes);
    Ok(bytes.len())
}
