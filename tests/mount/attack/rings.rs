//! Attacks by operations of io_uring, which a filter of system calls does not see: on rings that the server has, and on
//! new ones.
#![allow(unsafe_code, reason = "rings as an attacker uses them")]

use crate::target::Target;
use crate::{Attack, Needs};
use io_uring::{IoUring, Parameters, opcode, squeue, types};
use std::io::{Error, Result};
use std::os::fd::RawFd;
use uext4_testkit::prelude::*;

/// Descriptors to search for a ring.
const FDS: std::ops::Range<RawFd> = 3..200;

pub const ATTACKS: &[(&str, Needs, Attack)] = &[
    ("new_ring", Needs::Nothing, |_| IoUring::new(8).map(drop)),
    ("new_ring_openat", Needs::Nothing, |t| {
        open(&mut IoUring::new(8)?, t)
    }),
    ("new_ring_connect", Needs::Nothing, |t| {
        let mut ring = IoUring::new(8)?;
        let socket = socket(&mut ring)?;
        connect(&mut ring, socket.as_raw_fd(), t)
    }),
    ("ring_openat", Needs::Nothing, |t| {
        on_any(t, |ring| open(ring, t))
    }),
    ("ring_socket", Needs::Nothing, |t| {
        on_any(t, |ring| socket(ring).map(drop))
    }),
    ("ring_connect", Needs::Nothing, |t| {
        on_any(t, |ring| connect(ring, t.socket.as_raw_fd(), t))
    }),
    ("ring_message", Needs::Nothing, |t| on_any(t, message)),
    ("ring_register", Needs::Nothing, |t| {
        on_any(t, |ring| {
            let probed = ring.submitter().register_probe(&mut io_uring::Probe::new());
            let files = || ring.submitter().register_files(&[t.image.as_raw_fd()]);
            probed.or_else(|_| files())
        })
    }),
    ("ring_another_file", Needs::Nothing, |t| {
        on_any(t, |ring| {
            let fd = types::Fd(t.image.as_raw_fd());
            let entry = opcode::Fsync::new(fd).build();
            submit(ring, &entry).map(drop)
        })
    }),
];

/// Rings as the server would have them, if nothing restricted them.
pub fn plain() -> (IoUring, IoUring<squeue::Entry128>) {
    let wide = IoUring::<squeue::Entry128>::builder()
        .setup_coop_taskrun()
        .build(2);
    (
        IoUring::builder().setup_coop_taskrun().build(128).unwrap(),
        wide.unwrap(),
    )
}

/// Where the parts of such rings lie, which is the same for all of a size.
pub fn shapes() -> [Parameters; 2] {
    let (long, wide) = plain();
    [wide.params().clone(), long.params().clone()]
}

/// Tries on each of the process's rings; the last error if it works on none.
fn on_any(target: &Target, attack: impl Fn(&mut IoUring) -> Result<()>) -> Result<()> {
    let mut last = Error::other("no ring");
    let mut tried = 0;
    for fd in FDS.filter(|&fd| is_ring(fd)) {
        let mut ring = map(fd, target)?;
        tried += 1;
        match attack(&mut ring) {
            Ok(()) => return Ok(()),
            Err(e) => last = e,
        }
    }
    eprintln!("{tried} rings tried");
    Err(last)
}

fn is_ring(fd: RawFd) -> bool {
    // SAFETY: a ring is asked to do nothing; anything else refuses.
    unsafe { libc::syscall(libc::SYS_io_uring_enter, fd, 0, 0, 0, 0, 0) == 0 }
}

/// The queues of a ring that is open. Of one with long entries, only the first entry is where it seems to be.
fn map(fd: RawFd, target: &Target) -> Result<IoUring> {
    for shape in &target.shapes {
        // SAFETY: the copy belongs to the mapping, of which no more is used than any ring has before its size is known.
        let mut ring = unsafe {
            let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3);
            IoUring::from_fd(copy, shape.clone())
        }?;
        if ring.submission().capacity() == shape.sq_entries() as usize {
            return Ok(ring);
        }
    }
    Err(Error::other("none of the shapes"))
}

/// Submits one entry, and gives its result.
fn submit(ring: &mut IoUring, entry: &squeue::Entry) -> Result<i32> {
    // SAFETY: what entries point at is alive until the completion is there, which is waited for.
    unsafe { ring.submission().push(entry) }.map_err(Error::other)?;
    ring.submit_and_wait(1)?;
    match ring.completion().next().map(|done| done.result()) {
        Some(result) if result >= 0 => Ok(result),
        Some(error) => Err(Error::from_raw_os_error(-error)),
        None => Err(Error::other("no completion")),
    }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: a ring has just opened it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn open(ring: &mut IoUring, target: &Target) -> Result<()> {
    let path = CString::new(target.path("secret").as_os_str().as_bytes())?;
    let entry = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr()).build();
    submit(ring, &entry).map(owned).map(drop)
}

fn socket(ring: &mut IoUring) -> Result<OwnedFd> {
    let entry = opcode::Socket::new(libc::AF_UNIX, libc::SOCK_STREAM, 0).build();
    submit(ring, &entry).map(owned)
}

/// To a socket that has a path.
fn connect(ring: &mut IoUring, socket: RawFd, target: &Target) -> Result<()> {
    let path = target.path("socket");
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
        *to = from.cast_signed();
    }
    let at: *const libc::sockaddr_un = &address;
    let len = size_of::<libc::sockaddr_un>() as u32;
    let entry = opcode::Connect::new(types::Fd(socket), at.cast(), len).build();
    submit(ring, &entry).map(drop)
}

/// To another ring of the process, as one could be another process's.
fn message(ring: &mut IoUring) -> Result<()> {
    let own = ring.as_raw_fd();
    let mut others = FDS.filter(|&fd| fd != own && is_ring(fd));
    let other = others.next_back().ok_or(Error::other("no other ring"))?;
    let entry = opcode::MsgRingData::new(types::Fd(other), 0, 1, None).build();
    submit(ring, &entry).map(drop)
}
