//! Sizes of an image and the places of its fixed metadata, by the rules of mke2fs.
//!
//! # Data model
//! [`Request`] says how large; [`Layout::new`] answers with a superblock, the bitmaps and inode tables
//! of every group, and the [`Space`] that is left. The numbers (inodes per group, reserved descriptor
//! blocks, journal and orphan file sizes) were measured from images that mke2fs 1.47.0 made.

use uext4_ondisk::{
    Compat, CsumSeed, ENCODING_STRICT, ENCODING_UTF8_12_1, ErrorsBehaviour, FLAG_SIGNED_HASH,
    Geometry, GroupNo, HashVersion, Incompat, MMP_INTERVAL_DEFAULT, Pblk, RawSuperblock, RoCompat,
    STATE_CLEAN, Superblock, journal_blocks_default, orphan_file_blocks_default,
};

use crate::error::{MkfsError, Result};
use crate::features::FeatureSet;
use crate::options::{Identity, MkfsOptions};
use crate::space::Space;

/// Free blocks that a last group must have beyond its metadata, or it is left out.
const LAST_GROUP_SPARE: u64 = 50;
/// Most inodes that follow from a size: rounding up may add some, and their number has 32 bits.
const INODES_BY_RATIO_MAX: u64 = (1 << 32) - (1 << 26);
/// AES-256-XTS for contents and AES-256-CTS for names.
const ENCRYPT_ALGOS: (u8, u8) = (1, 4);
/// Blocks of the journal for each that fast commits get on top.
const JOURNAL_PER_FAST_COMMIT: u32 = 64;
/// Bytes of inode fields beyond 128 that new inodes get.
const WANT_EXTRA_ISIZE: u16 = 32;

/// How large an image is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Blocks of the device.
    pub blocks: u64,
    /// Inodes, before rounding.
    pub inodes: u64,
    /// Blocks kept for root.
    pub reserved: u64,
}

/// Where the metadata of a group is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupPlace {
    /// Its block bitmap.
    pub block_bitmap: Pblk,
    /// Its inode bitmap.
    pub inode_bitmap: Pblk,
    /// First block of its inode table.
    pub inode_table: Pblk,
}

/// A file system without files.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The superblock but for counts that depend on files.
    pub sb: Superblock,
    /// Features in effect.
    pub features: FeatureSet,
    /// Per group.
    pub groups: Vec<GroupPlace>,
    /// What is free.
    pub space: Space,
    /// Blocks of the journal; 0 without.
    pub journal_blocks: u32,
    /// Those of them for fast commits.
    pub fast_commit_blocks: u32,
    /// Blocks of the orphan file; 0 without.
    pub orphan_blocks: u32,
    /// Blocks that hold no files: before the first, and fixed metadata.
    pub overhead: u64,
}

/// Numbers that follow from a request, before there is a superblock.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    blocks: u64,
    reserved: u64,
    first: u64,
    per_group: u64,
    groups: u64,
    inodes_per_group: u64,
    reserved_gdt: u64,
}

