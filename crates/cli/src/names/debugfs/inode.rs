//! What an inode holds: stat, blocks, extents, bmap, imap, ea_list and ea_get.

use super::image::{self, text};
use super::{Debugger, Given, words};
use crate::commands::dump::{NodeDump, RunDump, View, mapping_of};
use crate::names::fields::time;
use crate::system::paths;
use anyhow::{Context, Result, anyhow, bail};
use std::fmt::Write;
use uext4::unstable::ondisk::{
    FileType, GroupFlags, Ino, Inode, InodeFlags, XattrArea, XattrEntry, XattrValue,
};

/// A longer value is only shown if it is asked for.
const SHOWN_MAX: usize = 40;
/// Bytes of an inode that all have.
const GOOD_OLD: usize = 128;

/// Whether the bitmap has an inode in use.
///
/// # Errors
/// The bitmap can't be read.
pub fn is_in_use(view: &View, ino: Ino) -> Result<bool> {
    let (group, index) = view.sb.geometry.group_of_ino(ino)?;
    let desc = view.group(group)?;
    if desc.flags.contains(GroupFlags::INODE_UNINIT) {
        return Ok(false);
    }
    let bitmap = view.block(desc.inode_bitmap)?;
    let byte = bitmap.get(index as usize / 8).copied().unwrap_or(0);
    Ok(byte & 1 << (index % 8) != 0)
}

/// All blocks of an inode, as first and number: data, what names it, attributes.
pub fn all_blocks(view: &View, ino: Ino, inode: &Inode) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    if inode.file_acl.0 != 0 {
        all.push((inode.file_acl.0, 1));
    }
    if let Some(map) = mapping_of(view, ino, inode) {
        collect(&map, &mut all);
    }
    all
}

fn collect(node: &NodeDump, all: &mut Vec<(u64, u64)>) {
    all.extend(node.block.map(|block| (block, 1)));
    all.extend(node.runs.iter().map(|run| (run.pblk, run.len)));
    for child in &node.below {
        collect(child, all);
    }
}

