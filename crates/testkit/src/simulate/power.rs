//! A device whose power is lost at some change.

use crate::device::VolatileDevice;
use crate::external::*;
use uext4_block::error::Result;

/// A device with a cache; before one of its changes, what a power loss would leave is put aside, and the power counts as lost.
/// The device itself works on, so that threads in the midst of a call end.
#[derive(Debug)]
pub struct PoweredDevice {
    inner: VolatileDevice,
    /// Changes and flushes until the power is lost; it never is after zero.
    left: AtomicU64,
    seed: u64,
    /// What the loss leaves.
    image: std::sync::OnceLock<MemoryDevice>,
}

impl PoweredDevice {
    /// Loses its power before the `nth` change or flush, if that is not zero; `seed` chooses what of the cache is left.
    pub fn new(inner: VolatileDevice, nth: u64, seed: u64) -> PoweredDevice {
        PoweredDevice {
            inner,
            left: AtomicU64::new(nth),
            seed,
            image: std::sync::OnceLock::new(),
        }
    }

    /// Loses its power before the `nth` change or flush from now on, unless it was lost or is to be sooner.
    pub fn lose_soon(&self, nth: u64) {
        let left = self.left.load(Ordering::SeqCst);
        if !self.is_off() && (left == 0 || left > nth) {
            self.left.store(nth, Ordering::SeqCst);
        }
    }

    /// The device without its power.
    pub fn inner(&self) -> &VolatileDevice {
        &self.inner
    }

    /// Whether the power was lost.
    pub fn is_off(&self) -> bool {
        self.image.get().is_some()
    }

    /// What the loss left, if there was one.
    pub fn image(&self) -> Option<&MemoryDevice> {
        self.image.get()
    }

    /// Counts a change.
    fn change(&self) {
        let left = self.left.load(Ordering::SeqCst);
        if left == 1 {
            let image = self.inner.after_power_loss(self.seed);
            // Another change may have come here beside this one.
            let _ = self.image.set(image);
        }
        self.left.store(left.saturating_sub(1), Ordering::SeqCst);
    }
}

impl BlockDevice for PoweredDevice {
    forward_device!(self => self.inner; len, is_read_only, logical_block_size, set_len, identity, read_at);

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.change();
        self.inner.write_at(offset, buf)
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.change();
        self.inner.write_fua(offset, buf)
    }

    fn flush(&self) -> Result<()> {
        self.change();
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.change();
        self.inner.discard(offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.change();
        self.inner.zero(offset, len)
    }
}
