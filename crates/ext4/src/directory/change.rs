//! Adding, removing and changing entries.

use crate::directory::hashed::DxPath;
use crate::directory::{Directory, Hit, Role, Vacancy};
use crate::inode::Inode;
use crate::inode::directory_blocks::TreeChange;
use crate::kinds;
use crate::prelude::*;
use crate::quota::OwnerIds;
use uext4_ondisk::DxViewMut;
use uext4_sync::probe::{self, Stage};

/// A record in a copy of a leaf.
struct Record<'a> {
    hash: NameHash,
    ino: Ino,
    file_type: FileType,
    name: &'a [u8],
}

impl Record<'_> {
    fn size(&self) -> usize {
        uext4_ondisk::dirent_size(self.name.len())
    }
}

impl Directory {
    /// Adds an entry where [`Directory::dir_look_up`] or [`Directory::with_leaf`] found none.
    ///
    /// # Locks
    /// The caller has held the directory's `ilock` alone, or the leaf, since then.
    ///
    /// # Journal
    /// One credit, and twelve if the directory grows.
    ///
    /// # Errors
    /// No space for another block; nothing changed then that is visible.
    pub(crate) fn dir_insert(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        vacancy: &Vacancy,
        name: &[u8],
        ino: Ino,
        file_type: FileType,
    ) -> Result<()> {
        let file_type = self.volume.entry_type(file_type);
        match &vacancy.path {
            Some((path, leaf)) => {
                self.insert_hashed(handle, dir, path, leaf, vacancy.hash, name, ino, file_type)
            }
            None => self.insert_linear(handle, dir, name, ino, file_type),
        }
    }

