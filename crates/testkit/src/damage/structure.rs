//! Damage that needs more than one field: pointers and names that lead somewhere else, entries that
//! trade places, orphans.

use super::choice::{choose, some_inode};
use super::image::DamagedImage;
use super::target::Target;
use fastrand::Rng;
use uext4_ondisk::*;

/// Damages the structure of an image and says how.
pub fn structure(rng: &mut Rng, image: &mut DamagedImage, targets: &[Target]) -> String {
    match rng.u8(0..13) {
        0 => name_elsewhere(rng, image, targets),
        1 => name_gone(rng, image, targets),
        2 => name_twice(rng, image, targets),
        3 => parent_elsewhere(rng, image, targets),
        4 => pointer_elsewhere(rng, image),
        5 => map_of_another(rng, image),
        6 => entries_trade(rng, image, targets),
        7 => orphan(rng, image),
        8 => deleted(rng, image),
        9 => attribute_block_of_another(rng, image),
        10 => links(rng, image),
        11 => block_zeroed(rng, image, targets),
        _ => extent_field(rng, image),
    }
}

/// The records of a block of a linear directory or a leaf: where, and how long.
fn records(image: &DamagedImage, block: u64) -> Vec<(usize, usize, usize)> {
    let range = image.block(block);
    let end = dir_data_end(range.len(), image.sb.has_metadata_csum());
    dir_entries(&image.bytes[range.clone()], end)
        .map_while(Result::ok)
        .map(|d| (range.start + d.offset, d.name.len(), d.rec_len))
        .collect()
}

fn linear(rng: &mut Rng, targets: &[Target]) -> Option<(Target, u64)> {
    let all: Vec<&Target> = targets.iter().filter(|t| t.kind() == 0).collect();
    let t = (*all.get(rng.usize(0..all.len().max(1)))?).clone();
    let Target::Linear { block, .. } = t else {
        return None;
    };
    Some((t, block))
}

