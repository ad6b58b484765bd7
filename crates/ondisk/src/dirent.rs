//! Directory blocks: records that span the block, each an inode, a name and slack.
//!
//! Source: Linux documentation, filesystems/ext4, "Directory Entries".
//!
//! # Invariants
//! A block's records follow each other without a gap up to `data_end`: the block's end, or its
//! checksum tail. Functions that take `data_end` take what [`dir_data_end`] gives.
//!
//! # Hints
//! [`dir_insert`] starts its search for room at a record the caller remembers, and returns where to start
//! next time. A hint must be the offset of a record; 0 always is one. [`dir_remove`] can make a record
//! before the hint disappear or grow: it returns an offset that the hint must not stay above.

use crate::bytes::{le16, le32, put_le16, put_le32, round4};
use crate::checksum::{InodeSeed, crc32c};
use crate::corrupt::{Corrupt, CorruptKind, Result};
use crate::file_type::FileType;
use crate::name_ending::has_ending;
use crate::types::Ino;

/// Longest name in bytes.
pub const NAME_MAX: usize = 255;
/// Bytes of a record before its name.
pub const DIRENT_HEADER: usize = 8;
/// Bytes of the smallest record.
pub const DIRENT_MIN: usize = 12;
/// Bytes of the checksum tail.
pub const DIR_TAIL: usize = 12;

const TAIL_MAGIC: u8 = 0xde;

/// Bytes a name needs as a record.
#[inline]
pub const fn dirent_size(name_len: usize) -> usize {
    round4(DIRENT_HEADER + name_len)
}

/// Where records end in a block.
#[inline]
pub const fn dir_data_end(block_len: usize, has_tail: bool) -> usize {
    if has_tail {
        block_len.saturating_sub(DIR_TAIL)
    } else {
        block_len
    }
}

/// Decodes a record length; only blocks of 64 KiB need it.
#[inline]
pub const fn rec_len_decode(raw: u16, block_len: usize) -> usize {
    let n = raw as usize;
    if block_len < 65536 {
        n
    } else if n == 65535 || n == 0 {
        block_len
    } else {
        (n & 65532) | (n & 3) << 16
    }
}

/// Encodes a record length, a multiple of four not above the block length.
#[inline]
pub const fn rec_len_encode(len: usize, block_len: usize) -> u16 {
    if len < 65536 {
        len as u16
    } else if len == block_len {
        if block_len == 65536 { 65535 } else { 0 }
    } else {
        ((len & 65532) | (len >> 16 & 3)) as u16
    }
}

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dirent<'a> {
    /// Where in the block.
    pub offset: usize,
    /// The record before it, if there is one.
    pub prev: Option<usize>,
    /// Bytes to the next record.
    pub rec_len: usize,
    /// The inode; 0 for a record not in use.
    pub ino: Ino,
    /// The type byte, [`FileType::Unknown`] without the `filetype` feature.
    pub file_type: FileType,
    /// The name.
    pub name: &'a [u8],
}

impl Dirent<'_> {
    /// True for `.` and `..`.
    pub fn is_dot_or_dotdot(&self) -> bool {
        matches!(self.name, b"." | b"..")
    }
}

#[derive(Clone, Copy)]
struct Header {
    ino: u32,
    rec_len: usize,
    name_len: usize,
    file_type: u8,
}

#[cold]
fn fail(kind: CorruptKind, offset: usize) -> Corrupt {
    Corrupt::new(kind).detail(format_args!("offset {offset}"))
}

