//! How a thread gets its next request from `/dev/fuse`.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno as HostErrno;
use rustix::thread::sched_yield;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};
use uext4_sync::AdaptiveSpin;

/// The most checks for a request before a thread sleeps.
const CHECKS_MAX: u32 = 50;

/// How a thread gets the next request.
pub(super) trait Reader {
    /// Waits for a request and reads it into `room`.
    ///
    /// # Errors
    /// Those of read(2).
    fn read(&mut self, fd: &OwnedFd, room: &mut [u8]) -> Result<usize, HostErrno>;

    /// The request was answered.
    fn after_answer(&mut self) {}
}

/// Spins for a request, yielding between two checks, then sleeps.
///
/// While spinning succeeds, it keeps the CPU awake: waking an idle CPU takes longer than most requests.
pub(super) struct Adaptive(AdaptiveSpin);

impl Default for Adaptive {
    fn default() -> Adaptive {
        Adaptive(AdaptiveSpin::new(CHECKS_MAX))
    }
}

impl Reader for Adaptive {
    fn read(&mut self, fd: &OwnedFd, room: &mut [u8]) -> Result<usize, HostErrno> {
        let mut is_there = false;
        if self.0.is_enabled() {
            let check = || {
                is_there = has_request(fd);
                is_there
            };
            self.0.spin(check, sched_yield);
        }
        let since = Instant::now();
        let read = rustix::io::read(fd, room);
        if !is_there {
            self.0.note_sleep(since);
        }
        read
    }
}

/// Sleeps between two requests: requests that no caller waits for gather meanwhile, without a wakeup for each.
pub(super) struct Paused(pub Duration);

impl Reader for Paused {
    fn read(&mut self, fd: &OwnedFd, room: &mut [u8]) -> Result<usize, HostErrno> {
        rustix::io::read(fd, room)
    }

    fn after_answer(&mut self) {
        thread::sleep(self.0);
    }
}

/// Whether a request is there.
pub(super) fn has_request(fd: &OwnedFd) -> bool {
    let mut one = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut one, Some(&Timespec::default())).is_ok_and(|n| n > 0)
}
