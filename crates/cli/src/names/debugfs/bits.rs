//! Bitmaps, counts and features: testb, setb, freeb, testi, seti, freei, kill_file, features, dirty, stats.

use super::image::{Draft, text};
use super::inode::{all_blocks, is_in_use};
use super::{Debugger, Given, words};
use crate::commands::dump::View;
use crate::names::fields as superblock_fields;
use anyhow::{Result, anyhow, bail};
use std::fmt::Write;
use uext4::unstable::ondisk::{
    Compat, Feature, FileType, GroupFlags, GroupNo, Incompat, Ino, Pblk, RoCompat, STATE_CLEAN,
};
use uext4::unstable::to_stderr;

/// The blocks that a request names.
fn blocks(given: &Given, usage: &str) -> Result<std::ops::Range<u64>> {
    let called = given.called();
    let number = |word: &Vec<u8>| {
        let bad = || anyhow!("{called}: Bad block number - {}", text(word));
        words::number(word).ok_or_else(bad)
    };
    match given.operands() {
        [first] => number(first).map(|first| first..first.saturating_add(1)),
        [first, count] => Ok(number(first)?..number(first)?.saturating_add(number(count)?)),
        _ => bail!("{called}: Usage: {usage}"),
    }
}

/// Where the bit of a block is: group, block of the bitmap, bit.
fn place(view: &View, block: u64) -> Result<(GroupNo, Pblk, usize)> {
    let group = view.sb.geometry.group_of_block(Pblk(block));
    let (no, at) =
        group.ok_or_else(|| anyhow!("Illegal block number #{block} for block bitmap"))?;
    let bit = at.0 / view.sb.geometry.cluster_ratio.max(1);
    Ok((no, view.group(no)?.block_bitmap, bit as usize))
}

fn is_set(bitmap: &[u8], bit: usize) -> bool {
    bitmap
        .get(bit / 8)
        .is_some_and(|byte| byte & 1 << (bit % 8) != 0)
}

fn set(bitmap: &mut [u8], bit: usize, on: bool) {
    if let Some(byte) = bitmap.get_mut(bit / 8) {
        match on {
            true => *byte |= 1 << (bit % 8),
            false => *byte &= !(1 << (bit % 8)),
        }
    }
}

/// `testb`.
pub fn testb(debugger: &mut Debugger, given: &Given) -> Result<()> {
    debugger.image(given)?;
    let range = blocks(given, "testb <block> [count]")?;
    let view = debugger.image(given)?.view()?;
    let mut out = String::new();
    for block in range {
        let (group, at, bit) = place(view, block)?;
        let is_unused = view.group(group)?.flags.contains(GroupFlags::BLOCK_UNINIT);
        let bitmap = if is_unused {
            Vec::new()
        } else {
            view.block(at)?
        };
        let word = if is_set(&bitmap, bit) {
            "marked in use"
        } else {
            "not in use"
        };
        let _ = writeln!(out, "Block {block} {word}");
    }
    debugger.out = out;
    Ok(())
}

/// `setb`.
pub fn setb(debugger: &mut Debugger, given: &Given) -> Result<()> {
    mark_blocks(debugger, given, "setb <block> [count]", true)
}

/// `freeb`.
pub fn freeb(debugger: &mut Debugger, given: &Given) -> Result<()> {
    mark_blocks(debugger, given, "freeb <block> [count]", false)
}

fn mark_blocks(debugger: &mut Debugger, given: &Given, usage: &str, on: bool) -> Result<()> {
    debugger.writable(given)?;
    let range = blocks(given, usage)?;
    let image = debugger.writable(given)?;
    let draft = image.draft()?;
    for block in range {
        if !mark_block(&draft, block, on)? {
            let word = if on { "set" } else { "clear" };
            to_stderr(format_args!(
                "{}: Warning: block {block} already {word}",
                given.called()
            ));
        }
    }
    image.commit(draft)
}

/// Sets or clears the bit of a block, and counts it; false if it was so before.
fn mark_block(draft: &Draft, block: u64, on: bool) -> Result<bool> {
    let view = &draft.view;
    let (group, at, bit) = place(view, block)?;
    if view.group(group)?.flags.contains(GroupFlags::BLOCK_UNINIT) {
        bail!(
            "block {block}: the bitmap of group {} is not initialized",
            group.0
        );
    }
    let mut bitmap = view.block(at)?;
    if is_set(&bitmap, bit) == on {
        return Ok(false);
    }
    set(&mut bitmap, bit, on);
    draft.put_block(at, &bitmap)?;
    let (seed, geometry) = (view.seed(), &view.sb.geometry);
    draft.change_group(group, |desc| {
        desc.free_blocks = match on {
            true => desc.free_blocks.saturating_sub(1),
            false => desc.free_blocks.saturating_add(1),
        };
        if view.sb.has_metadata_csum() {
            desc.set_block_bitmap_csum(seed, geometry, &bitmap);
        }
    })?;
    draft.change_super(|raw| {
        // Groups count clusters, the superblock blocks.
        let (free, by) = (raw.free_blocks_count(), geometry.cluster_ratio.into());
        raw.set_free_blocks_count(match on {
            true => free.saturating_sub(by),
            false => free.saturating_add(by),
        });
    })?;
    Ok(true)
}

