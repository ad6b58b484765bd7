//! Data in an inode.

use super::editor::Editor;
use super::xattrs;
use crate::prelude::*;
use uext4_ondisk::{XATTR_NAME_DATA, XattrIndex, XattrOwnedValue};

/// True if the inode has the attribute that the data continues in.
///
/// # Errors
/// The device's.
pub(crate) fn is_there(ed: &Editor<'_, '_>, ino: Ino) -> Result<bool> {
    let raw = ed.inode(ino)?.unwrap_or_default();
    let list = xattrs::of_inode(ed.cx, &raw);
    Ok(list.get(XattrIndex::SYSTEM, XATTR_NAME_DATA).is_some())
}

/// Makes the attribute, if it is missing, and the size right.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, ino: Ino) -> Result<()> {
    let Some(mut raw) = ed.inode(ino)? else {
        return Ok(());
    };
    let mut list = xattrs::of_inode(ed.cx, &raw);
    let rest = match list.get(XattrIndex::SYSTEM, XATTR_NAME_DATA) {
        Some(found) => match &found.value {
            XattrOwnedValue::Inline(value) => value.len(),
            XattrOwnedValue::Inode { .. } => 0,
        },
        None => {
            let empty = XattrOwnedValue::Inline(Vec::new());
            list.set(XattrIndex::SYSTEM, XATTR_NAME_DATA, empty);
            0
        }
    };
    if list.encode_in_inode(&mut raw).is_err() {
        return Ok(());
    }
    let mut inode = ed.decode(&raw);
    let have = (inode.i_block.len() + rest) as u64;
    inode.size = match inode.file_type() {
        FileType::Directory => have,
        _ => inode.size.min(have),
    };
    ed.put_inode(ino, &raw)?;
    ed.put_decoded(ino, &inode)
}
