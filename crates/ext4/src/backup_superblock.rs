//! Reading an image whose superblock is damaged, with a backup in its place.

use std::sync::Arc;
use uext4_block::{BlockDevice, OverlayDevice};
use uext4_ondisk::{
    EXT4_MAGIC, GroupCsum, GroupDesc, GroupFlags, GroupNo, Incompat, RawSuperblock,
    SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock,
};

/// Groups that have backups, as far as they are searched.
const GROUPS: [u64; 12] = [1, 3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343];
/// Bytes of a block, the usual ones first.
const BLOCK_SIZES: [u64; 7] = [4096, 1024, 2048, 8192, 16384, 32768, 65536];

/// An image that is read with a backup of its superblock.
#[derive(Debug)]
pub struct BackupSuperblock {
    /// The image with the backup in place of the superblock; what is written to it is kept in memory.
    pub device: Arc<OverlayDevice>,
    /// The block of the backup.
    pub block: u64,
    /// Bytes of a block.
    pub block_size: u32,
}

impl BackupSuperblock {
    /// Puts the backup in block `at` in place of the superblock, or the first that is found; `None` without a backup
    /// that is right. Group descriptors whose checksum is wrong come from the same group.
    pub fn find(device: Arc<dyn BlockDevice>, at: Option<u64>) -> Option<BackupSuperblock> {
        let (sb, offset) = match at {
            Some(block) => {
                let offsets = BLOCK_SIZES.map(|size| block.saturating_mul(size));
                first_right(&*device, offsets.into_iter())
            }
            None => first_right(&*device, usual_places(&*device)),
        }?;
        let over = OverlayDevice::new(Arc::clone(&device));
        restore_descriptors(&over, &sb);
        let mut raw = sb.raw.clone();
        let read = |at, bytes: &mut [u8]| device.read_at(at, bytes).is_ok();
        if sb.may_need_recovery(read) {
            let incompat = sb.incompat | Incompat::RECOVER;
            raw.set_features(sb.compat, incompat, sb.ro_compat);
        }
        raw.block_group_nr = 0.into();
        raw.update_checksum();
        let mut bytes = [0; SUPERBLOCK_SIZE];
        *RawSuperblock::mut_from(&mut bytes)? = raw;
        over.write_at(SUPERBLOCK_OFFSET, &bytes).ok()?;
        let block_size = sb.geometry.block_size;
        Some(BackupSuperblock {
            device: Arc::new(over),
            block: offset / u64::from(block_size),
            block_size,
        })
    }
}

/// The first place with a superblock that is right, and the superblock.
fn first_right(
    device: &dyn BlockDevice,
    mut offsets: impl Iterator<Item = u64>,
) -> Option<(Superblock, u64)> {
    offsets.find_map(|offset| {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        device.read_at(offset, &mut bytes).ok()?;
        let sb = Superblock::parse(&bytes).ok()?;
        let (geometry, group) = (&sb.geometry, sb.raw.block_group_nr.get());
        let place = geometry.group_first_block(GroupNo(group.into()));
        let fits = geometry
            .blocks_count
            .checked_mul(geometry.block_size.into());
        let is_right = group > 0
            && geometry.block_offset(place) == offset
            && fits.is_some_and(|bytes| bytes <= device.len());
        is_right.then_some((sb, offset))
    })
}

/// Where backups are of images with groups of the usual size, and of the size that what is left of the superblock names.
fn usual_places(device: &dyn BlockDevice) -> impl Iterator<Item = u64> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    let read = device.read_at(SUPERBLOCK_OFFSET, &mut bytes).is_ok();
    let left =
        RawSuperblock::mut_from(&mut bytes).filter(|raw| read && raw.magic.get() == EXT4_MAGIC);
    let named = left.map(|raw| u64::from(raw.blocks_per_group.get()));
    let len = device.len();
    let of = move |block_size: u64, per_group: u64| {
        let first = u64::from(block_size == 1024);
        GROUPS.into_iter().filter_map(move |group| {
            let block = group.checked_mul(per_group)?.checked_add(first)?;
            block.checked_mul(block_size)
        })
    };
    BLOCK_SIZES
        .into_iter()
        .flat_map(move |size| {
            std::iter::once(size * 8)
                .chain(named)
                .map(move |n| (size, n))
        })
        .flat_map(move |(size, per_group)| of(size, per_group))
        .filter(move |offset| *offset < len)
}

/// Replaces group descriptors that are wrong by those of the backup. What they count may be old, so inodes are not taken
/// for unused.
fn restore_descriptors(device: &OverlayDevice, sb: &Superblock) {
    let geometry = &sb.geometry;
    if geometry.meta_bg {
        return;
    }
    let (csum, size) = (GroupCsum::of(sb), usize::from(geometry.desc_size));
    let group = u64::from(sb.raw.block_group_nr.get());
    let distance = group * u64::from(geometry.blocks_per_group) * u64::from(geometry.block_size);
    let right = |no: GroupNo, raw: &[u8]| {
        let desc = GroupDesc::decode(raw).ok()?;
        csum.verify_desc(no, raw).ok()?;
        desc.validate(geometry, no).ok()?;
        Some(desc)
    };
    let (mut raw, mut backup) = (vec![0; size], vec![0; size]);
    for no in (0..geometry.groups_count).map(GroupNo) {
        let (block, at) = geometry.group_desc_location(no);
        let offset = geometry.block_offset(block) + at as u64;
        if device.read_at(offset, &mut raw).is_ok() && right(no, &raw).is_some() {
            continue;
        }
        if device.read_at(offset + distance, &mut backup).is_err() {
            continue;
        }
        if let Some(mut desc) = right(no, &backup) {
            desc.flags.remove(GroupFlags::INODE_UNINIT);
            desc.itable_unused = 0;
            desc.encode_into(&mut backup);
            csum.set_desc_checksum(no, &mut backup);
            // The overlay is in memory: a write in range succeeds.
            let _ = device.write_at(offset, &backup);
        }
    }
}
