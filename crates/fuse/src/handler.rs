//! The interface between the transports, which move bytes, and the servers, which answer requests.

use crate::request::Request;
use uext4_vfs::Errno;
use zerocopy::{Immutable, IntoBytes};

/// Answers requests, from many threads at once.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request: writes the reply's body to `out`, which has room for the longest reply, and returns its length;
    /// `None` if there is no reply or if it follows later through a [`Replier`](crate::transport::reply::Replier).
    ///
    /// `worker` is the number of the thread, below the number of threads that the transport has.
    ///
    /// # Errors
    /// The errno that the caller gets.
    fn handle(
        &self,
        worker: usize,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Errno>;

    /// Makes requests fail with `ENOTCONN` from now on. Returns when no request is being answered and the kernel's
    /// references are dropped. A thread that answers a request must not call this. A handler without such state has nothing
    /// to do.
    ///
    /// # Locks
    /// May sleep.
    fn stop(&self) {}
}

/// Writes a structure to the start of a reply and returns its length.
///
/// # Errors
/// `EIO`: there is no room.
pub fn put<T: IntoBytes + Immutable>(out: &mut [u8], value: &T) -> Result<usize, Errno> {
    put_bytes(out, value.as_bytes())
}

/// Writes bytes to the start of a reply and returns their number.
///
/// # Errors
/// `EIO`: there is no room.
pub fn put_bytes(out: &mut [u8], bytes: &[u8]) -> Result<usize, Errno> {
    let room = out.get_mut(..bytes.len()).ok_or(Errno::EIO)?;
    room.copy_from_slice(bytes);
    Ok(bytes.len())
}
