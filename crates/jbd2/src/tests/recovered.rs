//! What is in the log after a power loss, and what recovery makes of it.

use super::device::{Call, TestDevice};
use super::setup::*;
use crate::buffer::{Buffer, FreezeHook};
use crate::log::{Chunk, Log};
use crate::{Journal, JournalError, LogFeatures, LogMap, LogRun, Opened};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use uext4_block::{BlockDevice, MemoryDevice};
use uext4_ondisk::{JOURNAL_MAGIC, RawJournalSuper};
use zerocopy::IntoBytes;

const ENOSPC: i32 = 28;
/// Blocks that the random transactions change.
const CHANGED: u64 = 100;

fn is_at_home(call: Call) -> bool {
    matches!(call, Call::Write(at, _) if at >= HOME)
}

/// A generator of numbers below a limit.
fn random(seed: u32) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |limit| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u64::from(state >> 8) % limit
    }
}

/// Changes blocks and frees some in each of many transactions, over the end of the log several times, and loses the power
/// after each.
fn check_random_transactions(features: LogFeatures, first: u32) {
    let device = device_with(|raw| raw.first = first.into());
    let opened = Opened::Empty;
    let journal = Journal::open(cache(&device), map(&device), features, options(), opened);
    let journal = journal.expect("opens");
    let mut model: BTreeMap<u64, u8> = (HOME..HOME + CHANGED).map(|b| (b, 0)).collect();
    let blocks: Vec<u64> = model.keys().copied().collect();
    let mut random = random(first);
    for round in 0..70 {
        let byte = round + 1;
        let handle = journal.start(110).expect("starts");
        for _ in 0..20 + random(70) {
            let block = HOME + random(CHANGED);
            let buffer = journal.cache().get(block).expect("reads");
            handle
                .modify(&buffer)
                .expect("modifies")
                .data_mut()
                .fill(byte);
            model.insert(block, byte);
        }
        // A block that is freed keeps what it has in place, so it gets a known content.
        if round % 3 == 0 {
            let block = HOME + random(CHANGED);
            let buffer = journal.cache().get_unread(block);
            let mut content = handle.create(&buffer).expect("creates");
            content.data_mut().fill(byte);
            drop(content);
            model.insert(block, byte);
        }
        handle.finish();
        journal.sync().expect("commits");
        let expected: Vec<u8> = model.values().copied().collect();
        assert_eq!(after_power_loss(&device, &blocks), expected, "{round}");
        if round % 20 == 19 {
            journal.flush_log().expect("empties the log");
            let in_place = blocks.iter().map(|b| byte_at(&device.memory, *b));
            assert_eq!(in_place.collect::<Vec<_>>(), expected, "{round}");
        }
    }
    assert_eq!(journal.stats().overruns, 0);
    journal.stop();
}

#[test]
fn what_was_committed_is_recovered_at_every_moment() {
    for (i, checksums) in [true, false].into_iter().enumerate() {
        for fast_commits in [false, true] {
            let features = LogFeatures {
                checksums,
                wide: checksums,
                fast_commits,
            };
            check_random_transactions(features, 1 + 32 * i as u32);
        }
    }
}

#[test]
fn a_block_that_begins_as_the_journals_own_do_is_recovered() {
    let (device, journal) = journal();
    let magic = JOURNAL_MAGIC.to_be_bytes();
    let handle = journal.start(1).expect("starts");
    let buffer = journal.cache().get(HOME).expect("reads");
    handle.modify(&buffer).expect("modifies").data_mut()[..4].copy_from_slice(&magic);
    handle.finish();
    journal.sync().expect("commits");
    let left = Arc::new(TestDevice::new(device.memory.clone(), BLOCK));
    crate::recover(&map(&left), &*left).expect("recovers");
    let mut found = [1; 8];
    let at = HOME * BLOCK as u64;
    left.read_at(at, &mut found).expect("reads");
    assert_eq!(found[..4], magic);
    assert_eq!(found[4..], [0; 4]);
    journal.stop();
}

