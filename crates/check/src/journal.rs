//! The journal: its superblock, and what replay would change.
//!
//! Replay here writes nothing: the newest copy of each block of every complete transaction that was
//! not revoked later becomes a [`Redirect`].

use crate::filemap::{self, Run};
use crate::prelude::*;
use crate::view::{Redirect, View};
use std::collections::HashMap;
use uext4_ondisk::{
    BlockTag, CommitBlock, DescriptorReader, Inode, InodeParams, JOURNAL_BLOCKS_MIN,
    JournalBlockType, JournalCsum, JournalFormat, JournalHeader, JournalSuper, RevokeReader,
    TagFlags, Tid, crc32_be,
};

/// Tag of the record that a fast commit area starts with.
const FAST_COMMIT_HEAD: u16 = 9;

/// A journal that passed its checks.
pub(crate) struct Log {
    pub(crate) runs: Vec<Run>,
    pub(crate) sb: JournalSuper,
}

/// Where a copy of a block lies in the log.
#[derive(Clone, Copy)]
struct LogCopy {
    at: u32,
    tag: BlockTag,
    tid: Tid,
}

#[derive(Default)]
struct Scan {
    copies: Vec<LogCopy>,
    /// The newest transaction that revoked a block.
    revoked: HashMap<u64, Tid>,
}

/// The bytes of an inode; `None` if its group's descriptor is out of range.
pub(crate) fn read_inode(
    view: &View<'_>,
    geo: &Geometry,
    descs: &[GroupDesc],
    ino: Ino,
) -> Result<Option<Vec<u8>>> {
    let Ok((group, index)) = geo.group_of_ino(ino) else {
        return Ok(None);
    };
    let Some(desc) = descs.get(group.0 as usize) else {
        return Ok(None);
    };
    let (block, at) = geo.itable_position(index);
    let pblk = Pblk(desc.inode_table.0.saturating_add(u64::from(block)));
    if !geo.contains_blocks(pblk, 1) {
        return Ok(None);
    }
    let mut buf = vec![0; geo.block_size as usize];
    view.read(pblk, &mut buf)?;
    let end = at.saturating_add(usize::from(geo.inode_size));
    Ok(buf.get(at..end).map(<[u8]>::to_vec))
}

/// True if the inode could be that of a journal.
pub(crate) fn is_journal(
    view: &View<'_>,
    sb: &Superblock,
    descs: &[GroupDesc],
    ino: Ino,
) -> Result<bool> {
    let Some(raw) = read_inode(view, &sb.geometry, descs, ino)? else {
        return Ok(false);
    };
    let inode = Inode::decode(&raw, &InodeParams::of(sb));
    Ok(inode.is_ok_and(|i| {
        let blocks = i.size >> sb.geometry.block_bits;
        i.file_type() == FileType::Regular && i.links > 0 && blocks >= JOURNAL_BLOCKS_MIN.into()
    }))
}

/// Finds and checks the journal; `None` if there is none inside, or a fault makes it unusable.
pub(crate) fn open(
    view: &View<'_>,
    sb: &Superblock,
    descs: &[GroupDesc],
    faults: &mut Faults,
) -> Result<Option<Log>> {
    let recover = sb.incompat.contains(Incompat::RECOVER);
    if !sb.has_journal() {
        if sb.raw.journal_uuid != [0; 16] {
            let detail = "an external journal without has_journal";
            faults.push(Fault::new(FaultKind::SuperblockField).detail(detail));
        }
        let inum = Ino(sb.raw.journal_inum.get());
        if recover || inum != Ino::NONE {
            let fault =
                Fault::new(FaultKind::SuperblockField).detail("journal without has_journal");
            let there = !recover && is_journal(view, sb, descs, inum)?;
            faults.push(if there { fault.note() } else { fault });
        }
        return Ok(None);
    }
    if sb.journal_ino().is_some() && sb.raw.journal_uuid != [0; 16] {
        let detail = "an external journal besides the journal inode";
        faults.push(Fault::new(FaultKind::SuperblockField).detail(detail));
    }
    let Some(ino) = sb.journal_ino() else {
        if recover {
            let what = "an external journal that needs recovery";
            return Err(CheckError::Unsupported(what.into()));
        }
        if sb.raw.journal_dev.get() == 0 && sb.raw.journal_uuid == [0; 16] {
            faults.push(Fault::new(FaultKind::SuperblockField).detail("no journal inode"));
        }
        return Ok(None);
    };
    let unusable = |why: &str| Fault::new(FaultKind::JournalInode).ino(ino).detail(why);
    let Some(raw) = read_inode(view, &sb.geometry, descs, ino)? else {
        faults.push(unusable("inode is out of range"));
        return Ok(None);
    };
    let Ok(inode) = Inode::decode(&raw, &InodeParams::of(sb)) else {
        return Ok(None);
    };
    if inode.file_type() != FileType::Regular || inode.links == 0 {
        faults.push(unusable("not a regular file"));
        return Ok(None);
    }
    let (runs, _) = filemap::load(view, &sb.geometry, &inode)?;
    let Some(first) = filemap::find(&runs, Lblk(0)) else {
        faults.push(unusable("first block is missing"));
        return Ok(None);
    };
    let mut block = vec![0; sb.geometry.block_size as usize];
    view.read(first, &mut block)?;
    match JournalSuper::parse(&block, sb.geometry.block_size) {
        Err(e) => {
            // Where the log starts and ends matters to a replay only.
            let of_replay = [
                CorruptKind::JournalStart,
                CorruptKind::JournalFirst,
                CorruptKind::JournalMaxLen,
            ];
            let unused = of_replay.contains(&e.kind) && !recover;
            let fault = Fault::from(e.ino(ino).pblk(first));
            faults.push(if unused { fault.note() } else { fault });
            Ok(None)
        }
        Ok(j) => Ok(check_super(j, runs, ino, first, sb, &inode, faults)),
    }
}

