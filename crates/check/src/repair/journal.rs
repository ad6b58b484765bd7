//! The journal: replay, and a superblock of its own that can't be used.

use super::editor::Editor;
use super::superblock::clear_journal;
use super::{map, orphans};
use crate::filemap;
use crate::prelude::*;
use uext4_ondisk::{
    JOURNAL_BLOCKS_MIN, JOURNAL_SUPER_SIZE, JournalHeader, JournalSuper, RawJournalSuper, Tid,
};

/// Bytes of fields of the journal's superblock, which are big-endian.
const SEQUENCE_AT: usize = 0x18;
const START_AT: usize = 0x1c;
const ERRNO_AT: usize = 0x20;

fn put_be32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(to) = bytes.get_mut(at..).and_then(|b| b.first_chunk_mut()) {
        *to = value.to_be_bytes();
    }
}

/// Writes what recovery would write, and marks the journal as empty.
///
/// # Errors
/// The device's.
pub(crate) fn replay(ed: &mut Editor<'_, '_>) -> Result<()> {
    let cx = ed.cx;
    let blocks: Vec<Pblk> = cx.view.redirects().collect();
    for at in blocks {
        let block = ed.block(at)?;
        ed.put_block(at, &block);
    }
    if let Some(log) = &cx.log {
        // One past the next: what an older, longer run left behind the end never looks like it.
        let tid = cx.next_tid.unwrap_or(Tid(log.sb.raw.sequence.get())).next();
        change_journal_super(ed, |bytes| {
            put_be32(bytes, SEQUENCE_AT, tid.0);
            put_be32(bytes, START_AT, 0);
        })?;
    }
    ed.change_super(|raw| {
        let incompat = raw.incompat() & !Incompat::RECOVER;
        raw.feature_incompat = incompat.bits().into();
    })
}

/// Changes the journal's superblock, with its checksum.
fn change_journal_super(ed: &mut Editor<'_, '_>, change: impl FnOnce(&mut [u8])) -> Result<()> {
    let first = ed
        .cx
        .log
        .as_ref()
        .and_then(|l| filemap::find(&l.runs, Lblk(0)));
    let Some(first) = first else {
        return Ok(());
    };
    let mut block = ed.block(first)?;
    change(&mut block);
    seal(&mut block);
    ed.put_block(first, &block);
    Ok(())
}

/// Makes the checksum of a journal superblock right.
fn seal(block: &mut [u8]) {
    if let Some(raw) = RawJournalSuper::mut_from(block) {
        raw.update_checksum();
    }
}

/// Repairs what does not depend on which blocks are the journal's: its inode, an error that it records.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<()> {
    if faults.iter().any(|f| f.kind == FaultKind::JournalInode) {
        return match revive(ed)? {
            true => Ok(()),
            false => remove(ed),
        };
    }
    if faults.iter().any(|f| f.kind == FaultKind::JournalErrno) {
        change_journal_super(ed, |bytes| put_be32(bytes, ERRNO_AT, 0))?;
    }
    let pending = |f: &Fault| f.kind == FaultKind::JournalPending;
    if faults.iter().any(pending) && ed.cx.log.is_none() {
        ed.change_super(|raw| {
            let incompat = raw.incompat() & !Incompat::RECOVER;
            raw.feature_incompat = incompat.bits().into();
        })?;
    }
    Ok(())
}

