//! The groups of an image as dumpe2fs lists them.

use crate::commands::dump::View;
use anyhow::Result;
use std::fmt::Write as _;
use std::io::Write;
use uext4::unstable::ondisk::{Geometry, GroupDesc, GroupFlags, GroupNo, Incompat, Pblk, RoCompat};

/// Numbers of blocks, as `-x` asks for.
#[derive(Clone, Copy)]
struct Numbers {
    as_hex: bool,
    /// Hexadecimal digits at least.
    digits: usize,
}

impl Numbers {
    fn one(self, number: u64) -> String {
        match self.as_hex {
            true => format!("0x{number:0digits$x}", digits = self.digits),
            false => number.to_string(),
        }
    }

    fn range(self, first: u64, last: u64) -> String {
        format!("{}-{}", self.one(first), self.one(last))
    }

    /// The numbers `first + n * step` whose bit `n` of `count` is not in `used`, as ranges.
    fn free(self, used: &dyn Fn(u64) -> bool, first: u64, count: u64, step: u64) -> String {
        let mut ranges = Vec::new();
        let mut start = None;
        for n in 0..=count {
            let is_free = n < count && !used(n);
            match (start, is_free) {
                (None, true) => start = Some(n),
                (Some(from), false) => {
                    let (from, to) = (first + from * step, first + (n - 1) * step);
                    ranges.push(match from == to {
                        true => self.one(from),
                        false => self.range(from, to),
                    });
                    start = None;
                }
                _ => {}
            }
        }
        ranges.join(", ")
    }
}

/// Blocks of the inode table of a group.
fn table_blocks(geometry: &Geometry) -> u64 {
    let in_block = geometry.block_size / u32::from(geometry.inode_size).max(1);
    geometry.inodes_per_group.div_ceil(in_block.max(1)).into()
}

/// Where superblock and descriptors of a group are.
struct Places {
    super_block: Option<u64>,
    /// First and last.
    descs: Option<(u64, u64)>,
    /// With `meta_bg`, a group has at most one block of descriptors.
    is_one_desc: bool,
    reserved: Option<(u64, u64)>,
}

impl Places {
    fn of(view: &View, group: GroupNo) -> Places {
        let geometry = &view.sb.geometry;
        // Byte 1024 is in block 1, also where the groups begin with block 0.
        let is_behind_first =
            group == GroupNo(0) && geometry.block_size == 1024 && geometry.first_data_block == 0;
        let first = geometry.group_first_block(group).0 + u64::from(is_behind_first);
        let has_super = geometry.has_super(group);
        let descs = u64::from(geometry.gdt_blocks(group));
        let at = first + u64::from(has_super);
        let old_style = !view.sb.incompat.contains(Incompat::META_BG);
        let reserved = u64::from(view.sb.raw.reserved_gdt_blocks.get());
        let behind = at + descs;
        Places {
            super_block: has_super.then_some(first),
            descs: (descs > 0).then(|| (at, behind - 1)),
            is_one_desc: !old_style,
            reserved: (has_super && old_style && reserved > 0)
                .then(|| (behind, behind + reserved - 1)),
        }
    }
}

/// Lists the groups.
///
/// # Errors
/// A descriptor or a bitmap can't be read; standard output can't be written.
pub fn write(view: &View, as_hex: bool, out: &mut dyn Write) -> Result<()> {
    let digits = match view.sb.incompat.contains(Incompat::BIT64) {
        true => 8,
        false => 4,
    };
    let numbers = Numbers { as_hex, digits };
    out.write_all(b"\n")?;
    let mut flex = FlexGroup::default();
    for no in (0..view.sb.geometry.groups_count).map(GroupNo) {
        out.write_all(group(view, no, numbers, &mut flex)?.as_bytes())?;
    }
    Ok(())
}

