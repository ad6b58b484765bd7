//! Data in the inode (`inline_data`): of small files and directories.
//!
//! Source: Linux documentation, filesystems/ext4, "Inline Data".
//!
//! # Data model
//! The first 60 bytes are `i_block`, the rest is the value of the attribute `system.data`, which is in the
//! inode's body, even if it is empty. A directory's first four bytes are its parent's number; its records
//! never cross from one part to the other, and `.` and `..` have none.
//!
//! A new file or directory starts so, and stays so until something does not fit or needs blocks. It never
//! becomes inline again.
//!
//! # Invariants
//! - An inode with the flag was checked when it was loaded: the attribute is there, and long enough.
//! - A file's bytes past its size are zero in what is written here, and never read.
//!
//! # Locking
//! The inode's `ilock`: shared to read, alone to change. What is changed is a part of the inode's block, so
//! a handle with one credit for it makes a change that survives as a whole or not at all.
//!
//! | module | holds |
//! | --- | --- |
//! | `file` | reading, writing and truncating |
//! | `dir` | entries |
//! | `convert` | from the inode to blocks |

mod convert;
mod dir;
mod file;

use crate::block_allocator::BlockAllocator;
use crate::inode::Inode;
use crate::inode_table::InodeTable;
use crate::mapping::Mapping;
use crate::prelude::*;
use crate::volume::Volume;
use uext4_ondisk::{XATTR_NAME_DATA, XattrNoSpace, XattrValue, dir_validate, extra_isize};

/// Bytes of data in `i_block`.
const IN_BLOCK: usize = 60;
/// Bytes of a directory's data before its first record.
const PARENT: usize = 4;

/// Whether an attribute is the one that holds data, which no user sees.
pub(crate) fn is_data(index: XattrIndex, name: &[u8]) -> bool {
    index == XattrIndex::SYSTEM && name == XATTR_NAME_DATA
}

/// The part of the data that is an attribute.
fn rest(raw: &[u8]) -> uext4_ondisk::Result<&[u8]> {
    let missing = || Corrupt::new(CorruptKind::InlineMissing);
    let area = XattrArea::in_inode(raw)?.ok_or_else(missing)?;
    match area.find(XattrIndex::SYSTEM, XATTR_NAME_DATA) {
        Some(found) => match found.value {
            XattrValue::Inline(value) => Ok(value),
            XattrValue::Inode { .. } => Err(missing()),
        },
        None => Err(missing()),
    }
}

/// How many bytes of data fit beside the other attributes.
fn capacity(raw: &[u8], extra_isize: u16) -> uext4_ondisk::Result<usize> {
    let mut list = XattrArea::in_inode(raw)?
        .map(|area| XattrList::from_area(&area))
        .unwrap_or_default();
    list.set(
        XattrIndex::SYSTEM,
        XATTR_NAME_DATA,
        XattrOwnedValue::Inline(Vec::new()),
    );
    let room = XattrList::inode_room(raw.len().min(32768) as u16, extra_isize);
    Ok(IN_BLOCK + (room.saturating_sub(list.encoded_size()) & !3))
}

/// Puts the part of the data that is an attribute into an inode's bytes.
fn put_rest(raw: &mut [u8], value: &[u8]) -> Result<()> {
    change_list(raw, |list| {
        list.set(
            XattrIndex::SYSTEM,
            XATTR_NAME_DATA,
            XattrOwnedValue::Inline(value.to_vec()),
        );
    })
}

/// Changes the attributes in an inode's bytes.
fn change_list(raw: &mut [u8], change: impl FnOnce(&mut XattrList)) -> Result<()> {
    let mut list = XattrArea::in_inode(raw)?
        .map(|area| XattrList::from_area(&area))
        .unwrap_or_default();
    change(&mut list);
    list.encode_in_inode(raw)
        .map_err(|XattrNoSpace| Ext4Error::NoSpace)
}

