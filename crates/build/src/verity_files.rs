//! Writing the trees of files with fs-verity.
//!
//! # Invariants
//! What is hashed is read back from the image: so it fits the image, even if the source changed while it was copied.

use uext4_block::BlockDevice;
use uext4_ondisk::{BlockHasher, Extent, FsVerity, FsVerityDescriptor, HashTree};

use crate::error::Result;
use crate::fs_verity::{self, FsVerityFile};
use crate::parallel;
use crate::plan::Plan;
use crate::progress::{Progress, go_on};
use crate::tree::NodeId;
use crate::verity::BLOCK;

/// A file that is in the image already.
struct Written<'p> {
    id: NodeId,
    size: u64,
    tree: HashTree,
    /// The first block of the tree in the file.
    first: u64,
    extents: &'p [Extent],
    verity: &'p FsVerity,
    hasher: BlockHasher,
}

impl<'p> Written<'p> {
    fn new(plan: &'p Plan, id: NodeId, verity: &'p FsVerity) -> Written<'p> {
        let place = &plan.places.places[id.at()];
        let first = place.first_extent as usize;
        let size = plan.tree.node(id).attributes.size;
        Written {
            id,
            size,
            tree: verity.tree(size),
            first: fs_verity::blocks_of(size, verity).0,
            extents: &plan.places.extents[first..first + place.extents as usize],
            verity,
            hasher: verity.hasher(),
        }
    }

    /// Reads whole blocks; holes are zeros.
    fn read(&self, device: &dyn BlockDevice, first: u64, data: &mut [u8]) -> Result<()> {
        data.fill(0);
        let end = first + (data.len() / BLOCK) as u64;
        let begin = self.extents.partition_point(|e| e.end() <= first);
        for e in &self.extents[begin..] {
            let (from, to) = (u64::from(e.lblk.0).max(first), e.end().min(end));
            if from >= to {
                break;
            }
            let part = (from - first) as usize * BLOCK..(to - first) as usize * BLOCK;
            let at = e.pblk.0 + (from - u64::from(e.lblk.0));
            device.read_at(at * BLOCK as u64, &mut data[part])?;
        }
        Ok(())
    }

    /// Writes a block of the tree, or behind it the descriptor.
    fn write(&self, device: &dyn BlockDevice, at: u64, block: &[u8]) -> Result<()> {
        let lblk = self.first + at;
        let i = self.extents.partition_point(|e| e.end() <= lblk);
        // Places were given to all blocks of the piece.
        if let Some(e) = self.extents.get(i) {
            let at = e.pblk.0 + (lblk - u64::from(e.lblk.0));
            device.write_at(at * BLOCK as u64, block)?;
        }
        Ok(())
    }
}

/// Writes the trees of all files that are to have one; the files, in the order of their paths.
pub(crate) fn write(
    plan: &Plan,
    device: &dyn BlockDevice,
    progress: &dyn Progress,
) -> Result<Vec<FsVerityFile>> {
    let marked = plan.tree.fsverity.iter();
    let files = marked.map(|(id, verity)| Written::new(plan, *id, verity));
    let files: Vec<Written<'_>> = files.collect();
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = files.iter().map(|file| file.tree.data() * BLOCK as u64);
    progress.phase("fsverity", bytes.sum());
    let parts = files
        .iter()
        .map(|file| (0..file.tree.parts()).map(move |i| (file, i)));
    let work: Vec<(&Written<'_>, usize)> = parts.flatten().collect();
    let hashes = parallel::run(plan.threads, work.len(), Vec::new, |buffer, i| {
        let (file, part) = work[i];
        let read = |first, data: &mut [u8]| file.read(device, first, data);
        let write = |at, block: &[u8]| file.write(device, at, block);
        let (bytes, hash) = file.tree.part(part, (&file.hasher, buffer), read, write)?;
        go_on(progress, bytes)?;
        Ok(hash)
    })?;
    let mut hashes = hashes.into_iter();
    let mut made = Vec::with_capacity(files.len());
    for file in &files {
        let write = |at, block: &[u8]| file.write(device, at, block);
        let lowest = hashes.by_ref().take(file.tree.parts()).collect();
        let root = file.tree.finish(&file.hasher, lowest, write)?;
        let descriptor = FsVerityDescriptor {
            verity: file.verity.clone(),
            data_bytes: file.size,
            root,
        };
        let (at, end) = file
            .verity
            .descriptor_at(file.size, &file.tree, BLOCK as u32);
        let blocks = descriptor.encode_blocks((end - at) as usize);
        let mut digest = [0; 32];
        digest.copy_from_slice(descriptor.digest().as_bytes());
        for (i, block) in blocks.chunks_exact(BLOCK).enumerate() {
            file.write(device, file.tree.blocks() + i as u64, block)?;
        }
        made.push(FsVerityFile {
            path: [b"/", &plan.tree.relative_path(file.id)[..]].concat(),
            digest,
        });
    }
    made.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(made)
}