fn group(view: &View, no: GroupNo, numbers: Numbers, flex: &mut FlexGroup) -> Result<String> {
    let geometry = &view.sb.geometry;
    let desc = view.group(no)?;
    let first = geometry.group_first_block(no).0;
    let last = first + u64::from(geometry.blocks_in_group(no)).saturating_sub(1);
    let mut text = format!("Group {no}: (Blocks {})", numbers.range(first, last));
    let has_sums = view
        .sb
        .ro_compat
        .intersects(RoCompat::METADATA_CSUM | RoCompat::GDT_CSUM);
    if has_sums {
        let _ = write!(text, " csum 0x{:04x}", desc.checksum);
        let expected = view.group_checksum(no)?;
        if expected != desc.checksum {
            let _ = write!(text, " (EXPECTED 0x{expected:04x})");
        }
    }
    text += &flags(desc.flags);
    text.push('\n');
    text += &places(&Places::of(view, no), numbers);
    let bitmaps = [
        ("Block", desc.block_bitmap, desc.block_bitmap_csum),
        ("Inode", desc.inode_bitmap, desc.inode_bitmap_csum),
    ];
    for (kind, at, sum) in bitmaps {
        let _ = write!(
            text,
            "  {kind} bitmap at {}{}",
            numbers.one(at.0),
            distance(view, no, at)
        );
        if view.sb.has_metadata_csum() {
            let _ = write!(text, ", csum 0x{sum:08x}");
        }
        text.push('\n');
    }
    let table = desc.inode_table;
    let end = table
        .0
        .saturating_add(table_blocks(geometry))
        .saturating_sub(1);
    let (range, distance) = (numbers.range(table.0, end), distance(view, no, table));
    let _ = writeln!(text, "  Inode table at {range}{distance}");
    let unit = if view.sb.ro_compat.contains(RoCompat::BIGALLOC) {
        "clusters"
    } else {
        "blocks"
    };
    let GroupDesc {
        free_blocks,
        free_inodes,
        used_dirs,
        itable_unused,
        ..
    } = desc;
    let _ = write!(
        text,
        "  {free_blocks} free {unit}, {free_inodes} free inodes, {used_dirs} directories"
    );
    if itable_unused > 0 {
        let _ = write!(text, ", {itable_unused} unused inodes");
    }
    text.push('\n');
    text += &free(view, no, &desc, numbers, flex)?;
    Ok(text)
}

fn flags(flags: GroupFlags) -> String {
    let named = [
        (GroupFlags::INODE_UNINIT, "INODE_UNINIT"),
        (GroupFlags::BLOCK_UNINIT, "BLOCK_UNINIT"),
        (GroupFlags::ITABLE_ZEROED, "ITABLE_ZEROED"),
    ];
    let set = named.iter().filter(|(flag, _)| flags.contains(*flag));
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    match set.is_empty() {
        true => String::new(),
        false => format!(" [{}]", set.join(", ")),
    }
}

fn places(places: &Places, numbers: Numbers) -> String {
    let mut text = String::new();
    if let Some(at) = places.super_block {
        let kind = if at <= 1 { "Primary" } else { "Backup" };
        let _ = write!(text, "  {kind} superblock at {}", numbers.one(at));
    }
    if let Some((first, last)) = places.descs {
        text += if text.is_empty() { "  " } else { ", " };
        text += &match places.is_one_desc {
            true => format!("Group descriptor at {}", numbers.one(first)),
            false => format!("Group descriptors at {}", numbers.range(first, last)),
        };
    }
    if !text.is_empty() {
        text.push('\n');
    }
    if let Some((first, last)) = places.reserved {
        let _ = writeln!(
            text,
            "  Reserved GDT blocks at {}",
            numbers.range(first, last)
        );
    }
    text
}

/// How far a block is from the start of the group, or of that which it is in.
fn distance(view: &View, group: GroupNo, at: Pblk) -> String {
    let geometry = &view.sb.geometry;
    let from = |group: GroupNo| i128::from(at.0) - i128::from(geometry.group_first_block(group).0);
    match geometry.group_of_block(at) {
        Some((other, _)) if other != group && view.sb.incompat.contains(Incompat::FLEX_BG) => {
            format!(" (bg #{} + {})", other.0, from(other))
        }
        _ => format!(" ({:+})", from(group)),
    }
}

