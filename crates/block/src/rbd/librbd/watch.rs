//! Watches of objects.

use super::{Pool, c_string, checked};
use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{io, ptr};

/// What the callbacks of a watch use.
struct Watched {
    pool: Arc<Pool>,
    object: CString,
    /// The errno with which the watch was lost; 0 before.
    error: AtomicI32,
}

/// A watch of an object: the cluster reports when it has lost contact to this client.
pub struct Watch {
    /// librados has a pointer to it until the watch is removed.
    watched: Arc<Watched>,
    cookie: u64,
}

impl Watch {
    /// Watches an object.
    pub fn new(pool: &Arc<Pool>, object: &str) -> io::Result<Watch> {
        let watched = Arc::new(Watched {
            pool: pool.clone(),
            object: c_string(object)?,
            error: AtomicI32::new(0),
        });
        let mut cookie = 0;
        let argument = Arc::as_ptr(&watched).cast_mut().cast();
        let (object, calls) = (watched.object.as_ptr(), pool.cluster.calls);
        // SAFETY: the pool is open; `watched` is freed after the watch is removed, and the callbacks only share it.
        checked(unsafe {
            (calls.rados_watch2)(
                pool.ioctx,
                object,
                &mut cookie,
                on_notify,
                on_error,
                argument,
            )
        })?;
        Ok(Watch { watched, cookie })
    }

    /// Why the watch is lost.
    pub fn error(&self) -> Option<io::Error> {
        match self.watched.error.load(Ordering::Acquire) {
            0 => None,
            errno => Some(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let pool = &self.watched.pool;
        // SAFETY: the pool is open. The second call returns after the last callback, so that `watched` can be freed.
        unsafe {
            (pool.cluster.calls.rados_unwatch2)(pool.ioctx, self.cookie);
            (pool.cluster.calls.rados_watch_flush)(pool.cluster.rados);
        }
    }
}

/// Acknowledges a notification, which other clients wait for.
unsafe extern "C" fn on_notify(
    argument: *mut c_void,
    notification: u64,
    cookie: u64,
    _from: u64,
    _data: *mut c_void,
    _bytes: usize,
) {
    // SAFETY: the argument of the watch, which lives until the watch is removed.
    let watched = unsafe { &*argument.cast::<Watched>() };
    let calls = watched.pool.cluster.calls;
    let (ioctx, object) = (watched.pool.ioctx, watched.object.as_ptr());
    // SAFETY: the pool is open, and an answer of no bytes has no buffer.
    unsafe { (calls.rados_notify_ack)(ioctx, object, notification, cookie, ptr::null(), 0) };
}

unsafe extern "C" fn on_error(argument: *mut c_void, _cookie: u64, error: c_int) {
    // SAFETY: the argument of the watch, which lives until the watch is removed.
    let watched = unsafe { &*argument.cast::<Watched>() };
    watched
        .error
        .store(error.saturating_neg(), Ordering::Release);
}