/// Takes the attributes in an inode's bytes from others of the same inode, which were checked.
pub(crate) fn copy_body(raw: &mut [u8], from: &[u8]) {
    let start = GOOD_OLD_INODE_SIZE + usize::from(extra_isize(from).unwrap_or(0));
    if let (Some(to), Some(from)) = (raw.get_mut(start..), from.get(start..))
        && to.len() == from.len()
    {
        to.copy_from_slice(from);
    }
}

/// Takes the data out of an inode's attributes.
pub(crate) fn clear_body(raw: &mut [u8]) -> Result<()> {
    change_list(raw, |list| {
        list.remove(XattrIndex::SYSTEM, XATTR_NAME_DATA);
    })
}

/// Checks an inode with the flag.
///
/// # Errors
/// The `Inline*` kind of the first check that fails, or what is wrong with its attributes or records.
pub(crate) fn check(
    raw: &[u8],
    disk: &uext4_ondisk::Inode,
    volume: &Volume,
) -> uext4_ondisk::Result<()> {
    let bad = |kind, detail: &str| Err(Corrupt::new(kind).detail(detail));
    if !volume.sb.incompat.contains(Incompat::INLINE_DATA) {
        return bad(
            CorruptKind::InlineMapped,
            "the file system has no such feature",
        );
    }
    if disk
        .flags
        .intersects(InodeFlags::EXTENTS | InodeFlags::INDEX)
    {
        return bad(CorruptKind::InlineMapped, "it has extents or an index");
    }
    let rest = rest(raw)?;
    let have = (IN_BLOCK + rest.len()) as u64;
    let is_dir = disk.file_type() == FileType::Directory;
    if disk.size > have || (is_dir && disk.size != have) {
        return Err(Corrupt::new(CorruptKind::InlineSize)
            .detail(format_args!("{} bytes, {have} in the inode", disk.size)));
    }
    if is_dir {
        let first = &disk.i_block[PARENT..];
        for records in [first, rest] {
            dir_validate(records, false, volume.geometry().inodes_count)?;
        }
    }
    Ok(())
}

/// An entry, copied.
#[derive(Debug)]
pub(crate) struct Entry {
    pub ino: Ino,
    pub file_type: FileType,
    pub name: Vec<u8>,
}

/// Data in the inode itself; see the module.
pub struct InlineData {
    pub(crate) volume: Arc<Volume>,
    pub(crate) blocks: Arc<BlockAllocator>,
    pub(crate) table: Arc<InodeTable>,
    pub(crate) mapping: Arc<Mapping>,
}

impl InlineData {
    /// Whether a new inode keeps its data in itself.
    fn starts_inline(&self, disk: &uext4_ondisk::Inode) -> bool {
        let has_data = matches!(disk.file_type(), FileType::Regular | FileType::Directory);
        let in_blocks = InodeFlags::EA_INODE | InodeFlags::JOURNAL_DATA | InodeFlags::DAX;
        let is_other = disk.flags.intersects(in_blocks);
        // An empty attribute must fit.
        let room = XattrList::inode_room(self.volume.params.inode_size, disk.extra_isize);
        has_data && !is_other && disk.extra_isize > 0 && room >= 24
    }

    /// Encodes a new inode into its bytes, which are zero.
    #[inline]
    pub(crate) fn encode_new_inode(&self, disk: &mut uext4_ondisk::Inode, raw: &mut [u8]) {
        let inline = self.volume.sb.incompat.contains(Incompat::INLINE_DATA);
        if inline && self.starts_inline(disk) {
            disk.flags -= InodeFlags::EXTENTS;
            disk.flags |= InodeFlags::INLINE_DATA;
            disk.i_block = [0; IN_BLOCK];
            disk.encode_into(raw, &self.volume.params);
            if put_rest(raw, &[]).is_ok() {
                return;
            }
            disk.flags -= InodeFlags::INLINE_DATA;
            self.mapping.init_mapping(disk);
        }
        disk.encode_into(raw, &self.volume.params);
    }

