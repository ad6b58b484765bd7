//! Requests over io_uring. Each CPU has a queue with threads of its own, which stay on the CPU of the caller. One system
//! call sends a reply and receives the next request.
//!
//! # Invariants
//! A thread has one request at a time, so no request waits behind a sleeping one while a thread is idle. Forget requests
//! still arrive over `/dev/fuse`; a thread of its own reads them.
//!
//! # Locking
//! None: threads share nothing but the handler.

use super::awake::{self, Awake};
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
use uext4_sync::{AdaptiveSpin, CachePadded};
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
    /// A thread of each CPU stays awake while there are requests.
    keeps_awake: bool,
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
            keeps_awake: !awake::cpus()?.is_empty(),
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
            keeps_awake,
            device,
        } = self.0;
        let count = rings.len();
        let mut threads: Vec<JoinHandle<io::Result<()>>> = Vec::new();
        let (offered, offers) = mpsc::channel();
        let queues: Arc<[Queue]> = (0..cpus).map(|_| Queue::new()).collect();
        for (number, ring) in rings.into_iter().enumerate() {
            let (cpu, offered) = (number % cpus, offered.clone());
            let (handler, queues) = (Arc::clone(handler), Arc::clone(&queues));
            let turn = Turn::new(queues, cpu, keeps_awake);
            let named = thread::Builder::new().name(format!("fuse-{cpu}-{number}"));
            threads.push(named.spawn(move || serve(number, turn, ring, &offered, &*handler))?);
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
    /// Requests that any of them got.
    taken: CachePadded<AtomicU64>,
    spin: AdaptiveSpin,
}

impl Queue {
    fn new() -> Queue {
        Queue {
            taken: CachePadded::new(AtomicU64::new(0)),
            spin: AdaptiveSpin::new(CHECKS_MAX),
        }
    }
}

/// The requests that the threads of all CPUs got.
fn taken_of_all(queues: &[Queue]) -> u64 {
    queues.iter().map(|queue| queue.taken.load(Relaxed)).sum()
}

/// How a thread waits for requests.
struct Turn {
    queues: Arc<[Queue]>,
    cpu: usize,
    keeps_awake: bool,
    awake: Awake,
}

impl Turn {
    fn new(queues: Arc<[Queue]>, cpu: usize, keeps_awake: bool) -> Turn {
        Turn {
            queues,
            cpu,
            keeps_awake,
            awake: Awake::new(0),
        }
    }

    fn queue(&self) -> &Queue {
        &self.queues[self.cpu]
    }

    /// Sends a reply and waits for the next request.
    ///
    /// While spinning succeeds, it keeps the CPU awake until one of its threads gets a request: waking an idle CPU takes
    /// longer than most requests. A spinning thread yields between two checks, so the caller runs first. With few CPUs it
    /// does so while any of them gets requests: else the kernel would move a caller to the idle one.
    fn next(
        &mut self,
        ring: &mut Ring,
        unique: u64,
        answer: Result<usize, Errno>,
    ) -> Result<(), HostErrno> {
        let queue = &self.queues[self.cpu];
        let spins = queue.spin.is_enabled() || self.keeps_awake;
        ring.commit(unique, answer, spins)?;
        let taken = queue.taken.load(Relaxed);
        let has_more = |ring: &mut Ring| ring.has_arrived() || queue.taken.load(Relaxed) != taken;
        if self.keeps_awake {
            let taken = || taken_of_all(&self.queues);
            let mut vigil = self.awake.vigil(taken());
            while !has_more(ring) && !vigil.is_over(taken()) {
                vigil.give_way();
            }
        } else if spins {
            queue.spin.spin(|| has_more(ring), sched_yield);
        }
        if ring.has_arrived() {
            return ring.wait();
        }
        let since = Instant::now();
        let waited = ring.wait();
        queue.spin.note_sleep(since);
        self.awake.note_wake(taken_of_all(&self.queues));
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
    mut turn: Turn,
    ring: RawRing,
    offered: &Sender<io::Result<()>>,
    handler: &H,
) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(turn.cpu);
    // A CPU that is offline: the thread runs where it may.
    let _ = sched_setaffinity(None, &set);
    let mut ring = Ring::new(ring, turn.cpu as u16);
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
        turn.queue().taken.fetch_add(1, Relaxed);
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
        waited = turn.next(&mut ring, header.unique, answer);
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