#[test]
fn a_block_changed_while_its_transaction_is_written_is_committed_as_it_was() {
    let (device, journal) = journal();
    fill(&journal, &[HOME, HOME + 1], 1).expect("fills");
    device.hold(|call| matches!(call, Call::Write(..)));
    std::thread::scope(|scope| {
        let synced = scope.spawn(|| journal.sync());
        device.wait_for_held();
        fill(&journal, &[HOME], 2).expect("the next transaction runs");
        device.continue_held();
        synced.join().expect("no panic").expect("commits");
    });
    assert_eq!(after_power_loss(&device, &[HOME, HOME + 1]), [1, 1]);
    journal.sync().expect("commits");
    assert_eq!(after_power_loss(&device, &[HOME, HOME + 1]), [2, 1]);
    journal.stop();
}

#[test]
fn as_many_revoked_blocks_as_a_transaction_may_have_are_not_replayed() {
    let (device, journal) = journal();
    let blocks: Vec<u64> = (HOME..HOME + 200).collect();
    fill(&journal, &blocks, 1).expect("fills");
    journal.sync().expect("commits");
    let handle = journal.start(200 / 64).expect("starts");
    blocks.iter().for_each(|block| handle.revoke(*block));
    assert_eq!(handle.credits(), 0, "a credit for every 64");
    handle.finish();
    journal.sync().expect("commits");
    assert_eq!(after_power_loss(&device, &blocks), [0; 200]);
    assert_eq!(journal.stats().overruns, 0);
    journal.stop();
}

/// Writes one byte into every block that is frozen.
struct Stamp(AtomicU8);

impl FreezeHook for Stamp {
    fn freeze(&self, buffer: &Buffer, data: &mut [u8]) {
        if buffer.kind() == 7 {
            data.fill(self.0.load(SeqCst));
        }
    }
}

#[test]
fn the_owner_of_a_block_encodes_it_when_it_is_committed() {
    for with_log in [true, false] {
        let device = device_with(|_| ());
        let journal = match with_log {
            true => open(&device).expect("opens"),
            false => Journal::without_log(cache(&device), options()).expect("a thread"),
        };
        let stamp = Arc::new(Stamp(AtomicU8::new(1)));
        journal.cache().set_hook(Arc::clone(&stamp) as Arc<_>);
        for byte in 1..4 {
            stamp.0.store(byte, SeqCst);
            let handle = journal.start(2).expect("starts");
            let buffer = journal.cache().get(HOME).expect("reads");
            buffer.set_kind(7, 0);
            handle.access_native(&buffer).expect("gets access");
            let other = journal.cache().get(HOME + 1).expect("reads");
            handle.modify(&other).expect("modifies").data_mut().fill(9);
            handle.finish();
            journal.sync().expect("commits");
            let found = match with_log {
                true => after_power_loss(&device, &[HOME, HOME + 1]),
                false => vec![
                    byte_at(&device.memory, HOME),
                    byte_at(&device.memory, HOME + 1),
                ],
            };
            assert_eq!(found, [byte, 9]);
        }
        journal.stop();
    }
}

#[test]
fn a_transaction_that_does_not_fit_the_log_aborts_the_journal() {
    // A descriptor block has 62 blocks, so that 1004 take 16 * 63 + 13, and the commit block is the last but one of the log: a
    // full one would look as an empty one does.
    for (blocks, fits) in [
        (1003, true),
        (1004, true),
        (1005, false),
        (1006, false),
        (1007, false),
    ] {
        let (device, journal) = journal();
        let blocks: Vec<u64> = (HOME..HOME + blocks).collect();
        let handle = journal.start(1).expect("starts");
        for block in &blocks {
            let buffer = journal.cache().get(*block).expect("reads");
            handle.modify(&buffer).expect("modifies").data_mut().fill(1);
        }
        assert_eq!(handle.credits(), 0);
        handle.finish();
        assert_eq!(journal.stats().overruns, blocks.len() as u64 - 1);
        device.take_calls();
        let synced = journal.sync();
        let written: u64 = device
            .take_calls()
            .into_iter()
            .map(|call| match call {
                Call::Write(at, n) if at < HOME => n,
                _ => 0,
            })
            .sum();
        assert!(written < u64::from(LOG_BLOCKS) - 1, "{written}");
        let byte = u8::from(fits);
        let expected = vec![byte; blocks.len()];
        assert_eq!(after_power_loss(&device, &blocks), expected);
        match synced {
            Ok(()) => assert!(fits, "{}", blocks.len()),
            Err(why) => assert!(
                !fits && why.to_string().contains("the log is full"),
                "{why}"
            ),
        }
        journal.stop();
    }
}

