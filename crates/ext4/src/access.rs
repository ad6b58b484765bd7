//! Who may do what: the caller's credentials against an inode's attributes.

use crate::error::{Ext4Error, Result};
use crate::fs::Ext4;
use crate::inode::{Inode, kind_of};
use uext4_vfs::attr::{Attr, Timestamp};
use uext4_vfs::caller::{Caller, Capabilities};

/// What lets a caller do anything to directories.
const ALMIGHTY: Capabilities =
    Capabilities::DAC_OVERRIDE.union(Capabilities::DAC_READ_SEARCH).union(Capabilities::FOWNER);

fn time(t: uext4_ondisk::Timestamp) -> Timestamp {
    Timestamp {
        sec: t.sec,
        nsec: t.nsec,
    }
}

impl Ext4 {
    /// The attributes of an inode.
    pub fn attr(&self, inode: &Inode) -> Attr {
        let state = inode.state();
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
            size: state.size,
            blocks: state.blocks,
            block_size: self.geometry().block_size,
            atime: time(state.atime),
            mtime: time(state.mtime),
            ctime: time(state.ctime),
            crtime: time(state.crtime),
            rdev_major: device.major,
            rdev_minor: device.minor,
            flags: state.flags.bits(),
        }
    }

    /// Refuses a caller who may not look names up in a directory.
    pub(crate) fn may_search(&self, caller: &Caller, dir: &Inode) -> Result<()> {
        if caller.has(ALMIGHTY) {
            return Ok(());
        }
        Ok(())
    }

    /// Refuses a caller who may not add names to a directory.
    pub(crate) fn may_change_dir(&self, caller: &Caller, dir: &Inode) -> Result<()> {
        if dir.flags().contains(uext4_ondisk::InodeFlags::IMMUTABLE) {
            return Err(Ext4Error::NotPermitted);
        }
        if caller.has(ALMIGHTY) {
            return Ok(());
        }
        let attr = self.attr(dir);
        
        Ok(())
    }

    /// Refuses a caller who may not remove the name of `target` from `dir`.
    pub(crate) fn may_delete(&self, caller: &Caller, dir: &Inode, target: &Inode) -> Result<()> {
        self.may_change_dir(caller, dir)?;
        if caller.has(ALMIGHTY) {
            return Ok(());
        }
        Ok(())
    }
}
