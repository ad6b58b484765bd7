//! Setting and removing attributes.
//!
//! # Crash
//! All that an attribute consists of changes in one handle, but a value's data, which is written before to
//! blocks that are only reserved: a crash leaves the old value or the new one.

use crate::attributes::Attributes;
use crate::attributes::xattr::value::NewValue;
use crate::attributes::xattr::{Lists, check_visible};
use crate::clock::now;
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::kinds;
use crate::prelude::*;
use crate::quota::OwnerIds;
use crate::run::Run;
use crate::volume::handles;
use crate::volume::handles::LazyHandle;
use uext4_ondisk::{XattrNoSpace, xattr_inode_entry_hash, xattr_inode_hash};
use uext4_vfs::attr::XattrFlags;
use uext4_vfs::errno::Error;

/// Blocks that changing an attribute changes, besides those of values' inodes.
pub(crate) const XATTR_CREDITS: u32 = 12;
/// Blocks that changing the count of a value's inode changes: its own, and those of the orphan record.
const COUNT_CREDITS: u32 = 3;
/// The largest value, in bytes, as Linux takes it.
const VALUE_MAX: usize = 65536;

/// What is to be done to an attribute.
#[derive(Clone, Copy)]
struct Change<'c> {
    index: XattrIndex,
    name: &'c [u8],
    /// None to remove it.
    value: Option<&'c [u8]>,
    flags: XattrFlags,
}

/// A value's inode, and how many more name it then.
struct Count {
    inode: InodeRef,
    by: i32,
}

impl Attributes {
    /// Sets an attribute.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Errors
    /// [`Ext4Error::AttributeExists`] and [`Ext4Error::NoAttribute`] as the flags ask,
    /// [`Ext4Error::NoSpace`] if it fits neither the inode nor the block, nor an inode of its own.
    pub fn set_xattr(
        &self,
        inode: &InodeRef,
        index: XattrIndex,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        if value.len() > VALUE_MAX {
            return Err(Error::new(Errno::E2BIG).into());
        }
        self.change_xattr(
            inode,
            &Change {
                index,
                name,
                value: Some(value),
                flags,
            },
        )
    }

    /// Removes an attribute.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Errors
    /// [`Ext4Error::NoAttribute`].
    pub fn remove_xattr(&self, inode: &InodeRef, index: XattrIndex, name: &[u8]) -> Result<()> {
        self.change_xattr(
            inode,
            &Change {
                index,
                name,
                value: None,
                flags: XattrFlags::empty(),
            },
        )
    }

    fn change_xattr(&self, inode: &InodeRef, change: &Change<'_>) -> Result<()> {
        check_visible(change.index, change.name)?;
        self.volume.check_writable()?;
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        match self
            .blocks
            .retry_no_space(|| self.try_change(inode, change))
        {
            // Data in the inode makes room.
            Err(why) if why.is_no_space() && inode.is_inline() => {
                self.inline.convert_inline(inode, true)?;
                self.blocks
                    .retry_no_space(|| self.try_change(inode, change))
            }
            done => done,
        }
    }

    fn try_change(&self, inode: &Inode, change: &Change<'_>) -> Result<()> {
        let before = {
            let _xattr = inode.xattr.lock();
            self.load_lists(inode)?
        };
        let mut after = before.clone();
        let hash = self.plan(inode, &mut after, change)?;
        if before.is_same(&after) {
            return Ok(());
        }
        // Dropped when the handle has stopped: unreferenced values are deleted then.
        let counts = self.count_changes(inode, &before, &after)?;
        self.check_xattr_block(inode)?;
        let new = match (hash, change.value) {
            (Some(hash), Some(value)) => Some(self.write_value(inode, value, hash)?),
            _ => None,
        };
        self.carry_out(inode, &before, after, &counts, new)
    }

