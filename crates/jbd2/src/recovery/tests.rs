//! Logs of every format, built by hand: replayed right when whole, and never worse than refused when
//! any byte of them is another.

use super::*;
use crate::JournalError;
use crate::map::LogRun;
use crate::tests::device::TestDevice;
use std::sync::Arc;
use uext4_block::MemoryDevice;
use uext4_ondisk::{
    DescriptorBuilder, JOURNAL_BLOCKS_MIN, Pblk, RawJournalSuper, RevokeBuilder, journal_escape,
    journal_needs_escape,
};

const BLOCK: usize = 1024;
const LOG_AT: u64 = 64;
const LOG_BLOCKS: u32 = JOURNAL_BLOCKS_MIN;
/// Where the log starts: the last blocks, so that it wraps.
const START: u32 = LOG_BLOCKS - 9;
const FIRST_TID: Tid = Tid(u32::MAX - 1);

/// The first block of the last of [`three`] transactions, and its commit block.
const LAST: (u32, u32) = (3, 8);

/// A log being written.
struct Writer {
    device: Arc<MemoryDevice>,
    map: LogMap,
    sb: JournalSuper,
    at: u32,
    tid: Tid,
    /// When transactions are committed.
    sec: u64,
    v1: u32,
}

fn formats() -> impl Iterator<Item = (JournalIncompat, u32)> {
    let csums = [
        (JournalIncompat::empty(), 0),
        (JournalIncompat::empty(), 1),
        (JournalIncompat::CSUM_V2, 0),
        (JournalIncompat::CSUM_V3, 0),
    ];
    let others = [
        JournalIncompat::REVOKE,
        JournalIncompat::REVOKE | JournalIncompat::BIT64,
        JournalIncompat::REVOKE | JournalIncompat::BIT64 | JournalIncompat::ASYNC_COMMIT,
    ];
    csums
        .into_iter()
        .flat_map(move |(csum, compat)| others.map(|other| (csum | other, compat)))
}

impl Writer {
    fn new((incompat, compat): (JournalIncompat, u32)) -> Writer {
        let device = Arc::new(MemoryDevice::new((LOG_AT + 2000) * BLOCK as u64));
        let run = LogRun {
            first: 0,
            pblk: LOG_AT,
            len: LOG_BLOCKS,
        };
        let map = LogMap::new(Arc::clone(&device) as Arc<_>, BLOCK, vec![run]);
        let mut raw = RawJournalSuper::new_empty(BLOCK as u32, LOG_BLOCKS);
        raw.feature_incompat = incompat.bits().into();
        raw.feature_compat = compat.into();
        raw.start = START.into();
        raw.sequence = FIRST_TID.0.into();
        raw.uuid = [7; 16];
        raw.update_checksum();
        map.write(0, zerocopy_bytes(&raw)).unwrap();
        let mut block = vec![0; BLOCK];
        map.read(0, &mut block).unwrap();
        Writer {
            sb: JournalSuper::parse(&block, BLOCK as u32).unwrap(),
            device,
            map,
            at: START,
            tid: FIRST_TID,
            sec: 1,
            v1: u32::MAX,
        }
    }

    fn put(&mut self, block: &[u8]) {
        self.map.write(self.at, block).unwrap();
        self.at += 1;
        if self.at >= self.sb.log_end() {
            self.at = self.sb.raw.first.get();
        }
    }

    /// Writes a transaction: revoked blocks, then (block, byte it is full of), 0xc0 standing for the magic.
    fn transaction(&mut self, revoked: &[u64], blocks: &[(u64, u8)]) {
        let format = self.sb.format();
        self.v1 = u32::MAX;
        let mut block = vec![0; BLOCK];
        if !revoked.is_empty() {
            let mut builder = RevokeBuilder::new(&mut block, format, self.tid);
            for b in revoked {
                assert!(builder.push(Pblk(*b)));
            }
            builder.finish();
            self.put(&block);
        }
        let mut builder = DescriptorBuilder::new(&mut block, format, self.tid);
        let mut copies = Vec::new();
        for (b, byte) in blocks {
            let mut copy = content(*byte);
            let escaped = journal_needs_escape(&copy);
            if escaped {
                journal_escape(&mut copy);
            }
            assert!(builder.push(Pblk(*b), escaped, format.data_checksum(self.tid, &copy)));
            copies.push(copy);
        }
        builder.finish();
        self.v1 = crc32_be(self.v1, &block);
        self.put(&block);
        for copy in copies {
            self.v1 = crc32_be(self.v1, &copy);
            self.put(&copy);
        }
        CommitBlock {
            tid: self.tid,
            sec: self.sec,
            nsec: 2,
            v1_checksum: (format.csum == JournalCsum::V1).then_some(self.v1),
        }
        .encode_into(&mut block, &format);
        self.put(&block);
        self.tid = self.tid.next();
    }