fn free(
    view: &View,
    no: GroupNo,
    desc: &GroupDesc,
    numbers: Numbers,
    flex: &mut FlexGroup,
) -> Result<String> {
    let geometry = &view.sb.geometry;
    let first = geometry.group_first_block(no).0;
    let bit = |map: &[u8], n: u64| {
        let byte = map.get((n / 8) as usize);
        byte.is_some_and(|byte| byte >> (n % 8) & 1 != 0)
    };
    let clusters = u64::from(geometry.clusters_in_group(no));
    let ratio = u64::from(geometry.cluster_ratio).max(1);
    let is_uninit = desc.flags.contains(GroupFlags::BLOCK_UNINIT);
    let blocks = match is_uninit {
        false => {
            let map = view.block(desc.block_bitmap)?;
            numbers.free(&|n| bit(&map, n), first, clusters, ratio)
        }
        true => {
            let fixed = fixed_blocks(view, no, flex)?;
            let is_fixed = |n: u64| {
                let block = first + n * ratio;
                let is_in = |(from, to): &(u64, u64)| {
                    (from / ratio..=to / ratio).contains(&(block / ratio))
                };
                fixed.iter().any(is_in)
            };
            numbers.free(&is_fixed, first, clusters, ratio)
        }
    };
    let (inode, inodes) = (
        u64::from(geometry.ino_in_group(no, 0).0),
        u64::from(geometry.inodes_per_group),
    );
    let inodes = match desc.flags.contains(GroupFlags::INODE_UNINIT) {
        true => numbers.free(&|_| false, inode, inodes, 1),
        false => {
            let map = view.block(desc.inode_bitmap)?;
            numbers.free(&|n| bit(&map, n), inode, inodes, 1)
        }
    };
    Ok(format!(
        "  Free blocks: {blocks}\n  Free inodes: {inodes}\n"
    ))
}

/// The bitmaps and inode tables of the groups of a flex group, which may lie in any of them.
#[derive(Default)]
struct FlexGroup {
    first: Option<u32>,
    /// First and last blocks.
    ranges: Vec<(u64, u64)>,
}

impl FlexGroup {
    /// Those of the flex group that has this group; read once.
    fn of(&mut self, view: &View, no: GroupNo) -> Result<&[(u64, u64)]> {
        let geometry = &view.sb.geometry;
        let groups = 1_u32 << geometry.log_groups_per_flex.min(31);
        let first = no.0 - no.0 % groups;
        if self.first == Some(first) {
            return Ok(&self.ranges);
        }
        let end = first.saturating_add(groups).min(geometry.groups_count);
        self.ranges.clear();
        for group in (first..end).map(GroupNo) {
            let desc = view.group(group)?;
            let table = desc.inode_table.0;
            let table_end = table
                .saturating_add(table_blocks(geometry))
                .saturating_sub(1);
            self.ranges.extend([
                (desc.block_bitmap.0, desc.block_bitmap.0),
                (desc.inode_bitmap.0, desc.inode_bitmap.0),
                (table, table_end),
            ]);
        }
        self.first = Some(first);
        Ok(&self.ranges)
    }
}

/// Ranges of metadata in a group whose bitmap was never written.
fn fixed_blocks(view: &View, no: GroupNo, flex: &mut FlexGroup) -> Result<Vec<(u64, u64)>> {
    let geometry = &view.sb.geometry;
    let first = geometry.group_first_block(no).0;
    let end = first.saturating_add(geometry.blocks_in_group(no).into());
    let base = u64::from(geometry.base_meta_blocks(no));
    let is_here = |(from, to): &&(u64, u64)| *from < end && *to >= first;
    let mut fixed: Vec<(u64, u64)> = flex.of(view, no)?.iter().filter(is_here).copied().collect();
    if base > 0 {
        fixed.push((first, first + base - 1));
    }
    Ok(fixed)
}

/// The groups as lines of numbers, as `-g` lists them.
///
/// # Errors
/// A descriptor can't be read.
pub fn table(view: &View) -> Result<String> {
    let mut text = "\ngroup:block:super:gdt:bbitmap:ibitmap:itable\n".to_owned();
    for no in (0..view.sb.geometry.groups_count).map(GroupNo) {
        let (desc, places) = (view.group(no)?, Places::of(view, no));
        let first = view.sb.geometry.group_first_block(no).0;
        let super_block = places
            .super_block
            .map_or("-1".to_owned(), |at| at.to_string());
        let descs = match places.descs {
            None => "-1".to_owned(),
            Some((at, _)) if view.sb.incompat.contains(Incompat::META_BG) => at.to_string(),
            Some((from, to)) => format!("{from}-{to}"),
        };
        let _ = writeln!(
            text,
            "{no}:{first}:{super_block}:{descs}:{}:{}:{}",
            desc.block_bitmap.0, desc.inode_bitmap.0, desc.inode_table.0
        );
    }
    Ok(text)
}