impl Layout {
    /// Lays out a file system.
    ///
    /// # Errors
    /// [`MkfsError::NoSpace`], [`MkfsError::Option`] or [`MkfsError::Format`] if it can't be.
    pub fn new(options: &MkfsOptions, id: &Identity, request: Request) -> Result<Layout> {
        let mut wanted = options.features.settled();
        if request.blocks >= 1 << 32 {
            // The resize inode maps with numbers of 32 bits.
            wanted.compat.remove(Compat::RESIZE_INODE);
        }
        if wanted.compat.contains(Compat::RESIZE_INODE) && options.block_size > 1024 {
            // The resize inode says it has 4 GiB.
            wanted.ro_compat.insert(RoCompat::LARGE_FILE);
        }
        let (features, journal_blocks) = journal(options, wanted, request.blocks)?;
        let fast_commit_blocks = match features.compat.contains(Compat::FAST_COMMIT) {
            true => journal_blocks / JOURNAL_PER_FAST_COMMIT,
            false => 0,
        };
        let journal_blocks = journal_blocks + fast_commit_blocks;
        let sizes = sizes(options, &features, request)?;
        let mut raw = raw_superblock(options, id, &features, &sizes);
        let orphan_blocks = if features.has_orphan_file() {
            orphan_file_blocks_default(sizes.blocks)
        } else {
            0
        };
        if features.has_journal() {
            raw.journal_inum = 8.into();
        }
        let sb = Superblock::from_raw(raw)?;
        let geo = &sb.geometry;
        let full = |what| MkfsError::NoSpace {
            blocks: sizes.blocks,
            what,
        };
        let mut space = Space::new(sizes.first, sizes.blocks);
        for g in (0..geo.groups_count).map(GroupNo) {
            let base = u64::from(geo.base_meta_blocks(g));
            if base > 0 && !space.take_at(geo.group_first_block(g).0, base) {
                return Err(full("a group's superblock and descriptors"));
            }
        }
        let groups = place_groups(geo, &mut space).ok_or_else(|| full("the inode table"))?;
        let space = space.in_clusters(geo.cluster_ratio);
        Ok(Layout {
            features,
            groups,
            journal_blocks,
            fast_commit_blocks,
            orphan_blocks,
            overhead: sizes.blocks - space.free(),
            space,
            sb,
        })
    }

    /// Sizes and places.
    pub fn geo(&self) -> &Geometry {
        &self.sb.geometry
    }
}

/// The number of inodes that the size of an image implies, as far as inode numbers go.
pub(crate) fn inodes_by_ratio(options: &MkfsOptions, blocks: u64) -> u64 {
    let bytes = blocks.saturating_mul(u64::from(options.block_size));
    (bytes / u64::from(options.inode_ratio)).min(INODES_BY_RATIO_MAX)
}

/// The features in effect, and the blocks of the journal.
fn journal(options: &MkfsOptions, wanted: FeatureSet, blocks: u64) -> Result<(FeatureSet, u32)> {
    if !wanted.has_journal() {
        return Ok((wanted, 0));
    }
    let block_size = u64::from(options.block_size);
    let Some(bytes) = options.journal_size else {
        let n = journal_blocks_default(blocks);
        return Ok(match n {
            0 => (wanted.without_journal(), 0),
            n => (wanted, n),
        });
    };
    let n = bytes / block_size;
    if !(1024..=10_240_000).contains(&n) {
        return Err(MkfsError::option(
            "journal size",
            bytes,
            "1024 to 10240000 blocks",
        ));
    }
    if n > blocks / 2 {
        return Err(MkfsError::option(
            "journal size",
            bytes,
            "half of the image at most",
        ));
    }
    Ok((wanted, n as u32))
}

/// Rounds everything as mke2fs does, and leaves out a last group that is too short.
fn sizes(options: &MkfsOptions, features: &FeatureSet, request: Request) -> Result<Sizes> {
    let block_size = u64::from(options.block_size);
    let cluster = u64::from(options.cluster_ratio());
    let first = u64::from(block_size == 1024 && !features.has_clusters());
    let (mut blocks, inodes) = (request.blocks / cluster * cluster, request.inodes.max(16));
    let (limit, why) = match features.incompat.contains(Incompat::BIT64) {
        true => (1 << 48, "block numbers have 48 bits"),
        false => (
            1 << 32,
            "block numbers have 32 bits; -O 64bit makes them longer",
        ),
    };
    if blocks >= limit {
        return Err(too_large(options, blocks, limit - 1, why));
    }
    if inodes >= 1 << 32 {
        return Err(too_many_inodes(inodes));
    }
    if blocks < first + 16 {
        let what = "the superblock";
        return Err(MkfsError::NoSpace { blocks, what });
    }
    loop {
        let Some(per_group) = blocks_per_group(options, blocks - first, inodes) else {
            let what = "the inode table";
            return Err(MkfsError::NoSpace { blocks, what });
        };
        let groups = (blocks - first).div_ceil(per_group);
        let in_last = (blocks - first) % per_group;
        let found = Sizes {
            blocks,
            reserved: request.reserved.min(blocks / 2),
            first,
            per_group,
            groups,
            inodes_per_group: inodes_per_group(options, inodes, groups),
            reserved_gdt: reserved_gdt(options, features, blocks - first, per_group, groups),
        };
        check_groups(options, features, &found, inodes)?;
        let needed = group_metadata(options, features, &found, groups - 1);
        if in_last == 0 || (groups > 1 && in_last >= needed + LAST_GROUP_SPARE) {
            return Ok(found);
        }
        if groups > 1 {
            blocks -= in_last;
        } else if in_last < needed {
            let what = "the metadata of the only group";
            return Err(MkfsError::NoSpace { blocks, what });
        } else {
            return Ok(found);
        }
    }
}