/// Reads and checks the record at `at`.
#[inline]
fn header(block: &[u8], data_end: usize, at: usize) -> Result<Header> {
    let Some(raw) = block.get(at..).and_then(|b| b.first_chunk::<8>()) else {
        return Err(fail(CorruptKind::DirShort, at));
    };
    let [i0, i1, i2, i3, r0, r1, name_len, file_type] = *raw;
    let rec_len = rec_len_decode(u16::from_le_bytes([r0, r1]), block.len());
    let h = Header {
        ino: u32::from_le_bytes([i0, i1, i2, i3]),
        rec_len,
        name_len: usize::from(name_len),
        file_type,
    };
    if rec_len < DIRENT_MIN || rec_len < dirent_size(h.name_len) {
        return Err(fail(CorruptKind::DirRecLenSmall, at));
    }
    if !rec_len.is_multiple_of(4) {
        return Err(fail(CorruptKind::DirRecLenAlign, at));
    }
    // at is within the block and rec_len within 256 KiB: the sum can't overflow.
    if at + rec_len > data_end {
        return Err(fail(CorruptKind::DirRecLenEnd, at));
    }
    Ok(h)
}

fn dirent<'a>(block: &'a [u8], at: usize, prev: Option<usize>, h: Header) -> Dirent<'a> {
    let name_at = at + DIRENT_HEADER;
    Dirent {
        offset: at,
        prev,
        rec_len: h.rec_len,
        ino: Ino(h.ino),
        file_type: FileType::from_dirent(h.file_type),
        name: block.get(name_at..name_at + h.name_len).unwrap_or(&[]),
    }
}

/// The records of a block, those not in use too. After an error it ends.
#[derive(Clone, Debug)]
pub struct DirEntries<'a> {
    block: &'a [u8],
    data_end: usize,
    at: usize,
    prev: Option<usize>,
}

/// Iterates the records of a block (or of inline data).
pub fn dir_entries(block: &[u8], data_end: usize) -> DirEntries<'_> {
    DirEntries {
        block,
        data_end: data_end.min(block.len()),
        at: 0,
        prev: None,
    }
}

impl<'a> DirEntries<'a> {
    /// Starts at a record instead, as readdir does.
    #[must_use]
    pub fn starting_at(mut self, offset: usize) -> Self {
        (self.at, self.prev) = (offset, None);
        self
    }
}

impl<'a> Iterator for DirEntries<'a> {
    type Item = Result<Dirent<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.data_end {
            return None;
        }
        match header(self.block, self.data_end, self.at) {
            Ok(h) => {
                let d = dirent(self.block, self.at, self.prev, h);
                self.prev = Some(self.at);
                self.at += h.rec_len;
                Some(Ok(d))
            }
            Err(e) => {
                self.at = self.data_end;
                Some(Err(e))
            }
        }
    }
}

/// Checks a whole block: every record, every inode number, and that the tail is there. Once, when it
/// is loaded.
///
/// # Errors
/// The `Dir*` kind of the first check that fails.
pub fn dir_validate(block: &[u8], has_tail: bool, inodes_count: u32) -> Result<()> {
    if has_tail {
        dir_check_tail(block)?;
    }
    let end = dir_data_end(block.len(), has_tail);
    for d in dir_entries(block, end) {
        let d = d?;
        let rest = end - (d.offset + d.rec_len);
        if rest > 0 && rest < DIRENT_MIN {
            return Err(fail(CorruptKind::DirRecLenRest, d.offset));
        }
        if d.ino.0 > inodes_count {
            return Err(fail(CorruptKind::DirInoRange, d.offset).ino(d.ino));
        }
        if d.ino.0 != 0 && d.name.is_empty() {
            return Err(fail(CorruptKind::DirNameEmpty, d.offset));
        }
    }
    Ok(())
}

/// Finds a name.
///
/// # Errors
/// The `Dir*` kind of a record on the way that is damaged; not every record of a block without the name is read.
#[inline(always)]
pub fn dir_find<'a>(block: &'a [u8], data_end: usize, name: &[u8]) -> Result<Option<Dirent<'a>>> {
    let end = data_end.min(block.len());
    if !has_ending(block, name) {
        return Ok(None);
    }
    let end_of_name = name.last_chunk::<8>();
    let (mut at, mut prev) = (0, None);
    while at < end {
        let h = header(block, end, at)?;
        if h.name_len == name.len() && h.ino != 0 {
            let d = dirent(block, at, prev, h);
            // Names in a directory begin alike more often than they end alike.
            if d.name.last_chunk::<8>() == end_of_name && d.name == name {
                return Ok(Some(d));
            }
        }
        prev = Some(at);
        at += h.rec_len;
    }
    Ok(None)
}

