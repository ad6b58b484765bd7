//! What an inode holds: blocks, small contents, and the records of a directory.

use crate::commands::dump::{RunDump, View, mapping_of};
use anyhow::{Result, bail};
use uext4::unstable::ondisk::{
    FileType, Ino, Inode, InodeFlags, Lblk, Pblk, XattrArea, XattrIndex, XattrValue, dir_data_end,
    dir_entries, dirent_size, dx_kind_of,
};

/// What e2fsprogs say of a file in place of a directory.
pub const NO_DIRECTORY: &str = "Ext2 inode is not a directory";
/// Bytes in front of a name in a record.
const HEADER: usize = 8;

/// A record of a directory.
pub struct Entry {
    /// 0 if the record is not in use.
    pub ino: u32,
    pub len: usize,
    pub kind: u8,
    /// The name.
    pub name: Vec<u8>,
    pub is_deleted: bool,
    /// Of the record behind the others, which has the checksum of the block.
    pub checksum: Option<u32>,
}

/// The records of a directory; with `deleted` those too that were removed, and that hold a checksum.
///
/// # Errors
/// It is another kind of file, or can't be read.
pub fn entries(view: &View, ino: Ino, deleted: bool) -> Result<Vec<Entry>> {
    let inode = view.inode(ino)?.inode;
    if inode.file_type() != FileType::Directory {
        bail!("{NO_DIRECTORY}");
    }
    let mut all = Vec::new();
    if inode.flags.contains(InodeFlags::INLINE_DATA) {
        let bytes = inline(view, ino, &inode)?;
        let parent = bytes
            .first_chunk()
            .map_or(0, |word| u32::from_le_bytes(*word));
        for (ino, name) in [(ino.0, &b"."[..]), (parent, b"..")] {
            all.push(Entry {
                ino,
                len: dirent_size(name.len()),
                kind: 0,
                name: name.to_vec(),
                is_deleted: false,
                checksum: None,
            });
        }
        let (first, rest) = bytes.split_at(bytes.len().min(60));
        for part in [first.get(4..).unwrap_or(&[]), rest] {
            read_block(part, part.len(), false, true, &mut all);
        }
        return Ok(all);
    }
    let has_csum = view.sb.has_metadata_csum();
    let is_hashed = inode.flags.contains(InodeFlags::INDEX);
    let blocks = runs(view, ino, &inode);
    for run in blocks {
        for at in run.pblk..run.pblk.saturating_add(run.len) {
            let bytes = view.block(Pblk(at))?;
            // A node of a hash tree has records up to the end of its block.
            let lblk = Lblk((run.lblk + (at - run.pblk)) as u32);
            let is_node = is_hashed && dx_kind_of(&bytes, lblk).is_some();
            let has_tail = has_csum && !is_node;
            let end = dir_data_end(bytes.len(), has_tail);
            read_block(&bytes, end, deleted, false, &mut all);
            let tail = bytes
                .last_chunk()
                .filter(|_| has_tail)
                .map(|word| u32::from_le_bytes(*word));
            if let Some(sum) = tail {
                all.push(Entry {
                    ino: 0,
                    len: 12,
                    kind: 0xde,
                    name: Vec::new(),
                    is_deleted: false,
                    checksum: Some(sum),
                });
            }
        }
    }
    Ok(all)
}

fn read_block(bytes: &[u8], end: usize, deleted: bool, unused: bool, all: &mut Vec<Entry>) {
    // What is damaged ends the block.
    for record in dir_entries(bytes, end).map_while(Result::ok) {
        let kind = bytes.get(record.offset + 7).copied().unwrap_or(0);
        if record.ino.0 != 0 || deleted || unused {
            all.push(Entry {
                ino: record.ino.0,
                len: record.rec_len,
                kind,
                name: record.name.to_vec(),
                is_deleted: record.ino.0 == 0 && deleted,
                checksum: None,
            });
        }
        if deleted {
            let from = record.offset + dirent_size(record.name.len());
            removed(bytes, from, record.offset + record.rec_len, all);
        }
    }
}

/// Records that were removed, in the room behind one that was not.
fn removed(bytes: &[u8], mut at: usize, end: usize, all: &mut Vec<Entry>) {
    while let Some(head) = bytes
        .get(at..end)
        .and_then(|rest| rest.first_chunk::<HEADER>())
    {
        let [i0, i1, i2, i3, r0, r1, name_len, kind] = *head;
        let (len, name_len) = (
            usize::from(u16::from_le_bytes([r0, r1])),
            usize::from(name_len),
        );
        let name = bytes.get(at + HEADER..at + HEADER + name_len);
        let fits = len >= dirent_size(name_len) && len.is_multiple_of(4) && at + len <= end;
        let Some(name) = name.filter(|_| fits) else {
            return;
        };
        let ino = u32::from_le_bytes([i0, i1, i2, i3]);
        all.push(Entry {
            ino,
            len,
            kind,
            name: name.to_vec(),
            is_deleted: true,
            checksum: None,
        });
        at += if ino == 0 { len } else { dirent_size(name_len) };
    }
}

/// Bytes as they are shown.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The runs of an inode's blocks.
pub fn runs(view: &View, ino: Ino, inode: &Inode) -> Vec<RunDump> {
    mapping_of(view, ino, inode).map_or_else(Vec::new, |map| map.all_runs())
}

/// The content of a small file: a link, or data in the inode.
///
/// # Errors
/// A block can't be read.
pub fn data(view: &View, ino: Ino, inode: &Inode) -> Result<Vec<u8>> {
    if let Some(target) = inode.fast_symlink_target() {
        return Ok(target.to_vec());
    }
    if inode.flags.contains(InodeFlags::INLINE_DATA) {
        return inline(view, ino, inode);
    }
    let mut bytes = Vec::new();
    if let Some(run) = runs(view, ino, inode).iter().find(|run| run.lblk == 0) {
        bytes = view.block(Pblk(run.pblk))?;
    }
    Ok(bytes)
}

/// The data in an inode, and in its attribute.
///
/// # Errors
/// The inode can't be read.
pub fn inline(view: &View, ino: Ino, inode: &Inode) -> Result<Vec<u8>> {
    let raw = view.raw_inode(ino)?;
    let mut bytes = inode.i_block.to_vec();
    if let Ok(Some(area)) = XattrArea::in_inode(&raw.bytes)
        && let Some(entry) = area.find(XattrIndex::SYSTEM, b"data")
        && let XattrValue::Inline(rest) = entry.value
    {
        bytes.extend_from_slice(rest);
    }
    Ok(bytes)
}
