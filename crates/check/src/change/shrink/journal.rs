//! Moves of the journal, which can't be a part of a transaction in it.

use crate::change::{Change, ChangeError, Result, files, put_superblocks};
use crate::context::Context;
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::map::{self, Map};
use uext4_ondisk::Extent;

/// Moves the journal in front of a new end of so many blocks, or as far in front as there is room; `None` if it is there, or there is no
/// room in front of where it ends.
///
/// # Errors
/// The device's.
pub(super) fn change(cx: &Context<'_>, blocks: u64) -> Result<Option<Change>> {
    let Some(ino) = cx.sb.journal_ino() else {
        return Ok(None);
    };
    let mut ed = Editor::new(cx);
    let Some(inode) = ed.decoded(ino)? else {
        return Err(ChangeError::Faulty);
    };
    let found = map::read(&ed, &inode)?;
    let old_end = end(&found);
    if old_end <= blocks {
        return Ok(None);
    }
    let first = found.find(Lblk(0)).ok_or(ChangeError::Faulty)?;
    let super_block = ed.block(first)?;
    let count = u32::try_from(found.end()).unwrap_or(u32::MAX);
    let inode = match files::add(&mut ed, ino, count) {
        Ok(inode) if end(&map::read(&ed, &inode)?) < old_end => inode,
        Ok(_) | Err(ChangeError::Refused(_)) => {
            ed.give_back();
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    files::fill_journal(&mut ed, &inode, &super_block)?;
    let mut raw = cx.sb.raw.clone();
    files::back_up_journal(&mut raw, &inode);
    put_superblocks(&mut ed, &raw, &cx.geo)?;
    Ok(Some(Change {
        patch: ed.into_patch(),
        ..Change::default()
    }))
}

/// The block behind the last one of a map.
fn end(map: &Map) -> u64 {
    let runs = map.runs.iter();
    let runs = runs.map(|e: &Extent| e.pblk.0.saturating_add(e.len.into()));
    let nodes = map.nodes.iter().map(|at| at.0.saturating_add(1));
    runs.chain(nodes).max().unwrap_or(0)
}
