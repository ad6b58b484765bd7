//! Many requests in flight at once, on io_uring.
//!
//! # Data model
//! A caller checks a ring out, submits the requests of its batch, waits for all of them and puts the ring
//! back: a ring has one user, and threads submit at the same time on different rings. A ring is made when
//! there is none to check out. A ring can read and write, and nothing else: io_uring has operations that open files
//! and connect sockets, which a process that takes over the program must not find.
//!
//! # Invariants
//! No request is in flight on a ring in the pool, nor after a call has returned or unwound: the kernel uses
//! the caller's buffers only while the caller lends them. Where that can't be kept, the process ends.
//!
//! # Locking
//! Those of [`Pool`]; none over I/O.

use super::pool::Pool;
use io_uring::register::Restriction;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Requests in flight on a ring.
const DEPTH: usize = 128;

/// The most rings of a device; callers beyond that many do without.
const RINGS_MAX: usize = 256;

/// A request: a range of the device and buffers that follow each other there.
#[derive(Debug)]
pub(crate) struct Request {
    /// Where it begins on the device.
    pub offset: u64,
    /// How many of the buffers it takes, after those of the requests before it.
    pub bufs: usize,
    /// The kernel's result: bytes, or a negative errno.
    pub result: i32,
}

impl Request {
    /// One that wasn't tried yet.
    pub fn new(offset: u64, bufs: usize) -> Request {
        Request {
            offset,
            bufs,
            // To be tried again, should there be no ring to try it on.
            result: -Errno::AGAIN.raw_os_error(),
        }
    }
}

/// The rings of a device.
pub(crate) struct Rings {
    pool: Pool<IoUring>,
    made: AtomicUsize,
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings")
            .field("made", &self.made.load(Relaxed))
            .finish_non_exhaustive()
    }
}

impl Rings {
    /// Makes the first ring.
    ///
    /// # Errors
    /// The host's error if it does not allow io_uring: `ENOSYS`, `EPERM`, `ENOMEM`.
    pub fn new() -> io::Result<Rings> {
        let rings = Rings {
            pool: Pool::new(),
            made: AtomicUsize::new(1),
        };
        rings.pool.put(new_ring()?);
        Ok(rings)
    }

    /// Makes rings until there are `count`, at most [`RINGS_MAX`], or the host refuses one.
    pub fn make(&self, count: usize) {
        while self.made.load(Relaxed) < count.min(RINGS_MAX) {
            let Ok(ring) = new_ring() else { return };
            self.made.fetch_add(1, Relaxed);
            self.pool.put(ring);
        }
    }

    /// Reads requests into `bufs`. What has a result below zero or too small is left to the caller.
    pub fn read(&self, fd: &OwnedFd, requests: &mut [Request], bufs: &mut [IoSliceMut<'_>]) {
        let target = types::Fd(fd.as_fd().as_raw_fd());
        let mut rest = bufs;
        let entries = requests.iter().map(|request| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(request.bufs);
            rest = later;
            // An IoSliceMut is an iovec by its documentation.
            opcode::Readv::new(target, now.as_mut_ptr().cast(), now.len() as u32)
                .offset(request.offset)
                .build()
        });
        let entries: Vec<_> = entries.collect();
        // SAFETY: the buffers are lent to this call alone until it returns, and so is the file.
        unsafe { self.run(&entries, requests) }
    }

    /// Writes requests from `bufs`, as [`Rings::read`] reads them.
    pub fn write(&self, fd: &OwnedFd, requests: &mut [Request], bufs: &[IoSlice<'_>]) {
        let target = types::Fd(fd.as_fd().as_raw_fd());
        let mut rest = bufs;
        let entries = requests.iter().map(|request| {
            let (now, later) = rest.split_at(request.bufs);
            rest = later;
            // An IoSlice is an iovec by its documentation.
            opcode::Writev::new(target, now.as_ptr().cast(), now.len() as u32)
                .offset(request.offset)
                .build()
        });
        let entries: Vec<_> = entries.collect();
        // SAFETY: the buffers can't change until this call returns, and the file stays open.
        unsafe { self.run(&entries, requests) }
    }

    /// Submits `entries`, and returns with none in flight and the results in `requests`.
    ///
    /// # Safety
    /// What the entries point at must be theirs to use until this returns.
    unsafe fn run(&self, entries: &[squeue::Entry], requests: &mut [Request]) {
        let Some(mut ring) = self.ring() else { return };
        let mut flight = Flight {
            ring: &mut ring,
            in_flight: 0,
        };
        // SAFETY: as the caller guarantees.
        let result = unsafe { flight.submit_all(entries, requests) };
        drop(flight);
        // A ring that failed may hold requests that the kernel hasn't taken: it goes, and they with it.
        match result {
            Ok(()) => self.pool.put(ring),
            Err(_) => {
                self.made.fetch_sub(1, Relaxed);
            }
        }
    }

    fn ring(&self) -> Option<IoUring> {
        if let Some(ring) = self.pool.take() {
            return Some(ring);
        }
        if self.made.fetch_add(1, Relaxed) < RINGS_MAX
            && let Ok(ring) = new_ring()
        {
            return Some(ring);
        }
        self.made.fetch_sub(1, Relaxed);
        None
    }
}

/// A ring in use.
struct Flight<'a> {
    ring: &'a mut IoUring,
    /// Requests that the kernel may still work on.
    in_flight: usize,
}

