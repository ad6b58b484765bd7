//! Copies of a transaction's blocks for the log, made by the commit thread and by threads that wait for the transaction.
//!
//! # Data model
//! The blocks are in parts, each of which one descriptor block names. A thread takes the next part, freezes its blocks and copies them. The commit
//! thread writes the copies in the order of the parts, and copies a part itself while it has none to write.
//!
//! # Locks
//! `Copies::progress`, of class `journal_state`, guards which parts are taken. Blocks are copied and written without it.

use crate::buffer::{Buffer, BufferCache};
use crate::error::{JournalError, Result};
use crate::log::{Chunk, Log};
use std::collections::VecDeque;
use std::sync::Arc;
use uext4_ondisk::JournalFormat;
use uext4_sync::{Condvar, Mutex, MutexGuard, class};

/// The most parts that are taken and not yet given to the log, and about how many bytes these may be: with blocks of 4 KiB a part is 1 MiB, with those of
/// 64 KiB 256 MiB. One more may be being written.
const AHEAD_MAX: usize = 8;
const AHEAD_BYTES: usize = 10 << 20;
/// The fewest parts for which threads that wait are woken: that takes as long as copying one.
const HELPED_PARTS_MIN: usize = if cfg!(shuttle) { 2 } else { 4 };

/// The blocks of a transaction that is being written to the log.
#[derive(Debug)]
pub(crate) struct Copies {
    cache: Arc<BufferCache>,
    tid: u64,
    format: JournalFormat,
    progress: Mutex<Progress>,
    /// Wakes threads when a part was copied or written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// How many parts are taken ahead.
    ahead_max: usize,
    /// Parts that no thread has taken.
    waiting: VecDeque<Vec<Arc<Buffer>>>,
    /// Parts that were taken and not yet given to the log, oldest first; `None` while one is copied.
    taken: VecDeque<Option<Part>>,
    /// How many parts were given to the log.
    written: usize,
    /// Memory for copies.
    spare: Vec<Chunk>,
    /// Not all parts will be copied.
    has_failed: bool,
}

/// The blocks of a part, once copied.
#[derive(Debug, Default)]
struct Part {
    chunk: Chunk,
    blocks: Blocks,
}

/// What became of a transaction's blocks.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// In the log.
    pub copied: Vec<Arc<Buffer>>,
    /// Freed by the transaction, so not in the log.
    pub freed: Vec<Arc<Buffer>>,
}

/// A part that a thread copies.
struct Taken<'a> {
    copies: &'a Copies,
    /// Its number.
    index: usize,
    buffers: Vec<Arc<Buffer>>,
    part: Part,
    is_done: bool,
}

impl Copies {
    /// Of `buffers`, which transaction `tid` changed or freed.
    pub fn new(
        cache: Arc<BufferCache>,
        tid: u64,
        format: JournalFormat,
        buffers: Vec<Arc<Buffer>>,
        spare: Vec<Chunk>,
    ) -> Copies {
        let per_part = Chunk::capacity(&format);
        let part_bytes = per_part * format.block_size as usize;
        let mut buffers = buffers.into_iter();
        let parts = std::iter::from_fn(|| {
            let part: Vec<_> = buffers.by_ref().take(per_part).collect();
            (!part.is_empty()).then_some(part)
        });
        let progress = Progress {
            ahead_max: (AHEAD_BYTES / part_bytes).clamp(1, AHEAD_MAX),
            waiting: parts.collect(),
            spare,
            ..Progress::default()
        };
        Copies {
            cache,
            tid,
            format,
            progress: Mutex::new(&class::JOURNAL_STATE, progress),
            changed: Condvar::new(),
        }
    }

    /// Whether there are enough parts for several threads.
    pub fn want_help(&self) -> bool {
        self.progress.lock().waiting.len() >= HELPED_PARTS_MIN
    }

