//! A thread of `/dev/fuse` on each CPU, and others that relieve them.
//!
//! Waking a thread on an idle CPU takes longer than most requests, above all in a virtual machine, where it leaves the guest. A request that is
//! answered on its caller's CPU wakes no other CPU: the caller sleeps, the thread answers, yields, and the caller continues. So while requests come, one
//! thread of each CPU stays awake and yields, and leaves to the others what cannot be of its own CPU.
//!
//! # Data model
//! A placed thread returns to its CPU whenever it wakes, and may be moved: threads that it starts may run anywhere. If nothing else ran there since
//! it last looked, a request that has come since is of another CPU, whose thread takes it unless it is stuck in a long one; if that does not happen soon, this one does.
//! The threads that relieve them wait outside the kernel's queue of readers: the kernel would wake one of them for each request. They read requests
//! while every placed thread is busy with a long one.
//!
//! # Invariants
//! While the mount is there, a request is read within two ticks of the watch, however long the placed threads wait in others: a request may wait for
//! another one.
//!
//! # Locking
//! Atomics only. A placed thread writes its own cache line; that of the watch is read until no request comes for a tick.

use super::awake::{self, Awake};
use super::reader::{Adaptive, Reader, has_request};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno as HostErrno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence,
};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use uext4_sync::CachePadded;

/// A yield that takes longer let another thread run.
const YIELD_ALONE_MAX: Duration = Duration::from_nanos(1500);

/// How long a request is left to the thread of another CPU.
const LEFT_MAX: Duration = Duration::from_micros(20);

/// The pause between two looks of the watch.
const TICK: Duration = Duration::from_millis(2);

/// Placed threads that all answer, and answered fewer requests each since the last tick, need relief: of 50 us each.
const FEW_IN_A_TICK: u64 = 40;

/// How many ticks relief lasts.
const RELIEF_TICKS: u32 = 50;

/// What a placed thread says.
#[derive(Default)]
struct Place {
    /// Two for each request; odd while it answers one.
    requests: AtomicU64,
    is_awake: AtomicBool,
    /// It answers the same one as at the last tick.
    is_stuck: AtomicBool,
}

impl Place {
    fn is_busy(&self) -> bool {
        !self.requests.load(Relaxed).is_multiple_of(2)
    }
}

/// The placed threads of a mount, and what relieves them.
pub(super) struct Placement {
    cpus: Vec<usize>,
    places: Vec<CachePadded<Place>>,
    needs_relief: AtomicBool,
    /// Placed threads that did not end.
    alive: AtomicUsize,
    has_ended: AtomicBool,
    watch_sleeps: CachePadded<AtomicBool>,
    watch: OnceLock<Thread>,
}

/// The CPUs to place a thread of each on: none where they are too many, or where none of `threads` would be left to relieve.
///
/// # Errors
/// As the host says.
pub(super) fn cpus_for(threads: usize) -> io::Result<Vec<usize>> {
    let cpus = awake::cpus()?;
    Ok(if cpus.len() < threads {
        cpus
    } else {
        Vec::new()
    })
}

impl Placement {
    pub fn new(cpus: Vec<usize>) -> Placement {
        Placement {
            places: cpus.iter().map(|_| CachePadded::default()).collect(),
            alive: AtomicUsize::new(cpus.len()),
            cpus,
            needs_relief: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            watch_sleeps: CachePadded::new(AtomicBool::new(false)),
            watch: OnceLock::new(),
        }
    }

    /// How many threads are placed: the first ones.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The requests that placed threads have begun.
    fn requests(&self) -> u64 {
        let places = self.places.iter();
        places
            .map(|place| place.requests.load(Relaxed).div_ceil(2))
            .sum()
    }

    /// Whether another thread than `own` may take a request soon.
    fn is_another_awake(&self, own: usize) -> bool {
        let mut others = self.places.iter().enumerate();
        others.any(|(number, place)| {
            let may_take = place.is_awake.load(Relaxed) && !place.is_stuck.load(Relaxed);
            may_take && number != own
        })
    }

    /// Watches the placed threads until the mount is gone, and lets `relief` read requests while they need it.
    pub fn watch(&self, relief: &[Thread]) {
        let _ = self.watch.set(thread::current());
        let mut said = vec![0; self.len()];
        let mut last = self.requests();
        let mut ticks_left = 0;
        while !self.has_ended.load(SeqCst) {
            thread::sleep(TICK);
            self.note_stuck(&mut said);
            let requests = self.requests();
            ticks_left = match self.do_all_wait(requests - last) {
                true => RELIEF_TICKS,
                false => u32::saturating_sub(ticks_left, 1),
            };
            self.needs_relief.store(ticks_left > 0, Relaxed);
            if ticks_left == RELIEF_TICKS {
                relief.iter().for_each(Thread::unpark);
            }
            if requests == last && ticks_left == 0 {
                self.sleep_until_request(requests);
            }
            last = requests;
        }
        relief.iter().for_each(Thread::unpark);
    }

