//! Extended attributes: in the inode's body, then in a block of their own; the value of one that fits
//! neither in an inode of its own, where the file system has `ea_inode`.
//!
//! # Invariants
//! An attribute is in one of the two places. A block is shared by inodes only as found on disk: what is
//! written here has one owner, and changing a shared block copies it. The value's inode is shared only as
//! found on disk, too; it counts the bodies and blocks that name it, so one in a shared block counts once.
//! An owner's sectors include those of such values, rounded up to blocks.
//!
//! # Locking
//! To change: the inode's `ilock` alone, then the handle, then its `xattr` lock. To look: the `xattr` lock, or none if the
//! inode's snapshot of them is current.
//!
//! | module | holds |
//! | --- | --- |
//! | `change` | setting and removing |
//! | `value` | values in inodes of their own |

pub(crate) mod change;
mod value;

use crate::attributes::Attributes;
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use crate::run::Run;
use crate::{inline, kinds};
use uext4_ondisk::{XattrEntry, XattrValue};

/// The attributes of an inode, decoded.
#[derive(Clone, Debug)]
struct Lists {
    body: XattrList,
    block: XattrList,
    /// The block they came from.
    pblk: Pblk,
    /// Other inodes have that block, too.
    shared: bool,
}

impl Lists {
    fn is_same(&self, other: &Lists) -> bool {
        self.body == other.body && self.block == other.block
    }
}

impl Attributes {
    /// A block of extended attributes, checked.
    pub(crate) fn xattr_block(&self, inode: &Inode, pblk: Pblk) -> Result<Arc<Buffer>> {
        self.volume
            .geometry()
            .check_block(pblk)
            .map_err(|e| e.ino(inode.ino))?;
        let role = (kinds::XATTR_BLOCK, 0);
        self.volume
            .cache()
            .get_verified(pblk.0, role, |data| -> Result<()> {
                let place = |e: uext4_ondisk::Corrupt| e.pblk(pblk);
                if let Some(seed) = self.volume.seed() {
                    uext4_ondisk::xattr_block_checksum_verify(data, seed, pblk).map_err(place)?;
                }
                XattrArea::in_block(data).map_err(place)?;
                Ok(())
            })
            .map_err(|e| e.of_inode(inode.ino))
    }

    fn load_lists(&self, inode: &Inode) -> Result<Lists> {
        let body = inode
            .with_raw(|raw| XattrArea::in_inode(raw).map(|a| a.map(|a| XattrList::from_area(&a))))
            .map_err(|e| e.ino(inode.ino))?
            .unwrap_or_default();
        let pblk = inode.state().file_acl;
        let (block, shared) = if pblk == Pblk(0) {
            (XattrList::default(), false)
        } else {
            let buffer = self.xattr_block(inode, pblk)?;
            let content = buffer.read();
            let area =
                XattrArea::in_block(content.data()).map_err(|e| e.ino(inode.ino).pblk(pblk))?;
            let owners = uext4_ondisk::xattr_refcount(content.data());
            (XattrList::from_area(&area), owners.is_some_and(|n| n > 1))
        };
        Ok(Lists {
            body,
            block,
            pblk,
            shared,
        })
    }

    /// The value of an attribute, as on disk.
    ///
    /// # Locks
    /// The inode's `xattr` lock, unless its snapshot has all attributes; may read from the device.
    ///
    /// # Errors
    /// [`Ext4Error::NoAttribute`], damage, the device's.
    pub fn get_xattr(&self, inode: &Inode, index: XattrIndex, name: &[u8]) -> Result<Vec<u8>> {
        check_visible(index, name)?;
        if let Some(value) = inode.xattr_snapshot.find(index, name) {
            return value.ok_or(Ext4Error::NoAttribute);
        }
        let _locked = inode.xattr.lock();
        if inode.xattr_snapshot.missed() {
            // What is wrong with another attribute is reported to the caller that asks for it.
            let lists = self.load_lists(inode).ok();
            let lists = lists.map(|lists| [lists.block, lists.body]);
            inode
                .xattr_snapshot
                .set(lists, &self.mapping.snapshot_budget);
        }
        match self.find_xattr(inode, index, name)? {
            XattrOwnedValue::Inline(value) => Ok(value),
            // While the lock is held, it has this attribute, and the attribute its inode.
            XattrOwnedValue::Inode { ino, size, .. } => self.read_value(inode, ino, size),
        }
    }

    fn find_xattr(&self, inode: &Inode, index: XattrIndex, name: &[u8]) -> Result<XattrOwnedValue> {
        let in_body = inode
            .with_raw(|raw| {
                XattrArea::in_inode(raw)
                    .map(|area| area.and_then(|a| a.find(index, name).map(|e| owned(&e))))
            })
            .map_err(|e| e.ino(inode.ino))?;
        if let Some(value) = in_body {
            return Ok(value);
        }
        let pblk = inode.state().file_acl;
        if pblk == Pblk(0) {
            return Err(Ext4Error::NoAttribute);
        }
        let buffer = self.xattr_block(inode, pblk)?;
        let content = buffer.read();
        let found = XattrArea::in_block(content.data())?.find(index, name);
        found.map(|e| owned(&e)).ok_or(Ext4Error::NoAttribute)
    }

    /// The full names of all attributes.
    ///
    /// # Errors
    /// Damage, the device's.
    pub fn list_xattrs(&self, inode: &InodeRef) -> Result<Vec<Vec<u8>>> {
        let _locked = inode.xattr.lock();
        let lists = self.load_lists(inode)?;
        Ok(lists
            .body
            .iter()
            .chain(lists.block.iter())
            .filter(|x| !x.index.prefix().is_empty() && !inline::is_data(x.index, &x.name))
            .map(|x| [x.index.prefix().as_bytes(), &x.name].concat())
            .collect())
    }
}

/// Refuses the attribute that holds data.
fn check_visible(index: XattrIndex, name: &[u8]) -> Result<()> {
    match inline::is_data(index, name) {
        true => Err(Ext4Error::Unsupported("the attribute system.data")),
        false => Ok(()),
    }
}

fn owned(entry: &XattrEntry<'_>) -> XattrOwnedValue {
    match entry.value {
        XattrValue::Inline(value) => XattrOwnedValue::Inline(value.to_vec()),
        XattrValue::Inode { ino, size } => XattrOwnedValue::Inode {
            ino,
            size,
            entry_hash: entry.hash,
        },
    }
}

impl Attributes {
    /// As `Mapping::check_removable`, of the block of an inode's extended attributes, if it has one.
    pub(crate) fn check_xattr_block(&self, inode: &Inode) -> Result<()> {
        let pblk = inode.state().file_acl;
        if pblk != Pblk(0) {
            self.xattr_block(inode, pblk)?;
            self.blocks.check_allocated(Run { pblk, len: 1 })?;
        }
        Ok(())
    }
}
