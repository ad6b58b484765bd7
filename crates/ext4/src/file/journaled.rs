//! Journalled data: `data=journal`, and files with the flag of `chattr +j`.
//!
//! # Data model
//! A block of such a file is a buffer, as one of metadata is: a write changes it under a handle, commit
//! copies it into the log, checkpoint writes it in place. So until then the device has old data, and a read
//! looks into the cache first.
//!
//! # Invariants
//! - What the cache has of such a file is never older than the device: its blocks get there by a handle
//!   (new ones as `Handle::create`, so that nothing of an earlier use of the block stays), and no data of it
//!   is written past the cache.
//! - Freeing such a block revokes it (`Mapping::content_of`).
//! - A file changes between this and the other way only when all of it is in place and nothing of it is in
//!   the cache or the log.
//!
//! # Locking
//! As for other data: the `ilock`, shared to read, alone to write; the buffer's lock under the handle.

use crate::file::{FileIo, WRITE_CREDITS};
use crate::inode::Inode;
use crate::mapping::extents::convert::Written;
use crate::prelude::*;
use crate::quota::OwnerIds;
use crate::run::Run;

/// The most blocks of data that one handle changes.
const PIECE_BLOCKS: u32 = 256;

/// The place of a piece of data in the blocks that it changes.
#[derive(Clone, Copy)]
struct Piece<'a> {
    /// The first block on disk, and how many.
    run: Run,
    /// The first byte in it.
    within: u64,
    data: &'a [u8],
    /// The blocks held nothing before.
    fresh: bool,
}

impl FileIo {
    /// As many blocks of data as a handle may change beside what else it does.
    fn piece_blocks(&self) -> u32 {
        let most = self.volume.journal().credits_max() / 4;
        most.saturating_sub(WRITE_CREDITS).clamp(1, PIECE_BLOCKS)
    }

    /// Writes as much of `data` as one mapping or one new run of blocks takes, through the journal.
    ///
    /// # Locks
    /// The caller holds the `ilock` alone.
    ///
    /// # Crash
    /// All of the piece, or nothing.
    pub(crate) fn write_journaled_piece(
        &self,
        inode: &Inode,
        offset: u64,
        data: &[u8],
        privileged: bool,
    ) -> Result<usize> {
        let size = self.volume.block_size();
        let (lblk, within) = (Lblk((offset / size) as u32), offset % size);
        let mapping = self.mapping.map_block(inode, lblk)?;
        let want = (within + data.len() as u64).div_ceil(size);
        let want = u32::try_from(want).unwrap_or(u32::MAX);
        let blocks = want.min(mapping.len).min(self.piece_blocks());
        let n = (u64::from(blocks) * size - within).min(data.len() as u64) as usize;
        let data = &data[..n];
        let end = offset + n as u64;
        let piece = |run, fresh| Piece {
            run,
            within,
            data,
            fresh,
        };
        match mapping.pblk {
            Some(pblk) if !mapping.unwritten => {
                let piece = piece(Run { pblk, len: blocks }, false);
                let buffers = self.piece_buffers(&piece)?;
                self.volume.with_handle(WRITE_CREDITS + blocks, |handle| {
                    self.write_buffers(handle, &piece, &buffers)?;
                    self.publish_size(handle, inode, end, 0)
                })?;
            }
            Some(pblk) => {
                let piece = piece(Run { pblk, len: blocks }, true);
                self.volume.allocate_on_host(piece.run)?;
                let written = self.write_unwritten_journaled(inode, lblk, &piece, privileged);
                if written.as_ref().is_err_and(Ext4Error::is_no_space) {
                    self.make_room_to_write(inode, lblk, blocks, privileged)?;
                    return self.write_journaled_piece(inode, offset, data, privileged);
                }
                written?;
            }
            None => {
                let goal = self.mapping.data_goal(inode, lblk)?;
                let owners = OwnerIds::of(&inode.state());
                let run = self.blocks.reserve_for(owners, goal, blocks, privileged)?;
                return self
                    .volume
                    .allocate_on_host(run)
                    .and_then(|()| {
                        self.write_new_journaled(inode, lblk, &piece(run, true), privileged)
                    })
                    .inspect_err(|why| self.blocks.unreserve_after(why, run));
            }
        }
        Ok(n)
    }

    /// Makes unwritten blocks written, and fills them.
    fn write_unwritten_journaled(
        &self,
        inode: &Inode,
        lblk: Lblk,
        piece: &Piece<'_>,
        privileged: bool,
    ) -> Result<()> {
        let from = u64::from(lblk.0);
        let range = (from, from + u64::from(piece.run.len));
        let buffers = self.piece_buffers(piece)?;
        let end = from * self.volume.block_size() + piece.within + piece.data.len() as u64;
        self.volume
            .with_handle(2 * WRITE_CREDITS + piece.run.len, |handle| {
                {
                    let mut map = inode.map.write();
                    self.mapping.convert_extents(
                        handle,
                        inode,
                        &mut map,
                        range,
                        Written::Yes,
                        privileged,
                    )?;
                }
                self.write_buffers(handle, piece, &buffers)?;
                self.publish_size(handle, inode, end, 0)
            })
    }