    /// Notes which threads answer what they answered when they `said` so at the last tick.
    fn note_stuck(&self, said: &mut [u64]) {
        for (place, said) in self.places.iter().zip(said) {
            let now = place.requests.load(Relaxed);
            let is_stuck = place.is_busy() && now == *said;
            if place.is_stuck.load(Relaxed) != is_stuck {
                place.is_stuck.store(is_stuck, Relaxed);
            }
            *said = now;
        }
    }

    /// Whether all placed threads answer, and had time for `requests` only since the last tick.
    fn do_all_wait(&self, requests: u64) -> bool {
        let few = FEW_IN_A_TICK * self.len() as u64;
        requests < few && self.places.iter().all(|place| place.is_busy())
    }

    /// Sleeps if there were `requests` until now and none is being answered.
    fn sleep_until_request(&self, requests: u64) {
        self.watch_sleeps.store(true, SeqCst);
        // Either this sees a request, or its thread sees that the watch sleeps.
        fence(SeqCst);
        let is_idle =
            self.requests() == requests && !self.places.iter().any(|place| place.is_busy());
        if is_idle && !self.has_ended.load(SeqCst) {
            thread::park();
        }
        self.watch_sleeps.store(false, SeqCst);
    }

    /// Ends the watch and the threads that relieve: the mount is gone.
    pub fn end(&self) {
        self.has_ended.store(true, SeqCst);
        self.watch.get().map(Thread::unpark);
    }
}

/// Reads requests as the thread of a CPU.
pub(super) struct Placed {
    placement: Arc<Placement>,
    number: usize,
    is_nonblocking: bool,
    awake: Awake,
    /// Where the thread may run.
    anywhere: Option<CpuSet>,
}

impl Placed {
    /// The calling thread, for CPU `number` of the placement.
    pub fn new(placement: Arc<Placement>, number: usize) -> Placed {
        let placed = Placed {
            awake: Awake::new(placement.requests()),
            anywhere: sched_getaffinity(None).ok(),
            placement,
            number,
            is_nonblocking: false,
        };
        placed.return_to_cpu();
        placed
    }

    /// Moves the thread to its CPU, and leaves it free to be moved.
    fn return_to_cpu(&self) {
        let cpu = self.placement.cpus[self.number];
        if sched_getcpu() == cpu {
            return;
        }
        if let Some(anywhere) = &self.anywhere {
            let mut set = CpuSet::new();
            set.set(cpu);
            // A CPU that is offline: the thread runs where it may.
            let _ = sched_setaffinity(None, &set);
            let _ = sched_setaffinity(None, anywhere);
        }
    }

    fn place(&self) -> &Place {
        &self.placement.places[self.number]
    }

    fn set_nonblocking(&mut self, fd: &OwnedFd, is_nonblocking: bool) -> Result<(), HostErrno> {
        if self.is_nonblocking != is_nonblocking {
            let flags = if is_nonblocking {
                OFlags::NONBLOCK
            } else {
                OFlags::empty()
            };
            fcntl_setfl(fd, OFlags::RDWR | flags)?;
            self.is_nonblocking = is_nonblocking;
        }
        Ok(())
    }

    /// Reads a request if one comes while requests keep the thread awake, else `EAGAIN`.
    fn read_awake(&mut self, fd: &OwnedFd, room: &mut [u8]) -> Result<usize, HostErrno> {
        let placement = &*self.placement;
        let mut vigil = self.awake.vigil(placement.requests());
        let mut may_be_ours = true;
        let mut seen: Option<Instant> = None;
        loop {
            let is_left = !may_be_ours && placement.is_another_awake(self.number);
            if !is_left || seen.is_some_and(|at| at.elapsed() > LEFT_MAX) {
                match rustix::io::read(fd, &mut *room) {
                    Err(HostErrno::AGAIN) => seen = None,
                    read => return read,
                }
            } else if has_request(fd) {
                seen.get_or_insert_with(Instant::now);
            } else {
                seen = None;
            }
            if vigil.is_over(placement.requests()) {
                return Err(HostErrno::AGAIN);
            }
            may_be_ours = vigil.give_way() > YIELD_ALONE_MAX;
        }
    }
}