/// Refuses groups that are too many, or too small for their metadata.
fn check_groups(
    options: &MkfsOptions,
    features: &FeatureSet,
    sizes: &Sizes,
    inodes: u64,
) -> Result<()> {
    let Sizes {
        blocks,
        per_group,
        groups,
        ..
    } = *sizes;
    if group_metadata(options, features, sizes, 0) >= per_group {
        let most = groups_most(options, features, *sizes, inodes);
        if most > 1 {
            let why =
                "one group holds the descriptors of all; -O ^resize_inode,meta_bg spreads them";
            return Err(too_large(options, blocks, most * per_group, why));
        }
        let what = "a group's metadata";
        return Err(MkfsError::NoSpace { blocks, what });
    }
    let most = u64::from(u32::MAX) / inodes_per_group(options, 1, 1);
    if groups > most {
        let why = "each group has inodes, and inode numbers have 32 bits";
        return Err(too_large(options, blocks, most * per_group, why));
    }
    if sizes.inodes_per_group * groups > u64::from(u32::MAX) {
        return Err(too_many_inodes(sizes.inodes_per_group * groups));
    }
    Ok(())
}

fn too_large(options: &MkfsOptions, blocks: u64, blocks_most: u64, why: &'static str) -> MkfsError {
    let bytes = |blocks: u64| blocks.saturating_mul(u64::from(options.block_size));
    MkfsError::TooLarge {
        size: bytes(blocks),
        most: bytes(blocks_most),
        why,
    }
}

fn too_many_inodes(inodes: u64) -> MkfsError {
    MkfsError::option("number of inodes", inodes, "fewer than 4294967296")
}

/// As many as asked for, or as a block bitmap has bits, but fewer where there would be too few groups for the inodes.
fn blocks_per_group(options: &MkfsOptions, blocks: u64, inodes: u64) -> Option<u64> {
    let cluster = u64::from(options.cluster_ratio());
    let bits = u64::from(options.blocks_per_group_max());
    let most = options.blocks_per_group.map_or(bits, u64::from) * cluster;
    let groups = inodes.div_ceil(u64::from(options.block_size) * 8);
    let per_group = if groups <= blocks.div_ceil(most) {
        most
    } else {
        (blocks / groups / (8 * cluster) * 8 * cluster).min(most)
    };
    (per_group >= 256 * cluster).then_some(per_group)
}

/// Whole blocks of inode table, and a multiple of eight for the bitmap.
fn inodes_per_group(options: &MkfsOptions, inodes: u64, groups: u64) -> u64 {
    let (block_size, inode_size) = (u64::from(options.block_size), u64::from(options.inode_size));
    let table_bytes = inodes.div_ceil(groups) * inode_size;
    let per_block = block_size / inode_size;
    let most = u64::from(options.blocks_per_group_max()) / per_block * per_block;
    let filled = table_bytes.div_ceil(block_size) * per_block;
    (filled / 8 * 8).clamp(16, most)
}