/// `testi`.
pub fn testi(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let [path] = given.exactly("testi <file>")?;
    let image = debugger.image(given)?;
    let ino = image.find(path)?;
    let word = match is_in_use(image.view()?, ino)? {
        true => "marked",
        false => "not",
    };
    debugger.out = format!("Inode {} is {word} in use\n", ino.0);
    Ok(())
}

/// `seti`.
pub fn seti(debugger: &mut Debugger, given: &Given) -> Result<()> {
    mark_inode_of(debugger, given, "seti <file> [num]", true)
}

/// `freei`.
pub fn freei(debugger: &mut Debugger, given: &Given) -> Result<()> {
    mark_inode_of(debugger, given, "freei <file> [num]", false)
}

fn mark_inode_of(debugger: &mut Debugger, given: &Given, usage: &str, on: bool) -> Result<()> {
    let image = debugger.writable(given)?;
    let [path] = given.exactly(usage)?;
    let ino = image.find(path)?;
    let draft = image.draft()?;
    if !mark_inode(&draft, ino, false, on)? {
        let word = if on { "set" } else { "clear" };
        to_stderr(format_args!(
            "{}: Warning: inode already {word}",
            given.called()
        ));
    }
    image.commit(draft)
}

/// Sets or clears the bit of an inode, and counts it; false if it was so before.
fn mark_inode(draft: &Draft, ino: Ino, is_dir: bool, on: bool) -> Result<bool> {
    let view = &draft.view;
    if is_in_use(view, ino)? == on {
        return Ok(false);
    }
    let (group, index) = view.sb.geometry.group_of_ino(ino)?;
    let desc = view.group(group)?;
    if desc.flags.contains(GroupFlags::INODE_UNINIT) {
        bail!(
            "inode {}: the bitmap of group {} is not initialized",
            ino.0,
            group.0
        );
    }
    let mut bitmap = view.block(desc.inode_bitmap)?;
    set(&mut bitmap, index as usize, on);
    draft.put_block(desc.inode_bitmap, &bitmap)?;
    let (seed, geometry) = (view.seed(), &view.sb.geometry);
    let unused = geometry.inodes_per_group.saturating_sub(index + 1);
    draft.change_group(group, |desc| {
        desc.free_inodes = match on {
            true => desc.free_inodes.saturating_sub(1),
            false => desc.free_inodes.saturating_add(1),
        };
        if is_dir && !on {
            desc.used_dirs = desc.used_dirs.saturating_sub(1);
        }
        if on {
            desc.itable_unused = desc.itable_unused.min(unused);
        }
        if view.sb.has_metadata_csum() {
            desc.set_inode_bitmap_csum(seed, geometry, &bitmap);
        }
    })?;
    draft.change_super(|raw| {
        let free = raw.free_inodes_count.get();
        raw.free_inodes_count = match on {
            true => free.saturating_sub(1),
            false => free.saturating_add(1),
        }
        .into();
    })?;
    Ok(true)
}

/// `kill_file`: the inode and its blocks are freed, and its names stay.
pub fn kill_file(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let image = debugger.writable(given)?;
    let [path] = given.exactly("kill_file <file>")?;
    let ino = image.find(path)?;
    let draft = image.draft()?;
    let inode = draft.view.inode(ino)?.inode;
    for (first, len) in all_blocks(&draft.view, ino, &inode) {
        for block in first..first.saturating_add(len) {
            mark_block(&draft, block, false)?;
        }
    }
    mark_inode(&draft, ino, inode.file_type() == FileType::Directory, false)?;
    let now = jiff::Timestamp::now().as_second() as u32;
    draft.change_inode(ino, |raw| {
        if let Some(dtime) = raw.get_mut(0x14..0x18) {
            dtime.copy_from_slice(&now.to_le_bytes());
        }
        if let Some(links) = raw.get_mut(0x1a..0x1c) {
            links.fill(0);
        }
    })?;
    image.commit(draft)?;
    debugger.out.push('\n');
    Ok(())
}

