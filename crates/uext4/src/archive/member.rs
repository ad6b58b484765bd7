//! A member of an archive: a header, with PAX records for what the header has no room for, and data.
//!
//! Source: POSIX.1-2024, pax, "ustar Interchange Format" and "pax Extended Header"; GNU tar's manual, "PAX Format, Version 1.0" of sparse
//! files; star(5), `SCHILY.xattr`; libarchive-formats(5), `LIBARCHIVE.xattr`.

use std::io::{self, Write};
use tar::{EntryType, Header};
use uext4_ondisk::{AclEntry, AclTag, acl_decode_xattr};
use uext4_vfs::{Attr, FileKind, Timestamp};

/// The unit of an archive.
const BLOCK: u64 = 512;
/// What octal fields hold.
const ID_MAX: u32 = 0o777_7777;
const SIZE_MAX: u64 = 0o777_7777_7777;
const SECONDS_MAX: i64 = 0o777_7777_7777;
/// Holes that make a file one with holes: fewer bytes cost less than the list of them.
const HOLES_MIN: u64 = 1 << 20;

/// Attributes that are lists, and the records of their text.
const ACLS: [(&[u8], &[u8]); 2] = [
    (b"system.posix_acl_access", b"SCHILY.acl.access"),
    (b"system.posix_acl_default", b"SCHILY.acl.default"),
];

/// What is written before the data of a member.
pub(super) struct Member<'a> {
    /// The path, not empty.
    pub path: &'a [u8],
    pub attr: &'a Attr,
    /// That of a symbolic link, or the path of a hard link.
    pub link: Option<(EntryType, &'a [u8])>,
    pub xattrs: &'a [(Vec<u8>, Vec<u8>)],
    /// Where the data is, of a regular file.
    pub segments: &'a [(u64, u64)],
    /// Whether the time of the last access is recorded.
    pub with_atime: bool,
}

/// Records of an extended header.
#[derive(Default)]
struct Records(Vec<u8>);

impl Records {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        // The length counts its own digits.
        let rest = key.len() + value.len() + 3;
        let mut len = rest + 1;
        while len != rest + len.to_string().len() {
            len = rest + len.to_string().len();
        }
        self.0.extend_from_slice(format!("{len} ").as_bytes());
        self.0.extend_from_slice(key);
        self.0.push(b'=');
        self.0.extend_from_slice(value);
        self.0.push(b'\n');
    }

    fn number(&mut self, key: &str, value: impl ToString) {
        self.add(key.as_bytes(), value.to_string().as_bytes());
    }
}

impl Member<'_> {
    /// Writes the headers, and returns the parts of the file that are its data, each as offset and length.
    pub fn write_headers(&self, out: &mut impl Write) -> io::Result<Vec<(u64, u64)>> {
        let (mut records, mut header) = (Records::default(), Header::new_ustar());
        header.set_entry_type(self.entry_type());
        header.set_mode(u32::from(self.attr.mode));
        self.set_numbers(&mut header, &mut records)?;
        let mut name = self.path.to_vec();
        if self.attr.kind == FileKind::Directory {
            name.push(b'/');
        }
        let (parts, map) = self.parts();
        let mut size = parts.iter().map(|(_, len)| len).sum::<u64>();
        if let Some(map) = &map {
            records.number("GNU.sparse.major", 1);
            records.number("GNU.sparse.minor", 0);
            records.add(b"GNU.sparse.name", &name);
            records.number("GNU.sparse.realsize", self.attr.size);
            name = sparse_name(&name);
            size += map.len() as u64;
        }
        if name.len() > 100 {
            records.add(b"path", &name);
        }
        let field = &mut header.as_old_mut().name;
        let n = name.len().min(field.len());
        field[..n].copy_from_slice(&name[..n]);
        if let Some((_, target)) = self.link {
            if target.len() > 100 {
                records.add(b"linkpath", target);
            }
            let field = &mut header.as_old_mut().linkname;
            let n = target.len().min(field.len());
            field[..n].copy_from_slice(&target[..n]);
        }
        if size > SIZE_MAX {
            records.number("size", size);
        }
        header.set_size(size);
        if self.link.is_none_or(|(kind, _)| kind != EntryType::Link) {
            self.add_xattrs(&mut records);
        }
        if !records.0.is_empty() {
            write_records(out, &records.0)?;
        }
        header.set_cksum();
        out.write_all(header.as_bytes())?;
        out.write_all(&map.unwrap_or_default())?;
        Ok(parts)
    }

    fn entry_type(&self) -> EntryType {
        match (self.link, self.attr.kind) {
            (Some((kind, _)), _) => kind,
            (None, FileKind::Directory) => EntryType::Directory,
            (None, FileKind::CharDevice) => EntryType::Char,
            (None, FileKind::BlockDevice) => EntryType::Block,
            (None, FileKind::Fifo) => EntryType::Fifo,
            _ => EntryType::Regular,
        }
    }

    fn set_numbers(&self, header: &mut Header, records: &mut Records) -> io::Result<()> {
        let attr = self.attr;
        for (key, id) in [("uid", attr.uid), ("gid", attr.gid)] {
            if id > ID_MAX {
                records.number(key, id);
            }
        }
        header.set_uid(u64::from(attr.uid.min(ID_MAX)));
        header.set_gid(u64::from(attr.gid.min(ID_MAX)));
        if matches!(attr.kind, FileKind::CharDevice | FileKind::BlockDevice) {
            header.set_device_major(attr.rdev_major)?;
            header.set_device_minor(attr.rdev_minor)?;
        }
        let Timestamp { sec, nsec } = attr.mtime;
        if nsec != 0 || !(0..=SECONDS_MAX).contains(&sec) {
            records.add(b"mtime", &time(attr.mtime));
        }
        header.set_mtime(sec.clamp(0, SECONDS_MAX) as u64);
        if self.with_atime && attr.atime != attr.mtime {
            records.add(b"atime", &time(attr.atime));
        }
        Ok(())
    }

    fn add_xattrs(&self, records: &mut Records) {
        for (name, value) in self.xattrs {
            // GNU tar restores lists from text only, container engines from the value.
            for (list, key) in ACLS {
                if name == list
                    && let Ok(entries) = acl_decode_xattr(value)
                {
                    records.add(key, acl_text(&entries).as_bytes());
                }
            }
            match str::from_utf8(name) {
                Ok(text) if !text.contains('=') => {
                    records.add(&[b"SCHILY.xattr.", &name[..]].concat(), value);
                }
                // The key ends at the first `=`, and must be text.
                _ => {
                    let key = [b"LIBARCHIVE.xattr.", &percent_encoded(name)[..]].concat();
                    records.add(&key, base64(value).as_bytes());
                }
            }
        }
    }

    /// The parts of the file that are stored, and the list of them that precedes the data if there are holes.
    fn parts(&self) -> (Vec<(u64, u64)>, Option<Vec<u8>>) {
        if self.entry_type() != EntryType::Regular {
            return (Vec::new(), None);
        }
        let stored: u64 = self.segments.iter().map(|(_, len)| len).sum();
        if self.attr.size - stored.min(self.attr.size) < HOLES_MIN {
            return (vec![(0, self.attr.size)], None);
        }
        let mut list = self.segments.to_vec();
        if list
            .last()
            .is_none_or(|(at, len)| at + len < self.attr.size)
        {
            // Says where the file ends.
            list.push((self.attr.size, 0));
        }
        let mut map = format!("{}\n", list.len());
        for (at, len) in &list {
            map.push_str(&format!("{at}\n{len}\n"));
        }
        let mut map = map.into_bytes();
        map.resize(map.len().next_multiple_of(BLOCK as usize), 0);
        (list, Some(map))
    }
}

