//! Directories: entries removed or corrected, `.` and `..`, checksums, hash trees that become linear.

use super::dir_map;
use super::editor::Editor;
use super::records::{self, Record, type_byte};
use super::reveal;
use crate::context::Context;
use crate::dirblock::block_kind;
use crate::dirs::Dir;
use crate::passes::Scanned;
use crate::prelude::*;
use std::collections::{BTreeSet, HashMap, HashSet};
use uext4_ondisk::{
    DIRENT_MIN, DxKind, dir_checksum_set, dir_data_end, dir_has_tail, dx_checksum_set,
};

/// Bytes of the first two records.
const DOTS: usize = 2 * DIRENT_MIN;

/// An entry by its block and its place there.
type Place = (Pblk, usize);

/// What is wrong with directories.
struct Wrong<'f> {
    faults: &'f [Fault],
    /// By inode.
    kinds: HashMap<Ino, Vec<FaultKind>>,
    /// Entries of directories that have an earlier name.
    later_names: HashSet<Place>,
}

impl Wrong<'_> {
    fn any(&self, ino: Ino, of: impl Fn(FaultKind) -> bool) -> bool {
        let kinds = self.kinds.get(&ino);
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| of(*kind)))
    }

    /// The hash tree can't stay.
    fn tree(&self, ino: Ino) -> bool {
        self.any(ino, |kind| match kind {
            FaultKind::Structure(k) => {
                let name = format!("{k:?}");
                name.starts_with("Dx") && k != CorruptKind::DxChecksum
                    || name.starts_with("Dir") && k != CorruptKind::DirChecksum
            }
            FaultKind::HtreeFlag
            | FaultKind::HtreeUnreferenced
            | FaultKind::HtreeReferencedTwice
            | FaultKind::HtreeRange
            | FaultKind::HtreeKind
            | FaultKind::DirDot
            | FaultKind::DirDotDot
            | FaultKind::EntryName
            | FaultKind::EntryDuplicate => true,
            _ => false,
        })
    }
}

/// Repairs directories.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, scanned: &Scanned, faults: &[Fault]) -> Result<()> {
    if reveal::inodes(ed, scanned, faults)? {
        return Ok(());
    }
    let twice: BTreeSet<Ino> = faults
        .iter()
        .filter(|f| f.kind == FaultKind::DirLinkedTwice)
        .filter_map(|f| f.ino)
        .collect();
    let mut wanted: BTreeSet<Ino> = faults.iter().filter_map(|f| f.ino).collect();
    let mut kinds: HashMap<Ino, Vec<FaultKind>> = HashMap::new();
    for fault in faults {
        if let Some(ino) = fault.ino {
            kinds.entry(ino).or_default().push(fault.kind);
        }
    }
    let mut wrong = Wrong {
        faults,
        kinds,
        later_names: HashSet::new(),
    };
    if !twice.is_empty() {
        let mut first: HashMap<Ino, Place> = HashMap::new();
        // In the order of the disk: copies of blocks lie behind what was there before.
        for i in &scanned.dirs.order {
            let Some(block) = scanned.dirs.blocks.get(*i as usize) else {
                continue;
            };
            let Some(dir) = scanned.dirs.dirs.get(block.dir as usize) else {
                continue;
            };
            for record in entries_of(ed, dir, block.lblk, block.pblk)? {
                let place = (block.pblk, record.offset.unwrap_or(0));
                let unnamed = record.name.is_empty() || is_dots(&record.name);
                if !twice.contains(&record.ino) || unnamed || record.ino == dir.ino {
                    continue;
                }
                if *first.entry(record.ino).or_insert(place) != place {
                    wrong.later_names.insert(place);
                    wanted.insert(dir.ino);
                }
            }
        }
    }
    for ino in wanted {
        if let Some(dir) = scanned.dirs.find(ino) {
            mend_dir(ed, scanned, dir, &wrong)?;
        }
    }
    Ok(())
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Where the records of a block end: a tail that is damaged has its room all the same.
fn data_end(cx: &Context<'_>, block: &[u8]) -> usize {
    dir_data_end(block.len(), cx.seed.is_some() && dir_has_tail(block))
}

/// The records of a block, none if it is a node of a hash tree but the root.
fn entries_of(ed: &Editor<'_, '_>, dir: &Dir, lblk: Lblk, at: Pblk) -> Result<Vec<Record>> {
    let block = ed.block(at)?;
    if block_kind(ed.cx, dir, lblk, &block) == Some(DxKind::Node) {
        return Ok(Vec::new());
    }
    let end = data_end(ed.cx, &block);
    Ok(records::read(&block, end, ed.cx.geo.inodes_count))
}

