//! How files name their blocks: extent trees, or block maps without the feature.

use crate::extents::MapTree;
use crate::features::FeatureSet;
use crate::{blockmap, extents};
use uext4_ondisk::{EXTENT_ROOT_ENTRIES, Extent, Incompat, InodeFlags, InodeSeed, MapShape, Pblk};

/// How the files of an image name their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// By extents.
    Extents,
    /// By maps.
    Blocks,
}

impl Mapping {
    pub fn of(features: &FeatureSet) -> Mapping {
        match features.incompat.contains(Incompat::EXTENT) {
            true => Mapping::Extents,
            false => Mapping::Blocks,
        }
    }

    /// What it says in the inode.
    pub fn flags(self) -> InodeFlags {
        match self {
            Mapping::Extents => InodeFlags::EXTENTS,
            Mapping::Blocks => InodeFlags::empty(),
        }
    }

    /// Blocks of the largest file.
    pub fn blocks_max(self, block_size: u32) -> u64 {
        match self {
            Mapping::Extents => u64::from(u32::MAX),
            Mapping::Blocks => MapShape::new(block_size).blocks_max(),
        }
    }

    /// Blocks that a file needs to name its data, besides the inode.
    pub fn tree_blocks(self, extents: &[Extent], block_size: u32) -> usize {
        match self {
            Mapping::Extents => extents::tree_blocks(extents.len(), block_size),
            Mapping::Blocks => {
                let runs = extents
                    .iter()
                    .map(|e| (u64::from(e.lblk.0), u64::from(e.len)));
                blockmap::index_blocks(runs, block_size) as usize
            }
        }
    }

    /// Whether that can be any, for so many extents.
    pub fn may_have_tree(self, extents: u32) -> bool {
        match self {
            Mapping::Extents => extents > u32::from(EXTENT_ROOT_ENTRIES),
            Mapping::Blocks => extents > 0,
        }
    }

    /// Makes what names the data; `places` gives the blocks, [`Mapping::tree_blocks`] of them. `seed` is
    /// set with checksums, which block maps have none of.
    pub fn build(
        self,
        extents: &[Extent],
        block_size: u32,
        seed: Option<InodeSeed>,
        places: &[Pblk],
    ) -> MapTree {
        match self {
            Mapping::Extents => extents::build(extents, block_size, seed, places),
            Mapping::Blocks => blockmap::build(extents, block_size, places),
        }
    }
}
