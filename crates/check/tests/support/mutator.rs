//! Damages one field of an image, with checksums made right again, so that later checks run.

use super::image::{Image, Target};
use fastrand::Rng;
use uext4_ondisk::*;

/// Fields of the superblock worth damaging: name, byte, size.
const SUPER: &[(&str, usize, usize)] = &[
    ("inodes_count", 0x00, 4),
    ("blocks_count", 0x04, 4),
    ("r_blocks_count", 0x08, 4),
    ("free_blocks_count", 0x0c, 4),
    ("free_inodes_count", 0x10, 4),
    ("first_data_block", 0x14, 4),
    ("log_block_size", 0x18, 4),
    ("blocks_per_group", 0x20, 4),
    ("inodes_per_group", 0x28, 4),
    ("magic", 0x38, 2),
    ("first_ino", 0x54, 4),
    ("inode_size", 0x58, 2),
    ("journal_inum", 0xe0, 4),
    ("last_orphan", 0xe8, 4),
    ("desc_size", 0xfe, 2),
    ("reserved_gdt_blocks", 0xce, 2),
    ("min_extra_isize", 0x15c, 2),
    ("want_extra_isize", 0x15e, 2),
    ("log_groups_per_flex", 0x174, 1),
];

/// Fields of an inode: name, byte, size.
const INODE: &[(&str, usize, usize)] = &[
    ("mode", 0x00, 2),
    ("size", 0x04, 4),
    ("dtime", 0x14, 4),
    ("links", 0x1a, 2),
    ("blocks", 0x1c, 4),
    ("flags", 0x20, 4),
    ("i_block[0]", 0x28, 4),
    ("i_block[1]", 0x2c, 4),
    ("i_block[3]", 0x34, 4),
    ("i_block[4]", 0x38, 4),
    ("i_block[5]", 0x3c, 4),
    ("i_block[7]", 0x44, 4),
    ("i_block[12]", 0x58, 4),
    ("i_block[13]", 0x5c, 4),
    ("generation", 0x64, 4),
    ("file_acl", 0x68, 4),
    ("size_high", 0x6c, 4),
    ("faddr", 0x70, 4),
    ("blocks_high", 0x74, 2),
    ("file_acl_high", 0x76, 2),
    ("extra_isize", 0x80, 2),
    ("ctime_extra", 0x84, 4),
    ("attributes", 0xa0, 16),
    ("attributes", 0xb0, 32),
];

/// Fields of a group descriptor.
const DESC: &[(&str, usize, usize)] = &[
    ("block_bitmap", 0x00, 4),
    ("inode_bitmap", 0x04, 4),
    ("inode_table", 0x08, 4),
    ("free_blocks", 0x0c, 2),
    ("free_inodes", 0x0e, 2),
    ("used_dirs", 0x10, 2),
    ("flags", 0x12, 2),
    ("block_bitmap_csum", 0x18, 2),
    ("inode_bitmap_csum", 0x1a, 2),
    ("itable_unused", 0x1c, 2),
    ("checksum", 0x1e, 2),
];

/// Changes a little-endian number of `len` bytes in one of several ways; says how.
fn tweak(rng: &mut Rng, bytes: &mut [u8], at: usize, len: usize) -> String {
    let field = &mut bytes[at..at + len];
    let old = field.to_vec();
    match rng.u8(0..6) {
        0 => field[rng.usize(0..len)] ^= 1 << rng.u8(0..8),
        1 => field[0] = field[0].wrapping_add(1),
        2 => field[0] = field[0].wrapping_sub(1),
        3 => field.fill(0),
        4 => field[rng.usize(0..len)] = rng.u8(..),
        _ => {
            let i = rng.usize(0..len);
            field[i] = field[i].wrapping_add(rng.u8(1..9));
        }
    }
    format!("{old:02x?} -> {field:02x?}")
}

/// Damages one thing and says what.
pub fn mutate(rng: &mut Rng, image: &mut Image, targets: &[Target]) -> String {
    match rng.u8(0..13) {
        12 => mutate_unused(rng, image),
        0 => mutate_super(rng, image),
        1 => mutate_desc(rng, image),
        2 => mutate_bitmap(rng, image),
        3..=5 => mutate_inode(rng, image),
        6 => mutate_raw(rng, image),
        _ if targets.is_empty() => mutate_inode(rng, image),
        _ => mutate_target(rng, image, targets),
    }
}

fn mutate_super(rng: &mut Rng, image: &mut Image) -> String {
    let (name, at, len) = SUPER[rng.usize(0..SUPER.len())];
    let how = tweak(rng, &mut image.bytes[1024..2048], at, len);
    image.fix_super();
    format!("superblock {name}: {how}")
}

fn mutate_desc(rng: &mut Rng, image: &mut Image) -> String {
    let g = GroupNo(rng.u32(0..image.geo().groups_count));
    let (name, at, len) = DESC[rng.usize(0..DESC.len())];
    let range = image.desc_at(g);
    let how = tweak(rng, &mut image.bytes[range], at, len);
    if name != "checksum" {
        image.fix_desc(g);
    }
    format!("group {g} {name}: {how}")
}

