//! Which features a mount reads and writes.

use crate::options::MountOptions;
use crate::prelude::*;

/// The features that this file system writes.
const WRITES_INCOMPAT: Incompat = Incompat::FILETYPE
    .union(Incompat::RECOVER)
    .union(Incompat::META_BG)
    .union(Incompat::EXTENT)
    .union(Incompat::BIT64)
    .union(Incompat::FLEX_BG)
    .union(Incompat::MMP)
    .union(Incompat::INLINE_DATA)
    .union(Incompat::EA_INODE)
    .union(Incompat::CSUM_SEED)
    .union(Incompat::LARGE_DIR)
    .union(Incompat::CASEFOLD)
    .union(Incompat::ENCRYPT);

/// The features that this file system at least reads.
const READS_RO_COMPAT: RoCompat = RoCompat::SPARSE_SUPER
    .union(RoCompat::LARGE_FILE)
    .union(RoCompat::HUGE_FILE)
    .union(RoCompat::GDT_CSUM)
    .union(RoCompat::DIR_NLINK)
    .union(RoCompat::EXTRA_ISIZE)
    .union(RoCompat::METADATA_CSUM.union(RoCompat::PROJECT))
    .union(RoCompat::BIGALLOC)
    .union(RoCompat::QUOTA)
    .union(RoCompat::VERITY)
    .union(RoCompat::ORPHAN_PRESENT);

pub(crate) fn check_features(sb: &Superblock, options: &mut MountOptions) -> Result<()> {
    let unknown = sb.incompat - WRITES_INCOMPAT;
    if !unknown.is_empty() {
        return Err(uext4_ondisk::FormatError::UnsupportedIncompat(unknown.describe()).into());
    }
    uext4_ondisk::NameEncoding::read(&sb.raw)?;
    check_clusters(sb)?;
    let read_only = sb.ro_compat - READS_RO_COMPAT;
    if !read_only.is_empty() && !options.read_only {
        tracing::warn!(
            "mounted read-only: unsupported features {}",
            read_only.describe()
        );
        options.read_only = true;
    }
    Ok(())
}

/// Clusters begin with the first block, and only extents name the blocks in them.
fn check_clusters(sb: &Superblock) -> Result<()> {
    if !sb.ro_compat.contains(RoCompat::BIGALLOC) {
        return Ok(());
    }
    if sb.geometry.first_data_block != 0 {
        return Err(uext4_ondisk::FormatError::BadGeometry {
            what: "the first block with bigalloc",
            value: sb.geometry.first_data_block.into(),
        }
        .into());
    }
    if !sb.incompat.contains(Incompat::EXTENT) {
        return Err(uext4_ondisk::FormatError::BadGeometry {
            what: "incompatible features, of which bigalloc needs extents,",
            value: sb.incompat.bits().into(),
        }
        .into());
    }
    Ok(())
}

pub(crate) fn check_size(sb: &Superblock, device: &dyn BlockDevice) -> Result<()> {
    let blocks = device.len() / u64::from(sb.geometry.block_size);
    if sb.geometry.blocks_count > blocks {
        return Err(uext4_ondisk::FormatError::BadGeometry {
            what: "the number of blocks, more than the device holds,",
            value: sb.geometry.blocks_count,
        }
        .into());
    }
    Ok(())
}