/// Repairs the journal's superblock, once no other file claims its blocks.
///
/// # Errors
/// The device's.
pub(crate) fn mend_late(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<()> {
    let of_journal = |f: &&Fault| matches!(f.kind, FaultKind::Structure(kind) if format!("{kind:?}").starts_with("Journal"));
    match faults.iter().find(of_journal).map(|f| (f.ino, f.pblk)) {
        Some((Some(ino), Some(first))) => write_empty(ed, ino, first),
        _ => Ok(()),
    }
}

/// Removes a journal that can't be used and whose blocks other files claim.
///
/// # Errors
/// The device's.
pub(crate) fn drop_shared(ed: &mut Editor<'_, '_>) -> Result<()> {
    let Some(ino) = ed.cx.sb.journal_ino().filter(|_| ed.cx.log.is_none()) else {
        return Ok(());
    };
    let Some(inode) = ed.decoded(ino)? else {
        return Ok(());
    };
    let found = map::read(ed, &inode)?;
    let mut blocks = found
        .blocks()
        .map(|b| b.1)
        .chain(found.nodes.iter().copied());
    match blocks.any(|at| ed.is_shared(at)) {
        true => remove(ed),
        false => Ok(()),
    }
}

/// Makes the inode of the journal a file in use again, if its first block is that of a journal.
fn revive(ed: &mut Editor<'_, '_>) -> Result<bool> {
    let Some(ino) = ed.cx.sb.journal_ino() else {
        return Ok(false);
    };
    let Some(mut inode) = ed.decoded(ino)? else {
        return Ok(false);
    };
    let found = map::read(ed, &inode)?;
    let Some(first) = found.find(Lblk(0)) else {
        return Ok(false);
    };
    if JournalSuper::parse(&ed.block(first)?, ed.cx.geo.block_size).is_err() {
        return Ok(false);
    }
    inode.mode = FileType::Regular.to_mode() | inode.mode & 0o777;
    inode.links = 1;
    inode.dtime = 0;
    ed.put_decoded(ino, &inode)?;
    Ok(true)
}

/// Without the journal, its inode is cleared if it is one that is kept for it.
fn remove(ed: &mut Editor<'_, '_>) -> Result<()> {
    let ino = ed.cx.sb.journal_ino();
    ed.change_super(clear_journal)?;
    // An orphan file needs a journal.
    orphans::remove_file(ed)?;
    if ino == Some(Ino::JOURNAL)
        && let Some(raw) = ed.inode(Ino::JOURNAL)?
    {
        ed.put_inode(Ino::JOURNAL, &vec![0; raw.len()])?;
    }
    Ok(())
}

/// A journal superblock for what the inode maps, with a sequence number after all that the log holds.
fn write_empty(ed: &mut Editor<'_, '_>, ino: Ino, first: Pblk) -> Result<()> {
    let cx = ed.cx;
    let Some(inode) = ed.decoded(ino)? else {
        return Ok(());
    };
    let (runs, _) = filemap::load(&cx.view, &cx.geo, &inode)?;
    // Up to the first hole.
    let mut len = 0u32;
    for run in &runs {
        if run.lblk != len {
            break;
        }
        len = len.saturating_add(run.len);
    }
    let size = u32::try_from(inode.size >> cx.geo.block_bits).unwrap_or(u32::MAX);
    let len = if size >= JOURNAL_BLOCKS_MIN {
        len.min(size)
    } else {
        len
    };
    if len < JOURNAL_BLOCKS_MIN {
        return remove(ed);
    }
    let mut tid = Tid(1);
    for lblk in 0..len {
        let Some(at) = filemap::find(&runs, Lblk(lblk)) else {
            break;
        };
        if let Ok(header) = JournalHeader::read(&ed.block(at)?)
            && header.tid.after_eq(tid)
        {
            tid = header.tid.next();
        }
    }
    let raw = RawJournalSuper::new_empty(cx.geo.block_size, len);
    let mut block = vec![0; cx.block_size()];
    if let Some(to) = block.get_mut(..JOURNAL_SUPER_SIZE) {
        to.copy_from_slice(raw.bytes());
    }
    put_be32(&mut block, SEQUENCE_AT, tid.0);
    ed.put_block(first, &block);
    let mut inode = inode;
    inode.size = u64::from(len) << cx.geo.block_bits;
    ed.put_decoded(ino, &inode)?;
    ed.change_super(|raw| {
        let incompat = raw.incompat() & !Incompat::RECOVER;
        raw.feature_incompat = incompat.bits().into();
    })
}