    fn block(&self, block: u64) -> Vec<u8> {
        let mut data = vec![0; BLOCK];
        self.device
            .read_at(block * BLOCK as u64, &mut data)
            .unwrap();
        data
    }

    /// What is in block 10 and those after it.
    fn seen(&self) -> Vec<u8> {
        (10..18).map(|b| self.block(b)[9]).collect()
    }
}

fn zerocopy_bytes(raw: &RawJournalSuper) -> &[u8] {
    zerocopy::IntoBytes::as_bytes(raw)
}

fn content(byte: u8) -> Vec<u8> {
    let mut data = vec![byte; BLOCK];
    if byte == 0xc0 {
        data[..4].copy_from_slice(&uext4_ondisk::JOURNAL_MAGIC.to_be_bytes());
    }
    data
}

/// Three transactions over the end of the log and of the numbers of transactions.
fn three(format: (JournalIncompat, u32)) -> Writer {
    let mut w = Writer::new(format);
    w.transaction(&[], &[(10, 1), (11, 2), (12, 3), (13, 0xc0)]);
    w.transaction(&[10, 13], &[(11, 4), (14, 5)]);
    w.transaction(&[12], &[(13, 6), (12, 7), (15, 0xc0)]);
    w
}

#[test]
fn every_format_is_replayed() {
    for format in formats() {
        let w = three(format);
        let report = recover(&w.map, &*w.device).unwrap();
        assert_eq!((report.transactions, report.replayed), (3, 4), "{format:?}");
        assert_eq!(report.skipped, 5, "{format:?}");
        // 10 and what 12 and 13 were are revoked; 12 is revoked by the transaction that has it again.
        assert_eq!(w.seen(), [0, 4, 0, 6, 5, 0xc0, 0, 0], "{format:?}");
        assert_eq!(w.block(15), content(0xc0), "unescaped, {format:?}");
        assert!(is_empty(&w.map).unwrap());
        let sb = read_super(&w.map).unwrap();
        assert_eq!(sb.raw.sequence.get(), FIRST_TID.0.wrapping_add(4));
    }
}

#[test]
fn a_commit_block_that_came_before_its_blocks_ends_the_log() {
    for format in formats().filter(|f| f.0.contains(JournalIncompat::ASYNC_COMMIT)) {
        let mut w = three(format);
        let checked = w.sb.format().csum != JournalCsum::None;
        // A fourth transaction whose last block did not reach the device.
        let at = w.at + 2;
        w.transaction(&[], &[(16, 8), (17, 9)]);
        w.map.write(at, &content(0xee)).unwrap();
        let report = recover(&w.map, &*w.device).unwrap();
        assert_eq!(report.transactions, if checked { 3 } else { 4 });
        if checked {
            assert_eq!(w.seen(), [0, 4, 0, 6, 5, 0xc0, 0, 0], "{format:?}");
        }
        // With one after it, it is damage; version 1 cannot show that, nor can a log without checksums.
        let mut w = three(format);
        w.transaction(&[], &[(16, 8), (17, 9)]);
        w.transaction(&[], &[(16, 10)]);
        w.map.write(at, &content(0xee)).unwrap();
        let done = recover(&w.map, &*w.device);
        match w.sb.format().csum {
            JournalCsum::V2 | JournalCsum::V3 => {
                let why = done.unwrap_err().to_string();
                assert!(
                    why.contains("block 17") && why.contains("journal block"),
                    "{why}"
                );
            }
            _ => assert!(done.is_ok()),
        }
    }
}

