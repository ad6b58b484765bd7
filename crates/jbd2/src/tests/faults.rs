//! Every call of the device fails in turn: the error reaches the caller, and what is on the device is a state between two
//! transactions.

use super::device::{Call, TestDevice};
use super::setup::*;
use crate::{Journal, JournalError, Opened, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Fails the `n`th of the calls that `counts` counts; the number that were counted.
fn fail_nth(device: &TestDevice, n: u64, counts: fn(Call) -> bool) -> Arc<AtomicU64> {
    let seen = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&seen);
    device.fail(move |call| (counts(call) && counted.fetch_add(1, SeqCst) + 1 == n).then_some(EIO));
    seen
}

/// Two transactions and a checkpoint: blocks apart and together, more than a descriptor names, a freed block, and revoked
/// blocks.
fn work(journal: &Journal) -> Result<()> {
    let apart = [HOME, HOME + 1, HOME + 7, HOME + 100];
    let blocks: Vec<u64> = apart.into_iter().chain(HOME + 300..HOME + 400).collect();
    fill(journal, &blocks, 1)?;
    journal.sync()?;
    let handle = journal.start(8)?;
    let freed = journal.cache().get(HOME + 7)?;
    handle.forget(&freed)?;
    handle.free(HOME + 7, 1);
    handle.revoke(HOME + 200);
    handle.finish();
    fill(journal, &[HOME, HOME + 2], 2)?;
    journal.flush_log()?;
    fill(journal, &[HOME + 1], 3)?;
    journal.close(|handle| {
        let buffer = journal.cache().get(HOME + 2)?;
        handle.modify(&buffer)?.data_mut().fill(4);
        Ok(())
    })
}

/// Runs `work` with each call failing in turn that `counts` counts, on what `make` makes: the failing device, the one with
/// the blocks in place, and the journal. Returns how many calls there were.
fn sweep(
    counts: fn(Call) -> bool,
    make: impl Fn() -> (Arc<TestDevice>, Arc<TestDevice>, Arc<Journal>),
) -> u64 {
    for n in 1.. {
        let (failing, home, journal) = make();
        let seen = fail_nth(&failing, n, counts);
        let done = work(&journal);
        if seen.load(SeqCst) < n {
            done.expect("no call failed");
            journal.stop();
            return n - 1;
        }
        assert!(
            done.is_err(),
            "call {n} failed, but no caller learned of it"
        );
        assert!(journal.is_aborted(), "call {n}");
        assert!(matches!(journal.sync(), Err(JournalError::Aborted(_))));
        failing.take_calls();
        home.take_calls();
        assert!(matches!(journal.flush_log(), Err(JournalError::Aborted(_))));
        journal.stop();
        let calls = [failing.take_calls(), home.take_calls()].concat();
        assert_eq!(calls, [], "an aborted journal writes nothing");
    }
    unreachable!()
}

#[test]
fn a_failed_write_or_flush_reaches_the_caller_and_leaves_whole_transactions() {
    let blocks = [HOME, HOME + 1, HOME + 2, HOME + 7, HOME + 100];
    let whole: [&[u8]; 5] = [
        &[0, 0, 0, 0, 0],
        &[1, 1, 0, 1, 1],
        &[2, 1, 2, 0, 1],
        &[2, 3, 2, 0, 1],
        &[2, 3, 4, 0, 1],
    ];
    let calls = sweep(Call::changes, || {
        let (device, journal) = journal();
        (Arc::clone(&device), device, journal)
    });
    assert!(calls > 20, "{calls}");
    for n in 1..=calls {
        let (device, journal) = journal();
        fail_nth(&device, n, Call::changes);
        assert!(work(&journal).is_err());
        journal.stop();
        device.heal();
        let found = after_power_loss(&device, &blocks);
        assert!(whole.contains(&&*found), "call {n}: {found:?}");
    }
}

#[test]
fn a_failed_write_or_flush_of_a_log_elsewhere_reaches_the_caller() {
    let make = || {
        let (device, log) = (device_with(|_| ()), device_with(|_| ()));
        let journal = open_apart(&device, &log).expect("opens");
        (device, log, journal)
    };
    let of_log = sweep(Call::changes, || {
        let (device, log, journal) = make();
        (log, device, journal)
    });
    let of_home = sweep(Call::changes, || {
        let (device, _log, journal) = make();
        (Arc::clone(&device), device, journal)
    });
    assert!(of_log > 10 && of_home > 5, "{of_log}, {of_home}");
}

