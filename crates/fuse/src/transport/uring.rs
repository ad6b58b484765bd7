//! Requests over io_uring. Each CPU has a queue with threads of its own, which stay on the CPU of the caller. One system
//! call sends a reply and receives the next request.
//!
//! # Invariants
//! A thread has one request at a time, so no request waits behind a sleeping one while a thread is idle. Forget requests
//! still arrive over `/dev/fuse`; a thread of its own reads them.
//!
//! # Locking
//! None: threads share nothing but the handler.

use super::buffer::Buffer;
use super::reader::Paused;
use super::ring::{self, RawRing, Ring};
use super::{Transport, join_all};
use super::{dev, device};
use crate::abi::input;
use crate::handler::{Handler, put_bytes};
use crate::request::Request;
use rustix::io::Errno as HostErrno;
use rustix::thread::{CpuSet, sched_setaffinity, sched_yield};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use uext4_sync::AdaptiveSpin;
use uext4_vfs::Errno;

/// Threads of a queue: one may sleep in fsync(2) while others answer.
pub const THREADS_PER_CPU: usize = 4;

/// The switch of FUSE over io_uring.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// How long forget requests gather before they are read.
const FORGET_PAUSE: Duration = Duration::from_millis(1);

/// The most checks for a request before a thread sleeps: about 50 us on an otherwise idle CPU.
const CHECKS_MAX: u32 = 100;

/// Up to this length, names and data are copied to the start of a page, out of the way of the reply. Longer data is used in
/// place.
const COPIED_BYTES_MAX: usize = 4096;

/// What queues of io_uring take from the host. A process acquires it before it enters a sandbox.
pub struct UringResources {
    /// Those of one CPU follow each other at a distance of `cpus`.
    rings: Vec<RawRing>,
    cpus: usize,
    /// The descriptor of `/dev/fuse` that all rings are for; some requests are read from it nevertheless.
    device: OwnedFd,
}

impl UringResources {
    /// Rings for queues of `cpus` CPUs, all that the machine could have.
    ///
    /// # Errors
    /// As the host says: io_uring is not allowed, has no restrictions, or there is no memory.
    pub fn new(cpus: usize, threads_per_cpu: usize) -> io::Result<UringResources> {
        let device = device::open_device()?;
        let rings = (0..cpus * threads_per_cpu).map(|_| ring::make(device.as_fd()));
        Ok(UringResources {
            rings: rings.collect::<io::Result<_>>()?,
            cpus,
            device,
        })
    }

    /// How many threads will serve.
    pub fn workers(&self) -> usize {
        self.rings.len() + 1
    }
}

/// Whether the kernel has FUSE over io_uring and it is enabled.
pub fn is_enabled() -> bool {
    std::fs::read_to_string(SWITCH).is_ok_and(|value| value.starts_with('Y'))
}

/// Queues of io_uring, one for each CPU.
pub struct UringTransport(UringResources);

impl UringTransport {
    /// Binds what was resources to the mount of `connection`.
    ///
    /// # Errors
    /// As the host says.
    pub fn new(connection: &OwnedFd, resources: UringResources) -> io::Result<UringTransport> {
        device::bind(&resources.device, connection.as_fd())?;
        Ok(UringTransport(resources))
    }
}

impl Transport for UringTransport {
    fn workers(&self) -> usize {
        self.0.workers()
    }

    fn run<H: Handler>(self, handler: &Arc<H>, started: impl FnOnce()) -> io::Result<()> {
        let UringResources {
            rings,
            cpus,
            device,
        } = self.0;
        let count = rings.len();
        let mut threads: Vec<JoinHandle<io::Result<()>>> = Vec::new();
        let (offered, offers) = mpsc::channel();
        let queues: Vec<_> = (0..cpus).map(|cpu| Arc::new(Queue::new(cpu))).collect();
        for (number, ring) in rings.into_iter().enumerate() {
            let (cpu, offered) = (number % cpus, offered.clone());
            let (handler, queue) = (Arc::clone(handler), Arc::clone(&queues[cpu]));
            let named = thread::Builder::new().name(format!("fuse-{cpu}-{number}"));
            threads.push(named.spawn(move || serve(number, &queue, ring, &offered, &*handler))?);
        }
        drop(offered);
        let for_dev = Arc::clone(handler);
        let named = thread::Builder::new().name("fuse-dev".into());
        let serve_device = move || dev::serve(count, &device, &*for_dev, Paused(FORGET_PAUSE));
        threads.push(named.spawn(serve_device)?);
        // Until every queue has a ring, the kernel keeps requests back.
        for offer in offers.iter().take(count) {
            offer?;
        }
        started();
        join_all(threads)
    }
}

