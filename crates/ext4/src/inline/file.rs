//! Files that are all in their inode.

use crate::clock::now;
use crate::error::Result;
use crate::inline::{IN_BLOCK, InlineData};
use crate::inode::Inode;

/// What changing the data in an inode changes: its block.
const CREDITS: u32 = 2;

impl InlineData {
    /// Reads from the data; zeros past it.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock`, shared at least.
    ///
    /// # Errors
    /// Damage.
    #[cold]
    pub(crate) fn read_inline(&self, inode: &Inode, offset: u64, to: &mut [u8]) -> Result<()> {
        let mut all = self.inline_load(inode)?;
        all.truncate(usize::try_from(inode.size()).unwrap_or(usize::MAX));
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let from = &all[at.min(all.len())..];
        let here = from.len().min(to.len());
        let (part, past) = to.split_at_mut(here);
        part.copy_from_slice(&from[..here]);
        past.fill(0);
        Ok(())
    }

    /// Writes to the data if that fits; else moves what there is to blocks, and false says that nothing
    /// else was done.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone.
    ///
    /// # Errors
    /// [`crate::Ext4Error::NoSpace`] for a block, damage, the journal's; nothing changed then.
    #[cold]
    pub(crate) fn write_inline(
        &self,
        inode: &Inode,
        offset: u64,
        data: &[u8],
        privileged: bool,
    ) -> Result<bool> {
        let end = offset.saturating_add(data.len() as u64);
        let capacity = self.inline_capacity(inode)?;
        let Some((at, end)) = usize::try_from(offset)
            .ok()
            .zip(usize::try_from(end).ok())
            .filter(|(_, end)| *end <= capacity)
        else {
            self.convert_inline(inode, privileged)?;
            return Ok(false);
        };
        self.change_inline(inode, end, true, |all| {
            if let Some(to) = all.get_mut(at..end) {
                to.copy_from_slice(data);
            }
        })?;
        Ok(true)
    }

    /// Sets the size if that fits; else moves what there is to blocks, and false says that nothing else
    /// was done.
    ///
    /// # Locks
    /// As [`InlineData::write_inline`].
    ///
    /// # Errors
    /// As [`InlineData::write_inline`].
    #[cold]
    pub(crate) fn truncate_inline(&self, inode: &Inode, size: u64) -> Result<bool> {
        let capacity = self.inline_capacity(inode)?;
        let Some(end) = usize::try_from(size).ok().filter(|end| *end <= capacity) else {
            self.convert_inline(inode, true)?;
            return Ok(false);
        };
        self.change_inline(inode, end, false, |_| {})?;
        Ok(true)
    }

    /// Changes the data, which is made to reach to `end`; unless it `grows` only, no further.
    fn change_inline(
        &self,
        inode: &Inode,
        end: usize,
        grows: bool,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let mut all = self.inline_load(inode)?;
        let old = usize::try_from(inode.size()).unwrap_or(usize::MAX);
        let size = if grows { old.max(end) } else { end };
        // What was past the size, or is from now on, is zero.
        all.truncate(old.min(size));
        all.resize(size.max(IN_BLOCK), 0);
        change(&mut all);
        let time = now();
        self.volume.with_handle(CREDITS, |handle| {
            self.inline_store(handle, inode, &all, |disk| {
                disk.size = size as u64;
                disk.mtime = time;
                disk.ctime = time;
            })
        })
    }
}