    /// Makes blocks that a file has ready to be written where the tree finds no block to say which are: all of
    /// their extent becomes zeros.
    fn make_room_to_write(
        &self,
        inode: &Inode,
        lblk: Lblk,
        blocks: u32,
        privileged: bool,
    ) -> Result<()> {
        // The zeros are written to the device; replay must not restore the former content over them.
        self.settle_data(inode)?;
        let from = u64::from(lblk.0);
        self.split_unwritten(inode, from, from + u64::from(blocks), privileged)
            .map(drop)
    }

    /// Maps a reserved run and fills it.
    fn write_new_journaled(
        &self,
        inode: &Inode,
        lblk: Lblk,
        piece: &Piece<'_>,
        privileged: bool,
    ) -> Result<usize> {
        let size = self.volume.block_size();
        let run = piece.run;
        let room = u64::from(run.len) * size - piece.within;
        let n = room.min(piece.data.len() as u64) as usize;
        let piece = &Piece {
            data: piece.data.get(..n).unwrap_or(piece.data),
            ..*piece
        };
        let buffers = self.piece_buffers(piece)?;
        let end = u64::from(lblk.0) * size + piece.within + n as u64;
        self.volume.with_handle(WRITE_CREDITS + run.len, |handle| {
            self.mapping.map_run(handle, inode, lblk, run, privileged)?;
            let added = self.blocks.publish_run(handle, run)?;
            self.write_buffers(handle, piece, &buffers)?;
            self.publish_size(handle, inode, end, self.blocks.sectors_of(added))
        })?;
        Ok(n)
    }

    /// The buffers of a piece; those that keep some of what they hold are read.
    fn piece_buffers(&self, piece: &Piece<'_>) -> Result<Vec<Arc<Buffer>>> {
        let size = self.volume.block_size();
        let end = piece.within + piece.data.len() as u64;
        let mut buffers = Vec::with_capacity(piece.run.len as usize);
        for i in 0..u64::from(piece.run.len) {
            let pblk = piece.run.pblk.0 + i;
            let whole = i * size >= piece.within && (i + 1) * size <= end;
            buffers.push(match whole || piece.fresh {
                true => self.volume.cache().get_unread(pblk),
                false => self.volume.cache().get(pblk)?,
            });
        }
        Ok(buffers)
    }

    /// Copies a piece's data into its buffers, as part of `handle`; what fresh blocks have besides is zero.
    fn write_buffers(
        &self,
        handle: &Handle<'_>,
        piece: &Piece<'_>,
        buffers: &[Arc<Buffer>],
    ) -> Result<()> {
        let size = self.volume.block_size() as usize;
        let (mut at, mut rest) = (piece.within as usize, piece.data);
        for buffer in buffers {
            let (part, later) = rest.split_at((size - at).min(rest.len()));
            let mut content = match piece.fresh || part.len() == size {
                true => handle.create(buffer)?,
                false => handle.modify(buffer)?,
            };
            if let Some(to) = content.data_mut().get_mut(at..at + part.len()) {
                to.copy_from_slice(part);
            }
            buffer.set_kind(0, 0);
            (at, rest) = (0, later);
        }
        Ok(())
    }

    /// Zeroes a part of one block that holds data, through the journal.
    pub(crate) fn zero_journaled(
        &self,
        inode: &Inode,
        pblk: Pblk,
        within: u64,
        len: u64,
    ) -> Result<()> {
        let buffer = self.volume.cache().get(pblk.0)?;
        self.volume.with_handle(1, |handle| {
            let mut content = handle.modify(&buffer)?;
            let range = within as usize..(within + len) as usize;
            content.data_mut()[range].fill(0);
            drop(content);
            inode.touch_data(handle);
            Ok(())
        })
    }

    /// Reads data from `place`, in bytes on the device: from memory what is there.
    ///
    /// # Errors
    /// The device's; with `nowait` [`Ext4Error::WouldBlock`] where a block is just being changed.
    pub(crate) fn read_journaled(&self, place: u64, data: &mut [u8], nowait: bool) -> Result<()> {
        let size = self.volume.block_size();
        let (mut place, mut rest) = (place, data);
        while !rest.is_empty() {
            let within = (place % size) as usize;
            let here = (size as usize - within).min(rest.len());
            let (part, later) = rest.split_at_mut(here);
            // What is not in memory is in place, and stays there while the `ilock` is held.
            match self.volume.cache().peek(place / size) {
                Some(buffer) => {
                    let content = match nowait {
                        true => buffer.try_read().ok_or(Ext4Error::WouldBlock)?,
                        false => buffer.read(),
                    };
                    part.copy_from_slice(&content.data()[within..within + here]);
                }
                None => self.volume.device().read_at(place, part)?,
            }
            place += here as u64;
            rest = later;
        }
        Ok(())
    }

    /// Writes all data of a file in place and takes it out of the log and the cache, so that it may be
    /// written the other way from now on.
    ///
    /// # Locks
    /// The caller holds the `ilock` alone.
    ///
    /// # Errors
    /// The device's, damage, or that the journal was aborted.
    pub(crate) fn settle_data(&self, inode: &Inode) -> Result<()> {
        self.volume.journal().flush_log()?;
        for extent in self.mapping.extents(inode)? {
            for i in 0..u64::from(extent.len) {
                if let Some(buffer) = self.volume.cache().peek(extent.pblk.0 + i) {
                    let mut content = buffer.write();
                    buffer.clear_uptodate(&mut content);
                }
            }
        }
        Ok(())
    }
}
