//! Link counts.

use super::chosen::inodes_of;
use super::editor::Editor;
use crate::passes::Scanned;
use crate::prelude::*;

/// Links above which a directory says 1.
const LINK_MAX: u32 = 65000;
/// Byte of the link count.
const LINKS_AT: usize = 0x1a;

/// Sets the count of each inode to the number of its names.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, scanned: &Scanned, faults: &[Fault]) -> Result<()> {
    for ino in inodes_of(faults, |k| k == FaultKind::LinkCount) {
        let state = ed.cx.inodes.state(ino);
        let links = match crate::links::wanted(ed.cx, ino, &scanned.values) {
            0 => continue,
            n if n <= LINK_MAX => n as u16,
            _ if state.file_type() == FileType::Directory => 1,
            _ => continue,
        };
        if let Some(mut raw) = ed.inode(ino)? {
            put16(&mut raw, LINKS_AT, links);
            ed.put_inode(ino, &raw)?;
        }
    }
    Ok(())
}
