//! Directories that are all in their inode.
//!
//! # Invariants
//! The parts are the records in `i_block` after the parent's number, and those in the attribute, which may
//! be none. An offset of a record counts from the start of all data, so it says which part it is in.

use crate::inline::{Entry, IN_BLOCK, InlineData, PARENT};
use crate::inode::Inode;
use crate::prelude::*;
use crate::volume::sought::Sought;
use uext4_ondisk::{Dirent, dir_block_init, dir_insert, dir_remove, dir_set_ino};

/// The parts of `len` bytes of data.
fn parts(len: usize) -> [Range<usize>; 2] {
    [PARENT..IN_BLOCK.min(len), IN_BLOCK.min(len)..len]
}

/// The part that has the record at `offset`.
fn part_of(offset: usize, len: usize) -> Range<usize> {
    let [first, rest] = parts(len);
    if offset < IN_BLOCK { first } else { rest }
}

/// Puts a record into a part that has room; false if none has.
fn insert(
    all: &mut [u8],
    name: &[u8],
    ino: Ino,
    file_type: FileType,
) -> uext4_ondisk::Result<bool> {
    for part in parts(all.len()) {
        let records = &mut all[part];
        let end = records.len();
        if dir_insert(records, end, name, ino, file_type, 0)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the second part end at `capacity`.
fn grow(all: &mut Vec<u8>, capacity: usize) -> uext4_ondisk::Result<()> {
    let old: Vec<u8> = all[IN_BLOCK..].to_vec();
    all.resize(capacity, 0);
    let records = &mut all[IN_BLOCK..];
    dir_block_init(records, false);
    let end = records.len();
    for d in dir_entries(&old, old.len()) {
        let d = d?;
        if d.ino.0 != 0 {
            dir_insert(records, end, d.name, d.ino, d.file_type, 0)?;
        }
    }
    Ok(())
}

impl InlineData {
    /// Gives a new directory its parent and no entries.
    ///
    /// # Journal
    /// One credit.
    pub(crate) fn inline_dir_init(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        parent: Ino,
    ) -> Result<()> {
        let mut all = [0; IN_BLOCK];
        let (head, records) = all.split_at_mut(PARENT);
        head.copy_from_slice(&parent.0.to_le_bytes());
        dir_block_init(records, false);
        self.inline_store(handle, dir, &all, |disk| disk.size = IN_BLOCK as u64)
    }

    /// The parent.
    pub(crate) fn inline_parent(&self, dir: &Inode) -> Result<Ino> {
        let state = dir.state();
        let [a, b, c, d, ..] = state.i_block;
        Ok(Ino(u32::from_le_bytes([a, b, c, d])))
    }

    /// Makes a directory's parent another.
    ///
    /// # Journal
    /// One credit.
    pub(crate) fn inline_set_parent(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        parent: Ino,
    ) -> Result<()> {
        dir.touch_data(handle);
        self.table.update_inode(dir, handle, |disk| {
            let [a, b, c, d, ..] = &mut disk.i_block;
            [*a, *b, *c, *d] = parent.0.to_le_bytes();
        })
    }

    /// Calls `each` for every record in use, with its place.
    fn inline_each(&self, dir: &Inode, mut each: impl FnMut(&Dirent<'_>, usize)) -> Result<()> {
        let all = self.inline_load(dir)?;
        for part in parts(all.len()) {
            let start = part.start;
            let records = &all[part];
            for d in dir_entries(records, records.len()) {
                let d = d.map_err(|e| e.ino(dir.ino))?;
                if d.ino.0 != 0 {
                    each(&d, start + d.offset);
                }
            }
        }
        Ok(())
    }

    /// The entries.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn inline_entries(&self, dir: &Inode) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        self.inline_each(dir, |d, _| {
            entries.push(Entry {
                ino: d.ino,
                file_type: d.file_type,
                name: d.name.to_vec(),
            });
        })?;
        Ok(entries)
    }

    /// The name of the entry at `offset`.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn inline_name(&self, dir: &Inode, offset: usize) -> Result<Vec<u8>> {
        let mut found = Vec::new();
        self.inline_each(dir, |d, at| {
            if at == offset {
                found = d.name.to_vec();
            }
        })?;
        Ok(found)
    }

    /// The inode that an entry names, and where its record is.
    ///
    /// # Errors
    /// Damage.
    #[cold]
    pub(crate) fn inline_find(
        &self,
        dir: &Inode,
        sought: &Sought<'_>,
    ) -> Result<Option<(Ino, usize)>> {
        let all = self.inline_load(dir)?;
        for part in parts(all.len()) {
            let start = part.start;
            let records = &all[part];
            let found = sought
                .find(records, records.len())
                .map_err(|e| e.ino(dir.ino))?;
            if let Some(d) = found {
                return Ok(Some((d.ino, start + d.offset)));
            }
        }
        Ok(None)
    }

    /// Adds an entry; false if it has no room, and then the directory has become one with a block.
    ///
    /// # Journal
    /// Eight credits.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`], damage, the journal's; nothing changed then.
    #[cold]
    pub(crate) fn inline_insert(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        name: &[u8],
        ino: Ino,
        file_type: FileType,
    ) -> Result<bool> {
        let mut all = self.inline_load(dir)?;
        let place = |e: uext4_ondisk::Corrupt| e.ino(dir.ino);
        let mut inserted = insert(&mut all, name, ino, file_type).map_err(place)?;
        if !inserted {
            let capacity = self.inline_capacity(dir)?;
            if capacity > all.len() && capacity - IN_BLOCK >= uext4_ondisk::DIRENT_MIN {
                grow(&mut all, capacity).map_err(place)?;
                inserted = insert(&mut all, name, ino, file_type).map_err(place)?;
            }
        }
        if !inserted {
            self.convert_inline_dir(handle, dir)?;
            return Ok(false);
        }
        let size = all.len() as u64;
        self.inline_store(handle, dir, &all, |disk| disk.size = size)?;
        Ok(true)
    }

    /// Removes the entry at `offset`.
    ///
    /// # Journal
    /// One credit.
    pub(crate) fn inline_remove(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        offset: usize,
    ) -> Result<()> {
        self.inline_change(handle, dir, offset, |records, at| {
            let end = records.len();
            dir_remove(records, end, at, None).map(drop)
        })
    }

    /// Makes the entry at `offset` name another inode.
    ///
    /// # Journal
    /// One credit.
    pub(crate) fn inline_replace(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        offset: usize,
        ino: Ino,
        file_type: FileType,
    ) -> Result<()> {
        self.inline_change(handle, dir, offset, |records, at| {
            let end = records.len();
            dir_set_ino(records, end, at, ino, file_type)
        })
    }

    fn inline_change(
        &self,
        handle: &Handle<'_>,
        dir: &Inode,
        offset: usize,
        change: impl FnOnce(&mut [u8], usize) -> uext4_ondisk::Result<()>,
    ) -> Result<()> {
        let mut all = self.inline_load(dir)?;
        let part = part_of(offset, all.len());
        let at = offset.saturating_sub(part.start);
        let records = &mut all[part];
        change(records, at).map_err(|e| Ext4Error::from(e.ino(dir.ino)))?;
        self.inline_store(handle, dir, &all, |_| {})
    }
}