/// Groups whose descriptors fit into the first beside its other metadata, at most as many as `sizes` has.
fn groups_most(options: &MkfsOptions, features: &FeatureSet, sizes: Sizes, inodes: u64) -> u64 {
    let per_block = descs_per_block(options, features);
    let mut at = sizes;
    loop {
        let all = group_metadata(options, features, &at, 0);
        if all < at.per_group || at.groups <= 1 {
            return at.groups;
        }
        let others = all - at.groups.div_ceil(per_block);
        let descs = at.per_group.saturating_sub(others + 1);
        // Fewer groups have more inodes each.
        at.groups = (descs * per_block).clamp(1, at.groups - 1);
        at.inodes_per_group = inodes_per_group(options, inodes, at.groups);
    }
}

fn descs_per_block(options: &MkfsOptions, features: &FeatureSet) -> u64 {
    u64::from(options.block_size) / u64::from(desc_size(features))
}

fn desc_size(features: &FeatureSet) -> u16 {
    if features.incompat.contains(Incompat::BIT64) {
        64
    } else {
        32
    }
}

/// Descriptor blocks for growing to 1024 times the size, as many as one indirect block maps.
fn reserved_gdt(
    options: &MkfsOptions,
    features: &FeatureSet,
    blocks: u64,
    per_group: u64,
    groups: u64,
) -> u64 {
    if !features.compat.contains(Compat::RESIZE_INODE) {
        return 0;
    }
    let per_block = descs_per_block(options, features);
    let most = (blocks.saturating_mul(1024)).min(u64::from(u32::MAX));
    let wanted = most.div_ceil(per_group).div_ceil(per_block);
    let have = groups.div_ceil(per_block);
    wanted
        .saturating_sub(have)
        .min(u64::from(options.block_size) / 4)
}

/// Metadata blocks that belong to a group, wherever they are.
fn group_metadata(options: &MkfsOptions, features: &FeatureSet, sizes: &Sizes, group: u64) -> u64 {
    let inodes_per_block = u64::from(options.block_size) / u64::from(options.inode_size);
    let table = sizes.inodes_per_group.div_ceil(inodes_per_block);
    let desc_blocks = sizes.groups.div_ceil(descs_per_block(options, features));
    let sparse = features.ro_compat.contains(RoCompat::SPARSE_SUPER);
    let has_super = if features.compat.contains(Compat::SPARSE_SUPER2) {
        group == 0 || backup_groups(features, sizes.groups).contains(&(group as u32))
    } else {
        !sparse || has_sparse_super(group)
    };
    let descs = if features.incompat.contains(Incompat::META_BG) {
        let per_block = descs_per_block(options, features);
        let at = group % per_block;
        u64::from(at <= 1 || at == per_block - 1)
    } else if has_super {
        desc_blocks + sizes.reserved_gdt
    } else {
        0
    };
    // The block in front of the superblock.
    let boot = u64::from(group == 0 && options.block_size == 1024 && features.has_clusters());
    2 + table + u64::from(has_super) + descs + boot
}

/// Groups with backups, with `sparse_super2`: the second and the last.
fn backup_groups(features: &FeatureSet, groups: u64) -> [u32; 2] {
    let last = groups.saturating_sub(1) as u32;
    match last {
        _ if !features.compat.contains(Compat::SPARSE_SUPER2) => [0, 0],
        0 => [0, 0],
        1 => [1, 0],
        last => [1, last],
    }
}

/// True for groups 0, 1 and powers of 3, 5 and 7.
fn has_sparse_super(group: u64) -> bool {
    let power_of = |base: u64| {
        let mut p = base;
        while p < group {
            p *= base;
        }
        p == group
    };
    group <= 1 || [3, 5, 7].into_iter().any(power_of)
}

