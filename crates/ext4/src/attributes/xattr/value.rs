//! Values in inodes of their own (`ea_inode`).
//!
//! Source: Linux documentation, filesystems/ext4, "Extended Attributes".
//!
//! # Data model
//! Such an inode is a regular file without a name, with a flag of its own. The second of its access time is
//! the hash of its data; that of its change time, and the low half of its version, are the upper and lower
//! half of how many name it. Its data is written before it is referenced and never changes.
//!
//! Before there were counts, Lustre kept the number of the one owner in the time of the last change. Such
//! values are read, and not changed.
//!
//! # Locking
//! Its data has no lock: it is read under the `xattr` lock of an inode that names it. Its count
//! changes with its state locked.

use crate::attributes::Attributes;
use crate::attributes::xattr::Lists;
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::inodes::new::NewInode;
use crate::mapping;
use crate::prelude::*;
use crate::run::Run;
use crate::volume::handles::LazyHandle;
use uext4_ondisk::xattr_inode_hash;

/// Blocks that a new inode changes besides bitmaps and descriptors of its data: descriptors,
/// inode bitmap, inode table, extent nodes with what they take.
const NEW_CREDITS: u32 = 24;
/// Blocks that a run of its data changes: bitmap, descriptors.
const RUN_CREDITS: u32 = 2;

/// A value that is written, to blocks that are reserved, and that nothing names yet.
pub(super) struct NewValue<'v> {
    value: &'v [u8],
    hash: u32,
    runs: Vec<Run>,
}

impl NewValue<'_> {
    /// What making its inode takes.
    pub(super) fn credits(&self) -> u32 {
        NEW_CREDITS + RUN_CREDITS * self.runs.len() as u32
    }
}

/// The inodes that hold a list's values.
fn values(list: &XattrList) -> impl Iterator<Item = (Ino, u32)> {
    list.iter().filter_map(|x| match &x.value {
        XattrOwnedValue::Inode { ino, size, .. } => Some((*ino, *size)),
        XattrOwnedValue::Inline(_) => None,
    })
}

/// The first attribute of a list whose value is in the inode `ino`, or in any.
fn first_value(list: &XattrList, wanted: Option<Ino>) -> Option<uext4_ondisk::Xattr> {
    let found = list.iter().find(|x| match &x.value {
        XattrOwnedValue::Inode { ino, .. } => wanted.is_none_or(|wanted| wanted == *ino),
        XattrOwnedValue::Inline(_) => false,
    });
    found.cloned()
}

impl Lists {
    /// How many more name each value's inode in `after`. A shared block names its values on behalf of its
    /// other owners.
    pub(super) fn count_changes(&self, after: &Lists) -> BTreeMap<Ino, i32> {
        let mut changes: BTreeMap<Ino, i32> = BTreeMap::new();
        let mut add = |list: &XattrList, by: i32| {
            for (ino, _) in values(list).filter(|(ino, _)| *ino != Ino::NONE) {
                *changes.entry(ino).or_default() += by;
            }
        };
        add(&self.body, -1);
        add(&after.body, 1);
        if self.block != after.block {
            if !self.shared {
                add(&self.block, -1);
            }
            add(&after.block, 1);
        }
        changes.retain(|_, by| *by != 0);
        changes
    }

    /// Gives the value that has no inode yet its inode.
    pub(super) fn name_value(&mut self, made: Ino) {
        for list in [&mut self.body, &mut self.block] {
            if let Some(x) = first_value(list, Some(Ino::NONE))
                && let XattrOwnedValue::Inode {
                    size, entry_hash, ..
                } = x.value
            {
                let value = XattrOwnedValue::Inode {
                    ino: made,
                    size,
                    entry_hash,
                };
                list.set(x.index, &x.name, value);
            }
        }
    }

    /// Removes an attribute that this inode alone has and whose value is in an inode; false if there is none.
    pub(super) fn remove_one_value(&mut self) -> bool {
        let block = (!self.shared).then_some(&mut self.block);
        for list in std::iter::once(&mut self.body).chain(block) {
            if let Some(x) = first_value(list, None) {
                list.remove(x.index, &x.name);
                return true;
            }
        }
        false
    }
}

/// A number as the second of a time: signed, as an inode of 128 bytes has no more bits.
fn second(number: u32) -> i64 {
    i64::from(number.cast_signed())
}

/// How many name a value's inode.
fn count_of(disk: &uext4_ondisk::Inode) -> u64 {
    u64::from(disk.ctime.sec as u32) << 32 | u64::from(disk.version as u32)
}

fn set_count(disk: &mut uext4_ondisk::Inode, count: u64) {
    disk.ctime = Timestamp::new(second((count >> 32) as u32), 0);
    disk.version = count & u64::from(u32::MAX);
}

