//! Fast commits: when there is one, what it holds, and what the next mount finds.

use super::device::{Call, TestDevice};
use super::setup::*;
use crate::log::{Chunk, Log};
use crate::transaction::Freed;
use crate::{Journal, JournalClient, JournalError, LogFeatures, Opened};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uext4_block::BlockDevice;
use uext4_ondisk::{FastCommitName, FastCommitRecord, Ino};

/// Gives what is said to it, once.
#[derive(Default)]
struct Client(Mutex<Vec<FastCommitRecord>>);

impl JournalClient for Client {
    fn committed(&self, _tid: u64, _freed: &[Freed]) {
        self.0.lock().unwrap().clear();
    }
    fn describe(&self, _tid: u64) -> Option<Vec<FastCommitRecord>> {
        Some(std::mem::take(&mut *self.0.lock().unwrap()))
    }
    fn aborted(&self, _why: &JournalError) {}
}

fn record(i: u32) -> FastCommitRecord {
    FastCommitRecord::Create(FastCommitName {
        parent: Ino(2),
        ino: Ino(i),
        name: vec![b'n'; 200].into(),
    })
}

const FAST: LogFeatures = LogFeatures {
    fast_commits: true,
    ..FEATURES
};

/// A journal with fast commits, its log in use.
fn in_use() -> (Arc<TestDevice>, Arc<Client>, Arc<Journal>) {
    let device = device_with_fast_commits();
    let (cache, map) = (cache(&device), map_with_fast_commits(&device));
    let journal = Journal::open(cache, map, FAST, options(), Opened::Empty).expect("opens");
    let client = Arc::new(Client::default());
    journal.set_client(Arc::clone(&client) as Arc<_>);
    fill(&journal, &[HOME], 1).expect("changes");
    journal.sync().expect("commits");
    (device, client, journal)
}

/// Changes a block under a handle that says what it did, if `is_described`, and waits for that.
fn change(journal: &Journal, client: &Client, i: u32, is_described: bool) -> u64 {
    if is_described {
        let tid = described(journal, client, i);
        journal.wait_fast_commit(tid).expect("is durable");
        return tid;
    }
    let handle = journal.start(1).expect("starts");
    let buffer = journal.cache().get(HOME).expect("reads");
    handle.modify(&buffer).expect("attaches").data_mut().fill(2);
    let tid = handle.tid();
    handle.finish();
    journal.wait_fast_commit(tid).expect("is durable");
    tid
}

/// Changes a block under a handle that says what it did.
fn described(journal: &Journal, client: &Client, i: u32) -> u64 {
    let handle = journal.start(1).expect("starts");
    let buffer = journal.cache().get(HOME).expect("reads");
    handle.modify(&buffer).expect("attaches").data_mut().fill(2);
    client.0.lock().unwrap().push(record(i));
    handle.describe();
    let tid = handle.tid();
    handle.finish();
    tid
}

/// The records that recovery finds when the power is lost now, and whether the block is as the log has it.
fn left(device: &Arc<TestDevice>) -> (Vec<FastCommitRecord>, u8) {
    let left = Arc::new(TestDevice::new(device.memory.clone(), BLOCK));
    let report = crate::recover(&map_with_fast_commits(&left), &*left).expect("recovers");
    (report.fast_commits, byte_at(&left.memory, HOME))
}

#[test]
fn what_is_described_is_in_fast_commits_until_the_transaction_commits() {
    let (device, client, journal) = in_use();
    let before = journal.stats().commits;
    for i in 1..=3 {
        let tid = change(&journal, &client, i, true);
        assert!(!journal.is_committed(tid));
        assert_eq!(left(&device), ((1..=i).map(record).collect(), 1));
    }
    let stats = journal.stats();
    assert_eq!((stats.fast_commits, stats.commits), (3, before));
    journal
        .wait_fast_commit(journal.running_tid())
        .expect("has nothing to write");
    assert_eq!(journal.stats().fast_commits, 3);

    journal.sync().expect("commits");
    assert_eq!(left(&device), (Vec::new(), 2));
    let tid = change(&journal, &client, 4, true);
    assert_eq!(
        left(&device),
        (vec![record(4)], 2),
        "the area from its start"
    );
    assert!(!journal.is_committed(tid));
    journal.stop();
}

#[test]
fn what_one_handle_does_not_describe_is_committed() {
    let (device, client, journal) = in_use();
    let tid = change(&journal, &client, 1, true);
    assert_eq!(change(&journal, &client, 2, false), tid);
    assert!(journal.is_committed(tid));
    assert_eq!(left(&device), (Vec::new(), 2));
    let handle = journal.start(1).expect("starts");
    handle.never_describe();
    handle.describe();
    let tid = handle.tid();
    handle.finish();
    change(&journal, &client, 3, true);
    assert!(journal.is_committed(tid), "it never can be described");
    assert_eq!(journal.stats().fast_commits, 1);
    journal.stop();
}