fn raw_superblock(
    options: &MkfsOptions,
    id: &Identity,
    features: &FeatureSet,
    sizes: &Sizes,
) -> RawSuperblock {
    let mut raw = RawSuperblock::zeroed();
    let log_block_size = options.block_size.trailing_zeros() - 10;
    raw.inodes_count = ((sizes.inodes_per_group * sizes.groups) as u32).into();
    raw.set_features(features.compat, features.incompat, features.ro_compat);
    raw.set_blocks_count(sizes.blocks);
    raw.set_reserved_blocks_count(sizes.reserved);
    raw.first_data_block = (sizes.first as u32).into();
    raw.log_block_size = log_block_size.into();
    let cluster = options.cluster_ratio();
    raw.log_cluster_size = (log_block_size + cluster.trailing_zeros()).into();
    raw.blocks_per_group = (sizes.per_group as u32).into();
    raw.clusters_per_group = ((sizes.per_group / u64::from(cluster)) as u32).into();
    raw.inodes_per_group = (sizes.inodes_per_group as u32).into();
    raw.max_mnt_count = u16::MAX.into();
    raw.magic = uext4_ondisk::EXT4_MAGIC.into();
    raw.state = STATE_CLEAN.into();
    raw.errors = match options.errors {
        ErrorsBehaviour::Continue => 1,
        ErrorsBehaviour::RemountRo => 2,
        ErrorsBehaviour::Panic => 3,
    }
    .into();
    raw.rev_level = 1.into();
    raw.first_ino = 11.into();
    raw.inode_size = options.inode_size.into();
    raw.uuid = *id.uuid.as_bytes();
    raw.set_label(options.label.as_bytes());
    let last_mounted = options.last_mounted.as_bytes();
    raw.last_mounted[..last_mounted.len()].copy_from_slice(last_mounted);
    raw.raid_stride = options.stride.into();
    raw.raid_stripe_width = options.stripe_width.into();
    raw.reserved_gdt_blocks = (sizes.reserved_gdt as u16).into();
    for (to, from) in raw
        .hash_seed
        .iter_mut()
        .zip(id.hash_seed.as_bytes().as_chunks().0)
    {
        *to = u32::from_le_bytes(*from).into();
    }
    raw.def_hash_version = HashVersion::HalfMd4 as u8;
    raw.flags = FLAG_SIGNED_HASH.into();
    // user_xattr and acl
    raw.default_mount_opts = 0xc.into();
    let secs = id.time as u64;
    raw.set_mkfs_time(secs);
    raw.set_write_time(secs);
    raw.set_lastcheck_time(secs);
    raw.backup_bgs = backup_groups(features, sizes.groups).map(Into::into);
    if options.inode_size > 128 {
        raw.want_extra_isize = WANT_EXTRA_ISIZE.into();
        raw.min_extra_isize = WANT_EXTRA_ISIZE.into();
    }
    set_feature_fields(&mut raw, options, features);
    raw
}

/// Sets the fields that only one feature uses.
fn set_feature_fields(raw: &mut RawSuperblock, options: &MkfsOptions, features: &FeatureSet) {
    if features.incompat.contains(Incompat::BIT64) {
        raw.desc_size = desc_size(features).into();
    }
    if features.incompat.contains(Incompat::FLEX_BG) {
        raw.log_groups_per_flex = options.flex_bg_size.trailing_zeros() as u8;
    }
    if features.incompat.contains(Incompat::CSUM_SEED) {
        raw.checksum_seed = CsumSeed::from_uuid(&raw.uuid).0.into();
    }
    if features.incompat.contains(Incompat::MMP) {
        raw.mmp_update_interval = MMP_INTERVAL_DEFAULT.into();
    }
    if features.incompat.contains(Incompat::ENCRYPT) {
        let [contents, names, ..] = &mut raw.encrypt_algos;
        (*contents, *names) = ENCRYPT_ALGOS;
    }
    if features.incompat.contains(Incompat::CASEFOLD) {
        raw.encoding = ENCODING_UTF8_12_1.into();
        if options.strict_names {
            raw.encoding_flags = ENCODING_STRICT.into();
        }
    }
}

