//! Notification by `SIGEV_THREAD`: a thread that waits until the registration is delivered, and then calls the function.
//!
//! The thread is there before the registration, so that a registration that succeeded is one that can be delivered. It
//! waits for the registration's number, then for its delivery, and ends without a word if the queue was closed, or
//! the registration taken back. It has no descriptor of its own, which would keep the queue open: if
//! the number was closed and is that of another file by then, that file does not know the registration.
//!
//! # Invariants
//! All signals are blocked in the thread, in the function too: they are for the program's own threads.
//!
//! # Locking
//! Thread and registrant share the hand-over's lock, a leaf, which both hold for a moment.

use libc::{c_int, c_void, pthread_attr_t, pthread_t, sigset_t, sigval};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use uext4_mqueue::client::{Descriptor, Notification};

/// `sigev_notify_function`. It may end the thread with pthread_exit(3).
pub type Function = unsafe extern "C-unwind" fn(sigval);

// As the crate `libc` does not have them: the function may unwind, which is how pthread_exit(3) ends a thread.
unsafe extern "C" {
    fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const pthread_attr_t,
        entry: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// How a registration went: its number, or none.
#[derive(Default)]
struct HandOver {
    outcome: Mutex<Option<Option<u64>>>,
    came: Condvar,
}

/// What the thread starts with.
struct Delivery {
    hand_over: Arc<HandOver>,
    fd: RawFd,
    function: Function,
    value: sigval,
}

impl HandOver {
    fn give(&self, registration: Option<u64>) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        *outcome = Some(registration);
        self.came.notify_one();
    }

    fn wait(&self) -> Option<u64> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *outcome {
                Some(registration) => return registration,
                None => {
                    let woken = self.came.wait(outcome);
                    outcome = woken.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl Delivery {
    /// Waits for the registration's number and its delivery: what to call then.
    fn wait(self) -> Option<(Function, sigval)> {
        let registration = self.hand_over.wait()?;
        // SAFETY: it is not negative; see the head of this file for the rest.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        match Descriptor::new(fd).await_notification(registration) {
            Ok(true) => Some((self.function, self.value)),
            _ => None,
        }
    }
}

/// Registers this process for a call of `function` with `value` in a thread with `attributes`, or the default ones.
///
/// # Safety
/// `attributes` is null, or points to initialized attributes; `function` can be called with `value` by any thread.
///
/// # Errors
/// `EAGAIN`: there can't be another thread. Others as [`Descriptor::notify`].
pub unsafe fn register(
    queue: Descriptor<'_>,
    function: Function,
    value: sigval,
    attributes: *const pthread_attr_t,
) -> Result<(), Errno> {
    let hand_over = Arc::<HandOver>::default();
    let delivery = Box::new(Delivery {
        hand_over: Arc::clone(&hand_over),
        fd: queue.fd().as_raw_fd(),
        function,
        value,
    });
    // SAFETY: as here.
    unsafe { start(delivery, attributes) }?;
    let registered = queue.notify(Notification::Await);
    hand_over.give(registered.ok());
    registered.map(drop)
}

/// Starts the thread, detached, with all signals blocked.
///
/// # Safety
/// `attributes` is null, or points to initialized attributes.
unsafe fn start(delivery: Box<Delivery>, attributes: *const pthread_attr_t) -> Result<(), Errno> {
    let mut thread = MaybeUninit::<pthread_t>::uninit();
    let delivery = Box::into_raw(delivery);
    // SAFETY: the thread gets what it takes its argument for, and owns it once it was created; the signal sets
    // are filled in before they are used.
    let failed = unsafe {
        let mut all = MaybeUninit::<sigset_t>::uninit();
        let mut before = MaybeUninit::<sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let failed = pthread_create(thread.as_mut_ptr(), attributes, entry, delivery.cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        failed
    };
    if failed != 0 {
        // SAFETY: there is no thread that owns it.
        drop(unsafe { Box::from_raw(delivery) });
        return Err(Errno::AGAIN);
    }
    // SAFETY: the thread waits for its hand-over, so it exists; no other code detaches or joins it.
    unsafe {
        if attributes.is_null() || !is_detached(attributes) {
            libc::pthread_detach(thread.assume_init());
        }
    }
    Ok(())
}

/// Whether a thread with these attributes is detached from the start.
///
/// # Safety
/// They are initialized.
unsafe fn is_detached(attributes: *const pthread_attr_t) -> bool {
    let mut state = libc::PTHREAD_CREATE_JOINABLE;
    // SAFETY: as here.
    let failed = unsafe { pthread_attr_getdetachstate(attributes, &mut state) };
    failed == 0 && state == libc::PTHREAD_CREATE_DETACHED
}

/// The thread. Nothing is left to be dropped in it when the function is called, which may not return.
extern "C-unwind" fn entry(delivery: *mut c_void) -> *mut c_void {
    if let Some((function, value)) = wait(delivery) {
        // SAFETY: the process that registered the function declares that any thread may call it.
        unsafe { function(value) };
    }
    ptr::null_mut()
}

#[inline(never)]
fn wait(delivery: *mut c_void) -> Option<(Function, sigval)> {
    // SAFETY: it is what `start` passes, for this thread alone.
    let delivery = unsafe { Box::from_raw(delivery.cast::<Delivery>()) };
    delivery.wait()
}