/// One directory at work.
struct DirMender<'w, 'f> {
    dir: &'w Dir,
    wrong: &'w Wrong<'f>,
    /// The hash tree stays.
    keeps_tree: bool,
    /// By what they are found by.
    names: HashMap<Vec<u8>, Ino>,
}

/// Makes a directory with a hash tree a list of blocks, each with the entries that it has.
///
/// # Errors
/// The device's.
pub(crate) fn make_linear(ed: &mut Editor<'_, '_>, scanned: &Scanned, dir: &Dir) -> Result<()> {
    let wrong = Wrong {
        faults: &[],
        kinds: HashMap::from([(dir.ino, vec![FaultKind::HtreeFlag])]),
        later_names: HashSet::new(),
    };
    mend_dir(ed, scanned, dir, &wrong)
}

fn mend_dir(
    ed: &mut Editor<'_, '_>,
    scanned: &Scanned,
    dir: &Dir,
    wrong: &Wrong<'_>,
) -> Result<()> {
    if dir.inline {
        return super::inline_dir::mend(ed, dir, wrong.faults);
    }
    let keeps_tree = dir.indexed && dir.tree.is_some() && !wrong.tree(dir.ino);
    let mut mender = DirMender {
        dir,
        wrong,
        keeps_tree,
        names: HashMap::new(),
    };
    let mut homeless = Vec::new();
    for block in scanned.dirs.blocks_of(dir) {
        homeless.extend(mender.block(ed, block.lblk, block.pblk)?);
    }
    if !keeps_tree
        && dir.indexed
        && let Some(mut inode) = ed.decoded(dir.ino)?
    {
        inode.flags &= !InodeFlags::INDEX;
        ed.put_decoded(dir.ino, &inode)?;
    }
    if keeps_tree && !homeless.is_empty() {
        // Its hash has no other block; lost+found takes the file.
        return Ok(());
    }
    for record in homeless {
        insert(ed, scanned, dir, &record)?;
    }
    Ok(())
}

impl DirMender<'_, '_> {
    /// Corrects one block, and returns records that lost their place.
    fn block(&mut self, ed: &mut Editor<'_, '_>, lblk: Lblk, at: Pblk) -> Result<Vec<Record>> {
        let cx = ed.cx;
        let mut block = ed.block(at)?;
        let before = block.clone();
        let kind = block_kind(cx, self.dir, lblk, &block);
        if self.keeps_tree
            && let Some(kind) = kind
        {
            if kind == DxKind::Root {
                self.root(cx, &mut block);
            }
            if cx.seed.is_some() {
                dx_checksum_set(&mut block, kind, self.dir.seed);
            }
            if block != before {
                ed.put_block(at, &block);
            }
            return Ok(Vec::new());
        }
        let found = entries_of(ed, self.dir, lblk, at)?;
        let mut kept: Vec<Record> = Vec::new();
        let mut dots = [None, None];
        for (i, record) in found.into_iter().enumerate() {
            if lblk == Lblk(0)
                && i < 2
                && record.name == [&b"."[..], b".."].get(i).copied().unwrap_or(b"")
            {
                if let Some(slot) = dots.get_mut(i) {
                    *slot = Some(record);
                }
                continue;
            }
            if let Some(record) = self.entry(cx, at, record) {
                kept.push(record);
            }
        }
        if lblk == Lblk(0) {
            for record in &mut kept {
                record.offset = record.offset.filter(|o| *o >= DOTS);
            }
            kept.splice(0..0, self.dots(cx, dots));
        }
        let end = dir_data_end(block.len(), cx.seed.is_some());
        let rest = records::write(&mut block, end, &kept);
        if cx.seed.is_some() {
            dir_checksum_set(&mut block, self.dir.seed);
        }
        if block != before {
            ed.put_block(at, &block);
        }
        Ok(rest)
    }

    /// `.` and `..`, the latter of a directory that exists.
    fn dots(&self, cx: &Context<'_>, found: [Option<Record>; 2]) -> [Record; 2] {
        let [_, dot_dot] = found;
        let parent = dot_dot.map_or(Ino::NONE, |r| r.ino);
        let record = |ino, name: &[u8], offset| Record {
            ino,
            type_byte: type_byte(cx, FileType::Directory),
            name: name.to_vec(),
            offset: Some(offset),
        };
        [
            record(self.dir.ino, b".", 0),
            record(parent_or_root(cx, parent), b"..", DIRENT_MIN),
        ]
    }