/// Bitmaps and inode tables: together for each flex group, as near to its start as they fit.
fn place_groups(geo: &Geometry, space: &mut Space) -> Option<Vec<GroupPlace>> {
    let mut places = vec![GroupPlace::default(); geo.groups_count as usize];
    let flex = 1usize << geo.log_groups_per_flex;
    let table = u64::from(geo.itable_blocks_per_group);
    for (i, chunk) in places.chunks_mut(flex).enumerate() {
        let first = geo.group_first_block(GroupNo((i * flex) as u32)).0;
        let (from, apart) = first_places(geo, chunk.len(), space, first);
        for place in chunk.iter_mut() {
            place.block_bitmap = space.take_contiguous(from, 1)?;
        }
        for place in chunk.iter_mut() {
            place.inode_bitmap = space.take_contiguous(from + apart, 1)?;
        }
        for place in chunk.iter_mut() {
            place.inode_table = space.take_contiguous(from + 2 * apart, table)?;
        }
    }
    Some(places)
}

/// Where the places of a flex group are searched from, and how far those of a group that is alone in it are apart: with clusters
/// that shows in what is free.
fn first_places(geo: &Geometry, groups: usize, space: &Space, from: u64) -> (u64, u64) {
    let free = space.runs_within(from, geo.blocks_count).next();
    match (geo.cluster_ratio, groups, free) {
        (2.., 1, Some(run)) => (run.start, 1 << geo.log_groups_per_flex),
        _ => (from, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What dumpe2fs says of an image that mke2fs 1.47.0 made.
    struct Made {
        bytes: u64,
        block_size: u32,
        inode_ratio: u32,
        blocks: u64,
        inodes: u32,
        reserved_gdt: u32,
        journal: u32,
        overhead: u64,
    }

    #[rustfmt::skip]
    const MADE: [Made; 14] = [
        Made { bytes: 1 << 20, block_size: 4096, inode_ratio: 8192, blocks: 256, inodes: 128, reserved_gdt: 0, journal: 0, overhead: 12 },
        Made { bytes: 12 << 20, block_size: 1024, inode_ratio: 4096, blocks: 12288, inodes: 3072, reserved_gdt: 95, journal: 1024, overhead: 1991 },
        Made { bytes: 20 << 20, block_size: 1024, inode_ratio: 4096, blocks: 20480, inodes: 5112, reserved_gdt: 159, journal: 1024, overhead: 2631 },
        Made { bytes: 33 << 20, block_size: 2048, inode_ratio: 4096, blocks: 16384, inodes: 8448, reserved_gdt: 31, journal: 1024, overhead: 2115 },
        Made { bytes: 513 << 20, block_size: 4096, inode_ratio: 16384, blocks: 131_072, inodes: 32832, reserved_gdt: 63, journal: 4096, overhead: 6351 },
        Made { bytes: 1500 << 20, block_size: 2048, inode_ratio: 16384, blocks: 768_000, inodes: 96256, reserved_gdt: 512, journal: 16384, overhead: 32630 },
        Made { bytes: 10 << 30, block_size: 4096, inode_ratio: 16384, blocks: 2_621_440, inodes: 655_360, reserved_gdt: 1024, journal: 16384, overhead: 66747 },
        Made { bytes: 300 << 30, block_size: 1024, inode_ratio: 16384, blocks: 314_572_800, inodes: 19_660_800, reserved_gdt: 256, journal: 262_144, overhead: 5_312_599 },
        Made { bytes: 512 << 20, block_size: 8192, inode_ratio: 16384, blocks: 65528, inodes: 32768, reserved_gdt: 7, journal: 4096, overhead: 5131 },
        Made { bytes: 40 << 30, block_size: 8192, inode_ratio: 16384, blocks: 5_242_240, inodes: 2_621_440, reserved_gdt: 512, journal: 32768, overhead: 119_474 },
        Made { bytes: 5 << 30, block_size: 16384, inode_ratio: 16384, blocks: 327_640, inodes: 327_360, reserved_gdt: 19, journal: 8192, overhead: 13380 },
        Made { bytes: 5 << 30, block_size: 32768, inode_ratio: 32768, blocks: 163_840, inodes: 163_968, reserved_gdt: 5, journal: 4096, overhead: 5397 },
        Made { bytes: 64 << 20, block_size: 65536, inode_ratio: 65536, blocks: 1024, inodes: 1024, reserved_gdt: 0, journal: 0, overhead: 8 },
        Made { bytes: 40 << 30, block_size: 65536, inode_ratio: 65536, blocks: 655_280, inodes: 652_800, reserved_gdt: 9, journal: 16384, overhead: 19020 },
    ];

    #[test]
    fn sizes_are_those_of_mke2fs() {
        for made in MADE {
            let options = MkfsOptions {
                block_size: made.block_size,
                inode_ratio: made.inode_ratio,
                ..MkfsOptions::default()
            };
            let blocks = made.bytes / u64::from(made.block_size);
            let request = Request {
                blocks,
                inodes: inodes_by_ratio(&options, blocks),
                reserved: 0,
            };
            let layout = Layout::new(&options, &options.identity(), request).unwrap();
            let geo = layout.geo();
            let got = (geo.blocks_count, geo.inodes_count, geo.reserved_gdt_blocks);
            assert_eq!(
                got,
                (made.blocks, made.inodes, made.reserved_gdt),
                "{blocks}"
            );
            assert_eq!(layout.journal_blocks, made.journal);
            let overhead = layout.overhead + u64::from(made.journal);
            assert_eq!(overhead, made.overhead);
        }
    }

    #[test]
    fn more_inodes_than_blocks_make_smaller_groups() {
        let options = MkfsOptions::default();
        let request = Request {
            blocks: 40_000,
            inodes: 100_000,
            reserved: 0,
        };
        let layout = Layout::new(&options, &options.identity(), request).unwrap();
        assert_eq!(layout.geo().blocks_per_group, 10_000);
        assert!(layout.geo().inodes_count >= 100_000);
    }

    #[test]
    fn too_large_names_the_largest() {
        let most = |features: &str, block_size: u32, bytes: u64| {
            let mut options = MkfsOptions {
                block_size,
                ..MkfsOptions::default()
            };
            options.features = options.features.changed(features).unwrap();
            let sized = |bytes: u64| {
                let blocks = bytes / u64::from(block_size);
                let inodes = inodes_by_ratio(&options, blocks);
                let request = Request {
                    blocks,
                    inodes,
                    reserved: 0,
                };
                sizes(&options, &options.features.settled(), request)
            };
            let (most, why) = match sized(bytes) {
                Err(MkfsError::TooLarge { size, most, why }) if size == bytes => (most, why),
                other => panic!("{other:?}"),
            };
            assert!(sized(most).is_ok(), "{most}");
            assert!(sized(most + (1 << 40)).is_err(), "{most}");
            (most >> 40, why)
        };
        let (all, descs) = most("^resize_inode", 4096, 100_000 << 40);
        assert!((254..256).contains(&all) && descs.contains("meta_bg spreads"));
        assert_eq!(most("^resize_inode", 4096, 300 << 40).0, all);
        assert_eq!(most("^resize_inode", 1024, 100 << 40).0, 0);
        let spread = most("^resize_inode,meta_bg", 4096, 100_000 << 40);
        assert!(spread.0 == 32767 && spread.1.contains("inode numbers"));
        let narrow = most("^64bit", 4096, 16 << 40);
        assert!(narrow.0 == 15 && narrow.1.contains("-O 64bit"));
    }

    #[test]
    fn too_small_is_an_error() {
        let options = MkfsOptions::default();
        let request = Request {
            blocks: 18,
            inodes: 1000,
            reserved: 0,
        };
        Layout::new(&options, &options.identity(), request).unwrap_err();
    }
}