#[test]
fn a_log_that_cannot_be_emptied_is_used_up_and_never_overflows() {
    for seed in 0..6 {
        let (device, journal) = journal();
        device.fail(|call| is_at_home(call).then_some(ENOSPC));
        let mut random = random(seed);
        let mut journaled = 0;
        let refused = loop {
            let n = 1 + random(200);
            let revoked = random(n);
            let handle = match journal.start(n as u32) {
                Ok(handle) => handle,
                Err(why) => break (n, why),
            };
            for block in HOME..HOME + n - revoked {
                let buffer = journal.cache().get(block).expect("reads");
                handle.modify(&buffer).expect("modifies").data_mut().fill(1);
            }
            for block in 0..revoked * 64 {
                handle.revoke(block);
            }
            assert_eq!(handle.credits(), 0);
            handle.finish();
            journal.sync().expect("there was room");
            journaled += n;
        };
        assert!(
            matches!(refused, (_, JournalError::HostFull)),
            "{refused:?}"
        );
        // Revoke records take less than they were reserved.
        assert!(journaled + refused.0 > 900, "{seed}: {journaled}");
        device.heal();
        journal.flush_log().expect("the host has space again");
        assert_eq!(byte_at(&device.memory, HOME), 1);
        journal.stop();
    }
}

#[test]
fn the_next_transaction_has_the_room_that_the_one_being_written_leaves() {
    let (device, journal) = journal();
    device.fail(|call| is_at_home(call).then_some(ENOSPC));
    for i in 0..4 {
        let blocks: Vec<u64> = (HOME..HOME + 185).map(|b| b + i * 200).collect();
        fill(&journal, &blocks, 1).expect("fills");
        journal.sync().expect("commits");
    }
    // 267 blocks are free, of which this one takes up to 92.
    let handle = journal.start(90).expect("starts");
    for block in HOME..HOME + 30 {
        let buffer = journal.cache().get(block).expect("reads");
        handle.modify(&buffer).expect("modifies").data_mut().fill(2);
    }
    for block in 0..60 * 64 {
        handle.revoke(10_000 + block);
    }
    handle.finish();
    device.hold(|call| matches!(call, Call::Write(..)));
    std::thread::scope(|scope| {
        let synced = scope.spawn(|| journal.sync());
        device.wait_for_held();
        let has_room = |n| journal.try_start(n).expect("not aborted").is_some();
        assert!(!has_room(150) && has_room(100));
        device.continue_held();
        synced.join().expect("no panic").expect("commits");
    });
    journal.stop();
}

#[test]
fn room_is_reckoned_for_what_a_transaction_takes_with_its_descriptors() {
    const BLOCKS: u32 = 16_384;
    let memory = MemoryDevice::new(u64::from(BLOCKS) * BLOCK as u64);
    let device: Arc<dyn BlockDevice> = Arc::new(memory);
    let run = LogRun {
        first: 0,
        pblk: 0,
        len: BLOCKS,
    };
    let map = LogMap::new(device, BLOCK, vec![run]);
    let mut raw = RawJournalSuper::new_empty(BLOCK as u32, BLOCKS);
    for blocks in [0, 1, 62, 63, 500, 4000] {
        raw.update_checksum();
        map.write(0, raw.as_bytes()).expect("writes");
        let mut log = Log::open(map.clone(), FEATURES, Opened::Empty).expect("opens");
        let before = log.room_after(blocks);
        log.begin(1).expect("begins");
        let format = log.format();
        let all: Vec<u64> = (0..blocks as u64).collect();
        for some in all.chunks(Chunk::capacity(&format)) {
            let mut chunk = Chunk::default();
            for block in some {
                chunk.block(&format, 1, *block, &[1; BLOCK]);
            }
            log.write_chunk(&mut chunk).expect("writes");
        }
        log.commit(false).expect("commits");
        let after = log.room();
        assert!(
            before <= after,
            "{blocks}: {before} was too much, as it is {after}"
        );
        assert!(
            before + 20 > after,
            "{blocks}: {before} was too little, as it is {after}"
        );
        raw = RawJournalSuper::new_empty(BLOCK as u32, BLOCKS);
    }
}
