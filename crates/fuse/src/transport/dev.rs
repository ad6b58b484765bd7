//! Requests over `/dev/fuse`: each thread reads one, answers it, and reads the next.
//!
//! With few CPUs, each has a thread of its own and the others relieve those; see `placed`. Else all threads read.
//!
//! # Invariants
//! A reply is written to the descriptor that its request was read from.
//!
//! # Locking
//! None: threads share nothing but the handler and atomics.

use super::buffer::Buffer;
use super::device;
use super::placed::{self, Placed, Placement, Relief};
use super::reader::{Adaptive, Reader};
use super::reply::send;
use super::{Transport, join_all};
use crate::abi::{DATA_BYTES_MAX, input};
use crate::handler::Handler;
use crate::request::Request;
use rustix::io::Errno as HostErrno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;

/// What a write's data has before it.
const BEFORE_DATA: usize = size_of::<input::Header>() + size_of::<input::Write>();

/// Threads on `/dev/fuse`, each with a descriptor of its own.
pub struct DevTransport {
    devices: Vec<Arc<OwnedFd>>,
    placement: Arc<Placement>,
}

impl DevTransport {
    /// Binds `devices`, one for each thread, to the mount of `connection`.
    ///
    /// # Errors
    /// As the host says.
    pub fn new(connection: &OwnedFd, devices: Devices) -> io::Result<DevTransport> {
        for fd in &devices.descriptors {
            device::bind(fd, connection.as_fd())?;
        }
        Ok(DevTransport {
            devices: devices.descriptors.into_iter().map(Arc::new).collect(),
            placement: Arc::new(Placement::new(devices.cpus)),
        })
    }

    /// The descriptor of each thread, for replies that are given later.
    pub fn devices(&self) -> &[Arc<OwnedFd>] {
        &self.devices
    }
}

/// Descriptors of `/dev/fuse`, one for each thread.
pub struct Devices {
    descriptors: Vec<OwnedFd>,
    /// The CPUs that have a thread of their own.
    cpus: Vec<usize>,
}

impl Devices {
    /// Opens one for each of `threads`.
    ///
    /// # Errors
    /// As the host says: no `/dev/fuse`, or no permission.
    pub fn open(threads: usize) -> io::Result<Devices> {
        Ok(Devices {
            descriptors: (0..threads)
                .map(|_| device::open_device())
                .collect::<io::Result<_>>()?,
            cpus: placed::cpus_for(threads)?,
        })
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.descriptors.len()
    }
}

impl Transport for DevTransport {
    fn workers(&self) -> usize {
        self.devices.len()
    }

    fn run<H: Handler>(self, handler: &Arc<H>, started: impl FnOnce()) -> io::Result<()> {
        let placed = self.placement.len();
        let mut threads = Vec::new();
        for (number, fd) in self.devices.into_iter().enumerate() {
            let (handler, placement) = (Arc::clone(handler), Arc::clone(&self.placement));
            let named = thread::Builder::new().name(format!("fuse-{number}"));
            threads.push(named.spawn(move || match number {
                _ if number < placed => {
                    serve(number, &fd, &*handler, Placed::new(placement, number))
                }
                _ if placed > 0 => serve(number, &fd, &*handler, Relief::new(placement)),
                _ => serve(number, &fd, &*handler, Adaptive::default()),
            })?);
        }
        if placed > 0 {
            let relief = threads[placed..].iter().map(|t| t.thread().clone());
            let (placement, relief) = (self.placement, relief.collect::<Vec<_>>());
            let named = thread::Builder::new().name("fuse-watch".into());
            threads.push(named.spawn(move || {
                placement.watch(&relief);
                Ok(())
            })?);
        }
        started();
        join_all(threads)
    }
}

/// Serves the requests of one descriptor until the mount is gone.
pub(super) fn serve<H: Handler>(
    number: usize,
    fd: &OwnedFd,
    handler: &H,
    mut reader: impl Reader,
) -> io::Result<()> {
    let mut request = Buffer::new(DATA_BYTES_MAX as usize);
    let mut reply = Buffer::new(DATA_BYTES_MAX as usize);
    loop {
        let room = request.with_room_before(BEFORE_DATA);
        let read = match reader.read(fd, room) {
            Ok(read) => read,
            // The request was withdrawn, or the thread was woken without one.
            Err(HostErrno::NOENT | HostErrno::INTR | HostErrno::AGAIN) => continue,
            Err(HostErrno::NODEV | HostErrno::CONNABORTED) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
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
        reader.after_answer();
    }
}
