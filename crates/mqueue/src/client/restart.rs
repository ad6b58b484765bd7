//! Restarting calls that a signal interrupted.
//!
//! A call on a queue that waits continues after a handler that was installed with `SA_RESTART`, and ends with `EINTR`
//! after one without (signal(7)). The kernel does neither for an ioctl on a mount like this: whatever the signal was,
//! also `SIGSTOP` with `SIGCONT`, and one whose handler has `SA_RESTART`, the server ends the call with `EINTR`. Nothing reports
//! which signal it was. So after `EINTR` the dispositions of the signals that this thread does not block are checked. If none
//! has a handler without `SA_RESTART`, the signal was not one that ends calls, and the call is repeated; deadlines are
//! absolute, so it still ends in time. A process with handlers of both kinds gets `EINTR` for either, which its callers must
//! expect anyway. The handler may already have been removed (`SA_RESETHAND`, or it sets another), so a handler counts too if it
//! was installed before the call, or less than [`KNOWN_FOR`] earlier; the check takes some microseconds and is cached that
//! long. Signals of faults do not count: a waiting call does not fault, and language runtimes, Rust's among them, have
//! handlers for them without `SA_RESTART`.
#![allow(unsafe_code, reason = "sigaction has no safe form")]

use rustix::io::Errno;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

/// The greatest signal.
const SIGNO_MAX: i32 = 64;
/// Signals of faults, which a thread causes itself.
const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// How long the result of a check of handlers is reused.
const KNOWN_FOR: Duration = Duration::from_millis(10);

thread_local! {
    /// When this thread last checked the handlers, and whether any ended calls.
    static KNOWN: Cell<Option<(Instant, bool)>> = const { Cell::new(None) };
}

/// Whether a handler that ends calls was installed at the last check.
fn any_handler_ended_calls() -> bool {
    let now = Instant::now();
    match KNOWN.get() {
        Some((then, ended)) if now.duration_since(then) < KNOWN_FOR => ended,
        _ => {
            let ends = any_handler_ends_calls();
            KNOWN.set(Some((now, ends)));
            ends
        }
    }
}

/// Makes a call that may wait, and repeats it while it is interrupted by signals that do not end calls.
///
/// # Errors
/// As `call`.
pub fn unless_handled<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let ended = any_handler_ended_calls();
    loop {
        match call() {
            Err(Errno::INTR) if !ended && !any_handler_ends_calls() => {}
            done => return done,
        }
    }
}

/// Whether a signal that this thread can get has a handler that was installed without `SA_RESTART`.
fn any_handler_ends_calls() -> bool {
    let blocked = blocked();
    // SAFETY: the set is initialized, and signals have such numbers.
    let comes = |signo: &i32| unsafe { libc::sigismember(&blocked, *signo) } == 0;
    let signals = (1..=SIGNO_MAX).filter(|signo| !FAULTS.contains(signo));
    let mut actions = signals.filter(comes).filter_map(disposition);
    actions.any(|action| {
        let is_handler = !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
        is_handler && action.sa_flags & libc::SA_RESTART == 0
    })
}

/// The signals that this thread does not get.
fn blocked() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the call changes no mask, and the set has room for the current one. It is initialized before, in case the
    // call fails.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), set.as_mut_ptr());
        set.assume_init()
    }
}

/// The disposition of a signal; `None` for signals that the C library reserves.
fn disposition(signo: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: the call changes no disposition, and `action` has room for the current one.
    let said = unsafe { libc::sigaction(signo, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: it was filled in if the call did not fail.
    (said == 0).then(|| unsafe { action.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn nothing(_: i32) {}

    fn handle(signo: i32, flags: i32) {
        let handler: extern "C" fn(i32) = nothing;
        // SAFETY: the handler does nothing.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = flags;
            assert_eq!(libc::sigaction(signo, &action, ptr::null_mut()), 0);
        }
    }

    fn block(how: i32, signo: i32) {
        // SAFETY: the set is initialized first.
        unsafe {
            let mut set = MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), signo);
            let set = set.assume_init();
            assert_eq!(libc::pthread_sigmask(how, &set, ptr::null_mut()), 0);
        }
    }

    /// One test, because dispositions belong to the process.
    #[test]
    fn only_a_handler_without_restart_ends_calls() {
        let calls = |ends: bool| {
            let mut left = 3;
            KNOWN.set(None);
            let done = unless_handled(|| {
                left -= 1;
                if left > 0 { Err(Errno::INTR) } else { Ok(()) }
            });
            assert_eq!(done, if ends { Err(Errno::INTR) } else { Ok(()) });
        };
        calls(false);
        handle(libc::SIGUSR1, libc::SA_RESTART);
        calls(false);
        handle(libc::SIGUSR2, 0);
        calls(true);
        block(libc::SIG_BLOCK, libc::SIGUSR2);
        calls(false);
        block(libc::SIG_UNBLOCK, libc::SIGUSR2);
        calls(true);
        // One that is gone when the call ends.
        KNOWN.set(None);
        let done: Result<(), _> = unless_handled(|| {
            handle(libc::SIGUSR2, libc::SA_RESTART);
            Err(Errno::INTR)
        });
        assert_eq!(done, Err(Errno::INTR));
        handle(libc::SIGSEGV, 0);
        calls(false);
    }
}
