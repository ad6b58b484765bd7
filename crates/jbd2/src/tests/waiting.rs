//! Calls that wait for the commit thread, calls that never wait, and how their waits end.

use super::device::Call;
use super::setup::*;
use crate::buffer::{Buffer, FreezeHook};
use crate::{Journal, JournalError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Time for other threads to do what they should not do; longer takes no test.
fn let_others_run() {
    std::thread::sleep(Duration::from_millis(20));
}

fn is_write(call: Call) -> bool {
    matches!(call, Call::Write(..))
}

fn is_at_home(call: Call) -> bool {
    matches!(call, Call::Write(at, _) if at >= HOME)
}

fn aborted() -> JournalError {
    JournalError::Aborted("by a test".into())
}

fn is_aborted<T>(result: crate::Result<T>) -> bool {
    matches!(result, Err(JournalError::Aborted(_)))
}

#[test]
fn an_aborted_journal_refuses_handles_and_changes() {
    let (device, journal) = journal();
    let changed = journal.cache().get(HOME).expect("reads");
    let buffer = journal.cache().get(HOME + 1).expect("reads");
    let handle = journal.start(8).expect("starts");
    handle.access(&changed).expect("gets access");
    handle.complete();
    journal.abort(aborted());
    assert!(journal.is_aborted());
    assert!(is_aborted(handle.modify(&buffer)));
    assert!(is_aborted(handle.try_modify(&buffer)));
    assert!(is_aborted(handle.access(&buffer)));
    assert!(is_aborted(handle.create(&buffer)));
    assert!(is_aborted(handle.forget(&buffer)));
    assert!(is_aborted(handle.access_native(&buffer)));
    assert_eq!(handle.credits(), 7, "nothing was attached");
    handle.finish();
    assert!(is_aborted(journal.start(1)));
    assert!(is_aborted(journal.start(journal.credits_max() + 1)));
    assert!(is_aborted(journal.try_start(1)));
    assert!(is_aborted(journal.sync()));
    assert!(is_aborted(journal.flush_log()));
    assert!(is_aborted(journal.flush_device()));
    assert!(is_aborted(journal.close(|_| Ok(()))));
    assert!(is_aborted(journal.wait_commit(journal.running_tid())));
    journal.stop();
    assert!(!device.take_calls().contains(&Call::Flush));
}

#[test]
fn a_stopped_journal_ends_every_wait() {
    let (_device, journal) = journal();
    fill(&journal, &[HOME], 1).expect("fills");
    let tid = journal.running_tid();
    journal.stop();
    assert!(is_aborted(journal.wait_commit(tid)));
    assert!(is_aborted(journal.sync()));
    assert!(is_aborted(journal.flush_log()));
    assert!(is_aborted(journal.reopen()));
    // What was reserved is never committed, so there is never room.
    let started = loop {
        match journal.start(100) {
            Ok(handle) => fill_with(&journal, handle),
            Err(why) => break why,
        }
    };
    assert!(matches!(started, JournalError::Aborted(_)), "{started}");
    assert!(!journal.is_committed(tid));
}

/// Uses up the credits of a handle.
fn fill_with(journal: &Journal, handle: crate::Handle<'_>) {
    let first = HOME + 500 + u64::from(handle.credits());
    while handle.credits() > 0 {
        let buffer = journal
            .cache()
            .get_unread(first + u64::from(handle.credits()));
        drop(handle.create(&buffer).expect("creates"));
        handle.revoke(1);
    }
    handle.finish();
}

#[test]
fn waits_end_with_an_abort_though_the_device_does_not_answer() {
    let (device, journal) = journal();
    fill(&journal, &[HOME], 1).expect("fills");
    device.hold(is_write);
    std::thread::scope(|scope| {
        let synced = scope.spawn(|| journal.sync());
        device.wait_for_held();
        journal.abort(aborted());
        assert!(is_aborted(synced.join().expect("no panic")));
        device.continue_held();
    });
    journal.stop();
}

#[test]
fn waits_for_an_empty_log_end_with_an_abort_though_the_device_does_not_answer() {
    let (device, journal) = journal();
    fill(&journal, &[HOME], 1).expect("fills");
    device.hold(is_at_home);
    std::thread::scope(|scope| {
        let flushed = scope.spawn(|| journal.flush_log());
        device.wait_for_held();
        journal.abort(aborted());
        assert!(is_aborted(flushed.join().expect("no panic")));
        device.continue_held();
    });
    journal.stop();
}

/// As many blocks as a transaction may have, of several parts.
fn many() -> Vec<u64> {
    (HOME..HOME + 250).collect()
}

/// Counts the blocks that are frozen, those of the commit thread apart; panics in other threads if it is to.
#[derive(Debug, Default)]
struct CountThreads {
    by_commit_thread: AtomicUsize,
    by_others: AtomicUsize,
    panics: bool,
}

impl FreezeHook for CountThreads {
    fn freeze(&self, _: &Buffer, _: &mut [u8]) {
        let is_other = std::thread::current().name() != Some("uext4-commit");
        assert!(!(is_other && self.panics), "as it should");
        let count = match is_other {
            true => &self.by_others,
            false => &self.by_commit_thread,
        };
        count.fetch_add(1, SeqCst);
    }
}

#[test]
fn threads_that_wait_for_a_commit_copy_its_blocks() {
    let (device, journal) = journal();
    let count = Arc::new(CountThreads::default());
    journal.cache().set_hook(Arc::clone(&count) as _);
    // So many blocks are committed without being asked for.
    device.hold(is_write);
    fill(&journal, &many(), 7).expect("fills");
    std::thread::scope(|scope| {
        let synced = scope.spawn(|| journal.sync());
        // The commit thread can copy nothing more.
        device.wait_for_held();
        while count.by_commit_thread.load(SeqCst) + count.by_others.load(SeqCst) < many().len() {
            std::thread::yield_now();
        }
        device.continue_held();
        synced.join().expect("no panic").expect("commits");
    });
    assert_ne!(count.by_others.load(SeqCst), 0);
    journal.stop();
    assert_eq!(after_power_loss(&device, &many()), vec![7; many().len()]);
}

#[test]
fn a_thread_that_panics_while_it_copies_blocks_aborts_the_journal() {
    let (device, journal) = journal();
    journal.cache().set_hook(Arc::new(CountThreads {
        panics: true,
        ..CountThreads::default()
    }));
    // So many blocks are committed without being asked for.
    device.hold(is_write);
    fill(&journal, &many(), 7).expect("fills");
    std::thread::scope(|scope| {
        let synced = scope.spawn(|| journal.sync());
        // It may panic before the commit thread writes a part.
        synced.join().expect_err("panics");
        device.continue_held();
    });
    journal.stop();
    assert!(is_aborted(journal.sync()));
    assert_eq!(after_power_loss(&device, &many()), vec![0; many().len()]);
}

#[test]
fn threads_stop_copying_blocks_where_the_log_cannot_be_written() {
    let (device, journal) = journal();
    let mut writes = 0;
    device.fail(move |call| {
        writes += usize::from(is_write(call));
        (writes == 3).then_some(5)
    });
    fill(&journal, &many(), 7).expect("fills");
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| journal.sync())).collect();
        for waiter in waiters {
            assert!(is_aborted(waiter.join().expect("no panic")));
        }
    });
    journal.stop();
    assert_eq!(after_power_loss(&device, &many()), vec![0; many().len()]);
}

