//! Directories written anew: all entries in as many blocks as they need, with a hash tree if those are several.

use super::editor::Editor;
use super::inline_dir;
use super::map::{self, Map, NodePool};
use super::records::{self, Record};
use crate::dirblock::kind_of;
use crate::prelude::*;
use uext4_ondisk::{
    DIRENT_MIN, DirBlocks, DirFormat, Extent, Inode, NewDirent, dir_data_end, hashed_name,
};

/// Writes a directory anew, with checksums that start from `seed`, in a list of blocks or, if it `may_hash`, a hash tree; its entries may be
/// in its inode before. False if there is not enough space.
///
/// # Errors
/// The device's.
pub(crate) fn rewrite(
    ed: &mut Editor<'_, '_>,
    ino: Ino,
    seed: Option<InodeSeed>,
    may_hash: bool,
) -> Result<bool> {
    let (parent, records) = entries(ed, ino)?;
    let Some(before) = ed.inode(ino)? else {
        return Ok(false);
    };
    let is_inline = ed.decode(&before).flags.contains(InodeFlags::INLINE_DATA);
    if is_inline && !inline_dir::empty(ed, ino)? {
        return Ok(false);
    }
    let new = Directory {
        ino,
        seed,
        parent,
        may_hash,
    };
    let done = new.write(ed, &records)?;
    if is_inline && !done {
        ed.put_inode(ino, &before)?;
    }
    Ok(done)
}

/// A directory that is to be written.
#[derive(Clone, Copy)]
struct Directory {
    ino: Ino,
    seed: Option<InodeSeed>,
    parent: Ino,
    may_hash: bool,
}

impl Directory {
    /// Writes the directory with these entries besides `.` and `..`. False if there is not enough space.
    ///
    /// # Errors
    /// The device's.
    fn write(&self, ed: &mut Editor<'_, '_>, records: &[Record]) -> Result<bool> {
        let Some(mut inode) = ed.decoded(self.ino)? else {
            return Ok(false);
        };
        // A list has fewer blocks than a tree.
        let shapes = [true, false].into_iter();
        for indexed in shapes.filter(|indexed| self.may_hash || !indexed) {
            if self.write_as(ed, &mut inode, records, indexed)? {
                ed.put_decoded(self.ino, &inode)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn write_as(
        &self,
        ed: &mut Editor<'_, '_>,
        inode: &mut Inode,
        records: &[Record],
        indexed: bool,
    ) -> Result<bool> {
        let cx = ed.cx;
        let sb = &cx.sb;
        let format = DirFormat {
            block_size: cx.block_size(),
            has_tail: self.seed.is_some(),
            indexed,
            large: sb.incompat.contains(Incompat::LARGE_DIR),
            filetype: sb.incompat.contains(Incompat::FILETYPE),
            version: sb.hash.version,
        };
        let name = |i: usize| records.get(i).map_or(&[][..], |r| &r.name);
        let ignores_case =
            cx.incompat(Incompat::CASEFOLD) && inode.flags.contains(InodeFlags::CASEFOLD);
        let hash = |name: &[u8]| match ignores_case {
            true => sb.hash.hash_default(&hashed_name(name)),
            false => sb.hash.hash_default(name),
        };
        let Ok(layout) = format.divide(records.len(), &name, &hash, 0) else {
            return Ok(false);
        };
        let count = layout.as_ref().map_or(1, |layout| layout.blocks());
        let Some(places) = self.map(ed, inode, count)? else {
            return Ok(false);
        };
        let blocks = DirBlocks {
            format: &format,
            layout: layout.as_ref(),
            ino: self.ino,
            parent: self.parent,
            seed: self.seed.unwrap_or(InodeSeed(0)),
            count: records.len(),
            entry: &|i| NewDirent {
                name: name(i),
                ino: records.get(i).map_or(Ino::NONE, |r| r.ino),
                file_type: FileType::from_dirent(records.get(i).map_or(0, |r| r.type_byte)),
            },
        };
        let mut block = vec![0; format.block_size];
        for (lblk, at) in (0..).zip(places) {
            blocks.make(Lblk(lblk), &mut block);
            ed.put_block(at, &block);
        }
        let is_tree = layout.is_some_and(|layout| layout.is_hashed());
        inode.flags.set(InodeFlags::INDEX, is_tree);
        Ok(true)
    }

    /// Maps so many blocks: those it has, then free ones. `None` if there are not enough.
    fn map(
        &self,
        ed: &mut Editor<'_, '_>,
        inode: &mut Inode,
        count: u32,
    ) -> Result<Option<Vec<Pblk>>> {
        let found = map::read(ed, inode)?;
        let geo = ed.cx.geo;
        let mut places: Vec<Pblk> = found.blocks().map(|(_, at)| at).collect();
        places.truncate(count as usize);
        while (places.len() as u32) < count {
            let of_cluster = (places.len() as u32).is_multiple_of(geo.cluster_ratio);
            let next = match places.last() {
                Some(last) if !of_cluster => Some(Pblk(last.0 + 1)),
                _ => ed.allocate(),
            };
            let Some(next) = next else {
                return Ok(None);
            };
            places.push(next);
        }
        let mut new = Map::default();
        for (lblk, at) in (0..).zip(&places) {
            new.push(
                Extent {
                    lblk: Lblk(lblk),
                    len: 1,
                    unwritten: false,
                    pblk: *at,
                },
                &geo,
            );
        }
        let mut own = found.nodes;
        own.reverse();
        if !map::write(ed, self.ino, inode, &new, &mut NodePool::new(own)) {
            return Ok(None);
        }
        inode.size = u64::from(count) << geo.block_bits;
        Ok(Some(places))
    }
}

/// The parent of a directory, and its entries besides `.` and `..`.
///
/// # Errors
/// The device's.
pub(crate) fn entries(ed: &Editor<'_, '_>, ino: Ino) -> Result<(Ino, Vec<Record>)> {
    let Some(raw) = ed.inode(ino)? else {
        return Ok((Ino::ROOT, Vec::new()));
    };
    let inode = ed.decode(&raw);
    if inode.flags.contains(InodeFlags::INLINE_DATA) {
        return Ok(inline_dir::entries(ed.cx, &raw, &inode));
    }
    let indexed = inode.flags.contains(InodeFlags::INDEX);
    let (mut parent, mut all) = (Ino::ROOT, Vec::new());
    for (lblk, at) in map::read(ed, &inode)?.blocks() {
        let block = ed.block(at)?;
        if lblk == Lblk(0) {
            parent = Ino(le32(&block, DIRENT_MIN).unwrap_or(0));
        }
        if kind_of(ed.cx, indexed, lblk, &block).is_none() {
            let end = dir_data_end(block.len(), ed.cx.seed.is_some());
            let found = records::read(&block, end, ed.cx.geo.inodes_count);
            all.extend(found.into_iter().filter(|r| !r.is_dots()));
        }
    }
    Ok((parent, all))
}
