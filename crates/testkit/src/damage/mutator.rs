//! Damages one field of an image, mostly with checksums made right again, so that later checks run.

use super::choice::{choose, some_inode};
use super::image::DamagedImage;
use super::structure;
use super::target::Target;
use fastrand::Rng;
use uext4_ondisk::*;

/// A field: name, byte, size.
type Field = (&'static str, usize, usize);

/// Fields of the superblock.
const SUPER: &[Field] = &[
    ("inodes_count", 0x00, 4),
    ("blocks_count", 0x04, 4),
    ("r_blocks_count", 0x08, 4),
    ("free_blocks_count", 0x0c, 4),
    ("free_inodes_count", 0x10, 4),
    ("first_data_block", 0x14, 4),
    ("log_block_size", 0x18, 4),
    ("log_cluster_size", 0x1c, 4),
    ("blocks_per_group", 0x20, 4),
    ("clusters_per_group", 0x24, 4),
    ("inodes_per_group", 0x28, 4),
    ("mtime", 0x2c, 4),
    ("wtime", 0x30, 4),
    ("mnt_count", 0x34, 2),
    ("max_mnt_count", 0x36, 2),
    ("magic", 0x38, 2),
    ("state", 0x3a, 2),
    ("errors", 0x3c, 2),
    ("minor_rev_level", 0x3e, 2),
    ("lastcheck", 0x40, 4),
    ("checkinterval", 0x44, 4),
    ("creator_os", 0x48, 4),
    ("rev_level", 0x4c, 4),
    ("def_resuid", 0x50, 2),
    ("first_ino", 0x54, 4),
    ("inode_size", 0x58, 2),
    ("block_group_nr", 0x5a, 2),
    ("uuid", 0x68, 16),
    ("volume_name", 0x78, 16),
    ("last_mounted", 0x88, 64),
    ("prealloc", 0xcc, 2),
    ("reserved_gdt_blocks", 0xce, 2),
    ("journal_uuid", 0xd0, 16),
    ("journal_inum", 0xe0, 4),
    ("journal_dev", 0xe4, 4),
    ("last_orphan", 0xe8, 4),
    ("hash_seed", 0xec, 16),
    ("def_hash_version", 0xfc, 1),
    ("jnl_backup_type", 0xfd, 1),
    ("desc_size", 0xfe, 2),
    ("default_mount_opts", 0x100, 4),
    ("first_meta_bg", 0x104, 4),
    ("mkfs_time", 0x108, 4),
    ("jnl_blocks", 0x10c, 68),
    ("blocks_count_hi", 0x150, 4),
    ("r_blocks_count_hi", 0x154, 4),
    ("free_blocks_count_hi", 0x158, 4),
    ("min_extra_isize", 0x15c, 2),
    ("want_extra_isize", 0x15e, 2),
    ("flags", 0x160, 4),
    ("raid_stride", 0x164, 2),
    ("mmp_interval", 0x166, 2),
    ("mmp_block", 0x168, 8),
    ("log_groups_per_flex", 0x174, 1),
    ("checksum_type", 0x175, 1),
    ("kbytes_written", 0x178, 8),
    ("snapshot", 0x180, 20),
    ("error_count", 0x194, 4),
    ("first_error", 0x198, 40),
    ("mount_opts", 0x200, 64),
    ("usr_quota_inum", 0x240, 4),
    ("grp_quota_inum", 0x244, 4),
    ("overhead_clusters", 0x248, 4),
    ("backup_bgs", 0x24c, 8),
    ("encrypt_algos", 0x254, 4),
    ("lpf_ino", 0x268, 4),
    ("prj_quota_inum", 0x26c, 4),
    ("checksum_seed", 0x270, 4),
    ("time_hi", 0x274, 6),
    ("encoding", 0x27c, 4),
    ("orphan_file_inum", 0x280, 4),
    ("reserved", 0x284, 376),
];

/// Fields of an inode.
const INODE: &[Field] = &[
    ("mode", 0x00, 2),
    ("uid", 0x02, 2),
    ("size", 0x04, 4),
    ("atime", 0x08, 4),
    ("ctime", 0x0c, 4),
    ("mtime", 0x10, 4),
    ("dtime", 0x14, 4),
    ("gid", 0x18, 2),
    ("links", 0x1a, 2),
    ("blocks", 0x1c, 4),
    ("flags", 0x20, 4),
    ("osd1", 0x24, 4),
    ("i_block[0]", 0x28, 4),
    ("i_block[1]", 0x2c, 4),
    ("i_block[2]", 0x30, 4),
    ("i_block[3]", 0x34, 4),
    ("i_block[4]", 0x38, 4),
    ("i_block[5]", 0x3c, 4),
    ("i_block[6..11]", 0x40, 20),
    ("i_block[11]", 0x54, 4),
    ("i_block[12]", 0x58, 4),
    ("i_block[13]", 0x5c, 4),
    ("i_block[14]", 0x60, 4),
    ("generation", 0x64, 4),
    ("file_acl", 0x68, 4),
    ("size_high", 0x6c, 4),
    ("faddr", 0x70, 4),
    ("blocks_high", 0x74, 2),
    ("file_acl_high", 0x76, 2),
    ("uid_high", 0x78, 4),
    ("checksum_lo", 0x7c, 2),
    ("reserved", 0x7e, 2),
    ("extra_isize", 0x80, 2),
    ("checksum_hi", 0x82, 2),
    ("ctime_extra", 0x84, 4),
    ("mtime_extra", 0x88, 4),
    ("atime_extra", 0x8c, 4),
    ("crtime", 0x90, 4),
    ("crtime_extra", 0x94, 4),
    ("version_hi", 0x98, 4),
    ("projid", 0x9c, 4),
    ("attributes", 0xa0, 16),
    ("attributes", 0xb0, 32),
];

/// Fields of a group descriptor.
const DESC: &[Field] = &[
    ("block_bitmap", 0x00, 4),
    ("inode_bitmap", 0x04, 4),
    ("inode_table", 0x08, 4),
    ("free_blocks", 0x0c, 2),
    ("free_inodes", 0x0e, 2),
    ("used_dirs", 0x10, 2),
    ("flags", 0x12, 2),
    ("exclude_bitmap", 0x14, 4),
    ("block_bitmap_csum", 0x18, 2),
    ("inode_bitmap_csum", 0x1a, 2),
    ("itable_unused", 0x1c, 2),
    ("checksum", 0x1e, 2),
    ("block_bitmap_hi", 0x20, 4),
    ("inode_bitmap_hi", 0x24, 4),
    ("inode_table_hi", 0x28, 4),
    ("free_blocks_hi", 0x2c, 2),
    ("free_inodes_hi", 0x2e, 2),
    ("used_dirs_hi", 0x30, 2),
    ("itable_unused_hi", 0x32, 2),
    ("block_bitmap_csum_hi", 0x38, 2),
    ("inode_bitmap_csum_hi", 0x3a, 2),
    ("reserved", 0x3c, 4),
];

/// Words of the superblock that hold features.
const FEATURES: [Field; 3] = [
    ("compat", 0x5c, 4),
    ("incompat", 0x60, 4),
    ("ro_compat", 0x64, 4),
];

/// Changes a little-endian number of `len` bytes in one of several ways; says how.
pub fn tweak(rng: &mut Rng, bytes: &mut [u8], at: usize, len: usize) -> String {
    let field = &mut bytes[at..at + len];
    let old = field.to_vec();
    match rng.u8(0..8) {
        0 | 1 => field[rng.usize(0..len)] ^= 1 << rng.u8(0..8),
        2 => field[0] = field[0].wrapping_add(1),
        3 => field[0] = field[0].wrapping_sub(1),
        4 => field.fill(0),
        5 => field[rng.usize(0..len)] = rng.u8(..),
        6 if rng.u8(0..4) == 0 => field.fill(0xff),
        _ => {
            let i = rng.usize(0..len);
            field[i] = field[i].wrapping_add(rng.u8(1..9));
        }
    }
    let show = len.min(8);
    format!("{:02x?} -> {:02x?}", &old[..show], &field[..show])
}

/// Damages one thing and says what.
pub fn mutate(rng: &mut Rng, image: &mut DamagedImage, targets: &[Target]) -> String {
    match rng.u8(0..34) {
        0 | 1 => mutate_super(rng, image),
        2 => mutate_features(rng, image),
        3 | 4 => mutate_desc(rng, image),
        5 => mutate_bitmap(rng, image),
        6..=9 => mutate_inode(rng, image),
        10 => mutate_flags(rng, image),
        11 => mutate_raw(rng, image),
        12 => mutate_unused(rng, image),
        13 => mutate_reserved(rng, image),
        14 => mutate_backup(rng, image),
        15..=22 => structure::structure(rng, image, targets),
        _ if targets.is_empty() => mutate_inode(rng, image),
        _ => mutate_target(rng, image, targets),
    }
}

fn mutate_super(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let (name, at, len) = SUPER[rng.usize(0..SUPER.len())];
    let how = tweak(rng, &mut image.bytes[1024..2048], at, len);
    let keep = rng.u8(0..12) == 0;
    if !keep {
        image.fix_super();
    }
    format!("superblock {name}: {how}{}", kept(keep))
}

fn kept(keep: bool) -> &'static str {
    if keep { ", checksum kept" } else { "" }
}