    fn insert_linear(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        name: &[u8],
        ino: Ino,
        file_type: FileType,
    ) -> Result<()> {
        if dir.is_inline()
            && self
                .inline
                .inline_insert(handle, dir, name, ino, file_type)?
        {
            self.volume.forget_name(dir, name);
            return Ok(());
        }
        let blocks = self.dir_blocks(dir);
        for lblk in 0..blocks {
            let leaf = self.dir_block(dir, Lblk(lblk), Role::Leaf)?;
            if self.insert_in_leaf(handle, dir, &leaf, name, ino, file_type)? {
                return Ok(());
            }
        }
        if blocks == 1 && self.volume.sb.compat.contains(Compat::DIR_INDEX) {
            self.make_hashed(handle, dir)?;
            let hash = self
                .volume
                .hash_name(dir, self.volume.sb.hash.version, name);
            let path = self.descend(dir, hash.major)?;
            let leaf = self.leaf_of(dir, &path)?;
            return self.insert_hashed(handle, dir, &path, &leaf, hash, name, ino, file_type);
        }
        let (_, leaf) = self.append_dir_block(handle, dir, Role::Leaf)?;
        uext4_ondisk::dir_block_init(handle.create(&leaf)?.data_mut(), self.volume.dir_tail());
        self.insert_in_leaf(handle, dir, &leaf, name, ino, file_type)?;
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "an entry and the place for it")]
    fn insert_hashed(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        path: &DxPath,
        leaf: &Arc<Buffer>,
        hash: NameHash,
        name: &[u8],
        ino: Ino,
        file_type: FileType,
    ) -> Result<()> {
        let _timed = probe::time(Stage::AddHashedEntry);
        if self.insert_in_leaf(handle, dir, leaf, name, ino, file_type)? {
            return Ok(());
        }
        let change = dir.blocks().change_tree();
        self.split_leaf(handle, dir, &change, path.clone(), leaf)?;
        drop(change);
        let path = self.descend(dir, hash.major)?;
        let leaf = self.leaf_of(dir, &path)?;
        if self.insert_in_leaf(handle, dir, &leaf, name, ino, file_type)? {
            return Ok(());
        }
        // Both halves of a split have room for the longest name unless one hash fills a leaf, and
        // then its names go on in the next.
        let next = self.continuation(dir, &path, hash.major)?;
        match next {
            Some(next) => {
                let leaf = self.leaf_of(dir, &next)?;
                self.insert_hashed(handle, dir, &next, &leaf, hash, name, ino, file_type)
            }
            None => Err(crate::error::Ext4Error::DirectoryFull),
        }
    }

    /// Puts a record into a leaf; false if it has no room.
    fn insert_in_leaf(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        leaf: &Arc<Buffer>,
        name: &[u8],
        ino: Ino,
        file_type: FileType,
    ) -> Result<bool> {
        let end = self.volume.dir_end();
        let mut content = handle.modify(leaf)?;
        let hint = leaf.hint() as usize;
        let data = content.data_mut();
        let mut inserted = uext4_ondisk::dir_insert(data, end, name, ino, file_type, hint)
            .map_err(|e| e.ino(dir.ino))?;
        if inserted.is_none() && hint > 0 {
            inserted = uext4_ondisk::dir_insert(data, end, name, ino, file_type, 0)
                .map_err(|e| e.ino(dir.ino))?;
        }
        if let Some(inserted) = inserted {
            leaf.set_hint(inserted.hint.max(hint) as u32);
            // While no listing can show it yet.
            self.volume.forget_name(dir, name);
        }
        Ok(inserted.is_some())
    }

    /// Removes an entry that was found.
    ///
    /// # Locks
    /// The caller has held the directory's `ilock` alone, or the leaf, since it was found.
    ///
    /// # Journal
    /// One credit.
    pub(crate) fn dir_remove(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        name: &[u8],
        hit: &Hit,
    ) -> Result<()> {
        let Some(leaf) = &hit.leaf else {
            self.volume.forget_name(dir, name);
            return self.inline.inline_remove(handle, dir, hit.offset);
        };
        let mut content = handle.modify(leaf)?;
        leaf.new_edition(&mut content);
        self.volume.forget_name(dir, name);
        let room = uext4_ondisk::dir_remove(
            content.data_mut(),
            self.volume.dir_end(),
            hit.offset,
            hit.prev,
        )
        .map_err(|e| e.ino(dir.ino))?;
        if leaf.hint() as usize > room {
            leaf.set_hint(room as u32);
        }
        Ok(())
    }

    /// Makes an entry that was found name another inode.
    ///
    /// # Journal
    /// One credit.
    pub(crate) fn dir_replace(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        name: &[u8],
        hit: &Hit,
        ino: Ino,
        file_type: FileType,
    ) -> Result<()> {
        let file_type = self.volume.entry_type(file_type);
        let Some(leaf) = &hit.leaf else {
            self.volume.forget_name(dir, name);
            return self
                .inline
                .inline_replace(handle, dir, hit.offset, ino, file_type);
        };
        let mut content = handle.modify(leaf)?;
        leaf.new_edition(&mut content);
        self.volume.forget_name(dir, name);
        uext4_ondisk::dir_set_ino(
            content.data_mut(),
            self.volume.dir_end(),
            hit.offset,
            ino,
            file_type,
        )
        .map_err(|e| e.ino(dir.ino))?;
        Ok(())
    }

    /// Makes a directory's `..` name another parent.
    ///
    /// # Journal
    /// One credit.
    pub(crate) fn dir_set_parent(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        parent: Ino,
    ) -> Result<()> {
        if dir.is_inline() {
            return self.inline.inline_set_parent(handle, dir, parent);
        }
        let block = self.dir_block(dir, Lblk(0), self.first_role(dir))?;
        let file_type = self.volume.entry_type(FileType::Directory);
        let mut content = handle.modify(&block)?;
        // The record of `..` follows the twelve bytes of `.`, and in a root spans the whole block.
        let end = content.data().len();
        uext4_ondisk::dir_set_ino(content.data_mut(), end, 12, parent, file_type)
            .map_err(|e| e.ino(dir.ino))?;
        Ok(())
    }

    /// Gives a new directory its first block.
    ///
    /// # Journal
    /// Five credits.
    pub(crate) fn dir_init(&self, handle: &Handle<'_>, dir: &Inode, parent: Ino) -> Result<()> {
        if dir.is_inline() {
            return self.inline.inline_dir_init(handle, dir, parent);
        }
        let (_, block) = self.append_dir_block(handle, dir, Role::Leaf)?;
        let mut content = handle.create(&block)?;
        uext4_ondisk::dir_block_init_dots(
            content.data_mut(),
            self.volume.dir_tail(),
            dir.ino,
            parent,
            self.volume.has_filetype(),
        );
        Ok(())
    }

    /// Adds a block to a directory; the caller fills it by `handle.create`.
    pub(super) fn append_dir_block(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        role: Role,
    ) -> Result<(Lblk, Arc<Buffer>)> {
        let lblk = Lblk(self.dir_blocks(dir));
        if let Some(pblk) = self.mapping.map_block(dir, lblk)?.pblk {
            let why = Corrupt::new(CorruptKind::DirSize).ino(dir.ino).pblk(pblk);
            return Err(why.into());
        }
        let mut map = dir.map.write();
        let goal = self.mapping.data_goal_locked(dir, &map, lblk)?;
        let owners = OwnerIds::of(&dir.state());
        let run = self.blocks.claim_block_for(handle, owners, goal)?;
        if let Err(why) = self
            .mapping
            .insert_run(handle, dir, &mut map, lblk, run, true)
        {
            if goal.has_cluster.is_none() {
                self.blocks.free_run(handle, run)?;
            }
            return Err(why);
        }
        drop(map);
        let size = self.volume.block_size();
        let sectors = self.blocks.sectors_of(self.blocks.clusters_of_block(&goal));
        self.table.update_inode(dir, handle, |disk| {
            disk.size += size;
            disk.blocks += sectors;
        })?;
        let buffer = self.volume.cache().get_unread(run.pblk.0);
        buffer.set_kind(role.kind(), dir.seed().0);
        dir.blocks().put(lblk, &buffer);
        Ok((lblk, buffer))
    }

    /// Turns a directory of one block into a tree with one leaf.
    fn make_hashed(&self, handle: &Handle<'_>, dir: &Inode) -> Result<()> {
        let root = self.dir_block(dir, Lblk(0), Role::Leaf)?;
        let parent = uext4_ondisk::dir_parent(root.read().data()).map_err(|e| e.ino(dir.ino))?;
        let (leaf_lblk, leaf) = self.append_dir_block(handle, dir, Role::Leaf)?;
        let version = self.volume.sb.hash.version;
        let copy = root.read().data().to_vec();
        let records = self.records(dir, &copy, version)?;
        self.fill_leaf(handle, &leaf, &records)?;
        let mut content = handle.modify(&root)?;
        root.set_kind(kinds::DIR_ROOT, dir.seed().0);
        root.set_hint(0);
        DxViewMut::init_root(
            content.data_mut(),
            self.volume.dir_tail(),
            dir.ino,
            parent,
            self.volume.has_filetype(),
            version,
            leaf_lblk,
        );
        drop(content);
        self.table
            .update_inode(dir, handle, |disk| disk.flags |= InodeFlags::INDEX)
    }

    /// The records of a leaf but `.` and `..`, in the order of their hashes.
    fn records<'a>(
        &self,
        dir: &Inode,
        leaf: &'a [u8],
        version: uext4_ondisk::HashVersion,
    ) -> Result<Vec<Record<'a>>> {
        let mut records = Vec::with_capacity(leaf.len() / uext4_ondisk::dirent_size(8));
        for d in dir_entries(leaf, self.volume.dir_end()) {
            let d = d.map_err(|e| e.ino(dir.ino))?;
            if d.ino.0 != 0 && !d.is_dot_or_dotdot() {
                records.push(Record {
                    hash: self.volume.hash_name(dir, version, d.name),
                    ino: d.ino,
                    file_type: d.file_type,
                    name: d.name,
                });
            }
        }
        records.sort_unstable_by_key(|r| r.hash);
        Ok(records)
    }

    /// Makes a leaf hold just these records, densely.
    fn fill_leaf(
        &self,
        handle: &Handle<'_>,
        leaf: &Arc<Buffer>,
        records: &[Record<'_>],
    ) -> Result<()> {
        let end = self.volume.dir_end();
        let mut content = handle.create(leaf)?;
        leaf.new_edition(&mut content);
        uext4_ondisk::dir_block_init(content.data_mut(), self.volume.dir_tail());
        let mut hint = 0;
        for r in records {
            let data = content.data_mut();
            if let Some(inserted) =
                uext4_ondisk::dir_insert(data, end, r.name, r.ino, r.file_type, hint)?
            {
                hint = inserted.hint;
            }
        }
        leaf.set_hint(hint as u32);
        Ok(())
    }

    /// Moves the upper half of a leaf, by bytes, into a new one.
    ///
    /// # Locks
    /// The caller has the directory's `ilock` alone, or the leaf; the guard proves `dir_tree`.
    pub(super) fn split_leaf(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        _change: &TreeChange<'_>,
        path: DxPath,
        leaf: &Arc<Buffer>,
    ) -> Result<()> {
        let version = self.tree_hash(dir)?;
        let copy = leaf.read().data().to_vec();
        let records = self.records(dir, &copy, version)?;
        let total: usize = records.iter().map(Record::size).sum();
        let mut below = 0;
        let cut = records
            .iter()
            .position(|r| {
                below += r.size();
                below * 2 > total
            })
            .unwrap_or(0)
            .max(1);
        let (lower, upper) = records.split_at(cut.min(records.len()));
        let (Some(last), Some(first)) = (lower.last(), upper.first()) else {
            return Err(crate::error::Ext4Error::DirectoryFull);
        };
        // Bit 0 says that names of this hash are in the leaf before, too.
        let hash = first.hash.major | u32::from(first.hash.major == last.hash.major);
        // First: a block that is not a leaf yet must not stay behind where the tree finds no room.
        let path = self.make_room_behind(handle, dir, path, hash)?;
        let (new_lblk, new) = self.append_dir_block(handle, dir, Role::Leaf)?;
        // A search beside this finds each name in one of the two.
        self.fill_leaf(handle, &new, upper)?;
        self.add_leaf(handle, &path, hash, new_lblk)?;
        self.fill_leaf(handle, leaf, lower)?;
        Ok(())
    }
}
