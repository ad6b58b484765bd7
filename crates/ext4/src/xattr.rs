//! Extended attributes: in the inode's body, then in a block of their own.
//!
//! # Invariants
//! An attribute is in one of the two places. A block is shared by inodes only as found on disk: what is
//! written here has one owner, and changing a shared block copies it.
//!
//! # Locking
//! The inode's `ilock`, then the handle, then its `xattr` lock.

use crate::balloc::Run;
use crate::error::{Ext4Error, Result};
use crate::fs::Ext4;
use crate::inline;
use crate::inode::{Inode, InodeRef, now};
use crate::kinds;
use std::sync::Arc;
use uext4_buffer::Buffer;
use uext4_jbd2::Handle;
use uext4_ondisk::{
    Compat, Pblk, RoCompat, Xattr, XattrArea, XattrIndex, XattrList, XattrNoSpace, XattrOwnedValue,
    XattrValue,
};
use uext4_vfs::attr::XattrFlags;
use uext4_vfs::ilock::{LockMode, ilock};

/// Blocks that setting an attribute changes.
pub(crate) const XATTR_CREDITS: u32 = 12;

/// The attributes of an inode, decoded.
struct Lists {
    body: XattrList,
    block: XattrList,
    /// The block they came from.
    pblk: Pblk,
}

impl Lists {
    fn get(&self, index: XattrIndex, name: &[u8]) -> Option<&Xattr> {
        self.body
            .get(index, name)
            .or_else(|| self.block.get(index, name))
    }

    /// Sets an attribute, in the inode if it has `room`; false if it was so before.
    fn set(&mut self, index: XattrIndex, name: &[u8], value: &[u8], room: usize) -> bool {
        let value = XattrOwnedValue::Inline(value.to_vec());
        if self.get(index, name).is_some_and(|x| x.value == value) {
            return false;
        }
        self.block.remove(index, name);
        let before = self.body.clone();
        self.body.set(index, name, value.clone());
        if self.body.encoded_size() > room {
            self.body = before;
            self.body.remove(index, name);
            self.block.set(index, name, value);
        }
        true
    }

    /// Removes an attribute; false if there was none.
    fn remove(&mut self, index: XattrIndex, name: &[u8]) -> bool {
        let was = self
            .body
            .remove(index, name)
            .or_else(|| self.block.remove(index, name));
        was.is_some()
    }
}

impl Ext4 {
    /// A block of extended attributes, checked.
    pub(crate) fn xattr_block(&self, inode: &Inode, pblk: Pblk) -> Result<Arc<Buffer>> {
        self.geometry()
            .check_block(pblk)
            .map_err(|e| e.ino(inode.ino))?;
        let buffer = self.cache().get_verified(pblk.0, |data| -> Result<()> {
            let place = |e: uext4_ondisk::Corrupt| e.ino(inode.ino).pblk(pblk);
            if let Some(seed) = self.seed() {
                uext4_ondisk::xattr_block_checksum_verify(data, seed, pblk).map_err(place)?;
            }
            XattrArea::in_block(data).map_err(place)?;
            Ok(())
        })?;
        buffer.set_kind(kinds::XATTR_BLOCK, 0);
        Ok(buffer)
    }

    fn load_lists(&self, inode: &Inode) -> Result<Lists> {
        let body = inode
            .with_raw(|raw| XattrArea::in_inode(raw).map(|a| a.map(|a| XattrList::from_area(&a))))
            .map_err(|e| e.ino(inode.ino))?
            .unwrap_or_default();
        let pblk = inode.state().file_acl;
        let block = if pblk == Pblk(0) {
            XattrList::default()
        } else {
            let buffer = self.xattr_block(inode, pblk)?;
            let content = buffer.read();
            XattrList::from_area(&XattrArea::in_block(content.data())?)
        };
        Ok(Lists { body, block, pblk })
    }