    /// Copies parts until all are taken.
    ///
    /// # Locks
    /// Takes the locks of buffers; waits for writes to the log.
    pub fn help(&self) {
        let mut progress = self.progress.lock();
        loop {
            while progress.is_full() {
                self.changed.wait(&mut progress);
            }
            let Some(taken) = self.take(&mut progress) else {
                return;
            };
            drop(progress);
            taken.copy();
            progress = self.progress.lock();
        }
    }

    /// Writes all blocks to `log`. Returns memory for other copies, too.
    pub fn write(&self, log: &mut Log) -> Result<(Blocks, Vec<Chunk>)> {
        match self.write_parts(log) {
            Ok(blocks) => Ok((blocks, std::mem::take(&mut self.progress.lock().spare))),
            Err(why) => {
                self.fail();
                Err(why)
            }
        }
    }

    /// Ends all calls of [`Copies::help`], and [`Copies::write`] with an error.
    pub fn fail(&self) {
        self.progress.lock().fail();
        self.changed.notify_all();
    }

    fn write_parts(&self, log: &mut Log) -> Result<Blocks> {
        let mut blocks = Blocks::default();
        let mut progress = self.progress.lock();
        loop {
            if progress.has_failed {
                let why = "not all blocks were copied for the log";
                return Err(JournalError::Aborted(why.into()));
            }
            if let Some(mut part) = progress.pop_copied() {
                drop(progress);
                log.write_chunk(&mut part.chunk)?;
                blocks.copied.append(&mut part.blocks.copied);
                blocks.freed.append(&mut part.blocks.freed);
                progress = self.progress.lock();
                progress.spare.push(part.chunk);
                self.changed.notify_all();
            } else if !progress.is_full()
                && let Some(taken) = self.take(&mut progress)
            {
                drop(progress);
                taken.copy();
                progress = self.progress.lock();
            } else if progress.taken.is_empty() {
                return Ok(blocks);
            } else {
                self.changed.wait(&mut progress);
            }
        }
    }

    fn take(&self, progress: &mut MutexGuard<'_, Progress>) -> Option<Taken<'_>> {
        let buffers = progress.waiting.pop_front()?;
        progress.taken.push_back(None);
        Some(Taken {
            copies: self,
            index: progress.written + progress.taken.len() - 1,
            buffers,
            part: Part {
                chunk: progress.spare.pop().unwrap_or_default(),
                blocks: Blocks::default(),
            },
            is_done: false,
        })
    }
}

impl Progress {
    fn fail(&mut self) {
        self.has_failed = true;
        self.waiting.clear();
    }

    /// Whether threads wait for a part to be written before they take another.
    fn is_full(&self) -> bool {
        self.taken.len() >= self.ahead_max && !self.waiting.is_empty()
    }

    /// The part to be written next, if it is copied.
    fn pop_copied(&mut self) -> Option<Part> {
        let part = self.taken.front_mut()?.take()?;
        self.taken.pop_front();
        self.written += 1;
        Some(part)
    }
}

impl Taken<'_> {
    fn copy(mut self) {
        let Copies {
            cache, tid, format, ..
        } = self.copies;
        let Part { chunk, blocks } = &mut self.part;
        for buffer in self.buffers.drain(..) {
            let add = |block, data: &[u8]| chunk.block(format, *tid, block, data);
            match copy_out(cache, &buffer, *tid, add) {
                Some(()) => blocks.copied.push(buffer),
                None => blocks.freed.push(buffer),
            }
        }
        self.is_done = true;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut progress = self.copies.progress.lock();
        let at = self.index - progress.written;
        match progress.taken.get_mut(at) {
            Some(part) if self.is_done => *part = Some(std::mem::take(&mut self.part)),
            // The thread panics.
            _ => progress.fail(),
        }
        self.copies.changed.notify_all();
    }
}

