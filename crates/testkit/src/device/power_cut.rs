//! A device whose host loses its power: the process ends at a chosen request, and what it had not sent is gone with it.

use crate::external::*;
use std::io::IoSlice;
use uext4_block::error::Result;

/// When the power is lost.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// Before the request is made.
    Before,
    /// So long after it began: requests that follow may be in flight too.
    Within(Duration),
    /// When it has returned, before the caller knows.
    After,
}

/// A device that counts the requests that change it or make it durable, and kills this process at one of them.
#[derive(Debug)]
pub struct PowerCut<D> {
    inner: D,
    requests: AtomicU64,
    /// Immutable: the number of the request, the first one is 1.
    at: Option<(u64, Moment)>,
    /// Immutable: a planted bug, nothing is flushed.
    ignores_flushes: bool,
}

impl<D: BlockDevice> PowerCut<D> {
    /// Only counts.
    pub fn never(inner: D) -> PowerCut<D> {
        PowerCut {
            inner,
            requests: AtomicU64::new(0),
            at: None,
            ignores_flushes: false,
        }
    }

    /// Loses the power at a request.
    pub fn at(inner: D, request: u64, moment: Moment) -> PowerCut<D> {
        PowerCut {
            at: Some((request, moment)),
            ..PowerCut::never(inner)
        }
    }

    /// Answers flushes without making one.
    pub fn ignoring_flushes(self, ignores_flushes: bool) -> PowerCut<D> {
        PowerCut {
            ignores_flushes,
            ..self
        }
    }

    /// How many requests there were.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn request(&self, call: impl FnOnce() -> Result<()>) -> Result<()> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        match self.at {
            Some((at, moment)) if at == number => match moment {
                Moment::Before => lose_power(),
                Moment::Within(time) => {
                    thread::spawn(move || {
                        thread::sleep(time);
                        lose_power()
                    });
                    call()
                }
                Moment::After => {
                    let _ = call();
                    lose_power()
                }
            },
            _ => call(),
        }
    }
}

/// Ends this process at once.
pub fn lose_power() -> ! {
    let this = rustix::process::getpid();
    rustix::process::kill_process(this, rustix::process::Signal::KILL).expect("it is this process");
    loop {
        thread::park();
    }
}

impl<D: BlockDevice> BlockDevice for PowerCut<D> {
    forward_device!(self => self.inner; len, is_read_only, logical_block_size, read_at, read_vectored_at, read_batch);
    forward_device!(self => self.inner; allocate, set_len, identity, is_flush_atomic, is_fenced);

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.request(|| self.inner.write_at(offset, buf))
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        self.request(|| self.inner.write_vectored_at(offset, bufs))
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.request(|| self.inner.write_batch(writes))
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.request(|| match self.ignores_flushes {
            true => self.inner.write_at(offset, buf),
            false => self.inner.write_fua(offset, buf),
        })
    }

    fn flush(&self) -> Result<()> {
        self.request(|| match self.ignores_flushes {
            true => Ok(()),
            false => self.inner.flush(),
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.request(|| self.inner.discard(offset, len))
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.request(|| self.inner.zero(offset, len))
    }
}
