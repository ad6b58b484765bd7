//! A device whose writes stay in memory.
//!
//! # Locking
//! The map of changed pages is guarded by one lock of class `device`; the device below is never
//! called with it held.

use crate::device::BlockDevice;
use crate::error::{BlockError, BlockOp, EINVAL, Result, check_range};
use crate::forward_device;
use crate::origin::Origin;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use uext4_sync::{RwLock, class};

const PAGE_BYTES: usize = 4096;

type Pages = BTreeMap<u64, Box<[u8; PAGE_BYTES]>>;

/// A device that reads as the one below, which it never writes: changed pages are kept in memory. So an
/// image is recovered for reading without being changed.
#[derive(Debug)]
pub struct OverlayDevice {
    below: Arc<dyn BlockDevice>,
    pages: RwLock<Pages>,
}

/// The part of a call that lies in one page.
struct Piece {
    page: u64,
    /// Where in the page.
    at: usize,
    len: usize,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let end = offset + len as u64;
    let mut from = offset;
    std::iter::from_fn(move || {
        if from == end {
            return None;
        }
        let page = from / PAGE_BYTES as u64;
        let at = (from % PAGE_BYTES as u64) as usize;
        let len = (end - from).min((PAGE_BYTES - at) as u64) as usize;
        from += len as u64;
        Some(Piece { page, at, len })
    })
}

impl OverlayDevice {
    /// Nothing changed yet.
    pub fn new(below: Arc<dyn BlockDevice>) -> OverlayDevice {
        OverlayDevice {
            below,
            pages: RwLock::new(&class::DEVICE, BTreeMap::new()),
        }
    }

    /// Which blocks of `block_size` bytes, a power of two, differ from those of the device below, in ascending order.
    ///
    /// # Errors
    /// Those of reading the device below.
    pub fn changed(&self, block_size: u64) -> Result<Vec<u64>> {
        let page_bytes = PAGE_BYTES as u64;
        let mut blocks = Vec::new();
        let mut below = vec![0; block_size as usize];
        let mut above = vec![0; block_size as usize];
        let pages: Vec<u64> = self.pages.read().keys().copied().collect();
        for page in pages {
            let (start, end) = (page * page_bytes, (page + 1) * page_bytes);
            for block in start / block_size..end.div_ceil(block_size) {
                let at = block * block_size;
                if blocks.last() >= Some(&block) || at + block_size > self.len() {
                    continue;
                }
                self.below.read_at(at, &mut below)?;
                self.read_at(at, &mut above)?;
                if below != above {
                    blocks.push(block);
                }
            }
        }
        Ok(blocks)
    }

    /// The page as the device below has it, zeros past its end.
    fn page_below(&self, page: u64) -> Result<Box<[u8; PAGE_BYTES]>> {
        let mut bytes = Box::new([0; PAGE_BYTES]);
        let start = page * PAGE_BYTES as u64;
        let len = (self.below.len() - start).min(PAGE_BYTES as u64) as usize;
        self.below.read_at(start, &mut bytes[..len])?;
        Ok(bytes)
    }

    /// Replaces what changed in `buf`, which holds the bytes of the device below.
    fn lay_over(&self, offset: u64, buf: &mut [u8]) {
        let pages = self.pages.read();
        if pages.is_empty() {
            return;
        }
        let mut rest = buf;
        for piece in pieces(offset, rest.len()) {
            let (part, after) = rest.split_at_mut(piece.len);
            if let Some(page) = pages.get(&piece.page) {
                part.copy_from_slice(&page[piece.at..piece.at + piece.len]);
            }
            rest = after;
        }
    }
}

