//! Taking runs out of a block map and freeing what they hold.

use crate::inode::Inode;
use crate::inode::MapTree;
use crate::mapping::Mapping;
use crate::mapping::block_map::{Path, Reader};
use crate::mapping::extents::remove::Content;
use crate::prelude::*;
use crate::run::Run;
use uext4_ondisk::map_pointer_set;

/// Runs that one step frees: each lies in two groups at most.
const STEP_RUNS: usize = 4;
/// Blocks of a directory that one step frees, each of which is revoked.
const STEP_METADATA: u32 = 16;
/// Blocks that one step may change: inode, three pointer blocks with bitmap and descriptors of
/// each, those of the runs, and a directory's blocks.
pub(crate) const MAP_STEP_CREDITS: u32 = 1 + 3 * 3 + STEP_RUNS as u32 * 4 + STEP_METADATA;

/// What one step takes out of one block of pointers.
#[derive(Debug, Default)]
struct Cut {
    runs: ArrayVec<Run, STEP_RUNS>,
    /// The first pointer of it.
    from: usize,
}

impl Mapping {
    /// Frees the last runs in `[from, to)`, of one block of pointers, and pointer blocks that nothing is left
    /// in; returns where the rest ends.
    ///
    /// # Journal
    /// [`MAP_STEP_CREDITS`].
    ///
    /// # Errors
    /// Damage: a pointer that names no block of a file, or a block that is free.
    pub(crate) fn remove_map_step(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        _tree: &mut MapTree,
        from: u64,
        to: u64,
        content: Content,
    ) -> Result<u64> {
        let reader = self.map_reader(inode.ino);
        let shape = reader.shape();
        let to = to.min(shape.blocks_max());
        let last = to.saturating_sub(1);
        let Some(place) = shape.place(Lblk(last as u32)).filter(|_| to > from) else {
            return Ok(from);
        };
        let root = inode.state().i_block;
        let mut path = reader.path(root, place)?;
        let depth = path.depth();
        if !path.is_complete() {
            let end = previous_end(&path, shape).max(from);
            self.drop_empty_pointers(handle, inode, &mut path, &root, 0)?;
            return Ok(end);
        }
        let slot = place.slot(depth);
        let base = last - slot as u64;
        let lowest = from.saturating_sub(base) as usize;
        let cut = path.with_pointers(depth, |pointers| {
            cut_pointers(pointers, lowest, slot, content)
        });
        for run in &cut.runs {
            reader.check_run(run.pblk, u64::from(run.len))?;
            path.check_apart(&reader, run.pblk, u64::from(run.len))?;
        }
        if !cut.runs.is_empty() {
            self.change_pointers(handle, inode, &mut path, depth, |pointers| {
                for at in cut.from..=slot {
                    let _ = map_pointer_set(pointers, at, None);
                }
            })?;
        }
        let mut freed = 0;
        for run in &cut.runs {
            self.free_cut(handle, &reader, *run, content)?;
            freed += u64::from(run.len);
        }
        self.drop_empty_pointers(handle, inode, &mut path, &root, freed)?;
        Ok(base + cut.from as u64)
    }

    fn free_cut(
        &self,
        handle: &Handle<'_>,
        reader: &Reader<'_>,
        run: Run,
        content: Content,
    ) -> Result<()> {
        if content == Content::Metadata {
            self.forget_run(handle, run)?;
        }
        self.blocks
            .free_run(handle, run)
            .map_err(|e| e.of_inode(reader.ino))
    }