/// What the threads of a CPU share.
struct Queue {
    cpu: usize,
    /// Requests that any of them got.
    taken: AtomicU64,
    spin: AdaptiveSpin,
}

impl Queue {
    fn new(cpu: usize) -> Queue {
        Queue {
            cpu,
            taken: AtomicU64::new(0),
            spin: AdaptiveSpin::new(CHECKS_MAX),
        }
    }

    /// Sends a reply and waits for the next request.
    ///
    /// While spinning succeeds, it keeps the CPU awake until one of its threads gets a request: waking an idle CPU takes
    /// longer than most requests. A spinning thread yields between two checks, so the caller runs first.
    fn next(
        &self,
        ring: &mut Ring,
        unique: u64,
        answer: Result<usize, Errno>,
    ) -> Result<(), HostErrno> {
        let spins = self.spin.is_enabled();
        ring.commit(unique, answer, spins)?;
        if spins {
            let taken = self.taken.load(Relaxed);
            let has_more = || ring.has_arrived() || self.taken.load(Relaxed) != taken;
            self.spin.spin(has_more, sched_yield);
        }
        if ring.has_arrived() {
            return ring.wait();
        }
        let since = Instant::now();
        let waited = ring.wait();
        self.spin.note_sleep(since);
        waited
    }
}

/// Whether the mount is gone, and not broken.
fn is_over(e: HostErrno) -> bool {
    matches!(
        e,
        HostErrno::NOTCONN | HostErrno::CONNABORTED | HostErrno::NODEV
    )
}

/// Serves what comes through a ring of that queue, until the mount is gone.
fn serve<H: Handler>(
    number: usize,
    queue: &Queue,
    ring: RawRing,
    offered: &Sender<io::Result<()>>,
    handler: &H,
) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(queue.cpu);
    // A CPU that is offline: the thread runs where it may.
    let _ = sched_setaffinity(None, &set);
    let mut ring = Ring::new(ring, queue.cpu as u16);
    match ring.register() {
        Ok(()) => {
            let _ = offered.send(Ok(()));
        }
        // The first rings may have served all there was before this one came to register.
        Err(e) if is_over(e) => {
            let _ = offered.send(Ok(()));
            return Ok(());
        }
        Err(e) => {
            let e = io::Error::from(e);
            let fewer = match e.kind() {
                io::ErrorKind::OutOfMemory => "; ask for fewer threads (-o threads=N, of each CPU)",
                _ => "",
            };
            let why = format!("FUSE over io_uring: {e}{fewer}");
            let _ = offered.send(Err(io::Error::new(e.kind(), why)));
            return Ok(());
        }
    }
    let mut scratch = Buffer::new(COPIED_BYTES_MAX);
    let mut waited = ring.wait();
    loop {
        queue.taken.fetch_add(1, Relaxed);
        match waited {
            Ok(()) => {}
            Err(e) if is_over(e) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        let (header, arg, memory, filled) = ring.request();
        let answer = answer(
            number,
            &header,
            &arg,
            memory,
            filled,
            scratch.page(),
            handler,
        );
        waited = queue.next(&mut ring, header.unique, answer);
    }
}

/// Answers the request in `memory`, where the reply goes too. A ring holds a request until it is answered, so no reply
/// is given later here.
fn answer<H: Handler>(
    number: usize,
    header: &input::Header,
    arg: &[u8],
    memory: &mut [u8],
    filled: usize,
    scratch: &mut [u8],
    handler: &H,
) -> Result<usize, Errno> {
    if filled > COPIED_BYTES_MAX {
        // Much data, and so a short reply, which waits in the scratch until the data has been consumed.
        let request = Request::from_parts(header, arg, &memory[..filled])?;
        let len = handler
            .handle(number, &request, scratch)?
            .ok_or(Errno::EIO)?;
        return put_bytes(memory, scratch.get(..len).ok_or(Errno::EIO)?);
    }
    let copied = &mut scratch[..filled];
    copied.copy_from_slice(&memory[..filled]);
    let request = Request::from_parts(header, arg, copied)?;
    handler.handle(number, &request, memory)?.ok_or(Errno::EIO)
}