#[test]
fn stop_waits_for_what_is_being_written() {
    let (device, journal) = journal();
    fill(&journal, &[HOME], 1).expect("fills");
    device.hold(is_write);
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let synced = scope.spawn(|| journal.sync());
        device.wait_for_held();
        let stopper = scope.spawn(|| {
            journal.stop();
            stopped.store(true, SeqCst);
        });
        let_others_run();
        assert!(!stopped.load(SeqCst));
        device.continue_held();
        stopper.join().expect("no panic");
        synced.join().expect("no panic").expect("was committed");
    });
    assert_eq!(after_power_loss(&device, &[HOME]), [1]);
}

#[test]
fn a_change_that_is_given_up_while_its_transaction_closes_is_not_committed() {
    for with_log in [true, false] {
        let device = device_with(|_| ());
        let journal = match with_log {
            true => open(&device).expect("opens"),
            false => Journal::without_log(cache(&device), options()).expect("a thread"),
        };
        fill(&journal, &[HOME + 1], 1).expect("fills");
        let handle = journal.start(1).expect("starts");
        let buffer = journal.cache().get(HOME).expect("reads");
        handle.modify(&buffer).expect("modifies").data_mut().fill(1);
        device.take_calls();
        std::thread::scope(|scope| {
            let synced = scope.spawn(|| journal.sync());
            // The transaction closes once no handle starts any more.
            while journal.try_start(1).expect("not aborted").is_some() {
                std::thread::yield_now();
            }
            drop(handle);
            assert!(is_aborted(synced.join().expect("no panic")));
        });
        journal.stop();
        assert_eq!(device.take_calls(), []);
    }
}