#[test]
fn what_has_no_place_is_committed() {
    let (device, client, journal) = in_use();
    // Six: one block is between them and the log, and the last is not used.
    let mut of = 0;
    for i in 1..=7 {
        of = change(&journal, &client, i, true);
    }
    assert!(journal.is_committed(of));
    assert_eq!(journal.stats().fast_commits, 6);
    assert_eq!(left(&device), (Vec::new(), 2));
    let many = (0..60).map(record);
    client.0.lock().unwrap().extend(many);
    let tid = change(&journal, &client, 9, true);
    assert!(journal.is_committed(tid), "more than the area holds");
    let long = FastCommitRecord::Inode {
        ino: Ino(12),
        raw: vec![1; BLOCK].into(),
    };
    client.0.lock().unwrap().push(long);
    let tid = change(&journal, &client, 10, true);
    assert!(journal.is_committed(tid), "more than a block holds");
    journal.stop();
}

#[test]
fn a_log_too_small_has_none() {
    let device = device_with(|raw| {
        raw.maxlen = (LOG_BLOCKS + FAST_BLOCKS).into();
        raw.num_fc_blks = (FAST_BLOCKS + 1).into();
    });
    let (cache, map) = (cache(&device), map_with_fast_commits(&device));
    let journal = Journal::open(cache, map, FAST, options(), Opened::Empty).expect("opens");
    assert!(!journal.has_fast_commits());
    journal.stop();
}

#[test]
fn fast_commits_do_not_let_a_transaction_grow_old() {
    let (_device, client, journal) = in_use();
    journal.set_commit_interval(Duration::from_millis(300));
    let tid = change(&journal, &client, 1, true);
    // Each wakes the commit thread before it has slept for so long.
    while !journal.is_committed(tid) {
        journal.wait_fast_commit(tid).expect("is durable");
    }
    journal.stop();
}

#[test]
fn an_empty_log_has_none() {
    let (device, client, journal) = in_use();
    journal.flush_log().expect("empties");
    let tid = change(&journal, &client, 1, true);
    assert!(journal.is_committed(tid), "an empty log is not recovered");
    change(&journal, &client, 2, true);
    assert_eq!(left(&device).0, [record(2)]);
    journal.flush_log().expect("empties");
    assert!(crate::is_empty(&map_with_fast_commits(&device)).expect("reads"));
    journal.stop();
}

#[test]
fn a_log_with_fast_commits_is_not_marked_empty() {
    let device = device_with_fast_commits();
    let mut log = Log::open(map_with_fast_commits(&device), FAST, Opened::Empty).expect("opens");
    let whole = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let tid = log.next_tid();
    log.begin(tid).expect("writes");
    let mut chunk = Chunk::default();
    chunk.block(&log.format(), tid, HOME, &[4; BLOCK]);
    log.write_chunk(&mut chunk).expect("writes");
    log.commit(true).expect("writes");
    let blocks = log.encode_fast_commit(tid + 1, &[record(1)]).expect("fits");
    let last = log.begin_fast_commit(tid + 1, blocks).expect("writes");
    log.flush(&whole).expect("flushes");
    log.end_fast_commit(&last, true).expect("writes");
    log.set_tail(None, tid + 1).expect("writes");
    assert_eq!(left(&device).0, [record(1)]);
    assert!(log.encode_fast_commit(tid + 1, &[record(2)]).is_none());
    log.begin(tid + 1).expect("writes");
    log.commit(true).expect("writes");
    log.set_tail(None, tid + 2).expect("writes");
    assert!(crate::is_empty(&map_with_fast_commits(&device)).expect("reads"));
}

#[test]
fn a_fast_commit_that_fails_aborts_the_journal() {
    let (device, client, journal) = in_use();
    let tid = described(&journal, &client, 1);
    device.fail(|_| Some(5));
    journal.wait_fast_commit(tid).expect_err("the device fails");
    assert!(journal.is_aborted());
    journal
        .wait_fast_commit(tid)
        .expect_err("nothing is durable any more");
    journal.stop();
}

/// What two calls return of which the second comes during the flush for the first, and the device's calls; flush `fails` fails.
fn two_at_a_time(fails: usize) -> ([bool; 2], Vec<Call>) {
    let (device, client, journal) = in_use();
    let _ = device.take_calls();
    let mut flushes = 0;
    device.fail(move |call| {
        flushes += usize::from(call == Call::Flush);
        (call == Call::Flush && flushes == fails).then_some(5)
    });
    device.hold(|call| call == Call::Flush);
    let results = std::thread::scope(|scope| {
        let wait = |i| {
            let tid = described(&journal, &client, i);
            let journal = &journal;
            scope.spawn(move || journal.wait_fast_commit(tid).is_ok())
        };
        let first = wait(1);
        device.wait_for_held();
        let second = wait(2);
        while !journal.state.lock().fast.has_calls() {
            std::thread::yield_now();
        }
        device.continue_held();
        [first, second].map(|call| call.join().expect("no panic"))
    });
    if results == [true; 2] {
        assert_eq!(left(&device), ([1, 2].map(record).to_vec(), 1));
    }
    journal.stop();
    (results, device.take_calls())
}

#[test]
fn a_flush_is_for_one_fast_commit_and_for_the_data_of_the_next() {
    let (results, calls) = two_at_a_time(0);
    assert_eq!(results, [true; 2]);
    let flushes = calls.iter().filter(|call| **call == Call::Flush).count();
    let durable = calls.iter().filter(|call| matches!(call, Call::Fua(_)));
    assert_eq!((flushes, durable.count()), (2, 1), "{calls:?}");
}

#[test]
fn a_call_whose_fast_commit_is_not_flushed_fails() {
    assert_eq!(two_at_a_time(1).0, [false; 2]);
    assert_eq!(two_at_a_time(2).0, [false; 2]);
}
