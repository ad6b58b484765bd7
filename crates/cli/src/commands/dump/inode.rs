//! An inode: every field, what names its blocks, its extended attributes.

use super::Dump;
use super::block::{LINE, hex};
use super::mapping::{self, NodeDump};
use super::view::{Found, View, checksum_word};
use crate::time_format;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use uext4::Timestamp;
use uext4::unstable::ondisk::{Ino, XattrArea, XattrEntry, XattrValue};

#[derive(Serialize)]
pub struct InodeDump {
    inode: u32,
    group: u32,
    block: u64,
    offset: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum_ok: Option<bool>,
    #[serde(rename = "type")]
    kind: String,
    mode: String,
    links: u32,
    uid: u32,
    gid: u32,
    project: u32,
    size: u64,
    sectors: u64,
    generation: u32,
    version: u64,
    extra_isize: u16,
    flags: Vec<String>,
    atime: String,
    mtime: String,
    ctime: String,
    crtime: String,
    /// Seconds of deletion, or the next orphan.
    dtime: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    xattr_block: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mapping: Option<NodeDump>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    xattrs: Vec<XattrDump>,
}

#[derive(Serialize)]
struct XattrDump {
    name: String,
    /// `inode` or `block`.
    place: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The inode that has the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    value_inode: Option<u32>,
    bytes: usize,
}

/// Reads an inode and what hangs on it.
///
/// # Errors
/// No such inode, or it can't be read.
pub fn dump(view: &View, ino: Ino) -> Result<InodeDump> {
    let found = view.inode(ino)?;
    let inode = &found.inode;
    let flags = inode
        .flags
        .iter_names()
        .map(|(name, _)| name.to_lowercase());
    let time = |t: uext4::unstable::ondisk::Timestamp| {
        let (sec, nsec) = (t.sec, t.nsec);
        time_format::exact(Timestamp { sec, nsec })
    };
    let xattr_block = (inode.file_acl.0 != 0).then_some(inode.file_acl.0);
    Ok(InodeDump {
        inode: ino.0,
        group: found.raw.group.0,
        block: found.raw.block.0,
        offset: found.raw.offset,
        checksum_ok: found.raw.checksum_ok,
        kind: format!("{:?}", inode.file_type()).to_lowercase(),
        mode: format!("{:06o}", inode.mode),
        links: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        project: inode.projid,
        size: inode.size,
        sectors: inode.blocks,
        generation: inode.generation.0,
        version: inode.version,
        extra_isize: inode.extra_isize,
        flags: flags.collect(),
        atime: time(inode.atime),
        mtime: time(inode.mtime),
        ctime: time(inode.ctime),
        crtime: time(inode.crtime),
        dtime: inode.dtime,
        xattr_block,
        target: inode
            .fast_symlink_target()
            .map(|target| target.escape_ascii().to_string()),
        mapping: mapping::dump(view, ino, inode),
        xattrs: xattrs(view, &found),
    })
}

fn xattrs(view: &View, found: &Found) -> Vec<XattrDump> {
    let mut all = Vec::new();
    if let Ok(Some(area)) = XattrArea::in_inode(&found.raw.bytes) {
        all.extend(area.entries().map(|e| xattr(&e, "inode")));
    }
    let block = found.inode.file_acl;
    if block.0 != 0
        && let Ok(bytes) = view.block(block)
        && let Ok(area) = XattrArea::in_block(&bytes)
    {
        all.extend(area.entries().map(|e| xattr(&e, "block")));
    }
    all
}

fn xattr(entry: &XattrEntry<'_>, place: &'static str) -> XattrDump {
    let (prefix, name) = (entry.index.prefix(), entry.name.escape_ascii());
    let (value, value_inode, bytes) = match entry.value {
        XattrValue::Inline(bytes) => (Some(bytes.escape_ascii().to_string()), None, bytes.len()),
        XattrValue::Inode { ino, size } => (None, Some(ino.0), size as usize),
    };
    XattrDump {
        name: format!("{prefix}{name}"),
        place,
        value,
        value_inode,
        bytes,
    }
}

impl Dump for InodeDump {
    fn text(&self) -> String {
        let mut out = String::new();
        let checksum = checksum_word(self.checksum_ok);
        let (block, offset, group) = (self.block, self.offset, self.group);
        let _ = writeln!(
            out,
            "inode {}: {}, group {group}, block {block} at byte {offset}{checksum}",
            self.inode, self.kind
        );
        let _ = writeln!(
            out,
            "  mode {}  links {}  uid {}  gid {}  project {}",
            self.mode, self.links, self.uid, self.gid, self.project
        );
        let _ = writeln!(
            out,
            "  size {}  sectors {}  generation {}  version {}  extra size {}",
            self.size, self.sectors, self.generation, self.version, self.extra_isize
        );
        let flags = if self.flags.is_empty() {
            "none".to_owned()
        } else {
            self.flags.join(" ")
        };
        let _ = writeln!(out, "  flags {flags}");
        for (name, time) in [
            ("access", &self.atime),
            ("change of data", &self.mtime),
            ("change", &self.ctime),
            ("creation", &self.crtime),
        ] {
            let _ = writeln!(out, "  {name:<15} {time}");
        }
        if self.dtime != 0 {
            let _ = writeln!(out, "  deletion time, or next orphan {}", self.dtime);
        }
        if let Some(target) = &self.target {
            let _ = writeln!(out, "  target {target}");
        }
        if let Some(mapping) = &self.mapping {
            out.push_str("mapping\n");
            mapping.write(2, &mut out);
        }
        if let Some(block) = self.xattr_block {
            let _ = writeln!(out, "extended attributes in block {block}");
        }
        for x in &self.xattrs {
            let value = match (&x.value, x.value_inode) {
                (Some(value), _) => format!("= {value}"),
                (None, ino) => format!("in inode {}", ino.unwrap_or(0)),
            };
            let _ = writeln!(out, "  {} ({}, {} bytes) {value}", x.name, x.place, x.bytes);
        }
        out
    }
}

/// An inode whose fields contradict each other: its bytes, and what is wrong.
#[derive(Serialize)]
pub struct DamagedInode {
    inode: u32,
    group: u32,
    block: u64,
    offset: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum_ok: Option<bool>,
    fault: String,
    hex: Vec<String>,
}

/// Reads the bytes of an inode that cannot be decoded, for this reason.
///
/// # Errors
/// They cannot be read either.
pub fn damaged(view: &View, ino: Ino, fault: &anyhow::Error) -> Result<DamagedInode> {
    let raw = view.raw_inode(ino)?;
    Ok(DamagedInode {
        inode: ino.0,
        group: raw.group.0,
        block: raw.block.0,
        offset: raw.offset,
        checksum_ok: raw.checksum_ok,
        fault: format!("{fault:#}"),
        hex: raw.bytes.chunks(LINE).map(hex).collect(),
    })
}

impl Dump for DamagedInode {
    fn text(&self) -> String {
        let checksum = checksum_word(self.checksum_ok);
        let mut out = format!(
            "inode {}: group {}, block {} at byte {}{checksum}\n  FAULT: {}\n",
            self.inode, self.group, self.block, self.offset, self.fault
        );
        for (i, line) in self.hex.iter().enumerate() {
            let _ = writeln!(out, "  {:03x}  {line}", i * LINE);
        }
        out
    }
}
