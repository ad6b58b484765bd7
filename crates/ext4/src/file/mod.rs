//! Data of files: reading, writing, truncating, syncing.
//!
//! # Data model
//! There is no cache of dirty data: blocks are reserved in memory, the data is written to them, and
//! then a handle publishes blocks, extents and size. So what a committed transaction maps is on the
//! device, or in its cache before the flush that precedes the commit block.
//!
//! # Invariants
//! What a file maps past its size is never read: extending it first zeroes the rest of the last block.
//!
//! # Locking
//! The inode's `ilock`: shared to read, alone to write; then the handle; then the `map` lock.
//!
//! | module | holds |
//! | --- | --- |
//! | `direct` | direct I/O, and how it takes the inode lock (mechanism 4) |
//! | `journaled` | journalled data |
//! | `fallocate`, `move_range` | ranges that get blocks, lose them, or move |
//! | `seek`, `fiemap` | where data is |
//! | `symlink` | targets of symbolic links |
//! | `setattr`, `flags` | mode, owner, size, times; what chattr(1) sets |
//! | `encrypted` | reads of encrypted files |
//! | `verity` | fs-verity: reads that are checked, files that get it |
//! | `generation_ioctls` | the generation read, set, and swapped with the boot loader's |
//! | `exchange` | two files that get each other's blocks |
//! | `defragment` | data that is moved so that it lies together |

mod defragment;
mod direct;
mod encrypted;
mod exchange;
mod fallocate;
mod fiemap;
pub(crate) mod flags;
mod generation_ioctls;
mod journaled;
mod move_range;
mod seek;
mod setattr;
mod symlink;
mod verity;

pub use self::defragment::Fragments;

use crate::attributes::Attributes;
use crate::block_allocator::BlockAllocator;
use crate::block_allocator::ZEROS;
use crate::clock::now;
use crate::deletion::DELETE_CREDITS;
use crate::directory::Directory;
use crate::file::direct::fill::SplitUnwritten;
use crate::file::direct::lock_inode;
use crate::file::flags::FIXED_DATA;
use crate::inline::InlineData;
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::inode_table::InodeTable;
use crate::inodes::Inodes;
use crate::mapping::Mapping;
use crate::mapping::extents::convert;
use crate::mapping::extents::remove::Restart;
use crate::options::FsVerityReads;
use crate::orphans::OrphanList;
use crate::owners::Owners;
use crate::prelude::*;
use crate::quota::OwnerIds;
use crate::run::Run;
use crate::run::RunLookup;
use crate::volume::Volume;

/// Blocks that one piece of a write changes: descriptors, bitmap, inode, extent nodes.
pub(crate) const WRITE_CREDITS: u32 = 24;
/// The most that one handle publishes, in blocks.
const PIECE_BLOCKS: u32 = 2048;

/// How a read is done.
#[derive(Clone, Copy, Debug, Default)]
struct ReadKind {
    /// What of it is mapped has to be aligned: it is direct, and as a whole not aligned.
    checks: bool,
    /// Never waits.
    nowait: bool,
}

/// The data of files; see the module.
pub struct FileIo {
    pub(crate) volume: Arc<Volume>,
    pub(crate) blocks: Arc<BlockAllocator>,
    pub(crate) table: Arc<InodeTable>,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) inline: Arc<InlineData>,
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) orphans: Arc<OrphanList>,
    pub(crate) attributes: Arc<Attributes>,
    pub(crate) directories: Arc<Directory>,
    pub(crate) owners: Arc<Owners>,
}

impl FileIo {
    /// Reads from a file; less than asked for at its end.
    ///
    /// # Locks
    /// The inode's `ilock`, shared.
    ///
    /// # Errors
    /// [`Ext4Error::IsDirectory`], damage, the device's. `EIO`: data of a file with fs-verity is not what was hashed.
    pub fn read(&self, inode: &InodeRef, offset: u64, data: &mut [u8]) -> Result<usize> {
        self.read_with(inode, offset, data, IoFlags::empty())
    }