/// What [`dir_insert`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inserted {
    /// Where the new record is.
    pub offset: usize,
    /// The hint for the next insertion: there is room in this record, or nowhere known.
    pub hint: usize,
}

/// Writes a record without checks of what was there.
fn write_record(
    block: &mut [u8],
    at: usize,
    rec_len: usize,
    ino: Ino,
    file_type: FileType,
    name: &[u8],
) -> Option<()> {
    let raw_len = rec_len_encode(rec_len, block.len());
    put_le32(block, at, ino.0)?;
    put_le16(block, at + 4, raw_len)?;
    *block.get_mut(at + 6)? = name.len() as u8;
    *block.get_mut(at + 7)? = file_type.to_dirent();
    block
        .get_mut(at + DIRENT_HEADER..)?
        .get_mut(..name.len())?
        .copy_from_slice(name);
    Some(())
}

/// Inserts a name into the first record from `hint` on with room, `None` if there is none. The caller
/// knows that the name is not there. A name must have 1 to 255 bytes.
///
/// # Errors
/// The `Dir*` kind of a record on the way that is damaged.
pub fn dir_insert(
    block: &mut [u8],
    data_end: usize,
    name: &[u8],
    ino: Ino,
    file_type: FileType,
    hint: usize,
) -> Result<Option<Inserted>> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Ok(None);
    }
    let Some(room) = room_from(block, data_end, name.len(), hint)? else {
        return Ok(None);
    };
    let (at, new_at) = (room.at, room.at + room.used);
    if room.used != 0 {
        let raw = rec_len_encode(room.used, block.len());
        put_le16(block, at + 4, raw).ok_or_else(|| fail(CorruptKind::DirShort, at))?;
    }
    write_record(block, new_at, room.len - room.used, ino, file_type, name)
        .ok_or_else(|| fail(CorruptKind::DirShort, new_at))?;
    Ok(Some(Inserted {
        offset: new_at,
        hint: new_at,
    }))
}

/// Whether [`dir_insert`] of a name of so many bytes finds room in the block.
///
/// # Errors
/// As [`dir_insert`].
pub fn dir_has_room(block: &[u8], data_end: usize, name_len: usize, hint: usize) -> Result<bool> {
    let found = room_from(block, data_end, name_len, hint)?;
    if found.is_none() && hint > 0 {
        return Ok(room_from(block, data_end, name_len, 0)?.is_some());
    }
    Ok(found.is_some())
}

/// A record with room behind its name.
struct Room {
    at: usize,
    /// Bytes that its name needs.
    used: usize,
    len: usize,
}

/// The first record from `hint` on with room for a name.
fn room_from(block: &[u8], data_end: usize, name_len: usize, hint: usize) -> Result<Option<Room>> {
    let end = data_end.min(block.len());
    let need = dirent_size(name_len);
    let mut at = hint;
    while at < end {
        let h = header(block, end, at)?;
        let used = match h.ino {
            0 => 0,
            _ => dirent_size(h.name_len),
        };
        let len = h.rec_len;
        if len - used >= need {
            return Ok(Some(Room { at, used, len }));
        }
        at += len;
    }
    Ok(None)
}

