//! What the journal writes, where and in which order.

use super::device::{Call, TestDevice};
use super::setup::*;
use crate::transaction::Freed;
use crate::{Journal, JournalClient, JournalError, LogFeatures, Opened};
use Call::{Flush, Fua, Read, Write};
use std::sync::{Arc, Mutex};
use uext4_block::{BlockDevice, MemoryDevice};
use uext4_ondisk::{JournalIncompat, JournalSuper};

/// The superblock of the log.
const SUPER: u64 = 64;
/// The first block of the log that transactions use.
const LOG: u64 = SUPER + 1;

fn super_of(device: &TestDevice) -> JournalSuper {
    let mut block = [0; BLOCK];
    let at = SUPER * BLOCK as u64;
    device.memory.read_at(at, &mut block).expect("reads");
    JournalSuper::parse(&block, BLOCK as u32).expect("parses")
}

/// Commits this many blocks from `first` on.
fn commit(journal: &Journal, first: u64, count: u64, byte: u8) {
    fill(journal, &(first..first + count).collect::<Vec<_>>(), byte).expect("fills");
    journal.sync().expect("commits");
}

#[test]
fn a_commit_block_follows_a_flush_and_is_durable_itself() {
    let (device, journal) = journal();
    fill(&journal, &[HOME + 9, HOME, HOME + 1], 1).expect("fills");
    device.take_calls();
    journal.sync().expect("commits");
    // The log is marked as in use; a descriptor block and three blocks; what they were made of; the commit block.
    let marks = [Fua(SUPER), Write(LOG, 4), Flush, Fua(LOG + 4)];
    assert_eq!(device.take_calls(), marks);
    fill(&journal, &[HOME], 2).expect("fills");
    journal.sync().expect("commits");
    assert_eq!(
        device.take_calls(),
        [Write(LOG + 5, 2), Flush, Fua(LOG + 7)]
    );
    journal.flush_log().expect("empties the log");
    let in_place = [Write(HOME, 2), Write(HOME + 9, 1)];
    let checkpoint = [&[Flush], &in_place[..], &[Flush, Fua(SUPER)]].concat();
    assert_eq!(device.take_calls(), checkpoint);
    assert!(super_of(&device).is_empty());
    let stats = journal.stats();
    let bytes = |blocks: u64| blocks * BLOCK as u64;
    assert_eq!((stats.commits, stats.overruns), (2, 0));
    assert_eq!(stats.journal_bytes, bytes(8));
    assert_eq!(stats.checkpoint_bytes, bytes(3));
    assert_eq!((stats.commit.count, stats.checkpoint.count), (2, 1));
    journal.flush_log().expect("has nothing to do");
    assert_eq!(device.take_calls(), [Flush]);
    journal.stop();
}

#[test]
fn without_barriers_nothing_is_flushed() {
    let device = device_with(|_| ());
    let journal = open_without_barriers(&device).expect("opens");
    fill(&journal, &[HOME], 1).expect("fills");
    device.take_calls();
    journal.sync().expect("commits");
    let calls = [Fua(SUPER), Write(LOG, 2), Write(LOG + 2, 1)];
    assert_eq!(device.take_calls(), calls);
    journal.set_barrier(true).expect("flushes");
    assert_eq!(device.take_calls(), [Flush]);
    journal.stop();
}

#[test]
fn a_log_on_another_device_is_flushed_as_well() {
    let make = |ino: Option<u64>| {
        let memory = device_with(|_| ()).memory.clone();
        let device = TestDevice::new(memory, BLOCK);
        Arc::new(match ino {
            Some(ino) => device.with_identity(ino),
            None => device,
        })
    };
    for (home, log, is_same) in [
        (Some(1), Some(1), true),
        (Some(1), Some(2), false),
        (Some(1), None, false),
        (None, Some(1), false),
        (None, None, false),
    ] {
        let (home, log) = (make(home), make(log));
        let journal = open_apart(&home, &log).expect("opens");
        fill(&journal, &[HOME], 1).expect("fills");
        home.take_calls();
        log.take_calls();
        journal.sync().expect("commits");
        assert_eq!(home.take_calls(), [Flush]);
        let flush: &[Call] = if is_same { &[] } else { &[Flush] };
        let calls = [&[Fua(SUPER), Write(LOG, 2)], flush, &[Fua(LOG + 2)]].concat();
        assert_eq!(log.take_calls(), calls);
        journal.stop();
    }
}

