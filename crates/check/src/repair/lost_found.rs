//! The directory lost+found: found, or made, and names in it.

use super::dir::{insert_into, make_linear};
use super::dir_map;
use super::editor::{Editor, now};
use super::map::{self, Map, NodePool};
use super::pack;
use super::records::{self, Record, type_byte};
use crate::passes::Scanned;
use crate::prelude::*;
use std::collections::HashSet;
use uext4_ondisk::{
    Extent, Generation, GroupFlags, Inode, Timestamp, dir_block_init_dots, dir_checksum_set,
};

/// Its name in the root.
const NAME: &[u8] = b"lost+found";
/// Permissions of a new one.
const MODE: u16 = 0o700;

/// The directory that takes what has no name.
pub(crate) struct LostFound {
    ino: Ino,
    seed: InodeSeed,
    blocks: Vec<Pblk>,
    names: HashSet<Vec<u8>>,
    is_new: bool,
}

impl LostFound {
    /// Finds it, or makes it; `None` if there is not enough space.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn open(ed: &mut Editor<'_, '_>, scanned: &Scanned) -> Result<Option<Self>> {
        let Some(root) = scanned.dirs.find(Ino::ROOT) else {
            return Ok(None);
        };
        let entries = pack::entries(ed, Ino::ROOT)?.1;
        let entry = entries.into_iter().find(|r| r.name == NAME);
        let dir = match &entry {
            Some(entry) => scanned.dirs.find(entry.ino),
            None => Some(root),
        };
        let Some(dir) = dir else {
            return Ok(None);
        };
        // What has no name is not encrypted.
        if dir.encrypted {
            return Ok(None);
        }
        // The next round finds a list of blocks.
        if dir.inline {
            let seed = ed.cx.seed.map(|_| dir.seed);
            pack::rewrite(ed, dir.ino, seed, false)?;
            return Ok(None);
        }
        if dir.indexed {
            make_linear(ed, scanned, dir)?;
            return Ok(None);
        }
        let blocks: Vec<Pblk> = scanned.dirs.blocks_of(dir).iter().map(|b| b.pblk).collect();
        if entry.is_none() {
            return Self::make(ed, root.seed, &blocks);
        }
        let mut names = HashSet::new();
        for at in &blocks {
            let block = ed.block(*at)?;
            let found = records::read(&block, block.len(), ed.cx.geo.inodes_count);
            names.extend(found.into_iter().map(|r| r.name));
        }
        Ok(Some(LostFound {
            ino: dir.ino,
            seed: dir.seed,
            blocks,
            names,
            is_new: false,
        }))
    }

    pub(crate) fn ino(&self) -> Ino {
        self.ino
    }

    /// True if it was made in this round.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Makes the directory: an inode, a block, and a name in the root.
    fn make(
        ed: &mut Editor<'_, '_>,
        root_seed: InodeSeed,
        root_blocks: &[Pblk],
    ) -> Result<Option<Self>> {
        let (Some(ino), Some(at)) = (free_inode(ed)?, ed.allocate()) else {
            return Ok(None);
        };
        let Some(mut raw) = ed.inode(ino)? else {
            return Ok(None);
        };
        raw.fill(0);
        let mut inode = new_inode(ed, ino);
        let seed = ed.cx.seed.map_or(InodeSeed(0), |s| inode.seed(s, ino));
        let mut block = vec![0; ed.cx.block_size()];
        let filetype = ed.cx.incompat(Incompat::FILETYPE);
        dir_block_init_dots(&mut block, ed.cx.seed.is_some(), ino, Ino::ROOT, filetype);
        if ed.cx.seed.is_some() {
            dir_checksum_set(&mut block, seed);
        }
        ed.put_block(at, &block);
        let run = Extent {
            lblk: Lblk(0),
            len: 1,
            unwritten: false,
            pblk: at,
        };
        let mut pool = NodePool::new(Vec::new());
        map::write(ed, ino, &mut inode, &Map::of(vec![run]), &mut pool);
        inode.encode_into(&mut raw, &ed.cx.params);
        ed.put_inode(ino, &raw)?;
        let record = Record {
            ino,
            type_byte: type_byte(ed.cx, FileType::Directory),
            name: NAME.to_vec(),
            offset: None,
        };
        if !add_to(ed, Ino::ROOT, root_seed, root_blocks, &record)? {
            return Ok(None);
        }
        Ok(Some(LostFound {
            ino,
            seed,
            blocks: vec![at],
            names: HashSet::new(),
            is_new: true,
        }))
    }

    /// Gives an inode the name `#` and its number; false if there is not enough space.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn add(&mut self, ed: &mut Editor<'_, '_>, ino: Ino) -> Result<bool> {
        let mut name = format!("#{ino}").into_bytes();
        while !self.names.insert(name.clone()) {
            name.push(b'~');
        }
        let record = Record {
            ino,
            type_byte: type_byte(ed.cx, ed.cx.inodes.state(ino).file_type()),
            name,
            offset: None,
        };
        for at in &self.blocks {
            if insert_into(ed, self.seed, *at, &record)? {
                return Ok(true);
            }
        }
        let Some(at) = dir_map::append(ed, self.ino)? else {
            return Ok(false);
        };
        self.blocks.push(at);
        insert_into(ed, self.seed, at, &record)
    }
}