    /// Sets an attribute, or removes it if it is there, as part of `handle`; not one whose value needs an inode.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone, or has just made it. Takes `xattr`.
    ///
    /// # Journal
    /// [`XATTR_CREDITS`].
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`]; nothing changed then. [`Ext4Error::Unsupported`]: the inode shares its block with
    /// others, and that names values in inodes.
    pub(crate) fn put_xattr_in(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        index: XattrIndex,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let before = {
            let _xattr = inode.xattr.lock();
            self.load_lists(inode)?
        };
        let mut after = before.clone();
        let change = Change {
            index,
            name,
            value,
            flags: XattrFlags::empty(),
        };
        match self.plan(inode, &mut after, &change) {
            Ok(None) => {}
            Ok(Some(_)) => return Err(Ext4Error::NoSpace),
            Err(Ext4Error::NoAttribute) => return Ok(()),
            Err(why) => return Err(why),
        }
        if before.is_same(&after) {
            return Ok(());
        }
        if !before.count_changes(&after).is_empty() {
            return Err(Ext4Error::Unsupported(
                "changing a shared block of attributes with values in inodes",
            ));
        }
        self.store_lists(handle, inode, &before, &after)?;
        let time = now();
        self.table
            .update_inode(inode, handle, |disk| disk.ctime = time)
    }

    /// Changes the lists; the hash of the value if the value gets an inode of its own, which is named as 0.
    fn plan(&self, inode: &Inode, lists: &mut Lists, change: &Change<'_>) -> Result<Option<u32>> {
        let (index, name) = (change.index, change.name);
        let exists =
            lists.body.get(index, name).is_some() || lists.block.get(index, name).is_some();
        let Some(value) = change.value else {
            lists.body.remove(index, name);
            lists.block.remove(index, name);
            return if exists {
                Ok(None)
            } else {
                Err(Ext4Error::NoAttribute)
            };
        };
        if exists && change.flags.contains(XattrFlags::CREATE) {
            return Err(Ext4Error::AttributeExists);
        }
        if !exists && change.flags.contains(XattrFlags::REPLACE) {
            return Err(Ext4Error::NoAttribute);
        }
        if self.place(
            inode,
            lists,
            change,
            XattrOwnedValue::Inline(value.to_vec()),
        ) {
            return Ok(None);
        }
        if value.is_empty() || !self.volume.sb.incompat.contains(Incompat::EA_INODE) {
            return Err(Ext4Error::NoSpace);
        }
        let hash = xattr_inode_hash(self.volume.sb.csum_seed, value);
        let apart = XattrOwnedValue::Inode {
            ino: Ino::NONE,
            size: value.len() as u32,
            entry_hash: xattr_inode_entry_hash(name, hash),
        };
        match self.place(inode, lists, change, apart) {
            true => Ok(Some(hash)),
            false => Err(Ext4Error::NoSpace),
        }
    }

    /// Puts a value where it fits; false if it does not.
    fn place(
        &self,
        inode: &Inode,
        lists: &mut Lists,
        change: &Change<'_>,
        value: XattrOwnedValue,
    ) -> bool {
        let (index, name) = (change.index, change.name);
        let room = XattrList::inode_room(self.volume.params.inode_size, inode.state().extra_isize);
        let mut body = lists.body.clone();
        body.set(index, name, value.clone());
        if body.encoded_size() <= room {
            lists.body = body;
            lists.block.remove(index, name);
            return true;
        }
        let mut block = lists.block.clone();
        block.set(index, name, value);
        let fits = block.encoded_size() <= XattrList::block_room(self.volume.cache().block_size());
        if fits {
            lists.body.remove(index, name);
            lists.block = block;
        }
        fits
    }

    /// The values' inodes that more or fewer name, after than before.
    ///
    /// # Locks
    /// May start a handle.
    fn count_changes(&self, inode: &Inode, before: &Lists, after: &Lists) -> Result<Vec<Count>> {
        let changes = before.count_changes(after);
        let counts = changes.into_iter().map(|(ino, by)| {
            let inode = self.value_inode(inode, ino, by)?;
            Ok(Count { inode, by })
        });
        counts.collect()
    }

    /// Makes the attributes what they are to be; if that fails, the reservation is released.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone, or is the only one to have it.
    fn carry_out(
        &self,
        inode: &Inode,
        before: &Lists,
        mut after: Lists,
        counts: &[Count],
        new: Option<NewValue<'_>>,
    ) -> Result<()> {
        let value_credits = new.as_ref().map_or(0, NewValue::credits);
        let credits = XATTR_CREDITS + COUNT_CREDITS * counts.len() as u32 + value_credits;
        let late = LazyHandle::new(self.volume.journal(), credits);
        let sectors = self.value_sectors_of(before)..self.value_sectors_of(&after);
        let made = match &new {
            Some(new) => match self.new_value_inode(&late, inode, new) {
                Ok(made) => Some(made),
                Err(why) => return late.end(Err(why)),
            },
            None => None,
        };
        let mut mapped = 0;
        let stored = late.get().and_then(|handle| {
            if let (Some(made), Some(new)) = (&made, &new) {
                self.publish_value(handle, made, new, &mut mapped)?;
                after.name_value(made.ino);
            }
            self.store_lists(handle, inode, before, &after)
        });
        if let Err(why) = stored {
            if let Some(new) = &new
                && !matches!(why, Ext4Error::Journal(_))
            {
                self.unreserve_value(new, mapped);
            }
            return match made {
                Some(made) => Err(self.discard_value(late, &made, why)),
                None => late.end(Err(why)),
            };
        }
        let handle = late.get()?;
        for count in counts {
            self.change_count(handle, &count.inode, count.by)?;
        }
        let time = now();
        let updated = self.table.update_inode(inode, handle, |disk| {
            disk.ctime = time;
            disk.blocks = (disk.blocks + sectors.end).saturating_sub(sectors.start);
        });
        late.end(updated)
    }

    /// Deletes a value's inode that could not be named because of `why`, once its last reference is dropped. A fault
    /// may have left more behind than the inode: then the journal is aborted.
    fn discard_value(&self, late: LazyHandle<'_>, value: &InodeRef, why: Ext4Error) -> Ext4Error {
        let Some(handle) = late.into_handle().filter(|_| !why.is_fault()) else {
            return why;
        };
        let discarded = self
            .table
            .update_inode(value, &handle, |disk| disk.links = 0)
            .and_then(|()| self.orphans.add_orphan(&handle, value.inode()));
        value.set_unlinked(true);
        match handles::end(handle, discarded) {
            Ok(()) => why,
            Err(worse) => worse,
        }
    }

    /// Stores the attributes. Nothing changed if there is no space.
    fn store_lists(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        before: &Lists,
        after: &Lists,
    ) -> Result<()> {
        if !self.volume.sb.compat.contains(Compat::EXT_ATTR) {
            self.volume
                .add_features(handle, Compat::EXT_ATTR, RoCompat::empty())?;
        }
        let _xattr = inode.xattr.lock();
        // In this order: from here on readers wait for the lock, and what they found before is not kept.
        inode.xattr_snapshot.changed();
        inode.acls.forget();
        self.volume.names.forget_passage(inode);
        if before.block != after.block {
            self.store_block(handle, inode, before, &after.block)?;
        }
        if before.body != after.body {
            inode
                .update_raw(handle, |raw| after.body.encode_in_inode(raw))?
                .map_err(|XattrNoSpace| Ext4Error::NoSpace)?;
        }
        Ok(())
    }

    /// Writes the attributes of the block: in place, to a copy if it is shared, or none at all.
    fn store_block(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        before: &Lists,
        list: &XattrList,
    ) -> Result<()> {
        let had = before.pblk != Pblk(0);
        if had && !before.shared && !list.is_empty() {
            let buffer = self.xattr_block(inode, before.pblk)?;
            let mut content = handle.modify(&buffer)?;
            return list
                .encode_block(content.data_mut())
                .map_err(|XattrNoSpace| Ext4Error::NoSpace);
        }
        // First: there may be no space.
        let new = match list.is_empty() {
            true => Pblk(0),
            false => self.new_block(handle, inode, list)?,
        };
        if had {
            self.put_xattr_block(handle, inode, before.pblk)?;
        }
        let sectors = self.blocks.sectors_of(1);
        self.table.update_inode(inode, handle, |disk| {
            disk.file_acl = new;
            if had {
                disk.blocks = disk.blocks.saturating_sub(sectors);
            }
            if new != Pblk(0) {
                disk.blocks += sectors;
            }
        })
    }

    fn new_block(&self, handle: &Handle<'_>, inode: &Inode, list: &XattrList) -> Result<Pblk> {
        let owners = OwnerIds::of(&inode.state());
        let run = self
            .blocks
            .claim_block_for(handle, owners, self.blocks.goal_of(inode.ino))?;
        let buffer = self.volume.cache().get_unread(run.pblk.0);
        buffer.set_kind(kinds::XATTR_BLOCK, 0);
        let mut content = handle.create(&buffer)?;
        list.encode_block(content.data_mut())
            .map_err(|XattrNoSpace| Ext4Error::NoSpace)?;
        Ok(run.pblk)
    }

    /// Drops one reference to a block of extended attributes, and the block with the last one.
    pub(crate) fn put_xattr_block(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        pblk: Pblk,
    ) -> Result<()> {
        let buffer = self.xattr_block(inode, pblk)?;
        let refs = uext4_ondisk::xattr_refcount(buffer.read().data()).unwrap_or(1);
        if refs > 1 {
            let mut content = handle.modify(&buffer)?;
            uext4_ondisk::xattr_refcount_set(content.data_mut(), refs - 1);
            return Ok(());
        }
        handle.forget(&buffer)?;
        self.blocks.free_run(handle, Run { pblk, len: 1 })
    }

    /// Frees the block of a translator of GNU Hurd.
    pub(crate) fn free_translator(&self, handle: &Handle<'_>, block: u32) -> Result<()> {
        let pblk = Pblk(block.into());
        self.volume.sb.geometry.check_block(pblk)?;
        self.blocks.free_run(handle, Run { pblk, len: 1 })
    }

    /// Drops the references of an inode that is being deleted to all its values in inodes of their own.
    ///
    /// # Locks
    /// The inode has no other reference. Starts handles.
    ///
    /// # Crash
    /// Each handle takes one attribute with its value.
    ///
    /// # Errors
    /// Damage, the journal's.
    pub(crate) fn drop_values(&self, inode: &Inode) -> Result<()> {
        if !self.volume.sb.incompat.contains(Incompat::EA_INODE) {
            return Ok(());
        }
        loop {
            let before = {
                let _xattr = inode.xattr.lock();
                self.load_lists(inode)?
            };
            let mut after = before.clone();
            if !after.remove_one_value() {
                return Ok(());
            }
            let counts = self.count_changes(inode, &before, &after)?;
            self.carry_out(inode, &before, after, &counts, None)?;
        }
    }
}