#[test]
fn without_a_log_commit_writes_in_place() {
    let device = device_with(|_| ());
    let journal = Journal::without_log(cache(&device), options()).expect("a thread");
    fill(&journal, &[HOME + 3, HOME, HOME + 1], 1).expect("fills");
    let handle = journal.start(1).expect("starts");
    let freed = journal.cache().get(HOME + 1).expect("reads");
    handle.forget(&freed).expect("forgets");
    handle.finish();
    device.take_calls();
    journal.sync().expect("commits");
    let calls = [Write(HOME, 1), Write(HOME + 3, 1), Flush];
    assert_eq!(device.take_calls(), calls, "but for the freed block");
    assert_eq!(journal.stats().checkpoint_bytes, 2 * BLOCK as u64);
    assert!(!journal.has_log());
    journal.stop();
}

#[test]
fn runs_of_blocks_are_written_in_place_a_mebibyte_at_a_time() {
    let device = device_with(|_| ());
    let journal = Journal::without_log(cache(&device), options()).expect("a thread");
    let blocks: Vec<u64> = (HOME..HOME + 2050).collect();
    fill(&journal, &blocks, 1).expect("fills");
    device.take_calls();
    journal.sync().expect("commits");
    let writes = [
        Write(HOME, 1024),
        Write(HOME + 1024, 1024),
        Write(HOME + 2048, 2),
        Flush,
    ];
    assert_eq!(device.take_calls(), writes);
    journal.stop();
}

#[test]
fn the_older_half_is_written_in_place_when_less_than_half_of_the_log_is_free() {
    // Four transactions of 103 blocks, with what describes them, leave 611 of 1023.
    for (blocks, in_place) in [(97, false), (98, true)] {
        let (device, journal) = journal();
        for i in 0..4 {
            commit(&journal, HOME + i * 100, 100, 1);
        }
        device.take_calls();
        commit(&journal, HOME + 400, blocks, 1);
        // Once it has ended what it does.
        journal.stop();
        let calls = device.take_calls();
        let homes: Vec<Call> = calls
            .into_iter()
            .filter(|call| matches!(call, Write(at, _) if *at >= HOME))
            .collect();
        let sb = super_of(&device);
        if in_place {
            assert_eq!(homes, [Write(HOME, 300)]);
            assert_eq!((sb.raw.start.get(), sb.raw.sequence.get()), (310, 4));
        } else {
            assert_eq!(homes, []);
            assert_eq!((sb.raw.start.get(), sb.raw.sequence.get()), (1, 1));
        }
    }
}

#[test]
fn a_checkpoint_writes_each_block_once_in_ascending_order() {
    let (device, journal) = journal();
    for blocks in [[HOME + 5, HOME + 1], [HOME + 9, HOME + 5], [HOME, HOME + 5]] {
        fill(&journal, &blocks, 1).expect("fills");
        journal.sync().expect("commits");
    }
    device.take_calls();
    journal.flush_log().expect("empties the log");
    let writes = [Write(HOME, 2), Write(HOME + 5, 1), Write(HOME + 9, 1)];
    assert_eq!(
        device.take_calls(),
        [&[Flush], &writes[..], &[Flush, Fua(SUPER)]].concat()
    );
    journal.stop();
}