/// Bytes that fill the last block of data.
pub(super) fn padding(len: u64) -> usize {
    (len.wrapping_neg() % BLOCK) as usize
}

/// The end of an archive.
pub(super) fn end() -> [u8; 2 * BLOCK as usize] {
    [0; 2 * BLOCK as usize]
}

/// An empty file with only a name, as a whiteout is.
pub(super) fn write_empty(out: &mut impl Write, path: &[u8]) -> io::Result<()> {
    let never = Timestamp::default();
    let attr = Attr {
        ino: 0,
        generation: 0,
        kind: FileKind::Regular,
        mode: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 0,
        blocks: 0,
        block_size: 0,
        atime: never,
        mtime: never,
        ctime: never,
        crtime: never,
        rdev_major: 0,
        rdev_minor: 0,
        flags: 0,
    };
    let member = Member {
        path,
        attr: &attr,
        link: None,
        xattrs: &[],
        segments: &[],
        with_atime: false,
    };
    member.write_headers(out).map(drop)
}

fn write_records(out: &mut impl Write, records: &[u8]) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::XHeader);
    header.as_old_mut().name[..10].copy_from_slice(b"PaxHeaders");
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(records.len() as u64);
    header.set_cksum();
    out.write_all(header.as_bytes())?;
    out.write_all(records)?;
    let fill = padding(records.len() as u64);
    out.write_all(&[0; BLOCK as usize][..fill])
}

/// The name that programs see that do not know files with holes.
fn sparse_name(path: &[u8]) -> Vec<u8> {
    let base = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    [&path[..base], b"GNUSparseFile.0/", &path[base..]].concat()
}

/// Seconds with a fraction. Before 1970, both are below zero.
fn time(Timestamp { sec, nsec }: Timestamp) -> Vec<u8> {
    let text = match nsec {
        0 => sec.to_string(),
        _ if sec >= 0 => format!("{sec}.{nsec:09}"),
        _ => format!("-{}.{:09}", -(sec + 1), 1_000_000_000 - nsec),
    };
    match nsec {
        0 => text.into_bytes(),
        _ => text.trim_end_matches('0').as_bytes().to_vec(),
    }
}

/// A list as its text form has it, users and groups by number.
fn acl_text(entries: &[AclEntry]) -> String {
    let entry = |entry: &AclEntry| {
        let subject = match entry.tag {
            AclTag::UserObj => "user:".to_owned(),
            AclTag::User => format!("user:{}", entry.id),
            AclTag::GroupObj => "group:".to_owned(),
            AclTag::Group => format!("group:{}", entry.id),
            AclTag::Mask => "mask:".to_owned(),
            AclTag::Other => "other:".to_owned(),
        };
        let letter = |bit: u16, letter| if entry.perm & bit == 0 { '-' } else { letter };
        format!(
            "{subject}:{}{}{}",
            letter(4, 'r'),
            letter(2, 'w'),
            letter(1, 'x')
        )
    };
    let entries: Vec<String> = entries.iter().map(entry).collect();
    entries.join(",")
}

fn percent_encoded(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => out.push(*byte),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut bits = [0; 3];
        bits[..three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes([0, bits[0], bits[1], bits[2]]);
        for digit in 0..4 {
            out.push(match digit <= three.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]),
                false => '=',
            });
        }
    }
    out
}