    /// The two entries of a root that stays.
    fn root(&self, cx: &Context<'_>, block: &mut [u8]) {
        let parent = Ino(le32(block, DIRENT_MIN).unwrap_or(0));
        put32(block, 0, self.dir.ino.0);
        put32(block, DIRENT_MIN, parent_or_root(cx, parent).0);
        let kind = type_byte(cx, FileType::Directory);
        for at in [7, DIRENT_MIN + 7] {
            if let Some(byte) = block.get_mut(at) {
                *byte = kind;
            }
        }
    }

    /// An entry as it can stay; `None` if it can't.
    fn entry(&mut self, cx: &Context<'_>, at: Pblk, mut record: Record) -> Option<Record> {
        let ino = record.ino;
        if record.name.is_empty() || is_dots(&record.name) {
            return None;
        }
        let reserved = cx.is_reserved(ino) || ino == Ino::ROOT;
        if ino.0 > cx.geo.inodes_count || reserved || ino == self.dir.ino {
            return None;
        }
        let state = cx.inodes.state(ino);
        if !state.used() || state.orphan() {
            return None;
        }
        let place = (at, record.offset.unwrap_or(0));
        if self.wrong.later_names.contains(&place) {
            return None;
        }
        if self.wrong.any(self.dir.ino, |k| k == FaultKind::EntryName) {
            record.name = self.dir.legal_name(cx, &record.name)?.into_owned();
        }
        if !self.dir.may_name(state)
            && self
                .wrong
                .any(self.dir.ino, |k| k == FaultKind::EntryUnencrypted)
        {
            return None;
        }
        let want = type_byte(cx, state.file_type());
        if record.type_byte != want && record.type_byte != 0 {
            record.type_byte = want;
        }
        self.unique(record)
    }

    /// Renames a name that an earlier entry has; of two entries of one inode, the later goes.
    fn unique(&mut self, mut record: Record) -> Option<Record> {
        let repeats = |k| matches!(k, FaultKind::EntryDuplicate | FaultKind::EntryName);
        if !self.wrong.any(self.dir.ino, repeats) {
            return Some(record);
        }
        let key = |record: &Record| self.dir.key(&record.name).into_owned();
        if self.names.get(&key(&record)) == Some(&record.ino) {
            return None;
        }
        let name = record.name.clone();
        for n in 0..u32::MAX {
            if !self.names.contains_key(&key(&record)) {
                break;
            }
            let end = format!("~{n}");
            let front = name.len().min(255 - end.len());
            record.name = name.get(..front).unwrap_or(&[]).to_vec();
            record.name.extend_from_slice(end.as_bytes());
        }
        let key = key(&record);
        self.names.insert(key, record.ino);
        Some(record)
    }
}

fn parent_or_root(cx: &Context<'_>, parent: Ino) -> Ino {
    let state = cx.inodes.state(parent);
    match state.used() && state.file_type() == FileType::Directory {
        true => parent,
        false => Ino::ROOT,
    }
}

/// Gives a record a place in any block of a linear directory.
fn insert(ed: &mut Editor<'_, '_>, scanned: &Scanned, dir: &Dir, record: &Record) -> Result<bool> {
    let blocks: Vec<Pblk> = scanned.dirs.blocks_of(dir).iter().map(|b| b.pblk).collect();
    for at in blocks {
        if insert_into(ed, dir.seed, at, record)? {
            return Ok(true);
        }
    }
    match dir_map::append(ed, dir.ino)? {
        Some(at) => insert_into(ed, dir.seed, at, record),
        None => Ok(false),
    }
}

/// Gives a record a place in a block; false if it has no room.
///
/// # Errors
/// The device's.
pub(crate) fn insert_into(
    ed: &mut Editor<'_, '_>,
    seed: InodeSeed,
    at: Pblk,
    record: &Record,
) -> Result<bool> {
    let mut block = ed.block(at)?;
    let end = dir_data_end(block.len(), ed.cx.seed.is_some());
    let file_type = FileType::from_dirent(record.type_byte);
    let done = uext4_ondisk::dir_insert(&mut block, end, &record.name, record.ino, file_type, 0);
    if !matches!(done, Ok(Some(_))) {
        return Ok(false);
    }
    if ed.cx.seed.is_some() {
        dir_checksum_set(&mut block, seed);
    }
    ed.put_block(at, &block);
    Ok(true)
}