#[test]
fn any_byte_may_be_damaged() {
    let mut rng: u32 = 1;
    for format in formats() {
        let used = (0..=LAST.1).chain(START..LOG_BLOCKS);
        for block in used {
            for at in (0..BLOCK).filter(|at| at % 97 == 0 || *at < 120 || *at > BLOCK - 6) {
                let w = three(format);
                rng = rng.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let mut data = vec![0; BLOCK];
                w.map.read(block, &mut data).unwrap();
                data[at] ^= (rng >> 24) as u8 | 1;
                w.map.write(block, &data).unwrap();
                let done = recover(&w.map, &*w.device);
                // The last transaction alone may look as if a crash had cut it short.
                let is_last = (LAST.0..=LAST.1).contains(&block);
                if let Ok(report) = &done
                    && w.sb.format().has_block_csum()
                    && block != 0
                    && !is_last
                {
                    assert_eq!(
                        report.transactions, 3,
                        "{format:?}, block {block}, byte {at}"
                    );
                }
                // Checksums of each block: what is replayed is a prefix of the transactions.
                if let Ok(report) = done
                    && w.sb.format().has_block_csum()
                    && block != 0
                {
                    let right: [[u8; 8]; 4] = [
                        [0; 8],
                        [1, 2, 3, 0xc0, 0, 0, 0, 0],
                        [0, 4, 3, 0, 5, 0, 0, 0],
                        [0, 4, 0, 6, 5, 0xc0, 0, 0],
                    ];
                    let n = report.transactions as usize;
                    assert_eq!(w.seen(), right[n], "{format:?}, block {block}, byte {at}");
                }
            }
        }
    }
}

#[test]
fn a_damaged_commit_block_is_refused_unless_it_is_the_last() {
    for format in formats() {
        let checked = three(format).sb.format().has_block_csum();
        let commits: Vec<u32> = {
            let w = three(format);
            let mut block = vec![0; BLOCK];
            let is_commit = |at: &u32| {
                w.map.read(*at, &mut block).unwrap();
                JournalHeader::read(&block).is_ok_and(|h| h.block_type == JournalBlockType::Commit)
            };
            (START..LOG_BLOCKS)
                .chain(1..=LAST.1)
                .filter(is_commit)
                .collect()
        };
        assert_eq!(commits.len(), 3, "{format:?}");
        assert_eq!(commits[2], LAST.1);
        for (i, at) in commits.into_iter().enumerate() {
            // Lost altogether, torn, or with one bit that flipped.
            let spoils: [fn(&mut Vec<u8>); 3] =
                [|b| b.fill(0), |b| b[512..].fill(7), |b| b[60] ^= 4];
            for spoil in spoils {
                let w = three(format);
                let mut block = vec![0; BLOCK];
                w.map.read(at, &mut block).unwrap();
                spoil(&mut block);
                w.map.write(at, &block).unwrap();
                let done = recover(&w.map, &*w.device);
                match (i, checked) {
                    (2, true) => assert_eq!(done.unwrap().transactions, 2, "{format:?}"),
                    (_, true) => {
                        let why = done.unwrap_err().to_string();
                        assert!(why.contains("later ones are complete"), "{why}");
                    }
                    // Its kind is unknown; it is never an error.
                    (_, false) => assert!(done.is_ok(), "{format:?}"),
                }
                if checked && i == 2 {
                    assert_eq!(w.seen(), [0, 4, 3, 0, 5, 0, 0, 0], "{format:?}");
                }
            }
        }
    }
}

#[test]
fn a_commit_block_without_its_transaction_is_damage_where_it_was_waited_for() {
    for format in formats() {
        let mut w = three(format);
        if !w.sb.format().has_block_csum() {
            continue;
        }
        // The revoke block, or the descriptor block.
        for at in [LAST.0, LAST.0 + 1] {
            w = three(format);
            w.map.write(at, &content(0xee)).unwrap();
            let done = recover(&w.map, &*w.device);
            if format.0.contains(JournalIncompat::ASYNC_COMMIT) {
                assert_eq!(done.unwrap().transactions, 2, "{format:?}");
            } else {
                let why = done.unwrap_err().to_string();
                assert!(why.contains("later ones are complete"), "{why}");
            }
        }
    }
}