/// Removes the record at `offset`; `prev` is the one before it, if the caller knows (as [`dir_find`]
/// says). Returns the record that has the room now: a hint above it must be lowered to it.
///
/// # Errors
/// [`CorruptKind::DirOffset`] if there is no such record, or the kind of a damaged one.
pub fn dir_remove(
    block: &mut [u8],
    data_end: usize,
    offset: usize,
    prev: Option<usize>,
) -> Result<usize> {
    let end = data_end.min(block.len());
    let prev = match prev {
        Some(p) if offset != 0 => Some(p),
        _ if offset == 0 => None,
        _ => find_prev(block, end, offset)?,
    };
    let h = header(block, end, offset)?;
    let kept = match prev {
        Some(p) => {
            let ph = header(block, end, p)?;
            if p + ph.rec_len != offset {
                return Err(fail(CorruptKind::DirOffset, offset));
            }
            let raw = rec_len_encode(ph.rec_len + h.rec_len, block.len());
            put_le16(block, p + 4, raw).map(|()| p)
        }
        None => Some(offset),
    };
    // Names of removed files do not stay on the disk.
    let wipe_to = offset + dirent_size(h.name_len);
    if let Some(old) = block.get_mut(offset..wipe_to) {
        if prev.is_none() {
            let (head, name) = old.split_at_mut(DIRENT_HEADER.min(wipe_to - offset));
            name.fill(0);
            for (i, b) in head.iter_mut().enumerate() {
                // The record length stays.
                if !(4..6).contains(&i) {
                    *b = 0;
                }
            }
        } else {
            old.fill(0);
        }
    }
    kept.ok_or_else(|| fail(CorruptKind::DirShort, offset))
}

fn find_prev(block: &[u8], end: usize, offset: usize) -> Result<Option<usize>> {
    let (mut at, mut prev) = (0, None);
    while at < offset {
        prev = Some(at);
        at += header(block, end, at)?.rec_len;
    }
    if at == offset {
        Ok(prev)
    } else {
        Err(fail(CorruptKind::DirOffset, offset))
    }
}

/// Changes the inode and type of the record at `offset`, as rename does.
///
/// # Errors
/// The kind of a damaged record.
pub fn dir_set_ino(
    block: &mut [u8],
    data_end: usize,
    offset: usize,
    ino: Ino,
    file_type: FileType,
) -> Result<()> {
    header(block, data_end.min(block.len()), offset)?;
    let short = || fail(CorruptKind::DirShort, offset);
    put_le32(block, offset, ino.0).ok_or_else(short)?;
    *block.get_mut(offset + 7).ok_or_else(short)? = file_type.to_dirent();
    Ok(())
}