fn check_super(
    j: JournalSuper,
    runs: Vec<Run>,
    ino: Ino,
    first: Pblk,
    sb: &Superblock,
    inode: &Inode,
    faults: &mut Faults,
) -> Option<Log> {
    let fault = |kind| Fault::new(FaultKind::Structure(kind)).ino(ino).pblk(first);
    let len = j.raw.maxlen.get();
    let blocks = inode.size >> sb.geometry.block_bits;
    let mapped: u64 = runs.iter().map(|r| u64::from(r.len)).sum();
    let most = blocks.min(mapped).min(sb.geometry.blocks_count);
    let bytes = mapped.saturating_mul(u64::from(sb.geometry.block_size));
    // Tools and kernel read the lower half of the size, and take it as signed.
    let low = u64::try_from(inode.size as u32 as i32).unwrap_or(0);
    if inode.size > bytes && low <= bytes {
        let note = fault(CorruptKind::JournalMaxLen).note();
        faults.push(note.detail(format_args!("file of {} bytes", inode.size)));
    }
    if u64::from(len) > most || low > bytes {
        let detail = format!("length {len}, inode has {mapped} blocks");
        faults.push(fault(CorruptKind::JournalMaxLen).detail(detail));
        return None;
    }
    if j.users().len() > 1 {
        faults.push(fault(CorruptKind::JournalUsers).detail(j.users().len()));
    }
    if j.raw.errno.get() != 0 {
        let detail = j.raw.errno.get();
        let fault = Fault::new(FaultKind::JournalErrno);
        faults.push(fault.ino(ino).pblk(first).detail(detail));
    }
    if !j.is_empty() && !sb.incompat.contains(Incompat::RECOVER) {
        let detail = "not empty, but the file system needs no recovery";
        faults.push(fault(CorruptKind::JournalStart).note().detail(detail));
    }
    if j.incompat
        .contains(uext4_ondisk::JournalIncompat::FAST_COMMIT)
        && !sb.compat.contains(Compat::FAST_COMMIT)
    {
        faults.push(fault(CorruptKind::JournalFeature).detail("fast_commit"));
    }
    Some(Log { runs, sb: j })
}

struct Cursor<'a, 'd> {
    view: &'a View<'d>,
    log: &'a Log,
    at: u32,
    left: u32,
}

impl Cursor<'_, '_> {
    /// Steps over a block and returns its place in the log; `None` when all of the log was seen.
    fn skip(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        self.at = match at.checked_add(1) {
            Some(next) if next < self.log.sb.log_end() => next,
            _ => self.log.sb.raw.first.get(),
        };
        Some(at)
    }

    fn read(&mut self, block: &mut [u8]) -> Result<Option<u32>> {
        let Some(at) = self.skip() else {
            return Ok(None);
        };
        let Some(pblk) = filemap::find(&self.log.runs, Lblk(at)) else {
            return Ok(None);
        };
        self.view.read(pblk, block)?;
        Ok(Some(at))
    }
}