    /// The value of an attribute, as on disk.
    ///
    /// # Errors
    /// [`Ext4Error::NoAttribute`], damage.
    pub fn get_xattr(&self, inode: &Inode, index: XattrIndex, name: &[u8]) -> Result<Vec<u8>> {
        check_visible(index, name)?;
        let _locked = inode.xattr.lock();
        let in_body = inode
            .with_raw(|raw| {
                XattrArea::in_inode(raw)
                    .map(|area| area.and_then(|a| a.find(index, name).map(|e| owned(e.value))))
            })
            .map_err(|e| e.ino(inode.ino))?;
        if let Some(value) = in_body {
            return value;
        }
        let pblk = inode.state().file_acl;
        if pblk == Pblk(0) {
            return Err(Ext4Error::NoAttribute);
        }
        let buffer = self.xattr_block(inode, pblk)?;
        let content = buffer.read();
        match XattrArea::in_block(content.data())?.find(index, name) {
            Some(entry) => owned(entry.value),
            None => Err(Ext4Error::NoAttribute),
        }
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

    /// Sets an attribute.
    ///
    /// # Errors
    /// [`Ext4Error::AttributeExists`] and [`Ext4Error::NoAttribute`] as the flags ask,
    /// [`Ext4Error::NoSpace`] if it fits neither the inode nor the block.
    pub fn set_xattr(
        &self,
        inode: &InodeRef,
        index: XattrIndex,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        check_visible(index, name)?;
        self.change_xattrs(inode, |lists| {
            let exists = lists.get(index, name).is_some();
            if exists && flags.contains(XattrFlags::CREATE) {
                return Err(Ext4Error::AttributeExists);
            }
            if !exists && flags.contains(XattrFlags::REPLACE) {
                return Err(Ext4Error::NoAttribute);
            }
            Ok(lists.set(index, name, value, self.body_room(inode)))
        })
    }

    /// Sets an attribute, or removes it if it is there, as part of `handle`.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone, or has just made it. Takes `xattr`.
    ///
    /// # Journal
    /// [`XATTR_CREDITS`].
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`]; nothing changed then.
    pub(crate) fn put_xattr_in(
        &self,
        handle: &Handle<'_>,
        inode: &InodeRef,
        index: XattrIndex,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        self.change_xattrs_in(handle, inode, |lists| {
            Ok(match value {
                Some(value) => lists.set(index, name, value, self.body_room(inode)),
                None => lists.remove(index, name),
            })
        })
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// [`Ext4Error::NoAttribute`].
    pub fn remove_xattr(&self, inode: &InodeRef, index: XattrIndex, name: &[u8]) -> Result<()> {
        check_visible(index, name)?;
        self.change_xattrs(inode, |lists| match lists.remove(index, name) {
            true => Ok(true),
            false => Err(Ext4Error::NoAttribute),
        })
    }

    fn body_room(&self, inode: &Inode) -> usize {
        XattrList::inode_room(self.params.inode_size, inode.state().extra_isize)
    }

    fn change_xattrs(
        &self,
        inode: &InodeRef,
        change: impl Fn(&mut Lists) -> Result<bool>,
    ) -> Result<()> {
        self.check_writable()?;
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        match self.change_xattrs_locked(inode, &change) {
            // Data in the inode makes room.
            Err(Ext4Error::NoSpace) if inode.is_inline() => {
                self.convert_inline(inode, true)?;
                self.change_xattrs_locked(inode, &change)
            }
            done => done,
        }
    }

    fn change_xattrs_locked(
        &self,
        inode: &InodeRef,
        change: &impl Fn(&mut Lists) -> Result<bool>,
    ) -> Result<()> {
        self.retry_no_space(|| {
            let handle = self.journal().start(XATTR_CREDITS)?;
            self.change_xattrs_in(&handle, inode, change)
        })
    }

    /// Makes a change of which `change` tells whether there was any.
    fn change_xattrs_in(
        &self,
        handle: &Handle<'_>,
        inode: &InodeRef,
        change: impl FnOnce(&mut Lists) -> Result<bool>,
    ) -> Result<()> {
        let _xattr = inode.xattr.lock();
        let mut lists = self.load_lists(inode)?;
        let had_block = !lists.block.is_empty();
        if !change(&mut lists)? {
            return Ok(());
        }
        let room = XattrList::block_room(self.cache().block_size());
        if lists.block.encoded_size() > room {
            return Err(Ext4Error::NoSpace);
        }
        if !self.sb.compat.contains(Compat::EXT_ATTR) {
            self.add_features(handle, Compat::EXT_ATTR, RoCompat::empty())?;
        }
        // Whoever finds out from now on waits for the lock.
        inode.acls.forget();
        if had_block || !lists.block.is_empty() {
            self.store_block(handle, inode, &lists)?;
        }
        inode
            .update_raw(handle, |raw| lists.body.encode_in_inode(raw))?
            .map_err(|XattrNoSpace| Ext4Error::NoSpace)?;
        let time = now();
        self.update_inode(inode, handle, |disk| disk.ctime = time)
    }

    /// Writes the attributes of the block: in place, to a copy if it is shared, or none at all.
    fn store_block(&self, handle: &Handle<'_>, inode: &InodeRef, lists: &Lists) -> Result<()> {
        let sectors = self.block_size() / 512;
        let old = if lists.pblk == Pblk(0) {
            None
        } else {
            let buffer = self.xattr_block(inode, lists.pblk)?;
            let refs = uext4_ondisk::xattr_refcount(buffer.read().data()).unwrap_or(1);
            Some((buffer, refs))
        };
        match old {
            Some((buffer, 1)) if !lists.block.is_empty() => {
                let mut content = handle.modify(&buffer)?;
                return lists
                    .block
                    .encode_block(content.data_mut())
                    .map_err(|XattrNoSpace| Ext4Error::NoSpace);
            }
            Some((buffer, 1)) => {
                handle.forget(&buffer)?;
                self.free_run(
                    handle,
                    Run {
                        pblk: lists.pblk,
                        len: 1,
                    },
                )?;
            }
            Some((buffer, refs)) => {
                let mut content = handle.modify(&buffer)?;
                uext4_ondisk::xattr_refcount_set(content.data_mut(), refs.saturating_sub(1));
            }
            None => {}
        }
        let had = lists.pblk != Pblk(0);
        let new = if lists.block.is_empty() {
            Pblk(0)
        } else {
            let run = self.claim_blocks(handle, self.goal_of(inode.ino), 1, true)?;
            let buffer = self.cache().get_unread(run.pblk.0);
            buffer.set_kind(kinds::XATTR_BLOCK, 0);
            let mut content = handle.create(&buffer)?;
            lists
                .block
                .encode_block(content.data_mut())
                .map_err(|XattrNoSpace| Ext4Error::NoSpace)?;
            run.pblk
        };
        self.update_inode(inode, handle, |disk| {
            disk.file_acl = new;
            if had {
                disk.blocks = disk.blocks.saturating_sub(sectors);
            }
            if new != Pblk(0) {
                disk.blocks += sectors;
            }
        })
    }
}

/// Refuses the attribute that holds data.
fn check_visible(index: XattrIndex, name: &[u8]) -> Result<()> {
    match inline::is_data(index, name) {
        true => Err(Ext4Error::Unsupported("the attribute system.data")),
        false => Ok(()),
    }
}

fn owned(value: XattrValue<'_>) -> Result<Vec<u8>> {
    match value {
        XattrValue::Inline(value) => Ok(value.to_vec()),
        XattrValue::Inode { .. } => Err(Ext4Error::Unsupported(
            "an attribute in an inode of its own",
        )),
    }
}
