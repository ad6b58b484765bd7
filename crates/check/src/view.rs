//! The image as journal replay would leave it: the device, with blocks redirected into the journal.

use crate::prelude::*;
use uext4_ondisk::journal_unescape;

/// Where the newest copy of a block is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redirect {
    /// The block of the journal, as a block of the device.
    pub(crate) at: Pblk,
    /// The copy lacks the journal's magic at its start.
    pub(crate) escaped: bool,
}

/// A device whose blocks replay has changed. Immutable once the overlay is set.
#[derive(Debug)]
pub(crate) struct View<'d> {
    device: &'d dyn BlockDevice,
    block_bits: u32,
    overlay: BTreeMap<u64, Redirect>,
}

impl<'d> View<'d> {
    /// The device as it is.
    pub(crate) fn new(device: &'d dyn BlockDevice, block_bits: u32) -> Self {
        View {
            device,
            block_bits,
            overlay: BTreeMap::new(),
        }
    }

    /// The device with blocks from the journal.
    pub(crate) fn with_overlay(self, overlay: BTreeMap<u64, Redirect>) -> Self {
        View { overlay, ..self }
    }

    /// Blocks that come from the journal.
    pub(crate) fn redirected(&self) -> u64 {
        self.overlay.len() as u64
    }

    /// The blocks that come from the journal.
    pub(crate) fn redirects(&self) -> impl Iterator<Item = Pblk> {
        self.overlay.keys().map(|block| Pblk(*block))
    }

    /// Bytes of a block.
    pub(crate) fn block_size(&self) -> usize {
        1 << self.block_bits
    }

    /// The device under it.
    pub(crate) fn device(&self) -> &'d dyn BlockDevice {
        self.device
    }

    /// Reads whole blocks from `first` on.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn read(&self, first: Pblk, buf: &mut [u8]) -> Result<()> {
        let offset = |b: u64| b.checked_shl(self.block_bits).unwrap_or(u64::MAX);
        self.device.read_at(offset(first.0), buf)?;
        if self.overlay.is_empty() {
            return Ok(());
        }
        let size = 1usize << self.block_bits;
        let end = first.0.saturating_add((buf.len() / size) as u64);
        for (block, copy) in self.overlay.range(first.0..end) {
            let at = ((block - first.0) as usize).saturating_mul(size);
            let Some(to) = buf.get_mut(at..at.saturating_add(size)) else {
                continue;
            };
            self.device.read_at(offset(copy.at.0), to)?;
            if copy.escaped {
                journal_unescape(to);
            }
        }
        Ok(())
    }
}