    /// As [`FileIo::read`], as the flags say: directly, or without waiting.
    ///
    /// # Locks
    /// The inode's `ilock`, shared.
    ///
    /// # Errors
    /// As [`FileIo::read`]; [`Ext4Error::Invalid`] for what is not aligned as direct I/O must be, and with
    /// `NOWAIT` [`Ext4Error::WouldBlock`].
    pub fn read_with(
        &self,
        inode: &InodeRef,
        offset: u64,
        data: &mut [u8],
        flags: IoFlags,
    ) -> Result<usize> {
        check_regular(inode)?;
        let nowait = flags.contains(IoFlags::NOWAIT);
        let _locked = lock_inode(inode, LockMode::Shared, nowait)?;
        let left = inode.size().saturating_sub(offset);
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
        if inode.flags().contains(InodeFlags::VERITY)
            && self.volume.options.fs_verity == FsVerityReads::Check
        {
            if nowait {
                return Err(Ext4Error::WouldBlock);
            }
            self.read_checked(inode, offset, &mut data[..want])?;
            self.table.touch_atime(inode);
            return Ok(want);
        }
        let is_direct = flags.contains(IoFlags::DIRECT) && !self.mapping.journals_data(inode);
        let kind = ReadKind {
            checks: is_direct && self.check_aligned(offset, data).is_err(),
            nowait,
        };
        let until = match is_direct && want > 0 {
            // The device reads whole sectors; a caller has room for them, or will be refused.
            true => {
                let end =
                    (offset + want as u64).next_multiple_of(self.volume.block_size()) - offset;
                usize::try_from(end).unwrap_or(want).min(data.len())
            }
            false => want,
        };
        let part = &mut data[..until];
        self.read_mapped(inode, offset, part, kind)?;
        // The last block's bytes past the size are not exposed.
        part[want..].fill(0);
        if !nowait {
            self.table.touch_atime(inode);
        }
        Ok(want)
    }

    /// Reads all of `data`, whatever the size is; holes as zeros, for which, as in the kernel, nothing has
    /// to be aligned.
    fn read_mapped(
        &self,
        inode: &Inode,
        offset: u64,
        data: &mut [u8],
        kind: ReadKind,
    ) -> Result<()> {
        if inode.is_inline() && !inode.is_encrypted() {
            return self.inline.read_inline(inode, offset, data);
        }
        if inode.is_encrypted() && inode.file_type == FileType::Regular {
            return match kind.nowait {
                true => Err(Ext4Error::WouldBlock),
                false => self.read_encrypted(inode, offset, data),
            };
        }
        let block = self.volume.block_size();
        let (mut at, mut rest) = (offset, data);
        let mut reads: Vec<(u64, &mut [u8])> = Vec::new();
        while !rest.is_empty() {
            let (lblk, within) = (Lblk((at / block) as u32), at % block);
            let mapping = self.map_for(inode, lblk, kind.nowait)?;
            let here = (u64::from(mapping.len) * block - within).min(rest.len() as u64) as usize;
            let (part, after) = rest.split_at_mut(here);
            match mapping.pblk.filter(|_| !mapping.unwritten) {
                Some(pblk) => {
                    if kind.checks {
                        self.check_aligned(at, part)?;
                    }
                    let place = pblk.0 * block + within;
                    if self.mapping.journals_data(inode) {
                        self.read_journaled(place, part, kind.nowait)?;
                        at += here as u64;
                        rest = after;
                        continue;
                    }
                    if after.is_empty() && reads.is_empty() {
                        return Ok(self.volume.device().read_at(place, part)?);
                    }
                    reads.push((place, part));
                }
                None => part.fill(0),
            }
            at += here as u64;
            rest = after;
        }
        if !reads.is_empty() {
            self.volume.device().read_batch(&mut reads)?;
        }
        Ok(())
    }

    /// Writes to a file, which grows as needed.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Crash
    /// Size and mapping survive with the data they stand for; overwritten data may be old, new or, by
    /// block, both, until fsync.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] if not a byte could be written, [`Ext4Error::TooLarge`],
    /// [`Ext4Error::NotPermitted`] if it is immutable.
    pub fn write(
        &self,
        inode: &InodeRef,
        offset: u64,
        data: &[u8],
        privileged: bool,
    ) -> Result<usize> {
        let written = self.write_with(inode, offset, data, IoFlags::empty(), privileged)?;
        Ok(written.len)
    }

