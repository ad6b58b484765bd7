//! New numbers of inodes that lie in groups which go, and what names them.

use crate::change::{ChangeError, Result};
use crate::prelude::*;
use crate::repair::editor::Editor;
use std::collections::HashMap;
use uext4_ondisk::{
    GroupFlags, Inode, RawSuperblock, XATTR_NAME_DATA, XattrIndex, XattrList, XattrOwnedValue,
    rec_len_decode,
};

/// Bytes of a record before its name.
const RECORD_HEADER: usize = 8;
/// Bytes of an inline directory before its records: its parent.
const PARENT_BYTES: usize = 4;

/// New numbers by the old ones.
#[derive(Default)]
pub(super) struct Numbers(HashMap<Ino, Ino>);

impl Numbers {
    /// Gives every inode past `last` another number.
    ///
    /// # Errors
    /// There are not enough of them; the device's.
    pub(super) fn assign(ed: &mut Editor<'_, '_>, last: Ino) -> Result<Numbers> {
        let cx = ed.cx;
        let used = cx.inodes.known().filter(|ino| cx.inodes.state(*ino).used());
        let moved: Vec<Ino> = used.filter(|ino| *ino > last).collect();
        if moved.is_empty() {
            return Ok(Numbers::default());
        }
        if cx.sb.compat.contains(Compat::STABLE_INODES) {
            return Err(ChangeError::refused(
                "inodes would get other numbers, which stable_inodes forbids",
            ));
        }
        let mut numbers = HashMap::new();
        let mut free = (cx.geo.first_ino.0..=last.0).map(Ino);
        let mut ends: BTreeMap<GroupNo, u32> = BTreeMap::new();
        for ino in moved {
            let new = free.find(|ino| !cx.inodes.state(*ino).used());
            let new = new.ok_or(ChangeError::TooSmall {
                least: cx.geo.blocks_count,
            })?;
            if let Ok((group, index)) = cx.geo.group_of_ino(new) {
                ends.insert(group, index + 1);
            }
            numbers.insert(ino, new);
        }
        for (group, end) in ends {
            use_table(ed, group, end)?;
        }
        Ok(Numbers(numbers))
    }

    /// The number that an inode has afterwards.
    pub(super) fn of(&self, ino: Ino) -> Ino {
        self.0.get(&ino).copied().unwrap_or(ino)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the numbers in the records of a block; true if there was one to replace.
    pub(super) fn in_records(&self, bytes: &mut [u8]) -> bool {
        let (mut at, mut changed) = (0, false);
        while !self.is_empty() && at + RECORD_HEADER <= bytes.len() {
            let ino = Ino(le32(bytes, at).unwrap_or(0));
            let new = self.of(ino);
            if new != ino {
                put32(bytes, at, new.0);
                changed = true;
            }
            let len = rec_len_decode(le16(bytes, at + 4).unwrap_or(0), bytes.len());
            at += len.max(RECORD_HEADER);
        }
        changed
    }

    /// Replaces the numbers in a directory that is in its inode.
    pub(super) fn in_inline(&self, raw: &mut [u8], inode: &mut Inode) {
        let parent = Ino(le32(&inode.i_block, 0).unwrap_or(0));
        put32(&mut inode.i_block, 0, self.of(parent).0);
        self.in_records(inode.i_block.get_mut(PARENT_BYTES..).unwrap_or(&mut []));
        let Ok(Some(area)) = XattrArea::in_inode(raw) else {
            return;
        };
        let mut list = XattrList::from_area(&area);
        let data = list.get(XattrIndex::SYSTEM, XATTR_NAME_DATA);
        let Some(XattrOwnedValue::Inline(value)) = data.map(|found| found.value.clone()) else {
            return;
        };
        let mut value = value;
        if self.in_records(&mut value) {
            let value = XattrOwnedValue::Inline(value);
            list.set(XattrIndex::SYSTEM, XATTR_NAME_DATA, value);
            // It has the length that it had.
            let _ = list.encode_in_inode(raw);
        }
    }

    /// Replaces the numbers of inodes that hold values; true if there was one.
    pub(super) fn in_values(&self, list: &mut XattrList) -> bool {
        let named: Vec<_> = list
            .iter()
            .filter_map(|x| match &x.value {
                XattrOwnedValue::Inode { ino, .. } if self.of(*ino) != *ino => {
                    Some((x.index, x.name.clone(), x.value.clone()))
                }
                _ => None,
            })
            .collect();
        for (index, name, value) in &named {
            let mut value = value.clone();
            if let XattrOwnedValue::Inode { ino, .. } = &mut value {
                *ino = self.of(*ino);
            }
            list.set(*index, name, value);
        }
        !named.is_empty()
    }

    /// Replaces the numbers in the superblock.
    pub(super) fn in_superblock(&self, raw: &mut RawSuperblock) {
        let fields = [
            &mut raw.orphan_file_inum,
            &mut raw.usr_quota_inum,
            &mut raw.grp_quota_inum,
            &mut raw.prj_quota_inum,
            &mut raw.lpf_ino,
        ];
        for field in fields {
            *field = self.of(Ino(field.get())).0.into();
        }
    }
}

/// Makes the first `end` inodes of a group ones that may be in use.
fn use_table(ed: &mut Editor<'_, '_>, group: GroupNo, end: u32) -> Result<()> {
    let cx = ed.cx;
    let before = cx.inodes_in_use_max(group);
    let Some(mut desc) = cx.desc(group).copied().filter(|_| end > before) else {
        return Ok(());
    };
    // All of them are written, as they are taken in order.
    desc.flags &= !GroupFlags::INODE_UNINIT;
    desc.itable_unused = cx.geo.inodes_per_group - end;
    Ok(ed.put_desc(group, &desc)?)
}