#[test]
fn a_failed_write_without_barriers_reaches_the_caller() {
    let calls = sweep(Call::changes, || {
        let device = device_with(|_| ());
        let journal = open_without_barriers(&device).expect("opens");
        (Arc::clone(&device), device, journal)
    });
    assert!(calls > 15, "{calls}");
}

#[test]
fn a_full_host_keeps_a_journal_from_closing() {
    let (device, journal) = journal();
    fill(&journal, &[HOME], 1).expect("fills");
    device.fail(|call| matches!(call, Call::Write(at, _) if at >= HOME).then_some(ENOSPC));
    let closed = journal.close(|_| -> Result<()> { unreachable!("the log is not empty") });
    assert!(matches!(closed, Err(JournalError::HostFull)), "{closed:?}");
    device.heal();
    journal.reopen().expect("reopens");
    assert_eq!(byte_at(&device.memory, HOME), 1);
    journal.stop();
}

#[test]
fn a_failed_write_or_flush_without_a_log_reaches_the_caller() {
    let calls = sweep(Call::changes, || {
        let device = device_with(|_| ());
        let journal = Journal::without_log(cache(&device), options()).expect("a thread");
        (Arc::clone(&device), device, journal)
    });
    assert!(calls > 8, "{calls}");
}

#[test]
fn a_failed_call_while_a_log_is_opened_reaches_the_caller() {
    for n in 1.. {
        let device = device_with(|_| ());
        let seen = fail_nth(&device, n, |_| true);
        let opened = open(&device);
        if seen.load(SeqCst) < n {
            opened.expect("no call failed").stop();
            assert!(
                n > 3,
                "reads the superblock, writes its features, reads it again"
            );
            return;
        }
        let why = opened.map(|_| ()).expect_err("a call failed");
        assert!(matches!(why, JournalError::Device(_)), "call {n}: {why}");
    }
}

#[test]
fn a_failed_call_during_recovery_reaches_the_caller() {
    let (device, journal) = journal();
    fill(&journal, &[HOME, HOME + 1, HOME + 9], 1).expect("fills");
    journal.sync().expect("commits");
    journal.stop();
    type Run = fn(&Arc<TestDevice>) -> Result<()>;
    let runs: [Run; 3] = [
        |device| crate::recover(&map(device), &**device).map(|_| ()),
        |device| crate::skip(&map(device)),
        |device| crate::is_empty(&map(device)).map(|_| ()),
    ];
    for (i, run) in runs.into_iter().enumerate() {
        for n in 1.. {
            let again = Arc::new(TestDevice::new(device.memory.clone(), BLOCK));
            let seen = fail_nth(&again, n, |_| true);
            let done = run(&again);
            if seen.load(SeqCst) < n {
                done.expect("no call failed");
                break;
            }
            let why = done.expect_err("a call failed");
            assert!(
                matches!(why, JournalError::Device(_)),
                "run {i}, {n}: {why}"
            );
            // What failed may be tried again.
            again.heal();
            let found = after_power_loss(&again, &[HOME, HOME + 1, HOME + 9]);
            let is_empty = crate::is_empty(&map(&again)).expect("reads");
            assert!(found == [1; 3] || (i == 1 && is_empty), "run {i}, {n}");
        }
    }
}

#[test]
fn a_failed_flush_is_reported_as_what_the_device_returned() {
    let (device, journal) = journal();
    device.fail(|call| (call == Call::Flush).then_some(EIO));
    let why = journal.flush_log().expect_err("fails");
    assert!(matches!(why, JournalError::Device(_)), "{why}");
    journal.stop();
}

#[test]
fn a_log_is_opened_with_what_recovery_left() {
    let (device, journal) = journal();
    fill(&journal, &[HOME], 1).expect("fills");
    journal.sync().expect("commits");
    journal.stop();
    let why = open(&device).map(|_| ()).expect_err("it is not empty");
    assert!(matches!(why, JournalError::Unsupported(_)), "{why}");
    let again = crate::Journal::open(
        cache(&device),
        map(&device),
        FEATURES,
        options(),
        Opened::WithFastCommits,
    );
    let again = again.expect("its contents are the caller's concern");
    // Its superblock says that it is empty.
    device.fail(|call| matches!(call, Call::Fua(..)).then_some(EIO));
    let emptied = again.flush_log();
    assert!(
        matches!(emptied, Err(JournalError::Aborted(_))),
        "{emptied:?}"
    );
    again.stop();
}
