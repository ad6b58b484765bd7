//! Records of a directory block: those that can be read in a damaged one, and the block written again.

use crate::context::Context;
use crate::prelude::*;
use uext4_ondisk::{
    DIRENT_HEADER, DIRENT_MIN, dir_block_init, dirent_size, rec_len_decode, rec_len_encode,
};

/// The type byte of an entry, 0 where entries have none.
pub(crate) fn type_byte(cx: &Context<'_>, file_type: FileType) -> u8 {
    match cx.incompat(Incompat::FILETYPE) {
        true => file_type.to_dirent(),
        false => 0,
    }
}

/// A record in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) ino: Ino,
    pub(crate) type_byte: u8,
    pub(crate) name: Vec<u8>,
    /// Where it is in the block; `None` for one that has no place yet.
    pub(crate) offset: Option<usize>,
}

impl Record {
    /// Whether it is `.` or `..`.
    pub(crate) fn is_dots(&self) -> bool {
        matches!(&self.name[..], b"." | b"..")
    }

    fn size(&self) -> usize {
        dirent_size(self.name.len())
    }
}

/// The fixed fields of a record.
struct Header {
    ino: u32,
    rec_len: usize,
    name_len: usize,
    type_byte: u8,
}

fn header(block: &[u8], at: usize) -> Option<Header> {
    let head = block.get(at..)?.first_chunk::<DIRENT_HEADER>()?;
    let [i0, i1, i2, i3, r0, r1, name_len, type_byte] = *head;
    Some(Header {
        ino: u32::from_le_bytes([i0, i1, i2, i3]),
        rec_len: rec_len_decode(u16::from_le_bytes([r0, r1]), block.len()),
        name_len: name_len.into(),
        type_byte,
    })
}

/// Whether the record at `at` has a possible length.
fn is_sound(block: &[u8], end: usize, at: usize) -> bool {
    let Some(h) = header(block, at) else {
        return false;
    };
    let next = at.saturating_add(h.rec_len);
    h.rec_len >= DIRENT_MIN
        && h.rec_len.is_multiple_of(4)
        && h.rec_len >= dirent_size(h.name_len)
        && (next == end || next.saturating_add(DIRENT_MIN) <= end)
}

/// For each place of a record, whether a chain of sound ones leads from it to the end.
fn chains(block: &[u8], end: usize) -> Vec<bool> {
    let mut leads = vec![false; end / 4 + 1];
    if let Some(last) = leads.last_mut() {
        *last = true;
    }
    for i in (0..end / 4).rev() {
        let at = i * 4;
        let next = header(block, at).map_or(0, |h| at.saturating_add(h.rec_len));
        let fine = is_sound(block, end, at) && leads.get(next / 4) == Some(&true);
        if let Some(lead) = leads.get_mut(i) {
            *lead = fine;
        }
    }
    leads
}

/// The records in use up to `end`, with what can be read after a damaged one.
pub(crate) fn read(block: &[u8], end: usize, inodes: u32) -> Vec<Record> {
    let mut found = Vec::new();
    let mut leads = None;
    let mut at = 0usize;
    while at.saturating_add(DIRENT_HEADER) <= end {
        let Some(h) = header(block, at) else {
            break;
        };
        let mut next = at.saturating_add(h.rec_len);
        let mut keep = h.ino != 0;
        if !is_sound(block, end, at) {
            let leads = leads.get_or_insert_with(|| chains(block, end));
            let after_name = at.saturating_add(dirent_size(h.name_len).max(DIRENT_MIN));
            let leads_on = |to: usize| to <= end && leads.get(to / 4) == Some(&true);
            let possible = h.ino <= inodes && h.name_len > 0;
            let on = (at / 4 + 3..=end / 4)
                .map(|i| i * 4)
                .find(|to| leads_on(*to));
            next = match on {
                // The name is sound if the records go on behind it.
                Some(_) if leads_on(after_name) => after_name,
                Some(to) => to,
                None => end,
            };
            keep &= possible && after_name <= next;
        }
        let name_at = at.saturating_add(DIRENT_HEADER);
        let name = block.get(name_at..name_at.saturating_add(h.name_len));
        if let Some(name) = name.filter(|_| keep) {
            found.push(Record {
                ino: Ino(h.ino),
                type_byte: h.type_byte,
                name: name.to_vec(),
                offset: Some(at),
            });
        }
        at = next;
    }
    found
}

