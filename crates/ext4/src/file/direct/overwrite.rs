//! Direct writes to blocks that are allocated and hold data.

use crate::file::direct::Request;
use crate::file::{FileIo, check_mutable};
use crate::inode::Inode;
use crate::prelude::*;
use crate::run::RunLookup;

/// Where on the device an overwrite goes, in bytes.
#[derive(Debug)]
pub(super) enum Place {
    /// All of it, from there on.
    One(u64),
    /// Parts of these lengths, one after the other.
    Many(Vec<(u64, usize)>),
}

impl FileIo {
    /// Where the write goes if it is an overwrite.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock`, shared at least.
    ///
    /// # Errors
    /// [`Ext4Error::WouldBlock`] if it must not wait and would have to, to find out.
    pub(super) fn find_overwrite(&self, write: &Request<'_>, offset: u64) -> Result<Option<Place>> {
        // Again, as the `ilock` is held now: an unmount waits for whatever holds one, and the flag changes under it.
        self.volume.check_writable()?;
        check_mutable(write.inode)?;
        let block = self.volume.block_size();
        let end = offset.saturating_add(write.len());
        if end > write.inode.size() || self.mapping.journals_data(write.inode) {
            return Ok(None);
        }
        let mut parts = Vec::new();
        let mut at = offset;
        loop {
            let (lblk, within) = (Lblk((at / block) as u32), at % block);
            let mapping = self.map_for(write.inode, lblk, write.nowait)?;
            let Some(pblk) = mapping.pblk.filter(|_| !mapping.unwritten) else {
                return Ok(None);
            };
            let place = pblk.0 * block + within;
            let len = (u64::from(mapping.len) * block - within).min(end - at);
            if at == offset && at + len == end {
                return Ok(Some(Place::One(place)));
            }
            parts.push((place, len as usize));
            at += len;
            if at == end {
                return Ok(Some(Place::Many(parts)));
            }
        }
    }

    /// What a block is; [`Ext4Error::WouldBlock`] if that takes waiting, and `nowait` forbids it.
    #[inline]
    pub(crate) fn map_for(&self, inode: &Inode, lblk: Lblk, nowait: bool) -> Result<RunLookup> {
        if nowait {
            return self
                .mapping
                .map_block_nowait(inode, lblk)?
                .ok_or(Ext4Error::WouldBlock);
        }
        self.mapping.map_block(inode, lblk)
    }

    /// Writes the data there.
    ///
    /// # Locks
    /// As [`FileIo::find_overwrite`], held since.
    pub(super) fn overwrite(
        &self,
        write: &Request<'_>,
        offset: u64,
        place: &Place,
    ) -> Result<Written> {
        // Before the data: then there is nothing to take back.
        if write.nowait {
            self.touch_times_nowait(write.inode)?;
        }
        match place {
            Place::One(at) => self.volume.device().write_at(*at, write.data)?,
            Place::Many(parts) => {
                let mut rest = write.data;
                let mut writes = Vec::with_capacity(parts.len());
                for &(at, len) in parts {
                    let (part, after) = rest.split_at_checked(len).unwrap_or((rest, &[]));
                    writes.push((at, part));
                    rest = after;
                }
                self.volume.device().write_batch(&writes)?;
            }
        }
        write.inode.unflushed.add();
        if !write.nowait {
            self.touch_times(write.inode)?;
        }
        let len = write.data.len();
        Ok(Written { offset, len })
    }
}