#[test]
fn a_transaction_closes_when_its_last_handle_ends() {
    let (device, journal) = journal();
    fill(&journal, &[HOME + 1], 1).expect("fills");
    let handle = journal.start(1).expect("starts");
    std::thread::scope(|scope| {
        let synced = scope.spawn(|| journal.sync());
        while journal.try_start(1).expect("not aborted").is_some() {
            std::thread::yield_now();
        }
        // The commit thread sleeps by now.
        let_others_run();
        let buffer = journal.cache().get(HOME).expect("reads");
        handle.modify(&buffer).expect("modifies").data_mut().fill(1);
        handle.finish();
        synced.join().expect("no panic").expect("commits");
    });
    assert_eq!(after_power_loss(&device, &[HOME, HOME + 1]), [1, 1]);
    journal.stop();
}

#[test]
fn a_wait_for_an_earlier_transaction_does_not_delay_a_later_one() {
    let (device, journal) = journal();
    fill(&journal, &[HOME], 1).expect("fills");
    let first = journal.running_tid();
    device.hold(is_write);
    std::thread::scope(|scope| {
        let waits = |tid| {
            let journal = Arc::clone(&journal);
            let waiter = scope.spawn(move || journal.wait_commit(tid));
            let_others_run();
            waiter
        };
        let earliest = waits(first);
        device.wait_for_held();
        fill(&journal, &[HOME], 2).expect("fills");
        let waiters = [earliest, waits(first + 1), waits(first)];
        device.continue_held();
        for waiter in waiters {
            waiter.join().expect("no panic").expect("commits");
        }
    });
    assert_eq!(after_power_loss(&device, &[HOME]), [2]);
    journal.stop();
}

#[test]
fn a_handle_may_wait_for_all_the_room_that_a_transaction_has() {
    let (_device, journal) = journal();
    let most = journal.credits_max();
    assert_eq!(most, 1023 / 4);
    fill(&journal, &[HOME, HOME + 1, HOME + 2], 1).expect("fills");
    let tid = journal.running_tid();
    let handle = journal.start(most).expect("commits to have room");
    assert_eq!((handle.tid(), handle.credits()), (tid + 1, most));
    drop(handle);
    let refused = journal.start(most + 1).map(drop);
    let Err(JournalError::TooLarge { wanted, limit }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((wanted, limit), (most + 1, most));
    journal.stop();
}

#[test]
fn half_of_a_transactions_room_is_committed_without_being_asked_for() {
    let (device, journal) = journal();
    let blocks: Vec<u64> = (HOME..HOME + 127).collect();
    let tid = journal.running_tid();
    fill(&journal, &blocks, 1).expect("fills");
    while !journal.is_committed(tid) {
        std::thread::yield_now();
    }
    assert_eq!(after_power_loss(&device, &blocks), [1; 127]);
    journal.stop();
}

#[test]
fn what_is_not_due_waits_for_the_interval() {
    let (_device, journal) = journal();
    fill(&journal, &[HOME], 1).expect("fills");
    let tid = journal.running_tid();
    // Wakes the commit thread.
    journal.set_commit_interval(Duration::from_secs(200_000));
    let_others_run();
    assert!(!journal.is_committed(tid));
    journal.sync().expect("commits");
    // Nothing is due, however old it is.
    journal.set_commit_interval(Duration::from_millis(1));
    let_others_run();
    assert_eq!(journal.stats().commits, 1);
    journal.stop();
}

#[test]
fn a_call_during_a_refused_round_waits_for_the_next() {
    let (device, journal) = journal();
    fill(&journal, &[HOME], 1).expect("fills");
    device.fail(|call| is_at_home(call).then_some(28));
    device.hold(is_at_home);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| journal.flush_log());
        device.wait_for_held();
        let second = scope.spawn(|| journal.flush_log());
        let_others_run();
        // The write that is held was the last that finds the host full.
        let mut refused = false;
        device.fail(move |call| {
            let refuses = is_at_home(call) && !std::mem::replace(&mut refused, true);
            refuses.then_some(28)
        });
        device.continue_held();
        let first = first.join().expect("no panic");
        // It may wake only after the next round, which did what it asked for.
        let is_expected = matches!(first, Ok(()) | Err(JournalError::HostFull));
        assert!(is_expected, "{first:?}");
        second
            .join()
            .expect("no panic")
            .expect("the host has space");
    });
    assert_eq!(byte_at(&device.memory, HOME), 1);
    journal.stop();
}