#[test]
fn commit_blocks_that_are_older_than_the_log_are_ignored() {
    let format = (JournalIncompat::REVOKE | JournalIncompat::CSUM_V3, 0);
    let last = three(format).tid;
    for (tid, sec, is_damage) in [
        (Tid(last.0 + 5), 9, false),
        (Tid(last.0 + 5), 10, true),
        (Tid(last.0.wrapping_sub(9)), 10, false),
        (Tid(last.0.wrapping_sub(9)), 11, false),
    ] {
        let mut w = Writer::new(format);
        w.sec = 10;
        w.transaction(&[], &[(10, 1)]);
        w.tid = tid;
        w.sec = sec;
        w.at += 3;
        w.transaction(&[], &[(11, 2)]);
        let done = recover(&w.map, &*w.device);
        assert_eq!(done.is_err(), is_damage, "{}, {sec}", tid.0);
        if let Ok(report) = done {
            assert_eq!((report.transactions, report.replayed), (1, 1));
        }
    }
}

#[test]
fn what_a_skipped_log_holds_is_never_replayed() {
    for format in formats() {
        let w = three(format);
        assert!(!is_empty(&w.map).unwrap());
        skip(&w.map).unwrap();
        assert!(is_empty(&w.map).unwrap());
        assert_eq!(
            recover(&w.map, &*w.device).unwrap(),
            RecoveryReport::default()
        );
        assert_eq!(w.seen(), [0; 8]);
        let sb = read_super(&w.map).unwrap();
        assert_eq!(sb.raw.sequence.get(), FIRST_TID.0.wrapping_add(4));
    }
}

/// A log with one transaction and the feature of fast commits.
fn before_fast_commits() -> Writer {
    let features = JournalIncompat::REVOKE | JournalIncompat::FAST_COMMIT;
    let mut w = Writer::new((JournalIncompat::REVOKE, 0));
    w.at = 1;
    w.sb.incompat = features;
    w.sb.raw.feature_incompat = features.bits().into();
    w.transaction(&[], &[(10, 1)]);
    w
}

impl Writer {
    /// The superblock says that the log begins with its first block and transaction.
    fn begin_at_first(&mut self) {
        self.sb.raw.start = 1.into();
        self.sb.raw.sequence = FIRST_TID.0.into();
        log::write_super(&self.map, &mut self.sb).unwrap();
    }
}

/// A fast commit of transaction `tid`, a block: a range that inode 12 no longer has.
fn fast_commit(tid: Tid) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    let head = [&[9, 0, 8, 0, 0, 0, 0, 0], &tid.0.to_le_bytes()[..]].concat();
    let range = [2, 0, 12, 0, 12, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0];
    let tail = [&[8, 0], &992u16.to_le_bytes()[..], &tid.0.to_le_bytes()].concat();
    let bytes = [&head[..], &range, &tail].concat();
    let sum = uext4_ondisk::crc32c(0, &bytes);
    block[..bytes.len()].copy_from_slice(&bytes);
    block[bytes.len()..bytes.len() + 4].copy_from_slice(&sum.to_le_bytes());
    block
}

#[test]
fn fast_commits_on_top_of_the_last_transaction_are_reported_until_they_are_replaced() {
    let mut w = before_fast_commits();
    let area = w.sb.fast_commit_area();
    for (tid, found) in [(w.tid.next(), 0), (w.tid, 1)] {
        w.map.write(area.start, &fast_commit(tid)).unwrap();
        w.begin_at_first();
        let report = recover(&w.map, &*w.device).unwrap();
        assert_eq!((report.transactions, report.fast_commits.len()), (1, found));
        assert_eq!(is_empty(&w.map).unwrap(), found == 0);
    }
    // Another recovery finds them again, and only them.
    let report = recover(&w.map, &*w.device).unwrap();
    assert_eq!((report.transactions, report.fast_commits.len()), (0, 1));
    skip(&w.map).unwrap();
    let sb = read_super(&w.map).unwrap();
    assert!(!sb.incompat.contains(JournalIncompat::FAST_COMMIT));
    assert_eq!(sb.raw.sequence.get(), w.tid.0.wrapping_add(1));
}