/// One of the bits that have a meaning.
fn mutate_features(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let (name, at, _) = FEATURES[rng.usize(0..3)];
    let bit = rng.u32(0..18);
    image.bytes[1024 + at + bit as usize / 8] ^= 1 << (bit % 8);
    image.fix_super();
    format!("superblock {name}: bit {bit}")
}

fn mutate_desc(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let g = GroupNo(rng.u32(0..image.geo().groups_count));
    let range = image.desc_at(g);
    let fits: Vec<_> = DESC.iter().filter(|f| f.1 + f.2 <= range.len()).collect();
    let (name, at, len) = *fits[rng.usize(0..fits.len())];
    let how = if name == "flags" && rng.bool() {
        let bit = rng.u8(0..3);
        image.bytes[range.start + at] ^= 1 << bit;
        format!("bit {bit}")
    } else {
        tweak(rng, &mut image.bytes[range], at, len)
    };
    let keep = name == "checksum" || rng.u8(0..12) == 0;
    if !keep {
        image.fix_desc(g);
    }
    format!("group {g} {name}: {how}{}", kept(keep))
}

fn mutate_bitmap(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let g = GroupNo(rng.u32(0..image.geo().groups_count));
    let (desc, geo) = (image.desc(g), image.geo());
    let (name, block, bits) = if rng.bool() {
        ("block bitmap", desc.block_bitmap, geo.clusters_in_group(g))
    } else {
        ("inode bitmap", desc.inode_bitmap, geo.inodes_per_group)
    };
    let range = image.block(block.0);
    let at = match rng.u8(0..4) {
        0 => rng.usize(0..40),
        1 => rng.usize(0..range.len()),
        2 => (bits as usize / 8).min(range.len() - 1),
        _ => (bits as usize / 8).saturating_sub(1),
    };
    let how = tweak(rng, &mut image.bytes[range], at, 1);
    if rng.u8(0..4) > 0 {
        image.fix_bitmaps(g);
    }
    format!("group {g} {name} byte {at}: {how}")
}