#[test]
fn a_transaction_over_the_end_of_the_log_continues_at_its_first_block() {
    let device = device_with(|raw| raw.first = 3.into());
    let journal = open(&device).expect("opens");
    for i in 0..4 {
        commit(&journal, HOME + i * 200, 200, 1);
    }
    journal.flush_log().expect("empties the log");
    // 204 or 205 blocks each: the fifth begins at block 3 + 4 * 205.
    device.take_calls();
    commit(&journal, HOME, 250, 2);
    let calls = device.take_calls();
    let last = RUNS[1].pblk + u64::from(RUNS[1].len);
    let ends_at = |call: &&Call| matches!(call, Write(at, n) if at + n == last);
    assert_eq!(calls.iter().filter(ends_at).count(), 1, "{calls:?}");
    let starts_again = |call: &&Call| matches!(call, Write(at, _) if *at == SUPER + 3);
    assert_eq!(calls.iter().filter(starts_again).count(), 1, "{calls:?}");
    let found = after_power_loss(&device, &(HOME..HOME + 250).collect::<Vec<_>>());
    assert_eq!(found, [2; 250]);
    journal.stop();
}

#[test]
fn a_log_gets_the_features_that_the_file_system_requires() {
    use JournalIncompat as I;
    let wanted = |checksums, wide, fast_commits| LogFeatures {
        checksums,
        wide,
        fast_commits,
    };
    let none = I::empty();
    let cases = [
        (none, wanted(false, false, false), I::REVOKE),
        (none, wanted(true, false, false), I::REVOKE | I::CSUM_V3),
        (none, wanted(false, true, false), I::REVOKE | I::BIT64),
        (none, wanted(false, false, true), I::REVOKE | I::FAST_COMMIT),
        (
            I::CSUM_V2,
            wanted(true, false, false),
            I::REVOKE | I::CSUM_V2,
        ),
        (
            I::CSUM_V2,
            wanted(false, false, false),
            I::REVOKE | I::CSUM_V2,
        ),
        (
            I::CSUM_V3 | I::BIT64,
            wanted(false, false, false),
            I::REVOKE | I::CSUM_V3 | I::BIT64,
        ),
        (I::FAST_COMMIT, wanted(false, false, false), I::REVOKE),
    ];
    for (has, features, expected) in cases {
        let device = device_with(|raw| {
            raw.feature_incompat = has.bits().into();
            raw.checksum_type = 4;
            raw.maxlen = (LOG_BLOCKS + FAST_BLOCKS).into();
            raw.num_fc_blks = FAST_BLOCKS.into();
        });
        let open = || {
            Journal::open(
                cache(&device),
                map_with_fast_commits(&device),
                features,
                options(),
                Opened::Empty,
            )
        };
        open().expect("opens").stop();
        assert_eq!(super_of(&device).incompat, expected, "{features:?}");
        let calls = device.take_calls();
        assert_eq!(calls, [Read(SUPER, 1), Write(SUPER, 1), Read(SUPER, 1)]);
        open().expect("opens").stop();
        assert_eq!(
            device.take_calls(),
            [Read(SUPER, 1)],
            "they are there already"
        );
    }
}

#[test]
fn checksums_of_version_1_end_where_better_ones_begin() {
    for (checksums, compat) in [(true, 0), (false, 1)] {
        let device = device_with(|raw| raw.feature_compat = 1.into());
        let features = LogFeatures {
            checksums,
            ..FEATURES
        };
        let journal = Journal::open(
            cache(&device),
            map(&device),
            features,
            options(),
            Opened::Empty,
        );
        journal.expect("opens").stop();
        assert_eq!(super_of(&device).raw.feature_compat.get(), compat);
    }
}

#[test]
fn a_log_of_version_1_has_no_features_and_gets_none() {
    let device = device_with(|raw| raw.block_type = 3.into());
    let before = super_of(&device).raw;
    let journal = open(&device).expect("opens");
    assert_eq!(device.take_calls(), [Read(SUPER, 1)]);
    commit(&journal, HOME, 3, 1);
    assert_eq!(
        after_power_loss(&device, &[HOME, HOME + 2, HOME + 3]),
        [1, 1, 0]
    );
    let after = super_of(&device).raw;
    assert_eq!(before.feature_incompat, after.feature_incompat);
    journal.stop();
}

