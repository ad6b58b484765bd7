//! The pass over the blocks of all directories, in the order they lie on disk.

use crate::context::Context;
use crate::dirblock::DirWorker;
use crate::dirs::{Dir, Dirs};
use crate::parallel;
use crate::prelude::*;
use crate::scan::READ_BYTES;

/// Blocks that a worker takes at once.
const BATCH: usize = 512;
/// Blocks that are read along to make one read of two.
const GAP_BLOCKS: u64 = 4;

/// Checks every block of every directory.
///
/// # Errors
/// The device's.
pub(crate) fn run(cx: &Context<'_>, dirs: &Dirs, faults: &mut Faults) -> Result<()> {
    let batches = dirs.order.len().div_ceil(BATCH);
    let inline: Vec<&Dir> = dirs.dirs.iter().filter(|d| d.inline).collect();
    cx.progress.phase("directories", dirs.order.len() as u64);
    let workers = parallel::run(
        cx.threads,
        batches + inline.len().div_ceil(BATCH),
        || DirWorker::new(cx, dirs),
        |w, i| {
            if i < batches {
                return w.batch(dirs.order.chunks(BATCH).nth(i).unwrap_or(&[]));
            }
            let mine = inline.chunks(BATCH).nth(i - batches).unwrap_or(&[]);
            mine.iter().try_for_each(|d| w.inline_dir(d))
        },
    )?;
    faults.absorb(workers.into_iter().map(|w| w.faults));
    Ok(())
}

impl DirWorker<'_, '_> {
    /// Reads blocks that lie close together in one go, and checks each.
    fn batch(&mut self, order: &[u32]) -> Result<()> {
        let (cx, dirs) = (self.cx, self.dirs);
        let block = |i: &u32| dirs.blocks.get(*i as usize).copied();
        let size = cx.block_size();
        let run_blocks = (READ_BYTES / size).max(1) as u64;
        let mut buf = std::mem::take(&mut self.buf);
        let mut rest = order;
        while let Some(first) = rest.first().and_then(block) {
            let start = first.pblk.0;
            let mut end = start + 1;
            let mut n = 0;
            for b in rest.iter().filter_map(block) {
                let next = b.pblk.0.saturating_add(1);
                if next > start + run_blocks || next > end + 1 + GAP_BLOCKS {
                    break;
                }
                end = end.max(next);
                n += 1;
            }
            let (run, later) = rest.split_at(n.clamp(1, rest.len()));
            rest = later;
            buf.resize((end - start) as usize * size, 0);
            cx.view.read(first.pblk, &mut buf)?;
            for i in run {
                let Some(b) = block(i) else {
                    continue;
                };
                let at = (b.pblk.0 - start) as usize * size;
                let (Some(bytes), Some(dir)) =
                    (buf.get(at..at + size), dirs.dirs.get(b.dir as usize))
                else {
                    continue;
                };
                self.block(dir, *i as usize, &b, bytes);
            }
        }
        self.buf = buf;
        cx.progress.advance(order.len() as u64);
        Ok(())
    }
}