fn mutate_inode(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let ino = some_inode(rng, image);
    mutate_field(rng, image, ino)
}

fn mutate_field(rng: &mut Rng, image: &mut DamagedImage, ino: Ino) -> String {
    let size = usize::from(image.geo().inode_size);
    let fits: Vec<_> = INODE.iter().filter(|f| f.1 + f.2 <= size).collect();
    let (name, at, len) = *fits[rng.usize(0..fits.len())];
    let range = image.inode_at(ino);
    let how = tweak(rng, &mut image.bytes[range], at, len);
    let keep = name.starts_with("checksum") || rng.u8(0..12) == 0;
    if !keep {
        image.fix_inode(ino);
    }
    format!("inode {ino} {name}: {how}{}", kept(keep))
}

fn mutate_flags(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let ino = some_inode(rng, image);
    let range = image.inode_at(ino);
    let bit = rng.usize(0..32);
    image.bytes[range.start + 0x20 + bit / 8] ^= 1 << (bit % 8);
    image.fix_inode(ino);
    format!("inode {ino} flags: bit {bit}")
}

/// A field of an inode that is not in use.
fn mutate_unused(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let used = image.used();
    let all: Vec<Ino> = (1..=image.geo().inodes_count)
        .map(Ino)
        .filter(|i| !used.contains(i))
        .collect();
    if all.is_empty() {
        return mutate_inode(rng, image);
    }
    let ino = if rng.bool() {
        all[rng.usize(0..all.len().min(8))]
    } else {
        all[rng.usize(0..all.len())]
    };
    format!("unused: {}", mutate_field(rng, image, ino))
}

fn mutate_reserved(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let ino = Ino(rng.u32(1..12));
    mutate_field(rng, image, ino)
}

/// A byte of an inode table, checksums left wrong.
fn mutate_raw(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let used = image.used();
    let ino = used[rng.usize(0..used.len())];
    let range = image.inode_at(ino);
    let at = rng.usize(0..range.len());
    let how = tweak(rng, &mut image.bytes[range], at, 1);
    format!("inode {ino} byte {at}, checksum kept: {how}")
}

