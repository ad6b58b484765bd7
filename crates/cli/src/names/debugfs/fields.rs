//! Fields of inodes and of the superblock: set_inode_field, set_super_value, clri.
//!
//! Source: Linux documentation, filesystems/ext4, "Index Nodes" and "The Super Block".
//!
//! Modes, owners and times are changed by the engine, which other requests of a script have running; all else is a change of bytes.

use super::image::{Image, text};
use super::{Debugger, Given, words};
use anyhow::{Result, anyhow, bail};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::fmt::Write;
use uext4::unstable::ondisk::Ino;
use uext4::unstable::{FileSystem, SetAttr};
use uext4::{Caller, TimeSet, Timestamp};
use uuid::Uuid;

/// What a field holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Unsigned.
    Number,
    Signed,
    /// Seconds.
    Time,
    Uuid,
    /// Bytes.
    Text,
    /// A hash of names.
    Hash,
}

use Kind::{Hash, Number, Signed, Text, Time};

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Number => "unsigned integer",
            Signed => "integer",
            Time => "date/time",
            Kind::Uuid => "UUID",
            Text => "string",
            Hash => "hash algorithm",
        }
    }
}

/// A field: its name, where it is, its bytes, where its upper half is, and what it holds.
struct Field {
    name: &'static str,
    at: usize,
    len: usize,
    /// Where the upper bytes are, and how many.
    high: Option<(usize, usize)>,
    kind: Kind,
}

const fn field(name: &'static str, at: usize, len: usize, kind: Kind) -> Field {
    let high = None;
    Field {
        name,
        at,
        len,
        high,
        kind,
    }
}

const fn split(
    name: &'static str,
    at: usize,
    len: usize,
    high: (usize, usize),
    kind: Kind,
) -> Field {
    let high = Some(high);
    Field {
        name,
        at,
        len,
        high,
        kind,
    }
}

/// Of an inode.
const INODE: &[Field] = &[
    field("mode", 0x00, 2, Number),
    split("uid", 0x02, 2, (0x78, 2), Number),
    split("size", 0x04, 4, (0x6c, 4), Number),
    split("atime", 0x08, 4, (0x8c, 4), Time),
    split("ctime", 0x0c, 4, (0x84, 4), Time),
    split("mtime", 0x10, 4, (0x88, 4), Time),
    field("dtime", 0x14, 4, Time),
    split("gid", 0x18, 2, (0x7a, 2), Number),
    field("links_count", 0x1a, 2, Number),
    split("blocks", 0x1c, 4, (0x74, 2), Number),
    field("flags", 0x20, 4, Number),
    split("version", 0x24, 4, (0x98, 4), Number),
    field("block[IND]", 0x58, 4, Number),
    field("block[DIND]", 0x5c, 4, Number),
    field("block[TIND]", 0x60, 4, Number),
    field("generation", 0x64, 4, Number),
    split("file_acl", 0x68, 4, (0x76, 2), Number),
    field("faddr", 0x70, 4, Number),
    field("extra_isize", 0x80, 2, Number),
    field("ctime_extra", 0x84, 4, Number),
    field("mtime_extra", 0x88, 4, Number),
    field("atime_extra", 0x8c, 4, Number),
    split("crtime", 0x90, 4, (0x94, 4), Time),
    field("crtime_extra", 0x94, 4, Number),
    field("projid", 0x9c, 4, Number),
];