/// Whether it names its owner instead of counting.
fn is_old_style(disk: &uext4_ondisk::Inode, owner: &Inode) -> bool {
    disk.mtime.sec as u32 == owner.ino.0 && disk.generation == owner.generation()
}

fn damage(ino: Ino, why: &str) -> Ext4Error {
    Corrupt::new(CorruptKind::XattrValueInode)
        .ino(ino)
        .detail(why)
        .into()
}

impl Attributes {
    /// Sectors that a value takes, as its owner counts them.
    fn value_sectors(&self, size: u32) -> u64 {
        let cluster = self.volume.cluster_size();
        u64::from(size).div_ceil(cluster) * (cluster / 512)
    }

    /// The same of all values of an inode.
    pub(super) fn value_sectors_of(&self, lists: &Lists) -> u64 {
        let all = values(&lists.body).chain(values(&lists.block));
        all.map(|(_, size)| self.value_sectors(size)).sum()
    }

    /// Whether values of an inode are in inodes of their own.
    ///
    /// # Locks
    /// Takes the inode's `xattr` lock; may read from the device.
    ///
    /// # Errors
    /// Damage, the device's.
    pub(crate) fn has_values(&self, inode: &Inode) -> Result<bool> {
        if !self.volume.sb.incompat.contains(Incompat::EA_INODE) {
            return Ok(false);
        }
        let _xattr = inode.xattr.lock();
        let lists = self.load_lists(inode)?;
        let mut all = values(&lists.body).chain(values(&lists.block));
        Ok(all.next().is_some())
    }

    /// The sectors that an inode's attributes take, as it counts them.
    ///
    /// # Locks
    /// Takes the inode's `xattr` lock; may read from the device.
    ///
    /// # Errors
    /// Damage, the device's.
    pub(crate) fn xattr_sectors(&self, inode: &Inode) -> Result<u64> {
        let has_block = inode.state().file_acl != uext4_ondisk::Pblk(0);
        let block = if has_block {
            self.blocks.sectors_of(1)
        } else {
            0
        };
        if !self.volume.sb.incompat.contains(Incompat::EA_INODE) {
            return Ok(block);
        }
        let _xattr = inode.xattr.lock();
        Ok(block + self.value_sectors_of(&self.load_lists(inode)?))
    }

    /// Reads a value.
    ///
    /// # Locks
    /// The caller holds the owner's `xattr` lock; the inode is read from its table, as the holder of that lock
    /// can start no handle, which caching it may take.
    ///
    /// # Errors
    /// Damage, the device's.
    #[cold]
    pub(super) fn read_value(&self, owner: &Inode, ino: Ino, size: u32) -> Result<Vec<u8>> {
        self.check_value_ino(owner, ino)?;
        let place = self.table.inode_place(ino, false)?;
        let disk = match self.inodes.decode_inode(ino, &place) {
            Err(Ext4Error::Stale) => return Err(damage(ino, "not in use")),
            disk => disk?,
        };
        check_value_inode(ino, &disk)?;
        if disk.size != u64::from(size) {
            return Err(damage(ino, "not the size that its attribute says"));
        }
        let mut runs = Vec::new();
        let seed = self
            .volume
            .seed()
            .map(|_| disk.seed(self.volume.sb.csum_seed, ino));
        let bounds = self.volume.geometry().block_bounds();
        mapping::walk(self.volume.cache(), &disk, bounds, seed, ino, &mut |e| {
            if !e.unwritten {
                runs.push(e);
            }
        })?;
        let block = self.volume.block_size();
        let mut value = vec![0; size as usize];
        for run in runs {
            let from = u64::from(run.lblk.0) * block;
            let to = (from + u64::from(run.len) * block).min(u64::from(size));
            let range = usize::try_from(from).unwrap_or(usize::MAX)..to as usize;
            if let Some(part) = value.get_mut(range) {
                self.volume.device().read_at(run.pblk.0 * block, part)?;
            }
        }
        let hash = xattr_inode_hash(self.volume.sb.csum_seed, &value);
        if disk.atime.sec as u32 != hash && !is_old_style(&disk, owner) {
            return Err(Corrupt::new(CorruptKind::XattrEntryHash).ino(ino).into());
        }
        Ok(value)
    }

    fn check_value_ino(&self, owner: &Inode, ino: Ino) -> Result<()> {
        let range = self.volume.geometry().first_ino.0..=self.volume.geometry().inodes_count;
        if ino == owner.ino || !range.contains(&ino.0) {
            return Err(damage(ino, "no such inode can hold a value"));
        }
        Ok(())
    }