/// A backup superblock or descriptor.
fn mutate_backup(rng: &mut Rng, image: &mut DamagedImage) -> String {
    let geo = image.geo();
    let groups: Vec<GroupNo> = (1..geo.groups_count)
        .map(GroupNo)
        .filter(|g| geo.has_super(*g))
        .collect();
    if groups.is_empty() {
        return mutate_super(rng, image);
    }
    let g = groups[rng.usize(0..groups.len())];
    let start = image.block(geo.group_first_block(g).0).start;
    if rng.bool() {
        let (name, at, len) = SUPER[rng.usize(0..SUPER.len())];
        let how = tweak(rng, &mut image.bytes[start..start + 1024], at, len);
        return format!("backup superblock of group {g}, {name}: {how}");
    }
    let at = start + geo.block_size as usize;
    let (name, field, len) = DESC[rng.usize(0..12)];
    let how = tweak(rng, &mut image.bytes[at..at + 64], field, len);
    format!("backup descriptor of group {g}, {name}: {how}")
}

fn mutate_target(rng: &mut Rng, image: &mut DamagedImage, targets: &[Target]) -> String {
    let target = choose(rng, targets);
    let byte = |rng: &mut Rng, image: &mut DamagedImage, block: u64, end: usize| {
        let range = image.block(block);
        let at = rng.usize(0..end.min(range.len()));
        let how = tweak(rng, &mut image.bytes[range], at, 1);
        format!("byte {at}: {how}")
    };
    let how = match &target {
        Target::Linear { block, .. } => mutate_dirent(rng, image, *block),
        Target::Dx { block, kind, .. } => {
            let end = if *kind == DxKind::Root { 64 } else { 40 };
            byte(rng, image, *block, end)
        }
        Target::Extents { block, .. } => match rng.u8(0..8) {
            0 => byte(rng, image, *block, usize::MAX),
            _ => byte(rng, image, *block, 60),
        },
        Target::Indirect { block, .. } => {
            let range = image.block(*block);
            let words = if rng.bool() { 16 } else { range.len() / 4 };
            let at = rng.usize(0..words) * 4;
            let how = tweak(rng, &mut image.bytes[range], at, 4);
            format!("word at {at}: {how}")
        }
        Target::Xattr { block } => match rng.u8(0..4) {
            0 => byte(rng, image, *block, usize::MAX),
            1 => byte(rng, image, *block, 32),
            _ => byte(rng, image, *block, 90),
        },
        Target::Link { block, .. } => byte(rng, image, *block, 80),
        Target::JournalSuper { block } => match rng.u8(0..4) {
            0 => byte(rng, image, *block, 1024),
            _ => byte(rng, image, *block, 0x60),
        },
        Target::OrphanFile { block, .. } => {
            let end = image.geo().block_size as usize;
            match rng.u8(0..3) {
                0 => byte(rng, image, *block, 8),
                1 => {
                    let range = image.block(*block);
                    let at = rng.usize(end - 8..end);
                    let how = tweak(rng, &mut image.bytes[range], at, 1);
                    format!("byte {at}: {how}")
                }
                _ => byte(rng, image, *block, usize::MAX),
            }
        }
        Target::Mmp { block } => byte(rng, image, *block, 0x70),
        Target::Quota { block, .. } => byte(rng, image, *block, 160),
        Target::InlineDir { ino } => {
            let range = image.inode_at(*ino);
            let at = rng.usize(0x28..0x64);
            let how = tweak(rng, &mut image.bytes[range], at, 1);
            format!("byte {at}: {how}")
        }
        Target::InodeXattr { ino } => {
            let range = image.inode_at(*ino);
            let at = 0xa0 + rng.usize(0..64.min(range.len() - 0xa0));
            let how = tweak(rng, &mut image.bytes[range], at, 1);
            format!("byte {at}: {how}")
        }
        Target::Value { ino } => mutate_field(rng, image, *ino),
    };
    let keep = rng.u8(0..12) == 0;
    if !keep {
        image.fix(&target);
    }
    format!("{target:?} {how}{}", kept(keep))
}

fn mutate_dirent(rng: &mut Rng, image: &mut DamagedImage, block: u64) -> String {
    let range = image.block(block);
    let end = dir_data_end(range.len(), image.sb.has_metadata_csum());
    let tail = range.len() - DIR_TAIL;
    let bytes = &mut image.bytes[range];
    if end == tail && rng.u8(0..12) == 0 {
        let at = tail + rng.usize(0..8);
        let how = tweak(rng, bytes, at, 1);
        return format!("tail byte {at}: {how}");
    }
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