/// Writes the records at their places; those that overlap others or the end are returned, as those without a place
/// are.
pub(crate) fn write(block: &mut [u8], end: usize, records: &[Record]) -> Vec<Record> {
    dir_block_init(block, end < block.len());
    place(block, end, records)
}

/// Writes the records at their places into a part of an inode, which has no tail.
pub(crate) fn write_part(part: &mut [u8], records: &[Record]) {
    part.fill(0);
    let end = part.len();
    place(part, end, records);
}

fn place(block: &mut [u8], end: usize, records: &[Record]) -> Vec<Record> {
    let mut rest = Vec::new();
    let mut placed: Vec<(usize, &Record)> = Vec::new();
    let mut free_from = 0;
    for record in records {
        match record.offset {
            Some(at) if at >= free_from && at.saturating_add(record.size()) <= end => {
                free_from = at.saturating_add(record.size());
                placed.push((at, record));
            }
            _ => rest.push(record.clone()),
        }
    }
    let first = placed.first().map_or(end, |p| p.0);
    if first > 0 {
        put_record(block, 0, first, None);
    }
    let ends = placed.iter().skip(1).map(|p| p.0).chain([end]);
    let spans: Vec<(usize, usize)> = placed.iter().map(|p| p.0).zip(ends).collect();
    for ((at, next), (_, record)) in spans.into_iter().zip(&placed) {
        put_record(block, at, next.saturating_sub(at), Some(record));
    }
    rest
}

fn put_record(block: &mut [u8], at: usize, len: usize, record: Option<&Record>) {
    let raw_len = rec_len_encode(len, block.len());
    put32(block, at, record.map_or(0, |r| r.ino.0));
    put16(block, at.saturating_add(4), raw_len);
    let name = record.map_or(&[][..], |r| &r.name);
    let type_byte = record.map_or(0, |r| r.type_byte);
    put16(
        block,
        at.saturating_add(6),
        u16::from_le_bytes([name.len() as u8, type_byte]),
    );
    let name_at = at.saturating_add(DIRENT_HEADER);
    if let Some(to) = block.get_mut(name_at..name_at.saturating_add(name.len())) {
        to.copy_from_slice(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, offset: usize) -> Record {
        Record {
            ino: Ino(12),
            type_byte: 1,
            name: name.into(),
            offset: Some(offset),
        }
    }

    fn block() -> (Vec<u8>, Vec<Record>) {
        let records = vec![record("a", 0), record("bcdef", 12), record("g", 40)];
        let mut block = vec![0; 1024];
        assert!(write(&mut block, 1012, &records).is_empty());
        (block, records)
    }

    #[test]
    fn what_is_written_is_read() {
        let (block, records) = block();
        assert_eq!(read(&block, 1012, 100), records);
    }

    #[test]
    fn a_length_that_is_damaged_loses_no_other_name() {
        for rec_len in [0u16, 3, 8, 13, 16, 1200, 65535] {
            let (mut block, records) = block();
            put16(&mut block, 16, rec_len);
            assert_eq!(read(&block, 1012, 100), records, "{rec_len}");
        }
    }

    #[test]
    fn a_name_without_room_is_returned() {
        let mut block = vec![0; 1024];
        let records = [record("abc", 1000), record("x", 1004)];
        assert_eq!(write(&mut block, 1012, &records), records[1..]);
    }
}
