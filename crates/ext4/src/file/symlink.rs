//! Targets of symbolic links: a short one is in the inode, another in a block.

use crate::file::{FileIo, ReadKind};
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use crate::quota::OwnerIds;
use crate::run::Run;

/// A target shorter than that is in the inode.
const FAST_SYMLINK_BYTES: usize = 60;

impl FileIo {
    /// Writes the target of a symbolic link that is to be made in `dir` to a reserved block, unless it fits the
    /// inode.
    ///
    /// # Errors
    /// [`Ext4Error::NotFound`], [`Ext4Error::NameTooLong`]; [`Ext4Error::NoSpace`], the device's.
    pub(crate) fn prepare_symlink(
        &self,
        dir: &Inode,
        owners: OwnerIds,
        target: &[u8],
    ) -> Result<Option<Run>> {
        if target.is_empty() {
            return Err(Ext4Error::NotFound);
        }
        // The target and its final zero must fit a block.
        if target.len() as u64 >= self.volume.block_size() {
            return Err(Ext4Error::NameTooLong);
        }
        if target.len() < FAST_SYMLINK_BYTES {
            return Ok(None);
        }
        let run = self
            .blocks
            .reserve_for(owners, self.blocks.goal_of(dir.ino), 1, true)?;
        self.blocks
            .fill_run(run, 0, target)
            .inspect_err(|_| self.blocks.unreserve(run))?;
        Ok(Some(run))
    }

    /// Gives a new symbolic link its target, and the block where that was written.
    pub(crate) fn put_symlink(
        &self,
        handle: &Handle<'_>,
        inode: &InodeRef,
        target: &[u8],
        run: Option<Run>,
    ) -> Result<()> {
        let len = target.len();
        let Some(run) = run else {
            return self.table.update_inode(inode, handle, |disk| {
                if let Some(to) = disk.i_block.get_mut(..len) {
                    to.copy_from_slice(target);
                }
                disk.size = len as u64;
            });
        };
        self.table.update_inode(inode, handle, |disk| {
            self.mapping.init_mapping(disk);
            disk.size = len as u64;
        })?;
        self.mapping.map_run(handle, inode, Lblk(0), run, true)?;
        let added = self.blocks.publish_run(handle, run)?;
        self.publish_size(handle, inode, len as u64, self.blocks.sectors_of(added))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Ext4Error::Invalid`] if it is none, damage.
    pub fn readlink(&self, inode: &InodeRef) -> Result<Vec<u8>> {
        if inode.file_type != FileType::Symlink {
            return Err(Ext4Error::Invalid("not a symbolic link"));
        }
        self.table.touch_atime(inode);
        self.target_of(inode)
    }

    /// The target, as [`FileIo::readlink`] returns it.
    pub(crate) fn target_of(&self, inode: &Inode) -> Result<Vec<u8>> {
        let stored = self.stored_target(inode)?;
        match inode.is_encrypted() {
            true => self.attributes.shown_target(inode, &stored),
            false => Ok(stored),
        }
    }

    fn stored_target(&self, inode: &Inode) -> Result<Vec<u8>> {
        if let Some(target) = inode.state().fast_symlink_target() {
            return Ok(target.to_vec());
        }
        let size = inode.size();
        if size == 0 || size >= self.volume.block_size() {
            return Err(
                uext4_ondisk::Corrupt::new(uext4_ondisk::CorruptKind::InodeShort)
                    .ino(inode.ino)
                    .detail("length of a symbolic link")
                    .into(),
            );
        }
        let mut target = vec![0; size as usize];
        self.read_mapped(inode, 0, &mut target, ReadKind::default())?;
        Ok(target)
    }
}