impl BlockDevice for OverlayDevice {
    // The newest is without what this one keeps in memory.
    forward_device!(self => self.below; len, logical_block_size, identity, remote_stats, release, newest);

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, buf)?;
        self.lay_over(offset, buf);
        Ok(())
    }

    fn origin(&self, offset: u64, len: u64) -> Origin {
        let page_bytes = PAGE_BYTES as u64;
        let pages = self.pages.read();
        let first = offset / page_bytes;
        let end = (offset + len).div_ceil(page_bytes);
        let changed = pages.range(first..end).next().map(|(page, _)| *page);
        drop(pages);
        match changed {
            Some(page) if page == first => {
                Origin::unknown(len.min((first + 1) * page_bytes - offset))
            }
            Some(page) => self.below.origin(offset, page * page_bytes - offset),
            None => self.below.origin(offset, len),
        }
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        self.below.read_batch(reads)?;
        for (offset, buf) in reads {
            self.lay_over(*offset, buf);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        check_range(BlockOp::Write, offset, buf.len() as u64, self.len())?;
        let mut rest = buf;
        for piece in pieces(offset, buf.len()) {
            let (part, after) = rest.split_at(piece.len);
            let is_known = self.pages.read().contains_key(&piece.page);
            let fresh = match is_known || piece.len == PAGE_BYTES {
                true => Box::new([0; PAGE_BYTES]),
                false => self.page_below(piece.page)?,
            };
            let mut pages = self.pages.write();
            let page = pages.entry(piece.page).or_insert(fresh);
            page[piece.at..piece.at + piece.len].copy_from_slice(part);
            drop(pages);
            rest = after;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        check_range(BlockOp::Discard, offset, len, self.len())
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        check_range(BlockOp::Zero, offset, len, self.len())?;
        let zeros = [0; PAGE_BYTES];
        let mut at = offset;
        while at < offset + len {
            let n = (offset + len - at).min(PAGE_BYTES as u64);
            self.write_at(at, &zeros[..n as usize])?;
            at += n;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        Err(BlockError::io(
            BlockOp::SetLen,
            0,
            len,
            io::Error::from_raw_os_error(EINVAL),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileDevice, MemoryDevice, OpenOptions};

    #[test]
    fn writes_stay_above_and_reads_see_both() {
        let below = Arc::new(MemoryDevice::from_bytes(&[7; 10_000]));
        let over = OverlayDevice::new(below.clone());
        over.write_at(4000, &[1; 200]).unwrap();
        over.zero(9_000, 1000).unwrap();
        let mut got = vec![0; 10_000];
        over.read_at(0, &mut got).unwrap();
        let mut want = vec![7; 10_000];
        want[4000..4200].fill(1);
        want[9000..].fill(0);
        assert_eq!(got, want);
        let (mut first, mut last) = (vec![0; 5000], vec![0; 1000]);
        let mut reads: [(u64, &mut [u8]); 2] = [(0, &mut first), (9000, &mut last)];
        over.read_batch(&mut reads).unwrap();
        assert_eq!((&first[..], &last[..]), (&want[..5000], &want[9000..]));
        assert_eq!(below.snapshot(), vec![7; 10_000]);
        over.write_at(0, &[7; 10]).unwrap();
        assert_eq!(over.changed(1000).unwrap(), [4, 9]);
        assert_eq!(
            over.changed(4096).unwrap(),
            [0, 1],
            "not a whole block at the end"
        );
        over.write_at(9_999, &[1; 2]).unwrap_err();
        over.set_len(5).unwrap_err();
    }

    #[test]
    fn what_changed_has_no_origin() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 20_000]).unwrap();
        let open = || Arc::new(FileDevice::open(file.path(), &OpenOptions::read_only()).unwrap());
        let (below, over) = (open(), OverlayDevice::new(open()));
        let is_shared = |at, len| {
            let (a, b) = (below.origin(at, len), over.origin(at, len));
            (a.is_same_as(&b), b.bytes())
        };
        assert_eq!(is_shared(5, 19_000), (true, 19_000));
        over.write_at(9000, &[1]).unwrap();
        assert_eq!(is_shared(5, 19_000), (true, 8187));
        assert_eq!(is_shared(8192, 10_000), (false, 4096));
        assert_eq!(is_shared(12_000, 5), (false, 5));
        assert_eq!(is_shared(12_288, 5), (true, 5));
    }
}