impl Flight<'_> {
    /// Submits all entries and waits for them. After an error none is in flight either.
    ///
    /// # Safety
    /// What the entries point at must be theirs to use until this returns.
    ///
    /// # Errors
    /// The host's error of the ring; some requests were then not submitted.
    unsafe fn submit_all(
        &mut self,
        entries: &[squeue::Entry],
        requests: &mut [Request],
    ) -> io::Result<()> {
        let (mut next, mut answered) = (0, 0);
        while answered < entries.len() {
            let mut queue = self.ring.submission();
            while next < entries.len() && next - answered < DEPTH {
                let entry = entries[next].clone().user_data(next as u64);
                // SAFETY: what it points at is lent until `in_flight` is 0 again, before we return.
                if unsafe { queue.push(&entry) }.is_err() {
                    break;
                }
                next += 1;
            }
            drop(queue);
            self.in_flight = next - answered;
            let want = match next == entries.len() {
                true => self.in_flight,
                // Time to refill.
                false => self.in_flight.div_ceil(2),
            };
            let waited = self.ring.submit_and_wait(want);
            for completion in self.ring.completion() {
                requests[completion.user_data() as usize].result = completion.result();
                answered += 1;
                self.in_flight -= 1;
            }
            match waited {
                Ok(_) => {}
                Err(e) if is_passing(&e) => {}
                Err(e) => {
                    // The kernel reads the queue only on request.
                    self.in_flight -= self.ring.submission().len();
                    return Err(e);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            // The kernel still uses buffers that the caller is about to reuse, and there is no other
            // way to make it stop.
            eprintln!("uext4: waiting for requests in flight failed");
            std::process::abort();
        }
    }
}

/// Whether to submit and wait again: a signal, or the kernel short of something for a moment.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::INTR, Errno::AGAIN, Errno::BUSY];
    passing
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// A ring that reads and writes, and nothing else.
fn new_ring() -> io::Result<IoUring> {
    // Completions are taken when we wait; no interrupt is needed for them.
    let quiet = IoUring::builder()
        .setup_r_disabled()
        .setup_coop_taskrun()
        .build(DEPTH as u32);
    let ring = match quiet {
        // Before Linux 5.19.
        Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            IoUring::builder().setup_r_disabled().build(DEPTH as u32)
        }
        other => other,
    }?;
    let submitter = ring.submitter();
    submitter.register_restrictions(&mut [
        Restriction::sqe_op(opcode::Readv::CODE),
        Restriction::sqe_op(opcode::Writev::CODE),
    ])?;
    submitter.register_enable_rings()?;
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring, or a line that this host has none.
    fn ring() -> Option<IoUring> {
        new_ring().inspect_err(|e| eprintln!("SKIPPED: {e}")).ok()
    }

    /// Submits one entry, and returns its result.
    fn outcome(ring: &mut IoUring, entry: &squeue::Entry) -> i32 {
        // SAFETY: what the entries of these tests point at outlives this call, which waits for the completion.
        unsafe { ring.submission().push(entry) }.unwrap();
        ring.submit_and_wait(1).unwrap();
        ring.completion().next().unwrap().result()
    }

    #[test]
    fn a_ring_reads_and_does_nothing_else() {
        let Some(mut ring) = ring() else { return };
        let (reader, writer) = io::pipe().unwrap();
        io::Write::write_all(&mut &writer, b"data").unwrap();
        let mut buf = [0; 4];
        let mut bufs = [IoSliceMut::new(&mut buf)];
        let fd = types::Fd(reader.as_raw_fd());
        let readv = opcode::Readv::new(fd, bufs.as_mut_ptr().cast(), 1).build();
        let flagged = readv.clone().flags(squeue::Flags::ASYNC);
        let denied = -Errno::ACCESS.raw_os_error();
        assert_eq!(outcome(&mut ring, &flagged), denied, "a flag");
        assert_eq!(outcome(&mut ring, &readv), 4);
        let cwd = types::Fd(libc::AT_FDCWD);
        for (name, entry) in [
            ("nop", opcode::Nop::new().build()),
            (
                "openat",
                opcode::OpenAt::new(cwd, c"/etc/passwd".as_ptr()).build(),
            ),
            (
                "socket",
                opcode::Socket::new(libc::AF_UNIX, libc::SOCK_STREAM, 0).build(),
            ),
            ("msg_ring", opcode::MsgRingData::new(fd, 0, 0, None).build()),
            ("close", opcode::Close::new(fd).build()),
        ] {
            assert_eq!(outcome(&mut ring, &entry), denied, "{name}");
        }
        assert!(ring.submitter().register_files(&[0]).is_err());
    }

    #[test]
    fn as_many_rings_as_asked_for_are_made_once() {
        let Ok(rings) = Rings::new() else { return };
        rings.make(3);
        rings.make(2);
        assert_eq!(rings.made.load(Relaxed), 3);
        let taken: Vec<_> = std::iter::from_fn(|| rings.pool.take()).collect();
        assert_eq!(taken.len(), 3);
    }
}