    /// As [`FileIo::write`], as the flags say: directly, without waiting, at the end, durably.
    ///
    /// # Errors
    /// As [`FileIo::write`] and [`FileIo::write_direct`]; [`Ext4Error::Unsupported`] for a write that is not
    /// direct and must not wait.
    pub fn write_with(
        &self,
        inode: &InodeRef,
        offset: u64,
        data: &[u8],
        flags: IoFlags,
        privileged: bool,
    ) -> Result<Written> {
        let flags = match inode.flags().contains(InodeFlags::SYNC) {
            true => flags | IoFlags::SYNC,
            false => flags,
        };
        let is_direct = flags.contains(IoFlags::DIRECT) && !self.mapping.journals_data(inode);
        let written = if is_direct {
            self.write_direct(inode, offset, data, flags, privileged)?
        } else if flags.contains(IoFlags::NOWAIT) {
            return Err(Ext4Error::Unsupported(
                "a buffered write that must not wait",
            ));
        } else {
            check_regular(inode)?;
            let _locked = ilock(&inode.ilock, LockMode::Exclusive);
            self.volume.check_writable()?;
            let offset = match flags.contains(IoFlags::APPEND) {
                true => inode.size(),
                false => offset,
            };
            check_mutable(inode)?;
            if !data.is_empty() {
                self.attributes.forfeit_capability(inode)?;
            }
            let len = self.write_locked(inode, offset, data, privileged)?;
            Written { offset, len }
        };
        if flags.intersects(IoFlags::DSYNC | IoFlags::SYNC) && written.len > 0 {
            self.fsync(inode, !flags.contains(IoFlags::SYNC))?;
        }
        Ok(written)
    }

