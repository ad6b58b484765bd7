//! Watches of objects.

use super::{Pool, c_string, checked};
use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;
use std::{io, ptr};

/// What a watch reports.
pub enum WatchEvent {
    /// Another client has changed the object, and waits until this is dropped.
    Notified(Notification),
    /// The cluster has lost contact to this client.
    Lost,
}

/// A notification, which is acknowledged when it is dropped.
pub struct Notification {
    pool: Arc<Pool>,
    object: CString,
    id: u64,
    cookie: u64,
}

/// What the callbacks of a watch use.
struct Watched {
    pool: Arc<Pool>,
    object: CString,
    /// Runs in a thread of librados, and must not block.
    on_event: Box<dyn Fn(WatchEvent) + Send + Sync>,
}

/// A watch of an object: reports changes, and when the cluster has lost contact to this client.
pub struct Watch {
    /// librados has a pointer to it until the watch is removed.
    watched: Arc<Watched>,
    cookie: u64,
}

impl Watch {
    /// Watches an object. `on_event` runs in a thread of librados, and must not block.
    pub fn new(
        pool: &Arc<Pool>,
        object: &str,
        on_event: impl Fn(WatchEvent) + Send + Sync + 'static,
    ) -> io::Result<Watch> {
        let watched = Arc::new(Watched {
            pool: pool.clone(),
            object: c_string(object)?,
            on_event: Box::new(on_event),
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

impl Drop for Notification {
    fn drop(&mut self) {
        let (calls, ioctx) = (self.pool.cluster.calls, self.pool.ioctx);
        let object = self.object.as_ptr();
        // SAFETY: the pool is open, and an answer of no bytes has no buffer.
        unsafe { (calls.rados_notify_ack)(ioctx, object, self.id, self.cookie, ptr::null(), 0) };
    }
}

unsafe extern "C" fn on_notify(
    argument: *mut c_void,
    id: u64,
    cookie: u64,
    _from: u64,
    _data: *mut c_void,
    _bytes: usize,
) {
    // SAFETY: the argument of the watch, which lives until the watch is removed.
    let watched = unsafe { &*argument.cast::<Watched>() };
    (watched.on_event)(WatchEvent::Notified(Notification {
        pool: watched.pool.clone(),
        object: watched.object.clone(),
        id,
        cookie,
    }));
}

unsafe extern "C" fn on_error(argument: *mut c_void, _cookie: u64, _error: c_int) {
    // SAFETY: the argument of the watch, which lives until the watch is removed.
    let watched = unsafe { &*argument.cast::<Watched>() };
    (watched.on_event)(WatchEvent::Lost);
}
