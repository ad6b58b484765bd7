//! Requests over io_uring: for each CPU a queue with threads of its own, which stay on that CPU and so next to whoever
//! asks; one system call gives a reply and brings the next request.
//!
//! # Invariants
//! A thread has one request at a time, so none waits behind another that sleeps while a thread is idle. References
//! that the kernel gives back come over `/dev/fuse` all the same, and are read by a thread of their own.
//!
//! # Locking
//! None: threads share nothing but the handler.

use super::buffer::Buffer;
use super::ring::Ring;
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
use uext4::Errno;
use uext4_sync::Patience;

/// Threads of a queue: one may sleep in fsync(2) while others answer.
pub const THREADS_PER_CPU: usize = 4;

/// How long references that the kernel gives back are left to gather.
const FORGET_PAUSE: Duration = Duration::from_millis(1);

/// The most looks for a request before sleeping: some 50 us where nobody else wants the CPU.
const LOOKS_MAX: u32 = 100;

/// Names and short data are copied out of the way of the reply, to a page's start as direct I/O wants it; what is longer
/// is used where it lies.
const COPIED_BYTES_MAX: usize = 4096;

/// Queues of io_uring, one for each CPU.
pub struct UringTransport {
    connection: Arc<OwnedFd>,
    cpus: usize,
    threads_per_cpu: usize,
    /// For what comes over `/dev/fuse`.
    dev: OwnedFd,
}

impl UringTransport {
    /// Queues for `cpus` CPUs, all that the machine could have; `device` is bound to the mount of `connection`.
    ///
    /// # Errors
    /// As the host says.
    pub fn new(
        connection: OwnedFd,
        device: OwnedFd,
        cpus: usize,
        threads_per_cpu: usize,
    ) -> io::Result<UringTransport> {
        device::bind(&device, connection.as_fd())?;
        Ok(UringTransport {
            connection: Arc::new(connection),
            cpus,
            threads_per_cpu,
            dev: device,
        })
    }
}

impl Transport for UringTransport {
    fn workers(&self) -> usize {
        self.cpus * self.threads_per_cpu + 1
    }

    fn run<H: Handler>(self, handler: &Arc<H>, started: impl FnOnce()) -> io::Result<()> {
        let rings = self.cpus * self.threads_per_cpu;
        let mut threads: Vec<JoinHandle<io::Result<()>>> = Vec::new();
        let (offered, offers) = mpsc::channel();
        let queues: Vec<_> = (0..self.cpus)
            .map(|cpu| Arc::new(Queue::new(cpu)))
            .collect();
        for number in 0..rings {
            let (handler, connection) = (Arc::clone(handler), Arc::clone(&self.connection));
            let (cpu, offered) = (number % self.cpus, offered.clone());
            let queue = Arc::clone(&queues[cpu]);
            let named = thread::Builder::new().name(format!("fuse-{cpu}-{number}"));
            threads
                .push(named.spawn(move || serve(number, &queue, connection, &offered, &*handler))?);
        }
        drop(offered);
        let (for_dev, dev) = (Arc::clone(handler), self.dev);
        let named = thread::Builder::new().name("fuse-dev".into());
        threads.push(named.spawn(move || dev::serve(rings, &dev, &*for_dev, Some(FORGET_PAUSE)))?);
        // Until every queue has a ring, the kernel keeps requests back.
        for offer in offers.iter().take(rings) {
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
    patience: Patience,
}

impl Queue {
    fn new(cpu: usize) -> Queue {
        Queue {
            cpu,
            taken: AtomicU64::new(0),
            patience: Patience::new(LOOKS_MAX),
        }
    }

    /// Gives a reply, and waits for the next request.
    ///
    /// As long as that has been of use, the CPU is kept awake until one of its threads gets one: waking a CPU that
    /// sleeps takes longer than most requests. Who looks yields each time, so whoever asks runs first.
    fn next(
        &self,
        ring: &mut Ring,
        unique: u64,
        answer: Result<usize, Errno>,
    ) -> Result<(), HostErrno> {
        let looks = self.patience.is_left();
        ring.commit(unique, answer, looks)?;
        if looks {
            let taken = self.taken.load(Relaxed);
            let has_more = || ring.has_arrived() || self.taken.load(Relaxed) != taken;
            self.patience.look(has_more, sched_yield);
        }
        if ring.has_arrived() {
            return ring.wait();
        }
        let since = Instant::now();
        let waited = ring.wait();
        self.patience.slept(since);
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
    connection: Arc<OwnedFd>,
    offered: &Sender<io::Result<()>>,
    handler: &H,
) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(queue.cpu);
    // A CPU that is offline: the thread runs where it may.
    let _ = sched_setaffinity(None, &set);
    let offer =
        Ring::new(connection, queue.cpu as u16).and_then(|mut ring| match ring.register() {
            Ok(()) => Ok(Some(ring)),
            // The first rings may have served all there was before this one came to register.
            Err(e) if is_over(e) => Ok(None),
            Err(e) => Err(e.into()),
        });
    let mut ring = match offer {
        Ok(ring) => {
            let _ = offered.send(Ok(()));
            match ring {
                Some(ring) => ring,
                None => return Ok(()),
            }
        }
        Err(e) => {
            let fewer = match e.kind() {
                io::ErrorKind::OutOfMemory => "; ask for fewer threads (-o threads=N, of each CPU)",
                _ => "",
            };
            let why = format!("FUSE over io_uring: {e}{fewer}");
            let _ = offered.send(Err(io::Error::new(e.kind(), why)));
            return Ok(());
        }
    };
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
        // Much data, and so a short reply, which waits in the scratch until the data is done with.
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
