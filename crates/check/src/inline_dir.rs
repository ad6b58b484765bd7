//! Data in the inode: 60 bytes of the block area, the rest in the attribute `system.data`.

use crate::bytes::le32;
use crate::dirblock::DirWorker;
use crate::dirs::Dir;
use crate::error::Result;
use crate::fault::{Fault, FaultKind};
use crate::journal::read_inode;
use crate::scan::Scanner;
use uext4_ondisk::{
    FileType, Ino, Inode, Pblk, XATTR_NAME_DATA, XattrArea, XattrIndex, XattrValue,
};

/// Bytes before the entries of a directory: its parent's number.
const PARENT_BYTES: usize = 4;

/// The part of inline data that is an attribute; `None` if there is no such attribute.
fn rest(raw: &[u8]) -> Option<&[u8]> {
    let area = XattrArea::in_inode(raw).ok()??;
    match area.find(XattrIndex::SYSTEM, XATTR_NAME_DATA)?.value {
        XattrValue::Inline(value) => Some(value),
        XattrValue::Inode { .. } => None,
    }
}

impl Scanner<'_, '_> {
    /// Checks that the data is there and as long as the size says.
    pub(crate) fn check_inline(&mut self, ino: Ino, raw: &[u8], inode: &Inode) {
        let fault = |why: &str| Fault::new(FaultKind::InlineData).ino(ino).detail(why);
        let Some(rest) = rest(raw) else {
            self.faults.push(fault("no system.data attribute"));
            return;
        };
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
        self.names.clear();
        let first = inode.i_block.get(PARENT_BYTES..).unwrap_or(&[]);
        self.entries(dir, first, first.len(), at, None);
        if let Some(rest) = rest(&raw) {
            self.entries(dir, rest, rest.len(), at, None);
        }
        self.check_names(dir, at);
        Ok(())
    }
}
