//! Data in the inode: 60 bytes of the block area, the rest in the attribute `system.data`.

use crate::dirblock::DirWorker;
use crate::dirs::Dir;
use crate::journal::read_inode;
use crate::prelude::*;
use crate::scan::Scanner;
use uext4_ondisk::{Inode, XATTR_NAME_DATA, XattrIndex, XattrValue};

/// Bytes before the entries of a directory: its parent's number.
const PARENT_BYTES: usize = 4;

/// Bytes of the magic before the attributes, and of an entry before its name.
const AREA_MAGIC: usize = 4;
const ENTRY_HEADER: usize = 16;

/// The part of inline data that is an attribute; `None` if there is no such attribute.
fn rest(raw: &[u8]) -> Option<&[u8]> {
    let area = XattrArea::in_inode(raw).ok()??;
    // A name may end before its length, at a zero byte.
    let name = |n: &[u8]| n.split(|b| *b == 0).next() == Some(XATTR_NAME_DATA);
    let mut entries = area.entries();
    match entries
        .find(|e| e.index == XattrIndex::SYSTEM && name(e.name))?
        .value
    {
        XattrValue::Inline(value) => Some(value),
        XattrValue::Inode { .. } => None,
    }
}

/// Even empty values must lie within the attributes, or readers give up before `system.data`.
fn offsets_in_area(raw: &[u8], inode: &Inode) -> bool {
    let start = GOOD_OLD_INODE_SIZE + usize::from(inode.extra_isize) + AREA_MAGIC;
    let area = raw.get(start..).unwrap_or(&[]);
    let Ok(Some(parsed)) = XattrArea::in_inode(raw) else {
        return false;
    };
    parsed.entries().all(|entry| {
        let name_at = (entry.name.as_ptr() as usize).wrapping_sub(area.as_ptr() as usize);
        let value_at = le16(area, name_at.wrapping_sub(ENTRY_HEADER).wrapping_add(2));
        value_at.is_some_and(|at| usize::from(at) <= area.len())
    })
}

impl Scanner<'_, '_> {
    /// Checks that the data is there and has the length that the size states.
    pub(crate) fn check_inline(&mut self, ino: Ino, raw: &[u8], inode: &Inode) {
        let fault = |why: &str| Fault::new(FaultKind::InlineData).ino(ino).detail(why);
        let Some(rest) = rest(raw) else {
            self.faults.push(fault("no system.data attribute"));
            return;
        };
        if !offsets_in_area(raw, inode) {
            self.faults.push(fault("attribute value is out of range"));
        }
        let have = (inode.i_block.len() + rest.len()) as u64;
        let fits = match inode.file_type() {
            FileType::Directory => inode.size == have,
            FileType::Symlink => inode.size > 0 && inode.size <= have,
            _ => inode.size <= have,
        };
        if !fits {
            self.faults
                .push(fault(&format!("size {}, {have} bytes", inode.size)));
        }
    }
}

impl DirWorker<'_, '_> {
    /// Checks the entries of a directory that is all in its inode.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn inline_dir(&mut self, dir: &Dir) -> Result<()> {
        let cx = self.cx;
        let Some(raw) = read_inode(&cx.view, &cx.geo, &cx.descs, dir.ino)? else {
            return Ok(());
        };
        let Ok(inode) = Inode::decode(&raw, &cx.params) else {
            return Ok(());
        };
        let block = cx
            .geo
            .group_of_ino(dir.ino)
            .ok()
            .and_then(|(group, index)| {
                let (rel, _) = cx.geo.itable_position(index);
                Some(Pblk(
                    cx.desc(group)?.inode_table.0.saturating_add(u64::from(rel)),
                ))
            });
        let at = block.unwrap_or_default();
        let parent = Ino(le32(&inode.i_block, 0).unwrap_or(0));
        self.found_dot(dir);
        self.found_dot_dot(dir, parent, at);
        // Records never cross from one part to the other.
        let first = inode.i_block.get(PARENT_BYTES..).unwrap_or(&[]);
        let mut all = first.to_vec();
        all.extend_from_slice(rest(&raw).unwrap_or(&[]));
        self.names.clear(all.len(), dir.folds_names());
        self.entries(dir, &all, first.len(), at, None);
        self.entries_from(dir, &all, first.len(), all.len(), at, None);
        self.check_names(dir, &all, at);
        Ok(())
    }
}
