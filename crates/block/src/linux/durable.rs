//! Making writes durable on the host, so that a loss is reported to every caller.
//!
//! # Data model
//! The host reports lost writes once to each open file description, and to whichever call asks first. So a
//! flush has a description of its own while it runs, made when the device was opened, before there was
//! anything to lose. Durable writes take turns on the description that serves all I/O.
//!
//! # Locking
//! Class `device_sync`, held over the host's I/O by a durable write, and by a caller that waits for a description. The
//! descriptions lie in a [`Pool`].

use super::pool::Pool;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::retry_on_intr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use uext4_sync::{Condvar, Mutex, MutexGuard, class};

/// Flushes of a file that is open for writing that can run at the same time.
pub(crate) const DESCRIPTIONS: usize = 16;

/// The right to make a durable write.
#[derive(Debug)]
pub(crate) struct DurableWrite(());

/// The open file descriptions that a file is flushed through.
#[derive(Debug)]
pub(crate) struct Durable {
    free: Pool<OwnedFd>,
    /// As many as `queue` says, read without its lock.
    waiting: AtomicUsize,
    /// Callers that wait for `put_back`.
    queue: Mutex<usize>,
    /// A description was put back.
    put_back: Condvar,
    /// Durable writes take turns.
    turn: Mutex<DurableWrite>,
}

impl Durable {
    /// For the file that is open as `fd` with `flags`, flushed by so many callers at a time; fewer where the
    /// host opens no more.
    pub fn new(fd: &OwnedFd, flags: OFlags, flushes: usize) -> rustix::io::Result<Durable> {
        let free = Pool::new();
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let flags = flags - OFlags::CREATE - OFlags::EXCL;
        for made in 0..flushes {
            match retry_on_intr(|| open(&path, flags, Mode::empty())) {
                Ok(again) => free.put(again),
                Err(_) if made > 0 => break,
                // No more files, or no /proc.
                Err(_) => {
                    free.put(rustix::io::fcntl_dupfd_cloexec(fd, 0)?);
                    break;
                }
            }
        }
        Ok(Durable {
            free,
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(&class::DEVICE_SYNC, 0),
            put_back: Condvar::new(),
            turn: Mutex::new(&class::DEVICE_SYNC, DurableWrite(())),
        })
    }

    /// Makes all writes durable (fdatasync(2)).
    pub fn flush(&self) -> rustix::io::Result<()> {
        let fd = self.take();
        let result = retry_on_intr(|| rustix::fs::fdatasync(&fd));
        self.free.put(fd);
        // Either this sees the caller that waits, or that one finds the description.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            let _queue = self.queue.lock();
            self.put_back.notify_one();
        }
        result
    }

    /// A turn for a durable write.
    pub fn turn(&self) -> MutexGuard<'_, DurableWrite> {
        self.turn.lock()
    }

    fn take(&self) -> OwnedFd {
        if let Some(fd) = self.free.take() {
            return fd;
        }
        let mut queue = self.queue.lock();
        *queue += 1;
        self.waiting.store(*queue, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let fd = loop {
            match self.free.take() {
                Some(fd) => break fd,
                None => self.put_back.wait(&mut queue),
            }
        };
        *queue -= 1;
        self.waiting.store(*queue, Ordering::Relaxed);
        fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More callers than descriptions: each of them gets its turn.
    #[test]
    fn callers_wait_for_a_description() {
        let file = tempfile::tempfile().unwrap();
        let fd = OwnedFd::from(file);
        let durable = Durable::new(&fd, OFlags::RDWR, DESCRIPTIONS).unwrap();
        let mut taken: Vec<OwnedFd> = std::iter::from_fn(|| durable.free.take()).collect();
        assert_eq!(taken.len(), DESCRIPTIONS);
        durable.free.put(taken.remove(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..500).for_each(|_| durable.flush().unwrap()));
            }
        });
        assert_eq!(durable.waiting.load(Ordering::Relaxed), 0);
    }
}
