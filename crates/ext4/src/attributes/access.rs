//! Permission checks: the caller's credentials against an inode's attributes.

use crate::attributes::Attributes;
use crate::inode::{Inode, kind_of};
use crate::prelude::*;
use uext4_vfs::attr::Timestamp;

/// What lets a caller do anything to directories.
const ALMIGHTY: Capabilities = Capabilities::DAC_OVERRIDE
    .union(Capabilities::DAC_READ_SEARCH)
    .union(Capabilities::FOWNER);

impl Attributes {
    /// The attributes of an inode.
    ///
    /// # Locks
    /// Takes the inode's state.
    pub fn attr(&self, inode: &Inode) -> Attr {
        self.attr_of(inode, &inode.state())
    }

    /// The same, for callers that change nothing: no lock, if it was read since the last change.
    ///
    /// # Locks
    /// May take the inode's state.
    #[inline]
    pub fn attr_snapshot(&self, inode: &Inode) -> Attr {
        let block_size = self.volume.geometry().block_size;
        inode.attr.read_or(block_size, || self.attr_copied(inode))
    }

    /// The attributes, which are copied for the next reader.
    #[inline(never)]
    fn attr_copied(&self, inode: &Inode) -> Attr {
        let state = inode.state();
        let attr = self.attr_of(inode, &state);
        inode.attr.set(&attr);
        attr
    }

    #[inline]
    fn attr_of(&self, inode: &Inode, state: &uext4_ondisk::Inode) -> Attr {
        let device = match inode.file_type {
            uext4_ondisk::FileType::CharDevice | uext4_ondisk::FileType::BlockDevice => {
                state.dev_no()
            }
            _ => uext4_ondisk::DevNo { major: 0, minor: 0 },
        };
        Attr {
            ino: u64::from(inode.ino.0),
            generation: state.generation.0,
            kind: kind_of(inode.file_type),
            mode: state.mode & 0o7777,
            nlink: state.links,
            uid: state.uid,
            gid: state.gid,
            // A directory that was removed has nothing more to read.
            size: match inode.is_dir() && state.links == 0 {
                true => 0,
                false => state.size,
            },
            blocks: state.blocks + inline_sectors(inode, state.size),
            block_size: self.volume.geometry().block_size,
            atime: vfs_time(state.atime),
            mtime: vfs_time(state.mtime),
            ctime: vfs_time(state.ctime),
            crtime: vfs_time(state.crtime),
            rdev_major: device.major,
            rdev_minor: device.minor,
            flags: state.flags.bits(),
        }
    }

    /// Refuses a caller that may not look names up in a directory.
    pub(crate) fn may_search(&self, caller: &Caller, dir: &Inode) -> Result<()> {
        if caller.has(ALMIGHTY) {
            return Ok(());
        }
        self.check_access(caller, dir, &self.attr_snapshot(dir), Access::EXEC)
    }

    /// Refuses a caller that may not add names to a directory, which has these attributes.
    pub(crate) fn may_change_dir(&self, caller: &Caller, dir: &Inode, attr: &Attr) -> Result<()> {
        if attr.flags & InodeFlags::IMMUTABLE.bits() != 0 {
            return Err(Ext4Error::NotPermitted);
        }
        if caller.has(ALMIGHTY) {
            return Ok(());
        }
        self.check_access(caller, dir, attr, Access::WRITE | Access::EXEC)
    }

    /// Refuses a caller that may not remove the name of `target` from `dir`, which has the attributes `attr`;
    /// `as_dir`: as rmdir(2) does.
    pub(crate) fn may_delete(
        &self,
        caller: &Caller,
        dir: &Inode,
        attr: &Attr,
        target: &Inode,
        as_dir: bool,
    ) -> Result<()> {
        let fixed = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
        let flags = InodeFlags::from_bits_retain(attr.flags) | target.flags();
        if caller.has(ALMIGHTY) && !flags.intersects(fixed) {
            return match (as_dir, target.is_dir()) {
                (true, false) => Err(Ext4Error::NotDirectory),
                (false, true) => Err(Ext4Error::IsDirectory),
                _ => Ok(()),
            };
        }
        self.check_access(caller, dir, attr, Access::WRITE | Access::EXEC)?;
        Ok(permission::may_delete_granted(
            attr,
            &self.attr(target),
            caller,
            as_dir,
        )?)
    }
}

/// What stat(2) counts for the data of a file that is in its inode: as if it took room, so that no program takes the
/// file for a hole.
fn inline_sectors(inode: &Inode, size: u64) -> u64 {
    let is_file = inode.file_type == FileType::Regular && inode.is_inline();
    if is_file { size.div_ceil(512) } else { 0 }
}

pub(crate) fn vfs_time(t: uext4_ondisk::Timestamp) -> Timestamp {
    Timestamp {
        sec: t.sec,
        nsec: t.nsec,
    }
}