fn add_to(
    ed: &mut Editor<'_, '_>,
    dir: Ino,
    seed: InodeSeed,
    blocks: &[Pblk],
    record: &Record,
) -> Result<bool> {
    for at in blocks {
        if insert_into(ed, seed, *at, record)? {
            return Ok(true);
        }
    }
    match dir_map::append(ed, dir)? {
        Some(at) => insert_into(ed, seed, at, record),
        None => Ok(false),
    }
}

/// An inode that is not in use: one that was before, or else the first of a group that never was.
///
/// # Errors
/// The device's.
pub(crate) fn free_inode(ed: &mut Editor<'_, '_>) -> Result<Option<Ino>> {
    let cx = ed.cx;
    let groups = || (0..cx.geo.groups_count).map(GroupNo);
    let free = |g: GroupNo, i: u32| {
        let ino = cx.geo.ino_in_group(g, i);
        let free = !cx.is_reserved(ino) && !cx.inodes.state(ino).used();
        free.then_some(ino)
    };
    for g in groups() {
        let ino = (0..cx.inodes_in_use_max(g)).find_map(|i| free(g, i));
        if ino.is_some() && cx.desc(g).is_some() {
            return Ok(ino);
        }
    }
    for g in groups() {
        let index = cx.inodes_in_use_max(g);
        let Some(mut desc) = cx.desc(g).copied() else {
            continue;
        };
        let Some(ino) = free(g, index).filter(|_| index < cx.geo.inodes_per_group) else {
            continue;
        };
        desc.flags &= !GroupFlags::INODE_UNINIT;
        desc.itable_unused = cx.geo.inodes_per_group - index - 1;
        ed.put_desc(g, &desc)?;
        return Ok(Some(ino));
    }
    Ok(None)
}

fn new_inode(ed: &Editor<'_, '_>, ino: Ino) -> Inode {
    let extents = ed.cx.incompat(Incompat::EXTENT);
    let time = Timestamp::new(now().into(), 0);
    Inode {
        mode: FileType::Directory.to_mode() | MODE,
        size: ed.cx.geo.block_size.into(),
        links: 2,
        blocks: u64::from(ed.cx.geo.block_size / 512) * u64::from(ed.cx.geo.cluster_ratio),
        flags: if extents {
            InodeFlags::EXTENTS
        } else {
            InodeFlags::empty()
        },
        atime: time,
        ctime: time,
        mtime: time,
        crtime: time,
        generation: Generation(now() ^ ino.0),
        extra_isize: match ed.cx.geo.inode_size {
            128 => 0,
            _ => ed.cx.geo.want_extra_isize.min(32) & !3,
        },
        ..Inode::default()
    }
}