    /// A value's inode, whose count is to change.
    ///
    /// # Locks
    /// May start a handle.
    ///
    /// # Errors
    /// Damage; [`Ext4Error::Unsupported`] for one that does not count.
    pub(super) fn value_inode(&self, owner: &Inode, ino: Ino, by: i32) -> Result<InodeRef> {
        self.check_value_ino(owner, ino)?;
        let inode = match self.inodes.get_inode(ino) {
            Err(Ext4Error::Stale) => return Err(damage(ino, "not in use")),
            inode => inode?,
        };
        let disk = inode.state().clone();
        check_value_inode(ino, &disk)?;
        if is_old_style(&disk, owner) {
            return Err(Ext4Error::Unsupported(
                "changing an attribute in an inode that has no count",
            ));
        }
        if count_of(&disk).checked_add_signed(i64::from(by)).is_none() {
            return Err(damage(ino, "more attributes name it than it counts"));
        }
        Ok(inode)
    }

    /// Changes how many name a value's inode. An unreferenced one is an orphan, which the last release
    /// deletes.
    ///
    /// # Journal
    /// Three credits.
    pub(super) fn change_count(
        &self,
        handle: &Handle<'_>,
        inode: &InodeRef,
        by: i32,
    ) -> Result<()> {
        let left = self.table.update_inode(inode, handle, |disk| {
            let count = count_of(disk).saturating_add_signed(i64::from(by));
            set_count(disk, count);
            if count == 0 {
                disk.links = 0;
            }
            count
        })?;
        if left == 0 {
            self.orphans.add_orphan(handle, inode.inode())?;
            inode.set_unlinked(true);
        }
        Ok(())
    }

    /// Writes a value to blocks that are only reserved.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`], the device's; nothing is reserved then.
    pub(super) fn write_value<'v>(
        &self,
        owner: &Inode,
        value: &'v [u8],
        hash: u32,
    ) -> Result<NewValue<'v>> {
        let mut runs: Vec<Run> = Vec::new();
        let mut done = 0;
        let mut goal = self.blocks.goal_of(owner.ino);
        while let Some(rest) = value.get(done..).filter(|rest| !rest.is_empty()) {
            let blocks = (rest.len() as u64).div_ceil(self.volume.block_size()) as u32;
            let written = self
                .blocks
                .reserve_blocks(goal, blocks, true)
                .and_then(|run| {
                    runs.push(run);
                    goal = uext4_ondisk::Pblk(run.pblk.0 + u64::from(run.len));
                    self.blocks.fill_run(run, 0, rest)
                });
            match written {
                Ok(n) => done += n,
                Err(why) => {
                    self.unreserve_all(&runs);
                    return Err(why);
                }
            }
        }
        Ok(NewValue { value, hash, runs })
    }

    fn unreserve_all(&self, runs: &[Run]) {
        for run in runs {
            self.blocks.unreserve(*run);
        }
    }

    /// Releases what a value reserved and `mapped` runs of which are its inode's.
    pub(super) fn unreserve_value(&self, new: &NewValue<'_>, mapped: usize) {
        self.unreserve_all(&new.runs[mapped..]);
    }

    /// A new inode for a value.
    ///
    /// # Errors
    /// [`Ext4Error::NoInode`]; what the value reserved is released then.
    pub(super) fn new_value_inode(
        &self,
        late: &LazyHandle<'_>,
        owner: &Inode,
        new: &NewValue<'_>,
    ) -> Result<InodeRef> {
        let (uid, gid) = {
            let state = owner.state();
            (state.uid, state.gid)
        };
        let template = NewInode {
            mode: FileType::Regular.to_mode() | 0o600,
            uid,
            gid,
            device: None,
            flags: InodeFlags::EA_INODE,
            project: 0,
        };
        self.inodes
            .new_inode(late, owner, &template, 1)
            .inspect_err(|_| self.unreserve_value(new, 0))
    }

    /// Makes the blocks of a value those of its inode, which one attribute is to name; says how many runs
    /// are.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] for its extents.
    pub(super) fn publish_value(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        new: &NewValue<'_>,
        mapped: &mut usize,
    ) -> Result<()> {
        let mut lblk = 0;
        for run in &new.runs {
            self.mapping
                .map_run(handle, inode, Lblk(lblk), *run, true)?;
            *mapped += 1;
            let added = self.blocks.publish_run(handle, *run)?;
            let sectors = self.blocks.sectors_of(added);
            self.table
                .update_inode(inode, handle, |disk| disk.blocks += sectors)?;
            lblk += run.len;
        }
        let size = new.value.len() as u64;
        self.table.update_inode(inode, handle, |disk| {
            disk.size = size;
            disk.atime = Timestamp::new(second(new.hash), 0);
            set_count(disk, 1);
        })
    }
}

/// Refuses an inode that holds no value.
fn check_value_inode(ino: Ino, disk: &uext4_ondisk::Inode) -> Result<()> {
    if disk.file_type() != FileType::Regular
        || !disk.flags.contains(InodeFlags::EA_INODE)
        || disk.links == 0
    {
        return Err(damage(ino, "holds no value"));
    }
    Ok(())
}