/// What replay of the log would change, and the transaction that would be the next; `None` if the log is empty.
///
/// # Errors
/// The device's; [`CheckError::Unsupported`] if there are fast commits.
pub(crate) fn overlay(
    view: &View<'_>,
    log: &Log,
    geo: &Geometry,
    faults: &mut Faults,
) -> Result<(BTreeMap<u64, Redirect>, Option<Tid>)> {
    let mut out = BTreeMap::new();
    if log.sb.is_empty() {
        return Ok((out, None));
    }
    let format = log.sb.format();
    let mut cursor = Cursor {
        view,
        log,
        at: log.sb.raw.start.get(),
        left: log.sb.log_end().saturating_sub(log.sb.raw.first.get()),
    };
    let mut scan = Scan::default();
    let mut tid = Tid(log.sb.raw.sequence.get());
    while let Some(found) = scan_transaction(&mut cursor, &format, tid)? {
        scan.copies.extend(found.copies);
        scan.revoked.extend(found.revoked);
        tid = tid.next();
    }
    refuse_fast_commits(view, log, tid)?;
    let mut block = vec![0; geo.block_size as usize];
    for copy in &scan.copies {
        let target = copy.tag.pblk;
        let revoked = scan.revoked.get(&target.0);
        if revoked.is_some_and(|r| r.after_eq(copy.tid)) {
            continue;
        }
        let Some(at) = filemap::find(&log.runs, Lblk(copy.at)) else {
            continue;
        };
        if target.0 >= geo.blocks_count {
            let fault = Fault::new(FaultKind::JournalReplay).pblk(at);
            faults.push(fault.detail(format_args!("copy of block {target}")));
            continue;
        }
        view.read(at, &mut block)?;
        if let Err(e) = copy.tag.verify_data(&format, copy.tid, &block) {
            faults.push(Fault::from(e).detail(format_args!("copy in block {at}")));
            continue;
        }
        let escaped = copy.tag.flags.contains(TagFlags::ESCAPE);
        out.insert(target.0, Redirect { at, escaped });
    }
    Ok((out, Some(tid)))
}

/// Reads one transaction; `None` if it is not complete, which is where the log ends.
fn scan_transaction(
    cursor: &mut Cursor<'_, '_>,
    format: &JournalFormat,
    tid: Tid,
) -> Result<Option<Scan>> {
    let mut block = vec![0; format.block_size as usize];
    let mut found = Scan::default();
    let mut v1 = u32::MAX;
    loop {
        if cursor.read(&mut block)?.is_none() {
            return Ok(None);
        }
        let Ok(header) = JournalHeader::read(&block) else {
            return Ok(None);
        };
        if header.tid != tid {
            return Ok(None);
        }
        match header.block_type {
            JournalBlockType::Descriptor => {
                let Ok(tags) = DescriptorReader::new(&block, format) else {
                    return Ok(None);
                };
                let Ok(tags) = tags.collect::<uext4_ondisk::Result<Vec<BlockTag>>>() else {
                    return Ok(None);
                };
                v1 = crc32_be(v1, &block);
                for tag in tags {
                    let at = if format.csum == JournalCsum::V1 {
                        let at = cursor.read(&mut block)?;
                        v1 = crc32_be(v1, &block);
                        at
                    } else {
                        cursor.skip()
                    };
                    let Some(at) = at else {
                        return Ok(None);
                    };
                    found.copies.push(LogCopy { at, tag, tid });
                }
            }
            JournalBlockType::Revoke => {
                let Ok(revoked) = RevokeReader::new(&block, format) else {
                    return Ok(None);
                };
                found.revoked.extend(revoked.map(|b| (b.0, tid)));
            }
            JournalBlockType::Commit => {
                let commit = CommitBlock::decode(&block, format).ok();
                let fits = commit.is_some_and(|c| c.v1_checksum.is_none_or(|sum| sum == v1));
                return Ok(fits.then_some(found));
            }
            _ => return Ok(None),
        }
    }
}

/// Fast commits change more than blocks, so no overlay can show them.
fn refuse_fast_commits(view: &View<'_>, log: &Log, next: Tid) -> Result<()> {
    if log.sb.fast_commit_blocks() == 0 {
        return Ok(());
    }
    let Some(at) = filemap::find(&log.runs, Lblk(log.sb.log_end())) else {
        return Ok(());
    };
    let mut block = vec![0; log.sb.raw.blocksize.get() as usize];
    view.read(at, &mut block)?;
    let head = le16(&block, 0) == Some(FAST_COMMIT_HEAD);
    if head && le32(&block, 8) == Some(next.0) {
        let what = "fast commits in its journal; mount it once, or replay it";
        return Err(CheckError::Unsupported(what.into()));
    }
    Ok(())
}