/// Calls `emit` with the block as transaction `tid` left it, and notes that it is to be written in place from the list of `tid`. The block no longer
/// waits for commit then. `None`, without the call, if `tid` freed the block.
pub(crate) fn copy_out<R>(
    cache: &BufferCache,
    buffer: &Arc<Buffer>,
    tid: u64,
    emit: impl FnOnce(u64, &[u8]) -> R,
) -> Option<R> {
    let mut content = buffer.write();
    let forgotten = content.journaled().forgotten == tid;
    let (data, journaled) = content.parts();
    let own = journaled.pending == tid;
    if own {
        journaled.pending = 0;
    }
    let frozen = journaled.frozen.take();
    if forgotten {
        return None;
    }
    journaled.checkpoint = tid;
    if own {
        cache.freeze(buffer, data);
    }
    let bytes: &[u8] = match &frozen {
        Some(frozen) => frozen,
        None => data,
    };
    // It may write in place under the buffer's lock: I/O is allowed at this rank.
    Some(emit(buffer.block(), bytes))
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{LogFeatures, LogMap, LogRun, Opened};
    use uext4_block::{BlockDevice, MemoryDevice};
    use uext4_ondisk::RawJournalSuper;
    use zerocopy::IntoBytes;

    const BLOCK: usize = 1024;
    const LOG_BLOCKS: u32 = 4096;
    const TID: u64 = 1 << 32 | 1;
    /// Of more parts than are copied ahead.
    const BLOCKS: u64 = 1000;

    /// An empty log, and copies of blocks that transaction [`TID`] has.
    fn log_and_copies() -> (Log, Copies) {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(8 << 20));
        let run = LogRun {
            first: 0,
            pblk: 0,
            len: LOG_BLOCKS,
        };
        let map = LogMap::new(Arc::clone(&device), BLOCK, vec![run]);
        let mut raw = RawJournalSuper::new_empty(BLOCK as u32, LOG_BLOCKS);
        raw.update_checksum();
        map.write(0, raw.as_bytes()).expect("writes");
        let features = LogFeatures {
            checksums: true,
            wide: true,
            fast_commits: false,
        };
        let mut log = Log::open(map, features, Opened::Empty).expect("opens");
        log.begin(TID).expect("begins");
        let cache = Arc::new(BufferCache::new(device, BLOCK, 2048));
        let buffers = (0..BLOCKS).map(|block| {
            let buffer = cache.get_unread(u64::from(LOG_BLOCKS) + block);
            buffer.write().journaled().pending = TID;
            buffer
        });
        let buffers = buffers.collect();
        let copies = Copies::new(cache, TID, log.format(), buffers, Vec::new());
        (log, copies)
    }

    #[test]
    fn parts_are_written_in_order_whoever_copies_them() {
        for helpers in [0, 1, 5] {
            let (mut log, copies) = log_and_copies();
            let (blocks, spare) = std::thread::scope(|scope| {
                (0..helpers).for_each(|_| drop(scope.spawn(|| copies.help())));
                copies.write(&mut log).expect("writes")
            });
            let written = blocks.copied.iter().map(|b| b.block());
            let expected = (0..BLOCKS).map(|block| u64::from(LOG_BLOCKS) + block);
            assert!(written.eq(expected), "{helpers}");
            assert!(blocks.freed.is_empty() && spare.len() <= AHEAD_MAX + 1);
            for buffer in &blocks.copied {
                let content = buffer.read();
                assert_eq!(content.journaled().pending, 0);
                assert_eq!(content.journaled().checkpoint, TID);
            }
        }
    }

    #[test]
    fn a_thread_that_waits_for_a_write_ends_with_a_failure() {
        let (mut log, copies) = log_and_copies();
        std::thread::scope(|scope| {
            let helper = scope.spawn(|| copies.help());
            while !copies.progress.lock().is_full() {
                std::thread::yield_now();
            }
            assert!(!helper.is_finished());
            copies.fail();
            helper.join().expect("no panic");
        });
        assert!(copies.write(&mut log).is_err());
    }
}