/// True if no record is in use but `.` and `..`.
///
/// # Errors
/// The `Dir*` kind of a record that is damaged.
pub fn dir_block_is_empty(block: &[u8], data_end: usize) -> Result<bool> {
    for d in dir_entries(block, data_end) {
        let d = d?;
        if d.ino.0 != 0 && !d.is_dot_or_dotdot() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes an empty block, with the tail if there is one. The checksum is added later.
pub fn dir_block_init(block: &mut [u8], has_tail: bool) {
    block.fill(0);
    let end = dir_data_end(block.len(), has_tail);
    // A block has at least 1024 bytes.
    let _ = write_record(block, 0, end, Ino(0), FileType::Unknown, b"");
    if has_tail {
        dir_tail_init(block);
    }
}

/// Makes the first block of a directory: `.` and `..`. Types are written with the `filetype` feature.
pub fn dir_block_init_dots(
    block: &mut [u8],
    has_tail: bool,
    this: Ino,
    parent: Ino,
    filetype: bool,
) {
    dir_block_init(block, has_tail);
    let kind = if filetype {
        FileType::Directory
    } else {
        FileType::Unknown
    };
    let end = dir_data_end(block.len(), has_tail);
    // A block has at least 1024 bytes.
    let _ = write_record(block, 0, 12, this, kind, b".");
    let _ = write_record(block, 12, end.saturating_sub(12), parent, kind, b"..");
}

/// Writes the checksum tail, without the checksum.
pub fn dir_tail_init(block: &mut [u8]) {
    if let Some(tail) = block.last_chunk_mut::<DIR_TAIL>() {
        *tail = [0, 0, 0, 0, DIR_TAIL as u8, 0, 0, TAIL_MAGIC, 0, 0, 0, 0];
    }
}

/// True if the block ends in a checksum tail.
#[inline]
pub fn dir_has_tail(block: &[u8]) -> bool {
    matches!(
        block.last_chunk::<DIR_TAIL>(),
        Some([0, 0, 0, 0, 12, 0, 0, TAIL_MAGIC, ..])
    )
}

fn dir_check_tail(block: &[u8]) -> Result<()> {
    if dir_has_tail(block) {
        Ok(())
    } else {
        Err(CorruptKind::DirTail.into())
    }
}

/// Stores the checksum of a leaf. The last step before writing.
pub fn dir_checksum_set(block: &mut [u8], seed: InodeSeed) {
    let at = dir_data_end(block.len(), true);
    let sum = crc32c(seed.0, block.get(..at).unwrap_or(&[]));
    // A block has at least 1024 bytes.
    let _ = put_le32(block, at + 8, sum);
}

/// Checks the tail and checksum of a leaf.
///
/// # Errors
/// [`CorruptKind::DirTail`], [`CorruptKind::DirChecksum`].
pub fn dir_checksum_verify(block: &[u8], seed: InodeSeed) -> Result<()> {
    dir_check_tail(block)?;
    let at = dir_data_end(block.len(), true);
    if block.get(..at).map(|b| crc32c(seed.0, b)) == le32(block, at + 8) {
        Ok(())
    } else {
        Err(CorruptKind::DirChecksum.into())
    }
}

/// The inode of `..` in the first block of a directory (linear or hashed).
///
/// # Errors
/// [`CorruptKind::DirNotDot`], [`CorruptKind::DirNotDotDot`].
pub fn dir_parent(block: &[u8]) -> Result<Ino> {
    let entry = |at: usize, name: &[u8]| {
        let len = usize::from(*block.get(at + 6)?);
        let have = block.get(at + DIRENT_HEADER..)?.get(..len)?;
        (have == name).then_some(Ino(le32(block, at)?))
    };
    if entry(0, b".").is_none() {
        return Err(CorruptKind::DirNotDot.into());
    }
    let second = rec_len_decode(le16(block, 4).unwrap_or(0), block.len());
    entry(second, b"..").ok_or_else(|| CorruptKind::DirNotDotDot.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn names(block: &[u8], end: usize) -> BTreeMap<Vec<u8>, u32> {
        dir_entries(block, end)
            .map(|d| d.unwrap())
            .filter(|d| d.ino.0 != 0)
            .map(|d| (d.name.to_vec(), d.ino.0))
            .collect()
    }

    #[test]
    fn model_insert_remove() {
        for (size, tail) in [
            (1024usize, true),
            (4096, true),
            (4096, false),
            (65536, true),
        ] {
            let mut rng = fastrand::Rng::with_seed(size as u64);
            let mut block = vec![0; size];
            dir_block_init(&mut block, tail);
            let end = dir_data_end(size, tail);
            let mut model = BTreeMap::new();
            let mut hint = 0;
            for i in 1..4000u32 {
                if rng.u8(..) < 160 {
                    let name: Vec<u8> =
                        (0..rng.usize(1..40)).map(|_| rng.u8(b'a'..=b'z')).collect();
                    if model.contains_key(&name) {
                        continue;
                    }
                    let r = dir_insert(&mut block, end, &name, Ino(i), FileType::Regular, hint)
                        .unwrap();
                    if let Some(r) = r {
                        hint = r.hint;
                        model.insert(name, i);
                    } else {
                        hint = 0;
                    }
                } else if let Some(name) =
                    model.keys().nth(rng.usize(..model.len().max(1))).cloned()
                {
                    let d = dir_find(&block, end, &name).unwrap().unwrap();
                    let (at, prev) = (d.offset, d.prev.filter(|_| rng.bool()));
                    hint = hint.min(dir_remove(&mut block, end, at, prev).unwrap());
                    model.remove(&name);
                }
                dir_validate(&block, tail, 5000).unwrap();
            }
            assert_eq!(names(&block, end), model);
            for name in model.keys() {
                let d = dir_find(&block, end, name).unwrap().unwrap();
                let (at, prev) = (d.offset, d.prev);
                dir_remove(&mut block, end, at, prev).unwrap();
            }
            assert!(dir_block_is_empty(&block, end).unwrap());
            if tail {
                assert!(block[12..end].iter().all(|b| *b == 0), "names are wiped");
            }
        }
    }

    #[test]
    fn rec_len_of_large_blocks() {
        for len in [12, 65532, 65524] {
            assert_eq!(rec_len_decode(rec_len_encode(len, 65536), 65536), len);
        }
        assert_eq!(rec_len_encode(65536, 65536), 65535);
        assert_eq!(rec_len_decode(65535, 65536), 65536);
        assert_eq!(rec_len_decode(0, 65536), 65536);
        assert_eq!(rec_len_decode(0, 4096), 0);
    }

    #[test]
    fn dots() {
        let mut block = vec![0; 1024];
        dir_block_init_dots(&mut block, true, Ino(12), Ino(2), true);
        dir_validate(&block, true, 100).unwrap();
        assert_eq!(dir_parent(&block).unwrap(), Ino(2));
        assert!(dir_block_is_empty(&block, 1012).unwrap());
        dir_set_ino(&mut block, 1012, 12, Ino(13), FileType::Directory).unwrap();
        assert_eq!(dir_parent(&block).unwrap(), Ino(13));
        block[8] = b'x';
        assert_eq!(dir_parent(&block).unwrap_err().kind, CorruptKind::DirNotDot);
        assert_eq!(
            dir_parent(&block[..9]).unwrap_err().kind,
            CorruptKind::DirNotDot
        );
        block[8] = b'.';
        block[20] = b'x';
        assert_eq!(
            dir_parent(&block).unwrap_err().kind,
            CorruptKind::DirNotDotDot
        );
    }

    #[test]
    fn each_corruption_has_its_kind() {
        let mut good = vec![0; 1024];
        dir_block_init_dots(&mut good, true, Ino(12), Ino(2), true);
        let kind = |at: usize, v: &[u8]| {
            let mut b = good.clone();
            b[at..at + v.len()].copy_from_slice(v);
            dir_validate(&b, true, 100).unwrap_err().kind
        };
        assert_eq!(kind(4, &[8]), CorruptKind::DirRecLenSmall);
        assert_eq!(kind(6, &[5]), CorruptKind::DirRecLenSmall);
        assert_eq!(kind(4, &[13]), CorruptKind::DirRecLenAlign);
        assert_eq!(kind(16, &[0, 4]), CorruptKind::DirRecLenEnd);
        assert_eq!(kind(16, &[0xe0, 3]), CorruptKind::DirRecLenRest);
        assert_eq!(kind(0, &[101]), CorruptKind::DirInoRange);
        assert_eq!(kind(6, &[0]), CorruptKind::DirNameEmpty);
        assert_eq!(kind(1019, &[0]), CorruptKind::DirTail);
        let e = dir_entries(&good[..20], 20).last().unwrap().unwrap_err();
        assert_eq!(e.kind, CorruptKind::DirRecLenEnd);
        let e = dir_entries(&good[..16], 16).last().unwrap().unwrap_err();
        assert_eq!(e.kind, CorruptKind::DirShort);
        let e = dir_remove(&mut good, 1012, 12, Some(4)).unwrap_err();
        assert_eq!(e.kind, CorruptKind::DirRecLenAlign);
        let e = dir_remove(&mut good, 1012, 8, None).unwrap_err();
        assert_eq!(e.kind, CorruptKind::DirOffset);
    }

    #[test]
    fn checksum_sees_one_byte() {
        let mut b = vec![0; 1024];
        dir_block_init_dots(&mut b, true, Ino(12), Ino(2), true);
        dir_checksum_set(&mut b, InodeSeed(4));
        for at in 0..1024 {
            b[at] ^= 2;
            let kind = dir_checksum_verify(&b, InodeSeed(4)).unwrap_err().kind;
            let tail = (1012..1020).contains(&at);
            assert_eq!(
                kind,
                if tail {
                    CorruptKind::DirTail
                } else {
                    CorruptKind::DirChecksum
                }
            );
            b[at] ^= 2;
        }
        dir_checksum_verify(&b, InodeSeed(4)).unwrap();
    }
}