/// `features`: shows them, and changes those that are named.
pub fn features(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let words: Vec<String> = given.operands().iter().map(|word| text(word)).collect();
    let mut unknown = None;
    if !words.is_empty() {
        let image = debugger.writable(given)?;
        let draft = image.draft()?;
        let raw = &draft.view.sb.raw;
        let (mut compat, mut incompat, mut ro) = (raw.compat(), raw.incompat(), raw.ro_compat());
        for word in words.iter().flat_map(|word| word.split([',', ' '])) {
            let (name, on) = match word.strip_prefix(['^', '-']) {
                Some(name) => (name, false),
                None => (word.strip_prefix('+').unwrap_or(word), true),
            };
            match Feature::parse_name(name) {
                Some(Feature::Compat(bit)) => compat.set(bit, on),
                Some(Feature::Incompat(bit)) => incompat.set(bit, on),
                Some(Feature::RoCompat(bit)) => ro.set(bit, on),
                None => unknown = Some(name.to_owned()),
            }
        }
        draft.change_super(|raw| raw.set_features(compat, incompat, ro))?;
        image.commit(draft)?;
    }
    let raw = debugger.image(given)?.view()?.sb.raw.clone();
    let known = [
        Compat::names(raw.compat()).collect::<Vec<_>>(),
        Incompat::names(raw.incompat()).collect(),
        RoCompat::names(raw.ro_compat()).collect(),
    ];
    let names = known.concat();
    let shown = match names.is_empty() {
        true => " (none)".to_owned(),
        false => names
            .iter()
            .fold(String::new(), |all, name| format!("{all} {name}")),
    };
    debugger.out = format!("Filesystem features:{shown}\n");
    match unknown {
        Some(name) => {
            debugger.has_failed = true;
            bail!("{}: Unknown feature: {name}\n", given.called())
        }
        None => Ok(()),
    }
}

/// `dirty`.
pub fn dirty(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let image = debugger.writable(given)?;
    let draft = image.draft()?;
    draft.change_super(|raw| raw.state = (raw.state.get() & !STATE_CLEAN).into())?;
    image.commit(draft)
}

/// `stats`.
pub fn stats(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let (options, _) = given.options("h", "[-h]")?;
    let view = debugger.image(given)?.view()?;
    let mut out = String::from_utf8_lossy(&superblock_fields::of(&view.sb)).into_owned();
    let groups = (0..view.sb.geometry.groups_count).map(GroupNo);
    let descs = groups
        .map(|no| view.group(no))
        .collect::<Result<Vec<_>>>()?;
    let dirs: u64 = descs.iter().map(|desc| u64::from(desc.used_dirs)).sum();
    let _ = writeln!(out, "{:<26}{dirs}", "Directories:");
    if !options.contains(&'h') {
        for (no, desc) in descs.iter().enumerate() {
            group_lines(view, GroupNo(no as u32), desc, &mut out);
        }
    }
    debugger.out = out;
    Ok(())
}

fn group_lines(
    view: &View,
    no: GroupNo,
    desc: &uext4::unstable::ondisk::GroupDesc,
    out: &mut String,
) {
    let plural = |count: u32, one: &str, many: &str| {
        let word = if count == 1 { one } else { many };
        format!("{count} {word}")
    };
    let _ = writeln!(
        out,
        " Group {:>2}: block bitmap at {}, inode bitmap at {}, inode table at {}",
        no.0, desc.block_bitmap.0, desc.inode_bitmap.0, desc.inode_table.0
    );
    let has_csum = view.sb.has_group_csum() || view.sb.has_metadata_csum();
    let unused = match has_csum {
        true => format!(
            ", {}",
            plural(desc.itable_unused, "unused inode", "unused inodes")
        ),
        false => String::new(),
    };
    let (one, many) = match view.sb.ro_compat.contains(RoCompat::BIGALLOC) {
        true => ("free cluster", "free clusters"),
        false => ("free block", "free blocks"),
    };
    let _ = writeln!(
        out,
        "           {}, {}, {}{unused}",
        plural(desc.free_blocks, one, many),
        plural(desc.free_inodes, "free inode", "free inodes"),
        plural(desc.used_dirs, "used directory", "used directories")
    );
    if has_csum {
        let mut words = Vec::new();
        for (flag, word) in [
            (GroupFlags::INODE_UNINIT, "Inode not init"),
            (GroupFlags::BLOCK_UNINIT, "Block not init"),
        ] {
            if desc.flags.contains(flag) {
                words.push(word.to_owned());
            }
        }
        words.push(format!("Checksum 0x{:04x}", desc.checksum));
        let _ = writeln!(out, "           [{}]", words.join(", "));
    }
}