/// Of the superblock.
const SUPER: &[Field] = &[
    field("inodes_count", 0x00, 4, Number),
    split("blocks_count", 0x04, 4, (0x150, 4), Number),
    split("r_blocks_count", 0x08, 4, (0x154, 4), Number),
    split("free_blocks_count", 0x0c, 4, (0x158, 4), Number),
    field("free_inodes_count", 0x10, 4, Number),
    field("first_data_block", 0x14, 4, Number),
    field("log_block_size", 0x18, 4, Number),
    field("log_cluster_size", 0x1c, 4, Signed),
    field("blocks_per_group", 0x20, 4, Number),
    field("clusters_per_group", 0x24, 4, Number),
    field("inodes_per_group", 0x28, 4, Number),
    field("mtime", 0x2c, 4, Time),
    field("wtime", 0x30, 4, Time),
    field("mnt_count", 0x34, 2, Number),
    field("max_mnt_count", 0x36, 2, Signed),
    field("state", 0x3a, 2, Number),
    field("errors", 0x3c, 2, Number),
    field("minor_rev_level", 0x3e, 2, Number),
    field("lastcheck", 0x40, 4, Time),
    field("checkinterval", 0x44, 4, Number),
    field("creator_os", 0x48, 4, Number),
    field("rev_level", 0x4c, 4, Number),
    field("def_resuid", 0x50, 2, Number),
    field("def_resgid", 0x52, 2, Number),
    field("first_ino", 0x54, 4, Number),
    field("inode_size", 0x58, 2, Number),
    field("block_group_nr", 0x5a, 2, Number),
    field("feature_compat", 0x5c, 4, Number),
    field("feature_incompat", 0x60, 4, Number),
    field("feature_ro_compat", 0x64, 4, Number),
    field("uuid", 0x68, 16, Kind::Uuid),
    field("volume_name", 0x78, 16, Text),
    field("last_mounted", 0x88, 64, Text),
    field("reserved_gdt_blocks", 0xce, 2, Number),
    field("journal_uuid", 0xd0, 16, Kind::Uuid),
    field("journal_inum", 0xe0, 4, Number),
    field("journal_dev", 0xe4, 4, Number),
    field("last_orphan", 0xe8, 4, Number),
    field("hash_seed", 0xec, 16, Kind::Uuid),
    field("def_hash_version", 0xfc, 1, Hash),
    field("jnl_backup_type", 0xfd, 1, Number),
    field("desc_size", 0xfe, 2, Number),
    field("default_mount_opts", 0x100, 4, Number),
    field("first_meta_bg", 0x104, 4, Number),
    field("mkfs_time", 0x108, 4, Time),
    field("min_extra_isize", 0x15c, 2, Number),
    field("want_extra_isize", 0x15e, 2, Number),
    field("flags", 0x160, 4, Number),
    field("raid_stride", 0x164, 2, Number),
    field("mmp_interval", 0x166, 2, Number),
    field("mmp_block", 0x168, 8, Number),
    field("raid_stripe_width", 0x170, 4, Number),
    field("log_groups_per_flex", 0x174, 1, Number),
    field("checksum_type", 0x175, 1, Number),
    field("encryption_level", 0x176, 1, Number),
    field("kbytes_written", 0x178, 8, Number),
    field("error_count", 0x194, 4, Number),
    field("first_error_time", 0x198, 4, Time),
    field("first_error_ino", 0x19c, 4, Number),
    field("first_error_block", 0x1a0, 8, Number),
    field("first_error_func", 0x1a8, 32, Text),
    field("first_error_line", 0x1c8, 4, Number),
    field("last_error_time", 0x1cc, 4, Time),
    field("last_error_ino", 0x1d0, 4, Number),
    field("last_error_line", 0x1d4, 4, Number),
    field("last_error_block", 0x1d8, 8, Number),
    field("last_error_func", 0x1e0, 32, Text),
    field("mount_opts", 0x200, 64, Text),
    field("usr_quota_inum", 0x240, 4, Number),
    field("grp_quota_inum", 0x244, 4, Number),
    field("overhead_clusters", 0x248, 4, Number),
    field("encrypt_pw_salt", 0x258, 16, Kind::Uuid),
    field("lpf_ino", 0x268, 4, Number),
    field("prj_quota_inum", 0x26c, 4, Number),
    field("checksum_seed", 0x270, 4, Number),
    field("orphan_file_inum", 0x280, 4, Number),
];

/// A place in a structure, and what is written there.
struct Put {
    places: Vec<(usize, Vec<u8>)>,
}

/// The field of that name, or half of it (`_lo`, `_hi`), or a block (`block[3]`).
fn find(fields: &'static [Field], name: &str, is_inode: bool) -> Option<Field> {
    if let Some(found) = fields.iter().find(|field| field.name == name) {
        return Some(Field { ..*found });
    }
    if let Some(base) = name.strip_suffix("_lo") {
        let found = fields
            .iter()
            .find(|field| field.name == base && field.high.is_some())?;
        return Some(field(found.name, found.at, found.len, Number));
    }
    if let Some(base) = name.strip_suffix("_hi") {
        let found = fields.iter().find(|field| field.name == base)?;
        let (at, len) = found.high?;
        return Some(field(found.name, at, len, Number));
    }
    let number = name
        .strip_prefix("block[")?
        .strip_suffix(']')
        .filter(|_| is_inode)?;
    let number: usize = number.parse().ok().filter(|n| *n < 15)?;
    Some(field("block", 0x28 + number * 4, 4, Number))
}