    /// Writes with locks held that exclude others from the range, and from the size if it grows.
    pub(crate) fn write_locked(
        &self,
        inode: &Inode,
        offset: u64,
        data: &[u8],
        privileged: bool,
    ) -> Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let end = offset
            .checked_add(data.len() as u64)
            .ok_or(Ext4Error::TooLarge)?;
        self.mapping.check_end(inode, end)?;
        if inode.is_inline() && self.inline.write_inline(inode, offset, data, privileged)? {
            return Ok(data.len());
        }
        let old_size = inode.size();
        if offset > old_size {
            self.zero_tail(inode, old_size, offset)?;
        }
        let mut done = 0;
        while done < data.len() {
            let rest = &data[done..];
            let at = offset + done as u64;
            let journaled = self.mapping.journals_data(inode);
            let written = self.blocks.retry_no_space(|| match journaled {
                true => self.write_journaled_piece(inode, at, rest, privileged),
                false => self.write_piece(inode, at, rest, privileged),
            });
            match written {
                Ok(n) => done += n,
                // What is written counts; nothing does once the journal is aborted.
                Err(Ext4Error::Journal(why)) => return Err(Ext4Error::Journal(why)),
                Err(_) if done > 0 => break,
                Err(why) => return Err(why),
            }
        }
        if offset + done as u64 <= old_size {
            self.touch_times(inode)?;
        }
        Ok(done)
    }

    /// Writes as much of `data` as one mapping or one new run of blocks takes.
    fn write_piece(
        &self,
        inode: &Inode,
        offset: u64,
        data: &[u8],
        privileged: bool,
    ) -> Result<usize> {
        let size = self.volume.block_size();
        let lblk = Lblk((offset / size) as u32);
        let within = offset % size;
        let mapping = self.mapping.map_block(inode, lblk)?;
        let want = (within + data.len() as u64).div_ceil(size);
        let blocks = u32::try_from(want)
            .unwrap_or(u32::MAX)
            .min(mapping.len)
            .min(PIECE_BLOCKS);
        match mapping.pblk {
            Some(pblk) if !mapping.unwritten => {
                let n = (u64::from(mapping.len) * size - within).min(data.len() as u64) as usize;
                let part = &data[..n];
                self.volume
                    .device()
                    .write_at(pblk.0 * size + within, part)?;
                self.publish_overwrite(inode, offset + n as u64)?;
                Ok(n)
            }
            Some(pblk) => {
                let (from, to) = (u64::from(lblk.0), u64::from(lblk.0) + u64::from(blocks));
                if self.split_unwritten(inode, from, to, privileged)? == SplitUnwritten::Zeroed {
                    return self.write_piece(inode, offset, data, privileged);
                }
                let n = self
                    .blocks
                    .fill_run(Run { pblk, len: blocks }, within, data)?;
                self.volume.with_handle(WRITE_CREDITS, |handle| {
                    {
                        let mut map = inode.map.write();
                        let written = convert::Written::Yes;
                        self.mapping.convert_extents(
                            handle,
                            inode,
                            &mut map,
                            (from, to),
                            written,
                            privileged,
                        )?;
                    }
                    self.publish_size(handle, inode, offset + n as u64, 0)?;
                    let run = Run { pblk, len: blocks };
                    self.volume.fast.note_blocks(handle, inode, lblk, run);
                    Ok(())
                })?;
                Ok(n)
            }
            None => {
                let goal = self.mapping.data_goal(inode, lblk)?;
                let owners = OwnerIds::of(&inode.state());
                let run = self.blocks.reserve_for(owners, goal, blocks, privileged)?;
                self.write_new(inode, offset, data, run, privileged)
                    .inspect_err(|why| self.blocks.unreserve_after(why, run))
            }
        }
    }

    /// Writes data to a reserved run and publishes it.
    fn write_new(
        &self,
        inode: &Inode,
        offset: u64,
        data: &[u8],
        run: Run,
        privileged: bool,
    ) -> Result<usize> {
        let size = self.volume.block_size();
        let (lblk, within) = (Lblk((offset / size) as u32), offset % size);
        let n = self.blocks.fill_run(run, within, data)?;
        self.volume.with_handle(WRITE_CREDITS, |handle| {
            self.mapping.map_run(handle, inode, lblk, run, privileged)?;
            let added = self.blocks.publish_run(handle, run)?;
            let sectors = self.blocks.sectors_of(added);
            self.publish_size(handle, inode, offset + n as u64, sectors)?;
            self.volume.fast.note_blocks(handle, inode, lblk, run);
            Ok(())
        })?;
        Ok(n)
    }

    /// After data was written to mapped blocks: the size, if it grew.
    fn publish_overwrite(&self, inode: &Inode, end: u64) -> Result<()> {
        inode.unflushed.add();
        if end > inode.size() {
            self.volume.with_handle(2, |handle| {
                self.publish_size(handle, inode, end, 0)?;
                self.volume.fast.note(handle, inode);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Sets the size if `end` lies past it, adds to the blocks in use, and notes the time.
    pub(crate) fn publish_size(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        end: u64,
        sectors: u64,
    ) -> Result<()> {
        let time = now();
        inode.touch_data(handle);
        self.table.update_inode(inode, handle, |disk| {
            disk.size = disk.size.max(end);
            disk.blocks += sectors;
            disk.mtime = time;
            disk.ctime = time;
        })
    }

    /// Notes that the data changed, unless the clock has not moved since it was noted.
    #[inline]
    pub(crate) fn touch_times(&self, inode: &Inode) -> Result<()> {
        if inode.is_changed_at(now()) {
            return Ok(());
        }
        self.table.change_times(inode, changed_now)
    }

    /// As [`FileIo::touch_times`], but [`Ext4Error::WouldBlock`] where it would have to wait.
    pub(crate) fn touch_times_nowait(&self, inode: &Inode) -> Result<()> {
        if inode.is_changed_at(now()) || self.table.change_times_nowait(inode, changed_now)? {
            return Ok(());
        }
        Err(Ext4Error::WouldBlock)
    }

    /// Zeroes the mapped rest of the last block, from `from` to its end or to `to`.
    pub(crate) fn zero_tail(&self, inode: &Inode, from: u64, to: u64) -> Result<()> {
        if from.is_multiple_of(self.volume.block_size()) {
            return Ok(());
        }
        self.zero_data(
            inode,
            from,
            to.min(from.next_multiple_of(self.volume.block_size())),
        )
    }

    /// Zeroes `[from, to)`, in bytes and in one block, if that holds data.
    pub(crate) fn zero_data(&self, inode: &Inode, from: u64, to: u64) -> Result<()> {
        let block = self.volume.block_size();
        if from >= to {
            return Ok(());
        }
        let mapping = self.mapping.map_block(inode, Lblk((from / block) as u32))?;
        if let RunLookup {
            pblk: Some(pblk),
            unwritten: false,
            ..
        } = mapping
        {
            if self.mapping.journals_data(inode) {
                return self.zero_journaled(inode, pblk, from % block, to - from);
            }
            let zeros = &ZEROS[..(to - from) as usize];
            self.volume
                .device()
                .write_at(pblk.0 * block + from % block, zeros)?;
            inode.unflushed.add();
        }
        Ok(())
    }

    /// Sets a file's size; what lies past it is freed, or reads as zeros when the file grows.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Crash
    /// The size survives or not; if it does, the blocks past it are freed at the latest by the next
    /// mount.
    ///
    /// # Errors
    /// [`Ext4Error::TooLarge`], [`Ext4Error::IsDirectory`].
    pub fn truncate(&self, inode: &InodeRef, size: u64) -> Result<()> {
        check_regular(inode)?;
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        self.volume.check_writable()?;
        self.truncate_locked(inode, size)
    }

    pub(crate) fn truncate_locked(&self, inode: &InodeRef, size: u64) -> Result<()> {
        encrypted::check_not_encrypted(inode)?;
        self.mapping.check_end(inode, size)?;
        if inode.is_inline() && self.inline.truncate_inline(inode, size)? {
            return Ok(());
        }
        let old = inode.size();
        if size > old {
            self.zero_tail(inode, old, size)?;
        }
        let time = now();
        // What was allocated past the size goes even if that stays.
        let shrinks = size < old || size == old && self.maps_past(inode, size)?;
        let first = size.div_ceil(self.volume.block_size());
        if shrinks {
            self.mapping.check_removable(inode, first, 1 << 32)?;
        }
        let handle = self.volume.journal().start(DELETE_CREDITS)?;
        inode.touch_data(&handle);
        self.table.update_inode(inode, &handle, |disk| {
            disk.size = size;
            disk.mtime = time;
            disk.ctime = time;
        })?;
        if !shrinks {
            handle.finish();
            return Ok(());
        }
        self.orphans.add_orphan(&handle, inode.inode())?;
        handle.complete();
        let handle = self.mapping.remove_blocks(
            handle,
            inode,
            first,
            1 << 32,
            self.mapping.content_of(inode),
            Restart::Allowed,
        )?;
        let handle = handle.extend_or_restart(4)?;
        if !inode.is_unlinked() {
            self.orphans.remove_orphan(&handle, inode)?;
        }
        handle.finish();
        self.zero_tail(inode, size, u64::MAX)
    }

    /// Whether blocks are allocated past `size`.
    fn maps_past(&self, inode: &Inode, size: u64) -> Result<bool> {
        let next = size.div_ceil(self.volume.block_size());
        if next > u64::from(u32::MAX) {
            return Ok(false);
        }
        let mapping = self.mapping.map_block(inode, Lblk(next as u32))?;
        Ok(mapping.pblk.is_some() || next + u64::from(mapping.len) < u64::from(u32::MAX))
    }

    /// Makes everything of an inode durable; with `data_only` not its times. A directory's data is its names.
    ///
    /// # Errors
    /// The device's, or that the journal was aborted: then it may not be durable.
    pub fn fsync(&self, inode: &InodeRef, data_only: bool) -> Result<()> {
        self.volume.journal().check_aborted()?;
        if self.volume.has_nothing_to_sync() {
            return Ok(());
        }
        if !data_only {
            self.table.write_pending(inode)?;
        }
        // Data of an inode that left memory meanwhile counts for all.
        let (own, evicted) = (inode.unflushed.due(), self.table.unflushed_evicted.due());
        let tid = inode.sync_tid(data_only && !inode.is_dir());
        let unflushed = own.is_some() || evicted.is_some();
        match inode.file_type {
            FileType::Regular => self.volume.sync_file(tid, unflushed)?,
            _ => self.volume.sync_tid(tid, unflushed)?,
        }
        if let Some(writes) = own {
            inode.unflushed.paid(writes);
        }
        if let Some(writes) = evicted {
            self.table.unflushed_evicted.paid(writes);
        }
        Ok(())
    }
}

fn changed_now(disk: &mut uext4_ondisk::Inode) {
    let time = now();
    disk.mtime = time;
    disk.ctime = time;
}

/// Refuses a file whose data must not change.
pub(crate) fn check_mutable(inode: &Inode) -> Result<()> {
    match inode.flags().intersects(FIXED_DATA) {
        true => Err(Ext4Error::NotPermitted),
        false => encrypted::check_not_encrypted(inode),
    }
}

pub(crate) fn check_regular(inode: &Inode) -> Result<()> {
    match inode.file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(Ext4Error::IsDirectory),
        FileType::Unknown => Err(Corrupt::new(CorruptKind::InodeMode).ino(inode.ino).into()),
        _ => Err(Ext4Error::Invalid("not a regular file")),
    }
}