impl Reader for Placed {
    fn read(&mut self, fd: &OwnedFd, room: &mut [u8]) -> Result<usize, HostErrno> {
        self.set_nonblocking(fd, true)?;
        self.place().is_awake.store(true, Relaxed);
        let mut read = self.read_awake(fd, room);
        if matches!(read, Err(HostErrno::AGAIN)) {
            self.set_nonblocking(fd, false)?;
            self.place().is_awake.store(false, Relaxed);
            read = rustix::io::read(fd, room);
            self.place().is_awake.store(true, Relaxed);
            self.awake.note_wake(self.placement.requests());
            self.return_to_cpu();
        }
        if read.is_ok() {
            let requests = &self.place().requests;
            requests.store(requests.load(Relaxed) + 1, Relaxed);
            // As in `sleep_until_request`.
            fence(SeqCst);
            if self.placement.watch_sleeps.load(Relaxed) {
                self.placement.watch.get().map(Thread::unpark);
            }
        }
        read
    }

    fn after_answer(&mut self) {
        let requests = &self.place().requests;
        requests.store(requests.load(Relaxed) + 1, Relaxed);
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        // One may have failed alone: those that relieve take its part, as of one that is busy.
        self.place().is_awake.store(false, Relaxed);
        self.place().requests.fetch_or(1, Relaxed);
        if self.placement.alive.fetch_sub(1, Relaxed) == 1 {
            self.placement.end();
        }
    }
}

/// Reads requests while placed threads need relief.
pub(super) struct Relief {
    placement: Arc<Placement>,
    reader: Adaptive,
}

impl Relief {
    pub fn new(placement: Arc<Placement>) -> Relief {
        let reader = Adaptive::default();
        Relief { placement, reader }
    }
}

impl Reader for Relief {
    fn read(&mut self, fd: &OwnedFd, room: &mut [u8]) -> Result<usize, HostErrno> {
        while !self.placement.needs_relief.load(Relaxed) {
            if self.placement.has_ended.load(SeqCst) {
                return Err(HostErrno::NODEV);
            }
            thread::park();
        }
        self.reader.read(fd, room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(places: usize) -> Placement {
        Placement::new((0..places).collect())
    }

    fn begin(placement: &Placement, number: usize) {
        placement.places[number].requests.fetch_add(1, Relaxed);
    }

    #[test]
    fn threads_that_all_wait_need_relief_and_busy_ones_do_not() {
        let placement = placement(2);
        begin(&placement, 0);
        assert!(!placement.do_all_wait(0), "one reads");
        begin(&placement, 1);
        assert!(placement.do_all_wait(0));
        assert!(placement.do_all_wait(2 * FEW_IN_A_TICK - 1));
        assert!(!placement.do_all_wait(2 * FEW_IN_A_TICK), "short ones");
    }

    #[test]
    fn a_thread_is_stuck_that_answers_the_same_for_a_tick() {
        let placement = placement(2);
        let mut said = [0; 2];
        let stuck = |said: &mut [u64]| {
            placement.note_stuck(said);
            let places = placement.places.iter();
            places.map(|p| p.is_stuck.load(Relaxed)).collect::<Vec<_>>()
        };
        begin(&placement, 0);
        assert_eq!(stuck(&mut said), [false, false]);
        assert_eq!(stuck(&mut said), [true, false]);
        (0..2).for_each(|_| begin(&placement, 0));
        assert_eq!(stuck(&mut said), [false, false], "another one");
        begin(&placement, 0);
        assert_eq!(stuck(&mut said), [false, false], "none");
    }

    #[test]
    fn relief_comes_while_all_wait_and_ends_with_the_mount() {
        let placement = placement(1);
        let read_by_relief = AtomicBool::new(false);
        let mut relieved_early = false;
        thread::scope(|scope| {
            let relief = scope.spawn(|| {
                while !placement.needs_relief.load(Relaxed) {
                    thread::park();
                }
                read_by_relief.store(true, Relaxed);
            });
            let relief = vec![relief.thread().clone()];
            let placement = &placement;
            let watch = scope.spawn(move || placement.watch(&relief));
            while !placement.watch_sleeps.load(SeqCst) {
                thread::yield_now();
            }
            relieved_early = placement.needs_relief.load(Relaxed);
            begin(placement, 0);
            watch.thread().unpark();
            while !read_by_relief.load(Relaxed) {
                thread::yield_now();
            }
            placement.end();
        });
        assert!(!relieved_early, "nothing was read");
    }

    #[test]
    fn no_thread_is_placed_without_one_to_relieve_it() {
        let cpus = awake::cpus().expect("the CPUs are known");
        assert_eq!(cpus_for(cpus.len()).expect("the CPUs are known"), [0; 0]);
        let more = cpus_for(cpus.len() + 1).expect("the CPUs are known");
        assert_eq!(more, cpus);
    }
}