/// The bytes of a value.
fn put(field: &Field, value: &[u8]) -> Result<Put> {
    let shown = text(value);
    let name = field.name;
    let unreadable = || anyhow!("Couldn't parse '{shown}' for field {name}.");
    let little = |number: u64, len: usize| number.to_le_bytes().get(..len).map(<[u8]>::to_vec);
    let number = match field.kind {
        Kind::Uuid => {
            let uuid = match shown.as_str() {
                "clear" | "null" => Uuid::nil(),
                "random" => Uuid::new_v4(),
                text => {
                    Uuid::parse_str(text).map_err(|_| anyhow!("Invalid UUID format: {text}"))?
                }
            };
            return Ok(Put {
                places: vec![(field.at, uuid.as_bytes().to_vec())],
            });
        }
        Text => {
            let mut bytes = value.to_vec();
            bytes.resize(field.len, 0);
            return Ok(Put {
                places: vec![(field.at, bytes)],
            });
        }
        Time => {
            let time = parse_time(&shown).ok_or_else(unreadable)?;
            let mut places = vec![(
                field.at,
                little(time.cast_unsigned(), 4).unwrap_or_default(),
            )];
            if let Some((at, len)) = field.high {
                let epoch = time.saturating_sub(i64::from(time as i32)) >> 32;
                places.push((
                    at,
                    little(epoch.cast_unsigned() & 3, len).unwrap_or_default(),
                ));
            }
            return Ok(Put { places });
        }
        Hash => match shown.as_str() {
            "legacy" => 0,
            "half_md4" => 1,
            "tea" => 2,
            _ => words::number(value).ok_or_else(unreadable)?,
        },
        Number | Signed => words::number(value).ok_or_else(unreadable)?,
    };
    let bits = 8 * (field.len + field.high.map_or(0, |(_, len)| len));
    let most = u64::MAX.checked_shr(64 - bits.min(64) as u32).unwrap_or(0);
    let is_negative = field.kind == Signed && number > u64::MAX / 2;
    if number > most && !is_negative {
        bail!("Value '{shown}' exceeds field {name} maximum {most}.");
    }
    let mut places = vec![(field.at, little(number, field.len).unwrap_or_default())];
    if let Some((at, len)) = field.high {
        let high = number.checked_shr(8 * field.len as u32).unwrap_or(0);
        places.push((at, little(high, len).unwrap_or_default()));
    }
    Ok(Put { places })
}

/// A time: `now`, `@SECONDS`, `YYYYMMDD[HH[MM[SS]]]` of this host, or seconds.
fn parse_time(text: &str) -> Option<i64> {
    if text == "now" {
        return Some(jiff::Timestamp::now().as_second());
    }
    if let Some(seconds) = text.strip_prefix('@') {
        return words::number(seconds.as_bytes()).map(u64::cast_signed);
    }
    let part = |range: std::ops::Range<usize>| -> Option<i16> {
        match text.get(range) {
            Some(digits) => digits.parse().ok(),
            None => Some(0),
        }
    };
    let date = || {
        let at = |range| i8::try_from(part(range)?).ok();
        let (year, month, day) = (part(0..4)?, at(4..6)?, at(6..8)?);
        let (hour, minute, second) = (at(8..10)?, at(10..12)?, at(12..14)?);
        let civil = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
        let zoned = civil.to_zoned(TimeZone::system()).ok()?;
        Some(zoned.timestamp().as_second())
    };
    let is_date = text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let found = if is_date { date() } else { None };
    found.or_else(|| words::number(text.as_bytes()).map(u64::cast_signed))
}

fn listed(fields: &[Field], of: &str) -> String {
    let mut out = format!("{of}:\n");
    for field in fields {
        let halves = if field.high.is_some() {
            "[_hi|_lo]"
        } else {
            ""
        };
        let name = format!("{}{halves}", field.name);
        let _ = writeln!(out, "\t{name:<25}\t{}", field.kind.name());
    }
    out
}

fn is_list(given: &Given) -> bool {
    matches!(given.operands(), [word] if word == b"-l")
}