fn mutate_bitmap(rng: &mut Rng, image: &mut Image) -> String {
    let g = GroupNo(rng.u32(0..image.geo().groups_count));
    let desc = image.desc(g);
    let (name, block) = if rng.bool() {
        ("block bitmap", desc.block_bitmap)
    } else {
        ("inode bitmap", desc.inode_bitmap)
    };
    let range = image.block(block.0);
    let at = if rng.bool() {
        rng.usize(0..40)
    } else {
        rng.usize(0..range.len())
    };
    let how = tweak(rng, &mut image.bytes[range], at, 1);
    if rng.u8(0..4) > 0 {
        image.fix_bitmaps(g);
    }
    format!("group {g} {name} byte {at}: {how}")
}

fn mutate_inode(rng: &mut Rng, image: &mut Image) -> String {
    let used = image.used();
    let ino = if rng.bool() {
        used[rng.usize(0..used.len().min(24))]
    } else {
        used[rng.usize(0..used.len())]
    };
    let size = usize::from(image.geo().inode_size);
    let fits: Vec<_> = INODE.iter().filter(|f| f.1 + f.2 <= size).collect();
    let (name, at, len) = *fits[rng.usize(0..fits.len())];
    let range = image.inode_at(ino);
    let how = tweak(rng, &mut image.bytes[range], at, len);
    if rng.u8(0..10) > 0 {
        image.fix_inode(ino);
    }
    format!("inode {ino} {name}: {how}")
}

/// A field of an inode that is not in use.
fn mutate_unused(rng: &mut Rng, image: &mut Image) -> String {
    let used = image.used();
    let all: Vec<Ino> = (1..=image.geo().inodes_count)
        .map(Ino)
        .filter(|i| !used.contains(i))
        .collect();
    let ino = if rng.bool() {
        all[rng.usize(0..all.len().min(8))]
    } else {
        all[rng.usize(0..all.len())]
    };
    let (name, at, len) = INODE[rng.usize(0..15)];
    let range = image.inode_at(ino);
    let how = tweak(rng, &mut image.bytes[range], at, len);
    image.fix_inode(ino);
    format!("unused inode {ino} {name}: {how}")
}

/// A byte of an inode table, checksums left wrong.
fn mutate_raw(rng: &mut Rng, image: &mut Image) -> String {
    let used = image.used();
    let ino = used[rng.usize(0..used.len())];
    let range = image.inode_at(ino);
    let at = rng.usize(0..range.len());
    let how = tweak(rng, &mut image.bytes[range], at, 1);
    format!("inode {ino} byte {at}, checksum kept: {how}")
}

fn mutate_target(rng: &mut Rng, image: &mut Image, targets: &[Target]) -> String {
    // Each kind as often as the others.
    let kind = rng.u8(0..4);
    let same: Vec<&Target> = targets
        .iter()
        .filter(|t| match t {
            Target::Linear { .. } => kind == 0,
            Target::Dx { .. } => kind == 1,
            Target::Extents { .. } => kind == 2,
            Target::Xattr { .. } => kind == 3,
        })
        .collect();
    let target = match same.len() {
        0 => targets[rng.usize(0..targets.len())].clone(),
        n => same[rng.usize(0..n)].clone(),
    };
    let how = match &target {
        Target::Linear { block, .. } => mutate_dirent(rng, image, *block),
        Target::Dx { block, kind, .. } => {
            let range = image.block(*block);
            let at = match kind {
                DxKind::Root => rng.usize(0..64),
                DxKind::Node => rng.usize(0..40),
            };
            let how = tweak(rng, &mut image.bytes[range], at, 1);
            format!("byte {at}: {how}")
        }
        Target::Extents { block, .. } => {
            let range = image.block(*block);
            let at = rng.usize(0..60);
            let how = tweak(rng, &mut image.bytes[range], at, 1);
            format!("byte {at}: {how}")
        }
        Target::Xattr { block } => {
            let range = image.block(*block);
            let at = rng.usize(0..60);
            let how = tweak(rng, &mut image.bytes[range], at, 1);
            format!("byte {at}: {how}")
        }
    };
    let keep = rng.u8(0..10) == 0;
    if !keep {
        image.fix(&target);
    }
    format!("{target:?} {how}")
}

fn mutate_dirent(rng: &mut Rng, image: &mut Image, block: u64) -> String {
    let range = image.block(block);
    let end = dir_data_end(range.len(), image.sb.has_metadata_csum());
    let bytes = &mut image.bytes[range];
    let entries: Vec<(usize, usize)> = dir_entries(bytes, end)
        .map_while(Result::ok)
        .map(|d| (d.offset, d.name.len()))
        .collect();
    let i = if rng.bool() {
        rng.usize(0..entries.len().min(3))
    } else {
        rng.usize(0..entries.len())
    };
    let (offset, name_len) = entries[i];
    let (name, at, len) = match rng.u8(0..6) {
        0 | 1 => ("inode", 0, 4),
        2 => ("rec_len", 4, 2),
        3 => ("name_len", 6, 1),
        4 => ("file_type", 7, 1),
        _ => ("name", 8 + rng.usize(0..name_len.max(1)), 1),
    };
    let how = tweak(rng, bytes, offset + at, len);
    format!("entry at {offset} {name}: {how}")
}