fn word(raw: &[u8], at: usize) -> u32 {
    let bytes = raw.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn half(raw: &[u8], at: usize) -> u16 {
    let bytes = raw.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

/// `stat`.
pub fn stat(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let [path] = given.exactly("stat <file>")?;
    let image = debugger.image(given)?;
    let ino = image.find(path)?;
    let out = shown(image.view()?, ino)?;
    debugger.out.push_str(&out);
    Ok(())
}

fn shown(view: &View, ino: Ino) -> Result<String> {
    let found = view.inode(ino)?;
    let (inode, raw) = (&found.inode, &found.raw.bytes);
    let is_large = raw.len() > GOOD_OLD;
    let extra = if is_large { half(raw, 0x80) } else { 0 };
    let has = |at: u16| extra >= at - 0x7c;
    let mut out = String::new();
    let kind = match inode.file_type() {
        FileType::Regular => "regular",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::BlockDevice => "block special",
        FileType::CharDevice => "character special",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::Unknown => "bad type",
    };
    let (mode, flags) = (inode.mode & 0o7777, word(raw, 0x20));
    let _ = writeln!(
        out,
        "Inode: {}   Type: {kind}    Mode:  0{mode:03o}   Flags: 0x{flags:x}",
        ino.0
    );
    let version = match is_large && has(0x98) {
        true => format!("0x{:08x}:{:08x}", word(raw, 0x98), word(raw, 0x24)),
        false => format!("0x{:08x}", word(raw, 0x24)),
    };
    let _ = writeln!(
        out,
        "Generation: {}    Version: {version}",
        inode.generation.0
    );
    let _ = write!(out, "User: {:>5}   Group: {:>5}", inode.uid, inode.gid);
    if is_large && has(0x9c) {
        let _ = write!(out, "   Project: {:>5}", inode.projid);
    }
    let _ = writeln!(out, "   Size: {}", inode.size);
    let _ = writeln!(out, "File ACL: {}", inode.file_acl.0);
    let _ = writeln!(out, "Links: {}   Blockcount: {}", inode.links, inode.blocks);
    let _ = writeln!(
        out,
        "Fragment:  Address: {}    Number: 0    Size: 0",
        word(raw, 0x70)
    );
    times(raw, inode, is_large && has(0x88), &mut out);
    if is_large {
        let _ = writeln!(out, "Size of extra inode fields: {extra}");
    }
    let listed = attributes(view, ino)?;
    if !listed.is_empty() {
        out.push_str("Extended attributes:\n");
        out.push_str(&listed);
    }
    if view.sb.has_metadata_csum() {
        let high = if is_large {
            u32::from(half(raw, 0x82)) << 16
        } else {
            0
        };
        let sum = high | u32::from(half(raw, 0x7c));
        let _ = writeln!(out, "Inode checksum: 0x{sum:08x}");
    }
    content(view, ino, inode, &mut out)?;
    Ok(out)
}

fn times(raw: &[u8], inode: &Inode, is_large: bool, out: &mut String) {
    let mut line = |name: &str, at: usize, extra: usize, seconds: i64| {
        let shown = time(seconds.cast_unsigned());
        let _ = match is_large {
            true => writeln!(
                out,
                "{name:>6}: 0x{:08x}:{:08x} -- {shown}",
                word(raw, at),
                word(raw, extra)
            ),
            false => writeln!(
                out,
                "{}: 0x{:08x} -- {shown}",
                name.trim_start(),
                word(raw, at)
            ),
        };
    };
    line("ctime", 0x0c, 0x84, inode.ctime.sec);
    line("atime", 0x08, 0x8c, inode.atime.sec);
    line("mtime", 0x10, 0x88, inode.mtime.sec);
    if is_large {
        line("crtime", 0x90, 0x94, inode.crtime.sec);
    }
    if inode.dtime != 0 {
        let shown = time(inode.dtime.into());
        let _ = match is_large {
            true => writeln!(
                out,
                " dtime: 0x{:08x}:({:08x}) -- {shown}",
                inode.dtime,
                word(raw, 0x84)
            ),
            false => writeln!(out, "dtime: 0x{:08x} -- {shown}", inode.dtime),
        };
    }
}

fn content(view: &View, ino: Ino, inode: &Inode, out: &mut String) -> Result<()> {
    let kind = inode.file_type();
    if let Some(target) = inode.fast_symlink_target() {
        let _ = writeln!(out, "Fast link dest: \"{}\"", text(target));
    } else if matches!(kind, FileType::CharDevice | FileType::BlockDevice) {
        let dev = inode.dev_no();
        let (major, minor) = (dev.major, dev.minor);
        let is_new = inode.i_block.first_chunk() == Some(&[0; 4]);
        let style = if is_new { "(New-style) " } else { "" };
        let _ = write!(
            out,
            "{style}Device major/minor number: {major:02}:{minor:02}"
        );
        let _ = writeln!(out, " (hex {major:02x}:{minor:02x})");
    } else if inode.flags.contains(InodeFlags::INLINE_DATA) {
        let bytes = image::inline(view, ino, inode)?.len();
        let _ = writeln!(out, "Size of inline data: {bytes}");
    } else if inode.flags.contains(InodeFlags::EXTENTS) {
        out.push_str("EXTENTS:\n");
        let mut parts = Vec::new();
        if let Some(map) = mapping_of(view, ino, inode) {
            extent_parts(&map, map.depth, &mut parts);
        }
        if !parts.is_empty() {
            let _ = writeln!(out, "{}", parts.join(", "));
        }
    } else {
        out.push_str("BLOCKS:\n");
        let (mut parts, mut total) = (Vec::new(), 0);
        if let Some(map) = mapping_of(view, ino, inode) {
            block_parts(&map, true, &mut parts, &mut total);
        }
        if total > 0 {
            let _ = write!(out, "{}\nTOTAL: {total}\n", parts.join(", "));
        }
        out.push('\n');
    }
    Ok(())
}

fn range(first: u64, len: u64) -> String {
    match len {
        1 => first.to_string(),
        _ => format!("{first}-{}", first + len - 1),
    }
}

fn extent_parts(node: &NodeDump, depth: u16, parts: &mut Vec<String>) {
    if let Some(block) = node.block {
        let level = depth.saturating_sub(node.depth + 1);
        parts.push(format!("(ETB{level}):{block}"));
    }
    for run in &node.runs {
        let mark = if run.unwritten { "[u]" } else { "" };
        let files = range(run.lblk, run.len);
        parts.push(format!("({files}{mark}):{}", range(run.pblk, run.len)));
    }
    for child in &node.below {
        extent_parts(child, depth, parts);
    }
}

fn block_parts(node: &NodeDump, is_root: bool, parts: &mut Vec<String>, total: &mut u64) {
    if let Some(block) = node.block.filter(|_| !is_root) {
        let name = ["IND", "DIND", "TIND"].get(usize::from(node.depth));
        parts.push(format!("({}):{block}", name.unwrap_or(&"TIND")));
        *total += 1;
    }
    for run in &node.runs {
        parts.push(format!(
            "({}):{}",
            range(run.lblk, run.len),
            range(run.pblk, run.len)
        ));
        *total += run.len;
    }
    for child in &node.below {
        block_parts(child, false, parts, total);
    }
}

/// `blocks`.
pub fn blocks(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let [path] = given.exactly("blocks <file>")?;
    let image = debugger.image(given)?;
    let ino = image.find(path)?;
    let view = image.view()?;
    let inode = view.inode(ino)?.inode;
    let mut all = Vec::new();
    if let Some(map) = mapping_of(view, ino, &inode) {
        collect(&map, &mut all);
    }
    let mut out = String::new();
    for block in all.iter().flat_map(|(first, len)| *first..first + len) {
        let _ = write!(out, "{block} ");
    }
    out.push('\n');
    debugger.out.push_str(&out);
    Ok(())
}

/// `ex`.
pub fn extents(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let (options, operands) = given.options("nl", "[-n] [-l] file")?;
    let [path] = operands.as_slice() else {
        bail!("{}: Usage: extents [-n] [-l] file", given.called());
    };
    let image = debugger.image(given)?;
    let ino = image.find(path)?;
    let view = image.view()?;
    let inode = view.inode(ino)?.inode;
    let map = mapping_of(view, ino, &inode).filter(|_| inode.flags.contains(InodeFlags::EXTENTS));
    let map = map.ok_or_else(|| anyhow!("{}: does not uses extent block maps", text(path)))?;
    let block_size = u64::from(view.sb.geometry.block_size);
    let table = Table {
        depth: map.depth,
        nodes: !options.contains(&'l'),
        leaves: !options.contains(&'n'),
        logical: digits(inode.size.div_ceil(block_size)),
        physical: digits(view.sb.geometry.blocks_count),
    };
    let mut out = table.head();
    table.node(&map, inode.size.div_ceil(block_size), &mut out);
    debugger.out.push_str(&out);
    Ok(())
}

fn digits(number: u64) -> usize {
    number.max(1).ilog10() as usize + 1
}

/// The table of `ex`.
struct Table {
    depth: u16,
    nodes: bool,
    leaves: bool,
    logical: usize,
    physical: usize,
}

impl Table {
    fn head(&self) -> String {
        let (logical, physical) = (self.logical.max(5), self.physical.max(5));
        format!(
            "Level Entries {:>w1$} {:>w2$} Length Flags\n",
            "Logical",
            "Physical",
            w1 = logical * 2 + 3,
            w2 = physical * 2 + 3
        )
    }

    fn node(&self, node: &NodeDump, end: u64, out: &mut String) {
        let (w1, w2) = (self.logical.max(5), self.physical.max(5));
        let level = self.depth.saturating_sub(node.depth);
        let of = |at: usize| {
            format!(
                "{level:>2}/{:>2} {:>3}/{:>3}",
                self.depth,
                at + 1,
                node.entries
            )
        };
        for (
            at,
            RunDump {
                lblk,
                len,
                pblk,
                unwritten,
            },
        ) in node.runs.iter().enumerate()
        {
            if self.leaves {
                let (last, plast) = (lblk + len - 1, pblk + len - 1);
                let flags = if *unwritten { "Uninit" } else { "" };
                let _ = writeln!(
                    out,
                    "{} {lblk:>w1$} - {last:>w1$} {pblk:>w2$} - {plast:>w2$} {len:>6} {flags}",
                    of(at)
                );
            }
        }
        for (at, child) in node.below.iter().enumerate() {
            let next = node.below.get(at + 1).map_or(end, |next| next.lblk);
            if self.nodes {
                let (lblk, last) = (child.lblk, next.saturating_sub(1));
                let block = child.block.unwrap_or(0);
                let len = next.saturating_sub(lblk);
                let _ = writeln!(
                    out,
                    "{} {lblk:>w1$} - {last:>w1$} {block:>w2$}{:gap$} {len:>6}",
                    of(at),
                    "",
                    gap = w2 + 3
                );
            }
            self.node(child, next, out);
        }
    }
}

/// `bmap`.
pub fn bmap(debugger: &mut Debugger, given: &Given) -> Result<()> {
    const USAGE: &str = "Usage: bmap [-a] <file> logical_blk [physical_blk]";
    let operands: Vec<&Vec<u8>> = given
        .operands()
        .iter()
        .filter(|word| *word != b"-a")
        .collect();
    if given.operands().len() != operands.len() || operands.len() > 2 {
        bail!("bmap: blocks are not allocated here; `write` does it");
    }
    let [path, block] = operands.as_slice() else {
        bail!("{USAGE}");
    };
    let image = debugger.image(given)?;
    let ino = image.find(path)?;
    let view = image.view()?;
    let lblk =
        words::number(block).ok_or_else(|| anyhow!("bmap: Bad logical block - {}", text(block)))?;
    let inode = view.inode(ino)?.inode;
    if inode.flags.contains(InodeFlags::INLINE_DATA) {
        bail!("bmap: No block for an inode with inline data while mapping logical block {lblk}\n");
    }
    let runs = image::runs(view, ino, &inode);
    let run = runs
        .iter()
        .find(|run| (run.lblk..run.lblk + run.len).contains(&lblk));
    let (pblk, mark) = run.map_or((0, ""), |run| {
        let mark = if run.unwritten { " (uninit)" } else { "" };
        (run.pblk + (lblk - run.lblk), mark)
    });
    debugger.out = format!("{pblk}{mark}\n");
    Ok(())
}

/// `imap`.
pub fn imap(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let [path] = given.exactly("imap <file>")?;
    let image = debugger.image(given)?;
    let ino = image.find(path)?;
    let raw = image.view()?.raw_inode(ino)?;
    debugger.out = format!(
        "Inode {} is part of block group {}\n\tlocated at block {}, offset 0x{:04x}\n",
        ino.0, raw.group.0, raw.block.0, raw.offset
    );
    Ok(())
}

/// Calls `work` with each attribute, those in the inode first.
fn each_attribute(view: &View, ino: Ino, mut work: impl FnMut(&XattrEntry<'_>)) -> Result<()> {
    let found = view.inode(ino)?;
    if let Ok(Some(area)) = XattrArea::in_inode(&found.raw.bytes) {
        area.entries().for_each(|entry| work(&entry));
    }
    if found.inode.file_acl.0 != 0 {
        let bytes = view.block(found.inode.file_acl)?;
        let area = XattrArea::in_block(&bytes).context("the block of attributes")?;
        area.entries().for_each(|entry| work(&entry));
    }
    Ok(())
}

fn name_of(entry: &XattrEntry<'_>) -> Vec<u8> {
    [entry.index.prefix().as_bytes(), entry.name].concat()
}

fn value_of(view: &View, entry: &XattrEntry<'_>) -> Vec<u8> {
    match entry.value {
        XattrValue::Inline(bytes) => bytes.to_vec(),
        XattrValue::Inode { ino, size } => {
            let mut bytes = Vec::new();
            if let Ok(found) = view.inode(ino) {
                let _ = super::copy::to(view, ino, &found.inode, &mut bytes);
            }
            bytes.truncate(size as usize);
            bytes
        }
    }
}

/// Attributes, a line each.
fn attributes(view: &View, ino: Ino) -> Result<String> {
    let mut out = String::new();
    each_attribute(view, ino, |entry| {
        let value = value_of(view, entry);
        let name = text(&name_of(entry));
        let shown = match value.len() {
            1..SHOWN_MAX => format!(" = {}", printed(&value, false)),
            _ => String::new(),
        };
        let _ = writeln!(out, "  {name} ({}){shown}", value.len());
    })?;
    Ok(out)
}

/// A value: text in quotes, or hexadecimal if much of it is none.
fn printed(value: &[u8], as_hex: bool) -> String {
    let other = value
        .iter()
        .filter(|byte| !matches!(byte, b' '..=b'~'))
        .count();
    if as_hex || other > value.len() / 8 {
        return value.iter().fold(String::new(), |mut out, byte| {
            let _ = write!(out, "{byte:02x} ");
            out
        });
    }
    let mut out = "\"".to_owned();
    for byte in value {
        let _ = match byte {
            b'"' | b'\\' => write!(out, "\\{}", char::from(*byte)),
            b' '..=b'~' => write!(out, "{}", char::from(*byte)),
            _ => write!(out, "\\{byte:03o}"),
        };
    }
    out.push('"');
    out
}

/// `ea_list`.
pub fn ea_list(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let [path] = given.exactly("ea_list <file>")?;
    let image = debugger.image(given)?;
    let ino = image.find(path)?;
    let listed = attributes(image.view()?, ino)?;
    if !listed.is_empty() {
        debugger.out = format!("Extended attributes:\n{listed}");
    }
    Ok(())
}

/// `ea_get`.
pub fn ea_get(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let mut words = given.operands().iter().peekable();
    let (mut file, mut bare, mut as_hex) = (None, false, false);
    while let Some(option) = words.next_if(|word| word.starts_with(b"-")) {
        match option.as_slice() {
            b"-f" => file = words.next(),
            b"-V" => bare = true,
            b"-x" => as_hex = true,
            // Values are as they are stored.
            b"-r" | b"-C" => {}
            _ => bail!("{}: invalid option -- '{}'", given.called(), text(option)),
        }
    }
    let rest: Vec<&Vec<u8>> = words.collect();
    let [path, name] = rest.as_slice() else {
        let called = given.called();
        debugger.out = format!("{called}: Usage: ea_get [-f outfile]|[-xVC] [-r] <file> <attr>\n");
        return Ok(());
    };
    let image = debugger.image(given)?;
    let ino = image.find(path)?;
    let view = image.view()?;
    let mut found = None;
    each_attribute(view, ino, |entry| {
        if name_of(entry) == **name {
            found = Some(value_of(view, entry));
        }
    })?;
    let value = found.ok_or_else(|| {
        anyhow!(
            "{}: Extended attribute key not found while getting extended attribute",
            given.called()
        )
    })?;
    if let Some(file) = file {
        let file = paths::word(file.to_vec());
        std::fs::write(&file, &value).with_context(|| file.display().to_string())?;
        return Ok(());
    }
    debugger.out = match (bare, as_hex) {
        (true, false) => {
            use std::io::Write as _;
            std::io::stdout()
                .lock()
                .write_all(&[&value[..], b"\n"].concat())?;
            return Ok(());
        }
        (true, true) => format!("{}\n", printed(&value, true)),
        (false, _) => format!(
            "{} ({}) = {}\n\n",
            text(name),
            value.len(),
            printed(&value, as_hex)
        ),
    };
    Ok(())
}
