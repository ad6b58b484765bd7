//! Direct writes to holes, to blocks that were never written, and past the size.

use crate::block_allocator::ZEROS;
use crate::file::FileIo;
use crate::file::direct::Request;
use crate::inode::Inode;
use crate::prelude::*;

/// Credits of a handle that cuts an extent at two places.
const CUT_CREDITS: u32 = 32;

/// A run of blocks that a write changes.
#[derive(Clone, Copy, Debug)]
struct Piece {
    lblk: u64,
    pblk: Pblk,
    blocks: u64,
    /// To be converted when the data is there.
    unwritten: bool,
}

/// What became of blocks that were to be cut out of an unwritten extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitUnwritten {
    /// They are unwritten, in an extent of their own.
    Apart,
    /// They are written, and zero.
    Zeroed,
}

impl FileIo {
    /// Writes where blocks are missing or were never written.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone, or shared and the write's range.
    pub(super) fn fill(&self, write: &Request<'_>, offset: u64) -> Result<Written> {
        if write.nowait {
            return Err(Ext4Error::WouldBlock);
        }
        let (inode, data) = (write.inode, write.data);
        let inside = offset + write.len() <= inode.size();
        let in_place = inode.has_extents() && !self.mapping.journals_data(inode);
        let len = if inside && self.volume.options.dioread_nolock && in_place {
            self.fill_and_convert(inode, offset, data, write.privileged)?
        } else {
            self.write_locked(inode, offset, data, write.privileged)?
        };
        Ok(Written { offset, len })
    }

    /// Maps what is missing as unwritten, writes the data, and converts.
    fn fill_and_convert(
        &self,
        inode: &Inode,
        offset: u64,
        data: &[u8],
        privileged: bool,
    ) -> Result<usize> {
        let block = self.volume.block_size();
        let end = offset + data.len() as u64;
        let (first, last) = (offset / block, end.div_ceil(block));
        let pieces = self.prepare(inode, first, last, privileged)?;
        let mapped: u64 = pieces.iter().map(|piece| piece.blocks).sum();
        let done = (((first + mapped) * block).min(end) - offset) as usize;
        let data = &data[..done];
        let mut writes = Vec::with_capacity(pieces.len() + 2);
        for piece in &pieces {
            add_writes(&mut writes, piece, block, offset, data);
        }
        self.volume.device().write_batch(&writes)?;
        let mut unwritten: Vec<(u64, u64)> = Vec::with_capacity(pieces.len());
        for piece in pieces.iter().filter(|piece| piece.unwritten) {
            unwritten.push((piece.lblk, piece.lblk + piece.blocks));
        }
        if unwritten.len() < pieces.len() {
            inode.unflushed.add();
        }
        self.convert_when_written(inode, &unwritten)?;
        Ok(done)
    }

    /// Makes blocks `[first, last)` mapped, as far as there is space.
    fn prepare(
        &self,
        inode: &Inode,
        first: u64,
        last: u64,
        privileged: bool,
    ) -> Result<Vec<Piece>> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut at = first;
        while at < last {
            let piece = self
                .blocks
                .retry_no_space(|| self.prepare_piece(inode, at, last - at, privileged));
            match piece {
                Ok(piece) => {
                    at += piece.blocks;
                    pieces.push(piece);
                }
                Err(why) if why.is_no_space() && !pieces.is_empty() => break,
                Err(why) => return Err(why),
            }
        }
        Ok(pieces)
    }

    /// Makes up to `most` blocks from `at` on mapped, as one run.
    fn prepare_piece(&self, inode: &Inode, at: u64, most: u64, privileged: bool) -> Result<Piece> {
        let lblk = Lblk(at as u32);
        let mapping = self.mapping.map_block(inode, lblk)?;
        let blocks = u64::from(mapping.len).min(most);
        let (pblk, blocks, unwritten) = match mapping.pblk {
            Some(pblk) if mapping.unwritten => {
                let cut = self.split_unwritten(inode, at, at + blocks, privileged)?;
                (pblk, blocks, cut == SplitUnwritten::Apart)
            }
            Some(pblk) => (pblk, blocks, false),
            None => {
                let run = self.allocate_unwritten(inode, lblk, blocks as u32, privileged)?;
                (run.pblk, u64::from(run.len), true)
            }
        };
        Ok(Piece {
            lblk: at,
            pblk,
            blocks,
            unwritten,
        })
    }

    /// Makes `[from, to)` of an unwritten extent one of its own. Where that takes a block for the tree and
    /// none is free, makes the whole extent written, as zeros: blocks that a file has can be written.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone, or shared and the range; each such writer writes to unwritten
    /// blocks only after splitting them off.
    pub(crate) fn split_unwritten(
        &self,
        inode: &Inode,
        from: u64,
        to: u64,
        privileged: bool,
    ) -> Result<SplitUnwritten> {
        if self.mapping.has_boundary(inode, from)? && self.mapping.has_boundary(inode, to)? {
            return Ok(SplitUnwritten::Apart);
        }
        let cut = self.blocks.retry_no_space(|| {
            self.volume.with_handle(CUT_CREDITS, |handle| {
                let mut map = inode.map.write();
                self.mapping
                    .split_extent(handle, inode, &mut map, from, privileged)?;
                handle.complete();
                self.mapping
                    .split_extent(handle, inode, &mut map, to, privileged)
            })
        });
        match cut {
            Ok(()) => Ok(SplitUnwritten::Apart),
            Err(why) if why.is_no_space() => self.volume.with_handle(CUT_CREDITS, |handle| {
                let mut map = inode.map.write();
                self.mapping
                    .zero_extent(handle, inode, &mut map, Lblk(from as u32))?;
                inode.touch_data(handle);
                Ok(SplitUnwritten::Zeroed)
            }),
            Err(why) => Err(why),
        }
    }
}

/// Adds the data of a piece; in a block that was never written, zeros around it.
fn add_writes<'a>(
    writes: &mut Vec<(u64, &'a [u8])>,
    piece: &Piece,
    block: u64,
    offset: u64,
    data: &'a [u8],
) {
    let (start, stop) = (piece.lblk * block, (piece.lblk + piece.blocks) * block);
    let from = start.max(offset);
    let to = stop.min(offset + data.len() as u64);
    let place = |at: u64| piece.pblk.0 * block + (at - start);
    let zeros = |from: u64, to: u64| &ZEROS[..(to - from) as usize];
    if piece.unwritten && start < from {
        writes.push((place(start), zeros(start, from)));
    }
    let part = &data[(from - offset) as usize..(to - offset) as usize];
    writes.push((place(from), part));
    if piece.unwritten && to < stop {
        writes.push((place(to), zeros(to, stop)));
    }
}