/// `set_inode_field`.
pub fn sif(debugger: &mut Debugger, given: &Given) -> Result<()> {
    if is_list(given) {
        debugger.out = listed(INODE, "Inode fields supported by the set_inode command");
        return Ok(());
    }
    debugger.writable(given)?;
    let called = given.called();
    let [path, name, value] = given.operands() else {
        bail!(
            "{called}: Usage: set_inode <inode> <field> <value>\n\t\"set_inode_field -l\" will list the names of the fields in an ext2 inode\n\twhich can be set."
        );
    };
    let name = text(name);
    let field = find(INODE, &name, true)
        .ok_or_else(|| anyhow!("{called}: invalid field specifier: {name}"))?;
    let image = debugger.writable(given)?;
    let ino = image.find(path)?;
    let put = put(&field, value)?;
    if by_engine(image, ino, &name, value)? {
        return Ok(());
    }
    let draft = image.draft()?;
    draft.change_inode(ino, |raw| write(raw, &put))?;
    image.commit(draft)
}

fn write(raw: &mut [u8], put: &Put) {
    for (at, bytes) in &put.places {
        // A short inode has no such field.
        if let Some(to) = raw.get_mut(*at..*at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }
}

/// Changes a field of a file by the engine; false if it can't.
fn by_engine(image: &mut Image, ino: Ino, name: &str, value: &[u8]) -> Result<bool> {
    let number = || words::number(value).and_then(|n| u32::try_from(n).ok());
    let time = || {
        let sec = parse_time(&text(value))?;
        Some(TimeSet::At(Timestamp { sec, nsec: 0 }))
    };
    let mut change = SetAttr::default();
    let engine = image.engine()?;
    let Ok(node) = engine.node(ino) else {
        // One that the engine does not know as a file is changed by its bytes.
        return Ok(false);
    };
    let fs = engine.fs.engine();
    let before = fs.getattr(&node)?;
    change.ctime = Some(TimeSet::At(before.ctime));
    match name {
        "mode" => match number() {
            Some(mode) if mode == before.st_mode() => return Ok(true),
            // A link has no mode that could be set.
            Some(_) if before.kind == uext4::FileKind::Symlink => return Ok(false),
            Some(mode) if mode & 0o170_000 == before.kind.mode_bits() => {
                change.mode = Some((mode & 0o7777) as u16);
            }
            _ => return Ok(false),
        },
        "uid" => change.uid = number(),
        "gid" => change.gid = number(),
        "atime" => change.atime = time(),
        "mtime" => change.mtime = time(),
        "ctime" => change.ctime = time(),
        "crtime" => change.crtime = time(),
        // It is right already.
        "links_count" => return Ok(number() == Some(before.nlink)),
        _ => return Ok(false),
    }
    fs.setattr(&Caller::root(), &node, &change)?;
    // An owner that changes takes the bits of set-id with it.
    if matches!(name, "uid" | "gid") && before.kind != uext4::FileKind::Symlink {
        let again = SetAttr {
            mode: Some(before.mode),
            ctime: change.ctime,
            ..SetAttr::default()
        };
        fs.setattr(&Caller::root(), &node, &again)?;
    }
    Ok(true)
}

/// `set_super_value`.
pub fn ssv(debugger: &mut Debugger, given: &Given) -> Result<()> {
    if is_list(given) {
        debugger.out = listed(
            SUPER,
            "Superblock fields supported by the set_super_value command",
        );
        return Ok(());
    }
    let called = given.called();
    let [name, value] = given.operands() else {
        bail!(
            "{called}: Usage: set_super_value <field> <value>\n\t\"set_super_value -l\" will list the names of superblock fields\n\twhich can be set."
        );
    };
    let image = debugger.writable(given)?;
    let name = text(name);
    let field = find(SUPER, &name, false)
        .ok_or_else(|| anyhow!("{called}: invalid field specifier: {name}"))?;
    let put = put(&field, value)?;
    let draft = image.draft()?;
    draft.change_super_bytes(|raw| write(raw, &put))?;
    image.commit(draft)
}

/// `clri`.
pub fn clri(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let image = debugger.writable(given)?;
    let [path] = given.exactly("clri <file>")?;
    let ino = image.find(path)?;
    let draft = image.draft()?;
    draft.change_inode(ino, |raw| raw.fill(0))?;
    image.commit(draft)
}