    /// All data that the inode holds, the bytes past its size too.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock`, shared at least. Takes the inode's block.
    fn inline_load(&self, inode: &Inode) -> Result<Vec<u8>> {
        let rest = inode
            .with_raw(|raw| rest(raw).map(<[u8]>::to_vec))
            .map_err(|e| e.ino(inode.ino))?;
        let mut all = inode.state().i_block.to_vec();
        all.extend_from_slice(&rest);
        Ok(all)
    }

    /// How many bytes the inode can hold.
    fn inline_capacity(&self, inode: &Inode) -> Result<usize> {
        let extra = inode.state().extra_isize;
        Ok(inode
            .with_raw(|raw| capacity(raw, extra))
            .map_err(|e| e.ino(inode.ino))?)
    }

    /// Makes `data` all that the inode holds, and changes the rest of it with `change`.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone. Takes its `xattr` lock and its block.
    ///
    /// # Journal
    /// One credit.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`], damage, the journal's; nothing changed then.
    fn inline_store(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        data: &[u8],
        change: impl FnOnce(&mut uext4_ondisk::Inode),
    ) -> Result<()> {
        let (block, rest) = data.split_at_checked(IN_BLOCK).unwrap_or((data, &[]));
        let mut i_block = [0; IN_BLOCK];
        for (to, from) in i_block.iter_mut().zip(block) {
            *to = *from;
        }
        inode.touch_data(handle);
        self.change_body(
            handle,
            inode,
            |raw| put_rest(raw, rest),
            |disk| {
                disk.i_block = i_block;
                change(disk);
            },
        )
    }

    /// Changes the attributes in the inode's body, and then the decoded inode, as one.
    ///
    /// # Locks
    /// Takes the inode's `xattr` lock and its block.
    ///
    /// # Journal
    /// One credit.
    ///
    /// # Errors
    /// What `body` gives, or the journal's; nothing changed then.
    pub(crate) fn change_body(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        body: impl FnOnce(&mut [u8]) -> Result<()>,
        change: impl FnOnce(&mut uext4_ondisk::Inode),
    ) -> Result<()> {
        let _xattr = inode.xattr.lock();
        let mut content = handle.modify(&inode.itable)?;
        body(inode.raw_in(&mut content))?;
        self.table.update_inode_in(inode, handle, content, change);
        Ok(())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn raw(size: usize) -> Vec<u8> {
        let mut raw = vec![0; size];
        raw[0x80] = 32;
        raw
    }

    #[test]
    fn all_of_the_room_is_used() {
        for (size, want) in [(256, 128), (512, 384), (1024, 896)] {
            let mut raw = raw(size);
            assert_eq!(capacity(&raw, 32).unwrap(), want);
            put_rest(&mut raw, &vec![7; want - IN_BLOCK]).unwrap();
            assert_eq!(rest(&raw).unwrap(), vec![7; want - IN_BLOCK]);
            assert_eq!(
                capacity(&raw, 32).unwrap(),
                want,
                "what it holds is its own"
            );
            let more = put_rest(&mut raw, &vec![8; want - IN_BLOCK + 1]);
            assert!(matches!(more, Err(Ext4Error::NoSpace)));
            assert_eq!(rest(&raw).unwrap(), vec![7; want - IN_BLOCK]);
        }
    }

    #[test]
    fn other_attributes_take_room_and_stay() {
        let mut raw = raw(256);
        change_list(&mut raw, |list| {
            let value = XattrOwnedValue::Inline(vec![1; 20]);
            list.set(XattrIndex::USER, b"a", value);
        })
        .unwrap();
        assert_eq!(capacity(&raw, 32).unwrap(), 128 - 20 - 20);
        put_rest(&mut raw, &[2; 28]).unwrap();
        let area = XattrArea::in_inode(&raw).unwrap().unwrap();
        let kept = area.find(XattrIndex::USER, b"a").unwrap();
        assert_eq!(kept.value, XattrValue::Inline(&[1; 20]));
    }

    #[test]
    fn without_the_attribute_it_is_damage() {
        assert_eq!(
            rest(&raw(256)).unwrap_err().kind,
            CorruptKind::InlineMissing
        );
    }
}