/// Fast commits of two blocks, on a device whose calls fail in turn.
#[test]
fn fast_commits_are_read_to_their_end_or_not_at_all() {
    let mut w = before_fast_commits();
    let area = w.sb.fast_commit_area();
    for at in area.take(2) {
        w.map.write(at, &fast_commit(w.tid)).unwrap();
    }
    w.begin_at_first();
    for n in 0.. {
        let device = Arc::new(TestDevice::new((*w.device).clone(), BLOCK));
        let map = LogMap::new(Arc::clone(&device) as Arc<_>, BLOCK, w.map.runs().to_vec());
        let mut left = n;
        let failed = Arc::new(std::sync::atomic::AtomicBool::default());
        let fails = Arc::clone(&failed);
        device.fail(move |_| {
            left -= 1;
            let now = left == -1;
            fails.fetch_or(now, std::sync::atomic::Ordering::SeqCst);
            now.then_some(5)
        });
        let report = recover(&map, &*device);
        if !failed.load(std::sync::atomic::Ordering::SeqCst) {
            assert_eq!(report.unwrap().fast_commits.len(), 2);
            break;
        }
        let why = report.map(drop).expect_err("a call failed");
        assert!(matches!(why, JournalError::Device(_)), "{n}: {why}");
    }
}

#[test]
fn a_copy_for_past_the_end_of_the_device_is_refused() {
    for (block, fits) in [(LOG_AT + 1999, true), (LOG_AT + 2000, false)] {
        let mut w = Writer::new((JournalIncompat::REVOKE, 0));
        w.transaction(&[], &[(block, 1)]);
        match recover(&w.map, &*w.device) {
            Ok(report) => assert!(fits && report.transactions == 1),
            Err(JournalError::Corrupt(why)) => {
                assert_eq!((why.pblk, fits), (Some(Pblk(block)), false));
            }
            Err(why) => panic!("{why}"),
        }
    }
}

/// A log with this many revoked blocks in each transaction, and the device that it is on.
fn revoking(counts: &[usize]) -> (Writer, Arc<MemoryDevice>) {
    let format = (JournalIncompat::REVOKE | JournalIncompat::CSUM_V3, 0);
    let mut w = Writer::new(format);
    let per_block = RevokeBuilder::capacity(&w.sb.format());
    let len = (counts.iter().sum::<usize>() / per_block + 16) as u32;
    let device = Arc::new(MemoryDevice::new((LOG_AT + u64::from(len)) * BLOCK as u64));
    let run = LogRun {
        first: 0,
        pblk: LOG_AT,
        len,
    };
    w.map = LogMap::new(Arc::clone(&device) as Arc<_>, BLOCK, vec![run]);
    w.sb.raw.maxlen = len.into();
    w.sb.raw.start = 1.into();
    log::write_super(&w.map, &mut w.sb).unwrap();
    w.at = 1;
    let format = w.sb.format();
    let mut block = vec![0; BLOCK];
    for count in counts {
        let mut left = *count;
        while left > 0 {
            let now = left.min(per_block);
            let mut builder = RevokeBuilder::new(&mut block, format, w.tid);
            (0..now).for_each(|i| assert!(builder.push(Pblk(i as u64))));
            builder.finish();
            w.put(&block);
            left -= now;
        }
        CommitBlock {
            tid: w.tid,
            sec: 1,
            nsec: 2,
            v1_checksum: None,
        }
        .encode_into(&mut block, &format);
        w.put(&block);
        w.tid = w.tid.next();
    }
    (w, device)
}

#[test]
fn a_log_with_too_many_records_is_refused() {
    let half = RECORDS_MAX / 2;
    for (counts, fits) in [
        (&[RECORDS_MAX] as &[usize], true),
        (&[half, half + 1], false),
    ] {
        let (w, device) = revoking(counts);
        match recover(&w.map, &*device) {
            Ok(report) => assert!(fits && report.transactions == counts.len() as u32),
            Err(why) => assert!(!fits && why.to_string().contains("more records"), "{why}"),
        }
    }
}
