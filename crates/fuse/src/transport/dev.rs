//! Requests over `/dev/fuse`: each thread reads one, answers it, and reads the next.
//!
//! # Invariants
//! A reply is written to the descriptor that its request was read from.
//!
//! # Locking
//! None: threads share nothing but the handler.

use super::buffer::Buffer;
use super::device;
use super::reply::send;
use super::{Transport, join_all};
use crate::abi::{DATA_BYTES_MAX, input};
use crate::handler::Handler;
use crate::request::Request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno as HostErrno;
use rustix::thread::sched_yield;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use uext4_sync::AdaptiveSpin;

/// The most checks for a request before a thread sleeps.
const CHECKS_MAX: u32 = 50;

/// What a write's data has before it.
const BEFORE_DATA: usize = size_of::<input::Header>() + size_of::<input::Write>();

/// Threads on `/dev/fuse`, each with a descriptor of its own.
pub struct DevTransport {
    devices: Vec<Arc<OwnedFd>>,
}

impl DevTransport {
    /// Binds `devices`, one for each thread, to the mount of `connection`.
    ///
    /// # Errors
    /// As the host says.
    pub fn new(connection: &OwnedFd, devices: Vec<OwnedFd>) -> io::Result<DevTransport> {
        for fd in &devices {
            device::bind(fd, connection.as_fd())?;
        }
        let devices = devices.into_iter().map(Arc::new).collect();
        Ok(DevTransport { devices })
    }

    /// The descriptor of each thread, for replies that are given later.
    pub fn devices(&self) -> &[Arc<OwnedFd>] {
        &self.devices
    }
}

impl Transport for DevTransport {
    fn workers(&self) -> usize {
        self.devices.len()
    }

    fn run<H: Handler>(self, handler: &Arc<H>, started: impl FnOnce()) -> io::Result<()> {
        let mut threads = Vec::new();
        for (number, fd) in self.devices.into_iter().enumerate() {
            let handler = Arc::clone(handler);
            let named = thread::Builder::new().name(format!("fuse-{number}"));
            threads.push(named.spawn(move || serve(number, &fd, &*handler, None))?);
        }
        started();
        join_all(threads)
    }
}

/// Serves the requests of one descriptor until the mount is gone. Sleeps for `pause` between two requests: requests that no
/// caller waits for gather meanwhile, without a wakeup for each.
pub(super) fn serve<H: Handler>(
    number: usize,
    fd: &OwnedFd,
    handler: &H,
    pause: Option<Duration>,
) -> io::Result<()> {
    let mut request = Buffer::new(DATA_BYTES_MAX as usize);
    let mut reply = Buffer::new(DATA_BYTES_MAX as usize);
    let spin = AdaptiveSpin::new(if pause.is_some() { 0 } else { CHECKS_MAX });
    loop {
        let slept = spin_for_request(fd, &spin);
        let room = request.with_room_before(BEFORE_DATA);
        let read = match rustix::io::read(fd, &mut *room) {
            Ok(read) => read,
            // The request was withdrawn, or the thread was woken without one.
            Err(HostErrno::NOENT | HostErrno::INTR | HostErrno::AGAIN) => continue,
            Err(HostErrno::NODEV | HostErrno::CONNABORTED) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        if let Some(since) = slept {
            spin.note_sleep(since);
        }
        match Request::from_bytes(&room[..read]) {
            Ok(request) => {
                let out = reply.page();
                let answer = handler.handle(number, &request, out);
                let answer = match answer {
                    Ok(None) => None,
                    _ if !request.opcode.has_reply() => None,
                    Ok(Some(len)) => Some(Ok(&out[..len])),
                    Err(errno) => Some(Err(errno)),
                };
                if let Some(answer) = answer {
                    send(fd, request.header.unique, answer)?;
                }
            }
            Err((Some(header), errno)) => send(fd, header.unique, Err(errno))?,
            Err((None, _)) => return Err(io::Error::other("a request without a header")),
        }
        if let Some(pause) = pause {
            thread::sleep(pause);
        }
    }
}

/// Spins for a request, yielding between two checks. Returns the time if there is none and the thread will sleep.
///
/// While spinning succeeds, it keeps the CPU awake: waking an idle CPU takes longer than most requests.
fn spin_for_request(fd: &OwnedFd, spin: &AdaptiveSpin) -> Option<Instant> {
    let mut is_there = false;
    let mut check = || {
        let mut one = [PollFd::new(fd, PollFlags::IN)];
        is_there = poll(&mut one, Some(&Timespec::default())).is_ok_and(|n| n > 0);
        is_there
    };
    if spin.is_enabled() {
        spin.spin(&mut check, sched_yield);
    }
    (!is_there).then(Instant::now)
}
