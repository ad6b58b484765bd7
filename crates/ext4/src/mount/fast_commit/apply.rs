//! Inodes and names, one record after the other.

use crate::directory::Found;
use crate::directory::check_name;
use crate::inline;
use crate::inode::reference::InodeRef;
use crate::mount::fast_commit::maps::FileMap;
use crate::mount::fast_commit::{Replay, damage};
use crate::prelude::*;
use uext4_ondisk::{FastCommitName, Inode};

/// What the entries of a directory decide.
const OF_ENTRIES: InodeFlags = InodeFlags::EXTENTS
    .union(InodeFlags::INLINE_DATA)
    .union(InodeFlags::INDEX);

impl Replay<'_> {
    /// Does what one record says. What speaks of an inode that is not in use is passed over: a later
    /// commit may have left out how it came to be, because it had gone by then.
    pub(super) fn apply(&mut self, record: &FastCommitRecord) -> Result<()> {
        match record {
            FastCommitRecord::Inode { ino, raw } => self.put_inode(*ino, raw),
            FastCommitRecord::Create(name) => self.add_name(name),
            FastCommitRecord::Link(name) => self.link(name),
            FastCommitRecord::Unlink(name) => self.remove_name(name),
            FastCommitRecord::AddRange { ino, extent } => {
                let extent = *extent;
                self.change_map(*ino, |map| map.add(extent))
            }
            FastCommitRecord::DelRange { ino, lblk, len } => {
                self.change_map(*ino, |map| map.remove(*lblk, *len))
            }
        }
    }

    /// Changes the mapping of a file. For one without names the record that follows may be another's, and
    /// then the change is of that one.
    fn change_map(&mut self, ino: Ino, change: impl Fn(&mut FileMap)) -> Result<()> {
        let inode = self.inode(ino)?;
        if inode.as_ref().is_none_or(|inode| inode.state().links == 0) {
            change(self.early.entry(ino).or_default());
        }
        let Some(inode) = inode else {
            return Ok(());
        };
        if inode.is_inline() && inode.state().links != 0 {
            // Its data leaves it with a record that is to come.
            change(self.early.entry(ino).or_default());
            return Ok(());
        }
        let mapped = matches!(inode.file_type, FileType::Regular | FileType::Symlink)
            && inode.flags().contains(InodeFlags::EXTENTS);
        if !mapped {
            // What is to come may be.
            return match inode.state().links {
                0 => Ok(()),
                _ => Err(damage(
                    ino,
                    "a fast commit maps blocks of what has no extents",
                )),
            };
        }
        if !self.maps.contains_key(&ino) {
            let map = FileMap::new(self.extents(&inode)?);
            self.maps.insert(ino, map);
        }
        if let Some(map) = self.maps.get_mut(&ino) {
            change(map);
        }
        Ok(())
    }

    /// Makes an inode look as it says.
    fn put_inode(&mut self, ino: Ino, raw: &[u8]) -> Result<()> {
        let size = usize::from(self.fs.volume.params.inode_size);
        let mut bytes = vec![0; size];
        let shared = raw.len().min(size);
        if let (Some(to), Some(from)) = (bytes.get_mut(..shared), raw.get(..shared)) {
            to.copy_from_slice(from);
        }
        let new = Inode::decode(&bytes, &self.fs.volume.params).map_err(|e| e.ino(ino))?;
        let has_blocks = matches!(new.file_type(), FileType::Regular | FileType::Directory);
        let is_inline = new.flags.contains(InodeFlags::INLINE_DATA);
        if new.file_type() == FileType::Unknown
            || (has_blocks && !is_inline && !new.flags.contains(InodeFlags::EXTENTS))
        {
            return Err(damage(ino, "a fast commit of an inode without extents"));
        }
        // A directory's entries have records of their own.
        if is_inline && new.file_type() != FileType::Directory {
            inline::check(&bytes, &new, &self.fs.volume).map_err(|e| e.ino(ino))?;
        }
        let old = self.inode(ino)?;
        let same = old
            .filter(|old| old.generation() == new.generation && old.file_type == new.file_type());
        match same {
            Some(old) => {
                // What came before was of this one.
                let early = self.early.remove(&ino).unwrap_or_default();
                if is_inline != old.is_inline() && !old.is_dir() {
                    self.move_data(&old, early)?;
                }
                self.change_inode(&old, new, &bytes)?;
            }
            None => self.make_inode(ino, new, &bytes)?,
        }
        for name in self.early_links.remove(&ino).unwrap_or_default() {
            // It may be another's by now, or none's.
            let early = self.early_key(&name)?;
            if self.early_names.get(&early) == Some(&ino) {
                self.add_name(&name)?;
            }
        }
        Ok(())
    }

    /// The data of a file is in its inode from now on, or not any more: then the ranges that came before
    /// map it.
    fn move_data(&mut self, inode: &InodeRef, early: FileMap) -> Result<()> {
        if inode.is_inline() {
            self.maps.insert(inode.ino, early);
            return Ok(());
        }
        let map = self.maps.remove(&inode.ino).unwrap_or_default();
        if !map.change().added.is_empty() || !self.extents(inode)?.is_empty() {
            return Err(damage(inode.ino, "a fast commit of a file that has blocks"));
        }
        Ok(())
    }

    /// The inode there is changes. What records say elsewhere stays as it is: the mapping; the links,
    /// since an inode's record may count a name that only a later commit has; and of a directory all
    /// that follows from its entries.
    fn change_inode(&self, inode: &InodeRef, new: Inode, bytes: &[u8]) -> Result<()> {
        let extents = |flags: InodeFlags| flags.contains(InodeFlags::EXTENTS);
        let inline = |flags: InodeFlags| flags.contains(InodeFlags::INLINE_DATA);
        let (was, is) = (inode.flags(), new.flags);
        let stays = inode.is_dir() || inline(was) || inline(is);
        if !stays && extents(was) != extents(is) {
            return Err(damage(inode.ino, "a fast commit changes how it is mapped"));
        }
        if inline(is) && new.extra_isize != inode.state().extra_isize {
            return Err(damage(inode.ino, "a fast commit changes its fields"));
        }
        if new.file_acl != inode.state().file_acl {
            return Err(damage(inode.ino, "a fast commit changes its attributes"));
        }
        let is_dir = inode.is_dir();
        let body = |raw: &mut [u8]| match (inode.is_dir(), inline(was), inline(is)) {
            (false, _, true) => {
                inline::copy_body(raw, bytes);
                Ok(())
            }
            (false, true, false) => inline::clear_body(raw),
            _ => Ok(()),
        };
        self.fs
            .inline
            .change_body(self.handle, inode, body, |disk| {
                let mut new = new;
                if extents(new.flags) && !inline(disk.flags) {
                    new.i_block = disk.i_block;
                } else if extents(new.flags) {
                    new.i_block = [0; 60];
                    ExtentNodeMut::init(&mut new.i_block, 0);
                }
                new.blocks = disk.blocks;
                new.dtime = disk.dtime;
                new.extra_isize = disk.extra_isize;
                new.links = disk.links;
                if is_dir {
                    new.size = disk.size;
                    new.i_block = disk.i_block;
                    new.flags = (new.flags - OF_ENTRIES) | (disk.flags & OF_ENTRIES);
                }
                *disk = new;
            })
    }

    /// An inode is created, perhaps where another was.
    fn make_inode(&mut self, ino: Ino, mut new: Inode, bytes: &[u8]) -> Result<()> {
        if ino == Ino::ROOT || new.file_acl != Pblk(0) {
            return Err(damage(ino, "a fast commit makes an inode as none can be"));
        }
        let file_type = new.file_type();
        let has_extents = new.flags.contains(InodeFlags::EXTENTS);
        let is_dir = file_type == FileType::Directory;
        if let Some(old) = self.inode(ino)? {
            self.clear(&old)?;
            self.fs
                .numbers
                .release_ino(self.handle, ino, old.is_dir())?;
        } else if self.fs.numbers.is_ino_used(ino)? {
            return Err(damage(ino, "marked as used, and nothing is there"));
        }
        self.fs.table.icache.remove(u64::from(ino.0));
        self.fs.numbers.claim_this_ino(self.handle, ino, is_dir)?;
        let place = self.fs.table.inode_place(ino, true)?;
        let buffer = std::sync::Arc::clone(&place.buffer);
        let mut content = self.handle.modify(&buffer)?;
        let raw = place.raw_mut(&mut content, &self.fs.volume.params);
        new.blocks = 0;
        // The list of orphans is linked through the former inode.
        let next =
            uext4_ondisk::Inode::decode(raw, &self.fs.volume.params).map_or(0, |old| old.dtime);
        new.dtime = if self.orphans.contains(&ino) { next } else { 0 };
        if has_extents {
            new.i_block = [0; 60];
            ExtentNodeMut::init(&mut new.i_block, 0);
        }
        // Names are to come; a directory's first block comes with its name.
        new.links = 0;
        if is_dir {
            new.size = 0;
            new.flags -= InodeFlags::INDEX;
        }
        raw.fill(0);
        new.encode_into(raw, &self.fs.volume.params);
        if new.flags.contains(InodeFlags::INLINE_DATA) {
            inline::copy_body(raw, bytes);
        }
        buffer.mark_dirty(place.slot);
        drop(content);
        self.touched.insert(ino);
        let early = self.early.remove(&ino).unwrap_or_default();
        let mapped = matches!(file_type, FileType::Regular | FileType::Symlink) && has_extents;
        let map = if mapped { early } else { FileMap::default() };
        self.maps.insert(ino, map);
        Ok(())
    }

    /// Frees what an inode holds besides itself.
    pub(super) fn clear(&self, inode: &InodeRef) -> Result<()> {
        if self.fs.attributes.has_values(inode)? {
            return Err(Ext4Error::Unsupported(
                "a fast commit that deletes a file with attributes in inodes",
            ));
        }
        let content = self.fs.mapping.content_of(inode);
        self.fs
            .mapping
            .remove_blocks_within(self.handle, inode, (0, 1 << 32), content)?;
        let acl = inode.state().file_acl;
        if acl != Pblk(0) {
            self.fs
                .attributes
                .put_xattr_block(self.handle, inode, acl)?;
            self.fs
                .table
                .update_inode(inode, self.handle, |disk| disk.file_acl = Pblk(0))?;
        }
        Ok(())
    }

    /// The directory in which a name is, if it is there, and the name is one.
    fn directory(&self, name: &FastCommitName) -> Result<Option<InodeRef>> {
        let bad = matches!(&*name.name, b"." | b"..") || check_name(&name.name).is_err();
        if bad || name.ino == name.parent || name.ino == Ino::ROOT {
            return Err(damage(
                name.parent,
                "a fast commit of a name that cannot be",
            ));
        }
        let Some(dir) = self.inode(name.parent)? else {
            return Ok(None);
        };
        if !dir.is_dir() {
            return Err(damage(
                name.parent,
                "a fast commit of a name in no directory",
            ));
        }
        let alive = dir.state().links > 0;
        Ok(alive.then_some(dir))
    }

    /// A name, at once if the inode has another; else when its record has come, as the number may have
    /// been another inode's.
    fn link(&mut self, name: &FastCommitName) -> Result<()> {
        match self.inode(name.ino)? {
            Some(inode) if inode.state().links > 0 => self.add_name(name),
            _ => {
                let key = self.early_key(name)?;
                self.early_names.insert(key, name.ino);
                let links = self.early_links.entry(name.ino).or_default();
                links.push(name.clone());
                Ok(())
            }
        }
    }

    fn add_name(&mut self, name: &FastCommitName) -> Result<()> {
        let (Some(dir), Some(inode)) = (self.directory(name)?, self.inode(name.ino)?) else {
            return Ok(());
        };
        self.forget_early(name)?;
        let mut found = self.fs.directories.dir_look_up(&dir, &name.name)?;
        if let Found::Hit(hit) = &found {
            if hit.ino == name.ino {
                return Ok(());
            }
            // The name was another's.
            let other = FastCommitName {
                ino: hit.ino,
                ..name.clone()
            };
            self.remove_name(&other)?;
            found = self.fs.directories.dir_look_up(&dir, &name.name)?;
        }
        let Found::Vacancy(vacancy) = found else {
            return Err(damage(name.parent, "a name that is there twice"));
        };
        if inode.is_dir() {
            if inode.state().links != 0 || inode.size() != 0 {
                return Err(damage(name.ino, "a fast commit names a directory twice"));
            }
            self.fs
                .directories
                .dir_init(self.handle, &inode, name.parent)?;
        }
        self.fs.directories.dir_insert(
            self.handle,
            &dir,
            &vacancy,
            &name.name,
            name.ino,
            inode.file_type,
        )?;
        self.fs.table.update_inode(&inode, self.handle, |disk| {
            disk.links = match inode.is_dir() {
                true => 2,
                false => disk.links.saturating_add(1).min(65000),
            };
        })?;
        self.fs
            .namei
            .touch_dir(self.handle, &dir, i32::from(inode.is_dir()))
    }

    /// The name is something else now than it was going to be.
    fn forget_early(&mut self, name: &FastCommitName) -> Result<()> {
        let key = self.early_key(name)?;
        self.early_names.remove(&key);
        Ok(())
    }

    /// By what a name is known that is to come: in a directory that ignores case, by its fold.
    fn early_key(&mut self, name: &FastCommitName) -> Result<(Ino, Box<[u8]>)> {
        let dir = self.inode(name.parent)?;
        let key = match &dir {
            Some(dir) => self.fs.volume.name_key(dir, &name.name).into(),
            None => name.name.clone(),
        };
        Ok((name.parent, key))
    }

    fn remove_name(&mut self, name: &FastCommitName) -> Result<()> {
        self.forget_early(name)?;
        let Some(dir) = self.directory(name)? else {
            return Ok(());
        };
        let found = self.fs.directories.dir_look_up(&dir, &name.name)?;
        let Found::Hit(hit) = found else {
            return Ok(());
        };
        if hit.ino != name.ino {
            return Ok(());
        }
        let target = self.inode(name.ino)?;
        let is_dir = target.as_ref().is_some_and(|target| target.is_dir());
        if let Some(target) = &target {
            if is_dir && !self.fs.directories.dir_is_empty(target)? {
                return Err(damage(
                    name.ino,
                    "a fast commit removes a directory with names",
                ));
            }
            self.fs.table.update_inode(target, self.handle, |disk| {
                disk.links = if is_dir {
                    0
                } else {
                    disk.links.saturating_sub(1)
                };
            })?;
            self.touched.insert(name.ino);
        }
        self.fs
            .directories
            .dir_remove(self.handle, &dir, &name.name, &hit)?;
        self.fs
            .namei
            .touch_dir(self.handle, &dir, -i32::from(is_dir))
    }
}
