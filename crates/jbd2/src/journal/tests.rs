//! Waiting for the commit thread, and aborting.

use super::*;
use crate::transaction::Freed;
use crate::{LogFeatures, LogMap, LogRun};
use std::sync::mpsc;
use uext4_block::{BlockDevice, BlockError, BlockOp, MemoryDevice, forward_device};
use uext4_ondisk::{JOURNAL_BLOCKS_MIN, RawJournalSuper};
use uext4_sync::atomic::AtomicBool;
use zerocopy::IntoBytes;

/// Asks for what only another thread can have.
struct Impatient(Arc<Journal>, mpsc::Sender<Result<()>>);

impl JournalClient for Impatient {
    fn committed(&self, _tid: u64, _freed: &[Freed]) {
        let _ = self.1.send(self.0.flush_log());
    }
    fn aborted(&self, _why: &JournalError) {}
}

fn journal() -> Arc<Journal> {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let cache = Arc::new(BufferCache::new(device, 4096, 16));
    Journal::without_log(cache, JournalOptions::default()).expect("a thread")
}

#[test]
fn a_panic_in_a_handle_aborts_the_journal() {
    let journal = journal();
    let buffer = journal.cache().get(3).expect("block 3");
    let half = || {
        let handle = journal.start(1).expect("start");
        handle.modify(&buffer).expect("modify").data_mut().fill(1);
        panic!("in the middle of a change");
    };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(half));
    assert!(panicked.is_err());
    assert!(matches!(journal.sync(), Err(JournalError::Aborted(_))));
    journal.stop();
    let mut block = [0; 4096];
    let device = journal.cache().device();
    device.read_at(3 * 4096, &mut block).expect("read");
    assert_eq!(block, [0; 4096], "half of a change was written");
}

#[test]
fn the_commit_thread_does_not_wait_for_itself() {
    let journal = journal();
    let (told, hears) = mpsc::channel();
    journal.set_client(Arc::new(Impatient(Arc::clone(&journal), told)));
    drop(journal.start(1).expect("start"));
    journal.sync().expect("sync");
    let flushed = hears.recv().expect("a notice");
    assert!(matches!(flushed, Err(JournalError::OnCommitThread)));
    journal.stop();
}

const BLOCK: usize = 1024;
const LOG_BYTES: u64 = JOURNAL_BLOCKS_MIN as u64 * BLOCK as u64;

/// Always has space for the log, its first blocks, and for the rest only if it is not full.
#[derive(Debug)]
struct Host {
    memory: MemoryDevice,
    full: AtomicBool,
}

impl BlockDevice for Host {
    forward_device!(self => self.memory; len, is_read_only, read_at, zero, set_len, identity);

    fn write_at(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        if offset >= LOG_BYTES && self.full.load(Ordering::SeqCst) {
            let why = std::io::Error::from_raw_os_error(28);
            return Err(BlockError::io(
                BlockOp::Write,
                offset,
                buf.len() as u64,
                why,
            ));
        }
        self.memory.write_at(offset, buf)
    }
    /// Takes longer than a waiting thread takes to wake up.
    fn flush(&self) -> uext4_block::Result<()> {
        if !self.full.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
    fn discard(&self, _offset: u64, _len: u64) -> uext4_block::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_host_refuses_only_while_it_is_full() {
    let host = Arc::new(Host {
        memory: MemoryDevice::new(16 << 20),
        full: AtomicBool::new(true),
    });
    let run = LogRun {
        first: 0,
        pblk: 0,
        len: JOURNAL_BLOCKS_MIN,
    };
    let map = LogMap::new(Arc::clone(&host) as Arc<_>, BLOCK, vec![run]);
    let mut raw = RawJournalSuper::new_empty(BLOCK as u32, JOURNAL_BLOCKS_MIN);
    raw.update_checksum();
    map.write(0, raw.as_bytes()).expect("write");
    let cache = Arc::new(BufferCache::new(Arc::clone(&host) as Arc<_>, BLOCK, 64));
    let features = LogFeatures {
        checksums: true,
        wide: false,
        fast_commits: false,
    };
    let journal = Journal::open(
        cache,
        map,
        features,
        JournalOptions::default(),
        crate::Opened::Empty,
    )
    .expect("open");
    let mut blocks = u64::from(JOURNAL_BLOCKS_MIN)..;
    let mut change = || {
        let handle = journal.start(8)?;
        for block in blocks.by_ref().take(8) {
            let buffer = journal.cache().get(block)?;
            handle.modify(&buffer)?.data_mut().fill(1);
        }
        handle.finish();
        journal.sync()
    };
    let refused = (0..1000).find_map(|_| change().err());
    assert!(
        matches!(refused, Some(JournalError::HostFull)),
        "{refused:?}"
    );
    for attempt in 0..100 {
        let refused = change();
        assert!(
            matches!(refused, Err(JournalError::HostFull)),
            "{attempt}: {refused:?}"
        );
    }
    assert!(matches!(journal.flush_log(), Err(JournalError::HostFull)));
    host.full.store(false, Ordering::SeqCst);
    change().expect("the host has space again");
    journal.flush_log().expect("the host has space again");
    journal.stop();
}