fn put32(image: &mut DamagedImage, at: usize, value: u32) {
    image.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get32(image: &DamagedImage, at: usize) -> u32 {
    u32::from_le_bytes(image.bytes[at..at + 4].try_into().expect("four"))
}

/// An entry names another inode that is in use, or a free one.
fn name_elsewhere(rng: &mut Rng, image: &mut DamagedImage, targets: &[Target]) -> String {
    let Some((target, block)) = linear(rng, targets) else {
        return links(rng, image);
    };
    let all = records(image, block);
    let (at, _, _) = all[rng.usize(0..all.len())];
    let ino = match rng.u8(0..4) {
        0 => Ino(rng.u32(1..image.geo().inodes_count + 2)),
        1 => Ino::ROOT,
        _ => some_inode(rng, image),
    };
    put32(image, at, ino.0);
    image.fix(&target);
    format!("{target:?}: entry at {at:#x} names inode {ino}")
}

/// An entry is no longer in use.
fn name_gone(rng: &mut Rng, image: &mut DamagedImage, targets: &[Target]) -> String {
    let Some((target, block)) = linear(rng, targets) else {
        return links(rng, image);
    };
    let all = records(image, block);
    let (at, _, _) = all[rng.usize(0..all.len())];
    put32(image, at, 0);
    image.fix(&target);
    format!("{target:?}: entry at {at:#x} unused")
}

/// An entry has the name of another of the same length.
fn name_twice(rng: &mut Rng, image: &mut DamagedImage, targets: &[Target]) -> String {
    let Some((target, block)) = linear(rng, targets) else {
        return links(rng, image);
    };
    let all = records(image, block);
    let (a, b) = (all[rng.usize(0..all.len())], all[rng.usize(0..all.len())]);
    if a.1 != b.1 {
        let (at, len, _) = a;
        if len > 0 {
            let value = [b'/', 0, b'.', b'A'][rng.usize(0..4)];
            image.bytes[at + 8 + rng.usize(0..len)] = value;
        }
        image.fix(&target);
        return format!("{target:?}: strange name at {at:#x}");
    }
    image.bytes.copy_within(a.0 + 8..a.0 + 8 + a.1, b.0 + 8);
    image.fix(&target);
    format!(
        "{target:?}: entry at {:#x} named as that at {:#x}",
        b.0, a.0
    )
}

/// `..` of a directory names another directory, below it for a loop.
fn parent_elsewhere(rng: &mut Rng, image: &mut DamagedImage, targets: &[Target]) -> String {
    let dirs: Vec<Ino> = image
        .used()
        .into_iter()
        .filter(|i| image.inode(*i).file_type() == FileType::Directory)
        .collect();
    let other = dirs[rng.usize(0..dirs.len())];
    let first = |t: &&Target| match t {
        Target::Linear { block, .. } => {
            let at = image.block(*block).start;
            image.bytes[at + 8..at + 10] == *b".\0"
        }
        Target::Dx { kind, .. } => *kind == DxKind::Root,
        _ => false,
    };
    let all: Vec<&Target> = targets.iter().filter(first).collect();
    if all.is_empty() {
        return links(rng, image);
    }
    let target = all[rng.usize(0..all.len())].clone();
    let (Target::Linear { block, .. } | Target::Dx { block, .. }) = target else {
        return String::new();
    };
    let at = image.block(block).start + if rng.u8(0..4) == 0 { 0 } else { 12 };
    put32(image, at, other.0);
    image.fix(&target);
    format!("{target:?}: `.` or `..` is {other}")
}

/// A pointer in an inode leads to another block: of metadata, of another file, or anywhere.
fn pointer_elsewhere(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let ino = some_inode(rng, image);
    let inode = image.inode(ino);
    let geo = image.geo();
    let start = image.inode_at(ino).start;
    let at = if inode.flags.contains(InodeFlags::EXTENTS) {
        start + 0x28 + 12 + if inode.i_block[6] == 0 { 8 } else { 4 }
    } else {
        start + 0x28 + 4 * rng.usize(0..15)
    };
    let g = GroupNo(rng.u32(0..geo.groups_count));
    let desc = image.desc(g);
    let block = match rng.u8(0..6) {
        0 => desc.block_bitmap.0,
        1 => desc.inode_table.0 + 1,
        2 => u64::from(geo.first_data_block) + rng.u64(0..4),
        3 => geo.blocks_count - rng.u64(0..2),
        _ => rng.u64(1..geo.blocks_count),
    };
    put32(image, at, block as u32);
    image.fix_inode(ino);
    format!("inode {ino}: pointer at {:#x} is block {block}", at - start)
}

/// An inode has the blocks of another.
fn map_of_another(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let (a, b) = (some_inode(rng, image), some_inode(rng, image));
    let (from, to) = (image.inode_at(a).start, image.inode_at(b).start);
    image.bytes.copy_within(from + 0x28..from + 0x64, to + 0x28);
    image.fix_inode(b);
    format!("inode {b} has the map of {a}")
}

/// Two entries of 12 or 8 bytes in a row trade places, in extent nodes and hash trees.
fn entries_trade(rng: &mut Rng, image: &mut DamagedImage, targets: &[Target]) -> String {
    let target = choose(rng, targets);
    let (block, first, size) = match &target {
        Target::Extents { block, .. } => (*block, 12, 12),
        Target::Dx { block, kind, .. } => match kind {
            DxKind::Root => (*block, DX_ROOT_ENTRIES_AT, 8),
            DxKind::Node => (*block, DX_NODE_ENTRIES_AT, 8),
        },
        Target::Xattr { block } => (*block, 32, 20),
        Target::Indirect { block, .. } => (*block, 0, 4),
        _ => return extent_field(rng, image),
    };
    let count = rng.usize(1..5);
    let at = image.block(block).start + first + count * size;
    let (mut a, b) = (image.bytes[at..at + size].to_vec(), at + size);
    image.bytes[b..b + size].swap_with_slice(&mut a);
    image.bytes[at..at + size].copy_from_slice(&a);
    image.fix(&target);
    format!("{target:?}: entries {count} and {} trade", count + 1)
}

/// The orphan list starts at an inode.
fn orphan(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let ino = match rng.u8(0..4) {
        0 => Ino(rng.u32(1..image.geo().inodes_count + 1)),
        1 => Ino(rng.u32(1..12)),
        _ => some_inode(rng, image),
    };
    image.bytes[1024 + 0xe8..1024 + 0xec].copy_from_slice(&ino.0.to_le_bytes());
    image.fix_super();
    let next = some_inode(rng, image);
    let start = image.inode_at(ino).start;
    let (unlinked, chained) = (rng.bool(), rng.bool());
    if unlinked {
        image.bytes[start + 0x1a..start + 0x1c].fill(0);
    }
    if chained {
        put32(image, start + 0x14, next.0);
    }
    image.fix_inode(ino);
    format!("orphan {ino}, without links: {unlinked}, next: {chained} {next}")
}

/// An inode is deleted but for its name and blocks.
fn deleted(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let ino = some_inode(rng, image);
    let start = image.inode_at(ino).start;
    image.bytes[start + 0x1a..start + 0x1c].fill(0);
    let dtime = [0, 5, 1_700_000_000][rng.usize(0..3)];
    put32(image, start + 0x14, dtime);
    image.fix_inode(ino);
    format!("inode {ino} deleted at {dtime}")
}

/// An inode has the attribute block of another.
fn attribute_block_of_another(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let used = image.used();
    let have = used.iter().find(|i| image.inode(**i).file_acl.0 != 0);
    let ino = some_inode(rng, image);
    let block = match (have, rng.u8(0..3)) {
        (Some(i), 0 | 1) => image.inode(*i).file_acl.0,
        _ => rng.u64(1..image.geo().blocks_count),
    };
    let at = image.inode_at(ino).start + 0x68;
    put32(image, at, block as u32);
    if rng.bool() {
        // Counted as well.
        let blocks = at - 0x68 + 0x1c;
        let n = get32(image, blocks) + image.geo().block_size / 512;
        put32(image, blocks, n);
    }
    image.fix_inode(ino);
    format!("inode {ino} has attribute block {block}")
}

fn links(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let ino = some_inode(rng, image);
    let start = image.inode_at(ino).start;
    let links = [0u16, 1, 2, 3, 65000, 65535][rng.usize(0..6)];
    image.bytes[start + 0x1a..start + 0x1c].copy_from_slice(&links.to_le_bytes());
    image.fix_inode(ino);
    format!("inode {ino} has {links} links")
}

/// A whole block reads as zeros, or as another.
fn block_zeroed(rng: &mut Rng, image: &mut DamagedImage, targets: &[Target]) -> String {
    let target = choose(rng, targets);
    let block = match &target {
        Target::Linear { block, .. }
        | Target::Dx { block, .. }
        | Target::Extents { block, .. }
        | Target::Indirect { block, .. }
        | Target::Xattr { block }
        | Target::Link { block, .. }
        | Target::JournalSuper { block }
        | Target::OrphanFile { block, .. }
        | Target::Mmp { block }
        | Target::Quota { block, .. } => *block,
        _ => return extent_field(rng, image),
    };
    let range = image.block(block);
    image.bytes[range].fill(0);
    format!("{target:?} zeroed")
}

/// A field of the extent root in an inode.
fn extent_field(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let used = image.used();
    let mapped: Vec<Ino> = used
        .into_iter()
        .filter(|i| image.inode(*i).flags.contains(InodeFlags::EXTENTS))
        .collect();
    if mapped.is_empty() {
        return map_of_another(rng, image);
    }
    let ino = mapped[rng.usize(0..mapped.len())];
    let start = image.inode_at(ino).start + 0x28;
    let at = match rng.u8(0..8) {
        0 => 2,
        1 => 4,
        2 => 6,
        3 => 8,
        4 => 12,
        5 => 16,
        6 => 18,
        _ => 20,
    };
    let old = u16::from_le_bytes(
        image.bytes[start + at..start + at + 2]
            .try_into()
            .expect("two"),
    );
    let new = match rng.u8(0..6) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => old ^ 0x8000,
        3 => 0,
        4 => old.wrapping_mul(2),
        _ => rng.u16(..),
    };
    image.bytes[start + at..start + at + 2].copy_from_slice(&new.to_le_bytes());
    image.fix_inode(ino);
    format!("inode {ino}: extent root at {at}: {old:#x} -> {new:#x}")
}