#[test]
fn only_a_log_in_use_has_fast_commits() {
    let device = device_with_fast_commits();
    let features = LogFeatures {
        fast_commits: true,
        ..FEATURES
    };
    let journal = Journal::open(
        cache(&device),
        map_with_fast_commits(&device),
        features,
        options(),
        Opened::Empty,
    );
    let journal = journal.expect("opens");
    // A quarter of the log without the first block and those of fast commits.
    assert_eq!(journal.credits_max(), 1023 / 4);
    let has = || {
        super_of(&device)
            .incompat
            .contains(JournalIncompat::FAST_COMMIT)
    };
    commit(&journal, HOME, 1, 1);
    assert!(has());
    journal.flush_log().expect("empties the log");
    assert!(!has(), "an implementation without them can open it");
    commit(&journal, HOME, 1, 2);
    assert!(has());
    journal.stop();
}

#[test]
fn a_log_longer_than_its_blocks_is_refused() {
    for (maxlen, fits) in [(LOG_BLOCKS, true), (LOG_BLOCKS + 1, false)] {
        let device = device_with(|raw| raw.maxlen = maxlen.into());
        assert_eq!(crate::is_empty(&map(&device)).is_ok(), fits);
        assert_eq!(open(&device).map(|journal| journal.stop()).is_ok(), fits);
    }
    // A shorter one leaves blocks unused.
    let device = device_with(|_| ());
    let mut runs = RUNS.to_vec();
    runs[1].len += 100;
    let longer = crate::LogMap::new(Arc::clone(&device) as Arc<_>, BLOCK, runs);
    assert!(crate::is_empty(&longer).expect("reads"));
    let journal = Journal::open(cache(&device), longer, FEATURES, options(), Opened::Empty);
    let journal = journal.expect("opens");
    assert_eq!(journal.credits_max(), 1023 / 4);
    journal.stop();
}

#[test]
fn transactions_are_numbered_from_what_the_superblock_has() {
    for sequence in [1, 7, u32::MAX - 1] {
        let device = device_with(|raw| raw.sequence = sequence.into());
        let journal = open(&device).expect("opens");
        assert_eq!(journal.running_tid(), (1 << 32) + u64::from(sequence));
        assert!(!journal.is_committed(journal.running_tid()));
        assert!(journal.is_committed(journal.running_tid() - 1));
        for byte in 1..5 {
            commit(&journal, HOME, 1, byte);
            assert_eq!(after_power_loss(&device, &[HOME]), [byte]);
        }
        assert_eq!(super_of(&device).raw.sequence.get(), sequence);
        journal.flush_log().expect("empties the log");
        let next = sequence.wrapping_add(4);
        assert_eq!(
            super_of(&device).raw.sequence.get(),
            next,
            "none is used twice"
        );
        journal.stop();
    }
}

#[test]
fn the_space_of_a_log_is_allocated_run_by_run() {
    let device = device_with(|_| ());
    map(&device).allocate().expect("allocates");
    let calls = [Call::Allocate(64, 700), Call::Allocate(2000, 324)];
    assert_eq!(device.take_calls(), calls);
    for at in calls {
        device.fail(move |call| (call == at).then_some(28));
        assert!(map(&device).allocate().is_err(), "{at:?}");
    }
}

#[test]
fn a_log_has_no_blocks_past_its_runs() {
    let device = device_with(|_| ());
    let map = map(&device);
    assert_eq!((map.len(), map.is_empty()), (LOG_BLOCKS, false));
    let mut two = [0; 2 * BLOCK];
    map.read(LOG_BLOCKS - 2, &mut two).expect("the last two");
    map.read(699, &mut two).expect("one of each run");
    let calls = device.take_calls();
    assert_eq!(calls, [Read(2322, 2), Read(763, 1), Read(2000, 1)]);
    for at in [LOG_BLOCKS - 1, LOG_BLOCKS] {
        let refused = map.read(at, &mut two);
        assert!(matches!(refused, Err(JournalError::Corrupt(_))), "{at}");
        map.write(at, &two).expect_err("past the end");
    }
    map.write_fua(5, &[0; 10]).expect_err("less than a block");
}