    /// Frees the pointer blocks of the path that nothing is left in, from the last one up, and notes in the
    /// inode what it lost, `freed` blocks included.
    fn drop_empty_pointers(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        before: &[u8; 60],
        mut freed: u64,
    ) -> Result<()> {
        let reader = self.map_reader(inode.ino);
        while path.depth() > 0 && path.with_pointers(path.depth(), is_empty) {
            let Some(buffer) = path.nodes.pop() else {
                break;
            };
            let depth = path.depth();
            let slot = path.place.slot(depth);
            self.change_pointers(handle, inode, path, depth, |pointers| {
                let _ = map_pointer_set(pointers, slot, None);
            })?;
            self.blocks
                .free_metadata(handle, Pblk(buffer.block()))
                .map_err(|e| e.of_inode(reader.ino))?;
            freed += 1;
        }
        if freed == 0 && path.root == *before {
            return Ok(());
        }
        let sectors = freed * (self.volume.block_size() / 512);
        self.table.update_inode(inode, handle, |disk| {
            disk.i_block = path.root;
            disk.blocks = disk.blocks.saturating_sub(sectors);
        })
    }
}

fn is_empty(pointers: &[u8]) -> bool {
    pointers.iter().all(|byte| *byte == 0)
}

/// What of the pointers from `lowest` to `slot` one step frees, from the last one on.
fn cut_pointers(pointers: &[u8], lowest: usize, slot: usize, content: Content) -> Cut {
    let mut cut = Cut {
        runs: ArrayVec::new(),
        from: slot + 1,
    };
    let mut blocks = 0;
    while cut.from > lowest {
        let at = cut.from - 1;
        if let Some(pblk) = map_pointer(pointers, at) {
            if content == Content::Metadata && blocks == STEP_METADATA {
                break;
            }
            match cut.runs.last_mut() {
                Some(run) if pblk.0 + 1 == run.pblk.0 => {
                    *run = Run {
                        pblk,
                        len: run.len + 1,
                    }
                }
                _ => {
                    if cut.runs.try_push(Run { pblk, len: 1 }).is_err() {
                        break;
                    }
                }
            }
            blocks += 1;
        }
        cut.from = at;
    }
    cut
}

/// Where what the path does not lead to begins: the first of the holes, in its last block of pointers, up to
/// the pointer that is missing.
fn previous_end(path: &Path, shape: MapShape) -> u64 {
    let depth = path.depth();
    let (levels, mut start) = shape.root(path.place.slot(0));
    if depth == 0 {
        return start;
    }
    let slot = path.place.slot(depth);
    let first = path.with_pointers(depth, |pointers| {
        (0..slot)
            .rev()
            .find(|at| map_pointer(pointers, *at).is_some())
            .map_or(0, |at| at + 1)
    });
    for above in 1..depth {
        start += path.place.slot(above) as u64 * shape.span(levels - above);
    }
    start + first as u64 * shape.span(levels - depth)
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    fn pointers(of: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; of.len() * 4];
        for (slot, pblk) in of.iter().enumerate() {
            assert!(map_pointer_set(&mut bytes, slot, Some(Pblk(*pblk))));
        }
        bytes
    }

    fn cut(of: &[u64], lowest: usize, content: Content) -> (Vec<(u64, u32)>, usize) {
        let cut = cut_pointers(&pointers(of), lowest, of.len() - 1, content);
        let runs = cut.runs.iter().map(|run| (run.pblk.0, run.len));
        (runs.collect(), cut.from)
    }

    #[test]
    fn a_step_takes_runs_from_the_end() {
        let of = [5, 6, 0, 0, 7, 8, 20, 19, 0];
        assert_eq!(
            cut(&of, 0, Content::Data),
            (vec![(19, 1), (20, 1), (5, 4)], 0),
            "blocks that lie together are freed together, whatever is between them in the file"
        );
        assert_eq!(
            cut(&of, 5, Content::Data),
            (vec![(19, 1), (20, 1), (8, 1)], 5)
        );
        let apart = [2, 4, 6, 8, 10, 12];
        assert_eq!(
            cut(&apart, 0, Content::Data),
            (vec![(12, 1), (10, 1), (8, 1), (6, 1)], 2)
        );
        assert_eq!(cut(&[0; 7], 3, Content::Data), (vec![], 3));
    }

    #[test]
    fn a_step_takes_so_many_blocks_of_a_directory() {
        let of: Vec<u64> = (100..140).collect();
        assert_eq!(cut(&of, 0, Content::Metadata), (vec![(124, 16)], 24));
    }
}