/// Notes what it is called with.
#[derive(Default)]
struct Notes {
    committed: Mutex<Vec<(u64, Vec<Freed>)>>,
    aborted: Mutex<Vec<String>>,
}

impl JournalClient for Notes {
    fn committed(&self, tid: u64, freed: &[Freed]) {
        self.committed.lock().unwrap().push((tid, freed.to_vec()));
    }
    fn aborted(&self, why: &JournalError) {
        self.aborted.lock().unwrap().push(why.to_string());
    }
}

#[test]
fn the_last_handle_of_a_closing_journal_is_committed_whatever_it_does() {
    type Last = fn(&Journal, &crate::Handle<'_>);
    let changes: [(Last, &[Freed]); 3] = [
        (
            |journal, handle| {
                let buffer = journal.cache().get(HOME).expect("reads");
                handle.access(&buffer).expect("attaches");
            },
            &[],
        ),
        (|_, handle| handle.revoke(HOME), &[]),
        (|_, handle| handle.free(HOME, 3), &[(HOME, 3)]),
    ];
    for (i, (last, freed)) in changes.into_iter().enumerate() {
        let (_device, journal) = journal();
        let notes = Arc::new(Notes::default());
        journal.set_client(Arc::clone(&notes) as Arc<_>);
        let tid = journal.running_tid();
        let closed = journal.close(|handle| {
            last(&journal, handle);
            Ok::<(), JournalError>(())
        });
        closed.expect("closes");
        let expected = [(tid, freed.to_vec())];
        assert_eq!(*notes.committed.lock().unwrap(), expected, "{i}");
        assert!(journal.is_committed(tid), "{i}");
        journal.stop();
    }
    let (_device, journal) = journal();
    let nothing = |_: &crate::Handle<'_>| Ok::<(), JournalError>(());
    journal.close(nothing).expect("closes");
    assert_eq!(journal.stats().commits, 0, "there was nothing to commit");
    journal.stop();
}

#[test]
fn an_error_of_the_last_handle_is_that_of_close() {
    let (device, journal) = journal();
    let notes = Arc::new(Notes::default());
    journal.set_client(Arc::clone(&notes) as Arc<_>);
    let closed = journal.close(|_| Err(JournalError::HostFull));
    assert!(matches!(closed, Err(JournalError::HostFull)));
    assert!(!journal.is_aborted(), "it had changed nothing");
    journal.reopen().expect("reopens");
    let closed = journal.close(|handle| {
        let buffer = journal.cache().get(HOME)?;
        handle.modify(&buffer)?.data_mut().fill(1);
        Err(JournalError::HostFull)
    });
    assert!(matches!(closed, Err(JournalError::HostFull)));
    assert!(journal.is_aborted());
    journal.stop();
    assert_eq!(after_power_loss(&device, &[HOME]), [0]);
    let why = notes.aborted.lock().unwrap().clone();
    assert_eq!(why.len(), 1, "{why:?}");
    assert!(
        why[0].contains("an error left a change unfinished"),
        "{why:?}"
    );
}

#[test]
fn a_device_of_one_block_more_takes_a_block_more() {
    // A copy in the log of a block that the device does not have is damage.
    for (blocks, is_there) in [(HOME + 1, true), (HOME, false)] {
        let (device, journal) = journal();
        commit(&journal, HOME, 1, 1);
        journal.stop();
        let shorter = MemoryDevice::new(blocks * BLOCK as u64);
        let done = crate::recover(&map(&device), &shorter);
        assert_eq!(done.is_ok(), is_there, "{done:?}");
    }
}
