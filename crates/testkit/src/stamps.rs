//! The writer of each part of a file, and what a reader may therefore find: an oracle for torn and stale data.
//!
//! # Data model
//! A file is units of some sectors, none larger than a block. Each unit has one thread that writes to it, but all threads read
//! it, and all take it away (truncate, punch, zero). What is written is a *stamp*: unit, writer, sequence,
//! a filling that follows from them, and a checksum. Every start and end of an operation is a moment of
//! one clock.
//!
//! # Invariants
//! A reader finds in each unit
//! - a whole stamp of that unit, or zeros, and nothing else;
//! - no stamp older than the last write that had returned when the read began;
//! - no stamp of a write that had returned before something began to take the unit away, if that had
//!   returned too when the read began;
//! - zeros only if nothing had been written, or something that took the unit away had not returned when
//!   the last write that had returned began.
//!
//! # Locking
//! Each unit's record has a lock of its own, held for a moment and never during an operation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MAGIC: u64 = 0x7561_7473_7034_7855;
/// Magic, unit, writer, sequence, checksum.
const HEAD_BYTES: usize = 40;

/// What is known of a unit.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// The last write that began.
    begun: u64,
    /// The last write that returned: sequence, and when it began and ended.
    written: u64,
    write_began: u64,
    write_ended: u64,
    /// Takers on their way.
    taking: u32,
    /// When the last one ended, and the latest beginning of those that ended.
    taken_ended: u64,
    taken_began: u64,
}

/// The records of a file.
#[derive(Debug)]
pub struct Stamps {
    unit: usize,
    records: Vec<Mutex<Record>>,
    clock: AtomicU64,
}

/// What was known when a read began.
#[derive(Debug)]
pub struct Before(Vec<Record>);

/// A range of units that is being changed.
#[derive(Debug)]
pub struct Change {
    first: usize,
    last: usize,
    began: u64,
}

impl Stamps {
    /// Of a file of so many units of `unit` bytes.
    pub fn new(unit: usize, units: usize) -> Stamps {
        Stamps {
            unit,
            records: (0..units).map(|_| Mutex::default()).collect(),
            clock: AtomicU64::new(1),
        }
    }

    /// How many units.
    pub fn units(&self) -> usize {
        self.records.len()
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn record(&self, unit: usize) -> MutexGuard<'_, Record> {
        self.records[unit]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a write of units from `first` on, and puts stamps into `data`.
    pub fn begin_write(&self, first: usize, writer: u64, data: &mut [u8]) -> Change {
        let began = self.now();
        let last = first + data.len() / self.unit;
        for (unit, bytes) in (first..last).zip(data.chunks_exact_mut(self.unit)) {
            let mut record = self.record(unit);
            record.begun += 1;
            stamp(bytes, unit as u64, writer, record.begun);
        }
        Change { first, last, began }
    }

    /// The write returned.
    pub fn end_write(&self, change: &Change) {
        let ended = self.now();
        for unit in change.first..change.last {
            let mut record = self.record(unit);
            record.written = record.begun;
            record.write_began = change.began;
            record.write_ended = ended;
        }
    }

    /// Begins to take units `[first, last)` away.
    pub fn begin_take(&self, first: usize, last: usize) -> Change {
        let began = self.now();
        let last = last.min(self.units());
        for unit in first..last {
            self.record(unit).taking += 1;
        }
        Change { first, last, began }
    }

    /// They are gone.
    pub fn end_take(&self, change: &Change) {
        let ended = self.now();
        for unit in change.first..change.last {
            let mut record = self.record(unit);
            record.taking -= 1;
            record.taken_ended = record.taken_ended.max(ended);
            record.taken_began = record.taken_began.max(change.began);
        }
    }

    /// Notes what is known of units from `first` on, before they are read.
    pub fn begin_read(&self, first: usize, units: usize) -> Before {
        Before(
            (first..first + units)
                .map(|unit| *self.record(unit))
                .collect(),
        )
    }

    /// Whether what a read found in units from `first` on may be; the reason if not.
    pub fn judge(&self, first: usize, before: &Before, data: &[u8]) -> Result<(), String> {
        let units = data.chunks_exact(self.unit);
        for ((unit, known), bytes) in (first..).zip(&before.0).zip(units) {
            let now = *self.record(unit);
            judge_unit(unit as u64, known, &now, bytes)
                .map_err(|why| format!("unit {unit} of {} bytes: {why}", self.unit))?;
        }
        Ok(())
    }
}

fn judge_unit(unit: u64, known: &Record, now: &Record, bytes: &[u8]) -> Result<(), String> {
    if bytes.iter().all(|&byte| byte == 0) {
        let taken = now.taking > 0 || now.taken_ended > known.write_began;
        if known.written > 0 && !taken {
            return Err(format!("zeros, though {known:?} was written"));
        }
        return Ok(());
    }
    let sequence = read_stamp(bytes, unit)?;
    if sequence > now.begun {
        return Err(format!(
            "sequence {sequence}, which was never written: {now:?}"
        ));
    }
    if sequence < known.written {
        return Err(format!("sequence {sequence} after {known:?}"));
    }
    if sequence == known.written && known.write_ended < known.taken_began {
        return Err(format!("sequence {sequence}, taken away before: {known:?}"));
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
    u64::from_le_bytes(word)
}

fn filling(unit: u64, writer: u64, sequence: u64, at: usize) -> u64 {
    (unit ^ writer.rotate_left(20) ^ sequence.rotate_left(40))
        .wrapping_add(at as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn checksum(bytes: &[u8]) -> u64 {
    (0..bytes.len() / 8)
        .filter(|&at| at != 4)
        .fold(0, |sum: u64, at| {
            (sum ^ word(bytes, at))
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(7)
        })
}

fn stamp(bytes: &mut [u8], unit: u64, writer: u64, sequence: u64) {
    let head = [MAGIC, unit, writer, sequence, 0];
    for (at, part) in bytes.chunks_exact_mut(8).enumerate() {
        let value = head.get(at).copied();
        let value = value.unwrap_or_else(|| filling(unit, writer, sequence, at));
        part.copy_from_slice(&value.to_le_bytes());
    }
    let sum = checksum(bytes);
    bytes[HEAD_BYTES - 8..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// Whether bytes begin with a stamp.
pub fn is_stamp(bytes: &[u8]) -> bool {
    bytes.len() >= HEAD_BYTES && word(bytes, 0) == MAGIC
}

/// The sequence of a whole stamp of `unit`.
fn read_stamp(bytes: &[u8], unit: u64) -> Result<u64, String> {
    if !is_stamp(bytes) {
        let odd = bytes.iter().position(|&byte| byte != 0);
        return Err(format!("neither zeros nor a stamp, from byte {odd:?} on"));
    }
    if word(bytes, 1) != unit {
        return Err(format!("the stamp of unit {}", word(bytes, 1)));
    }
    let (writer, sequence) = (word(bytes, 2), word(bytes, 3));
    if word(bytes, 4) != checksum(bytes) {
        return Err(format!(
            "a torn stamp, sequence {sequence}, {}",
            torn(bytes, unit, writer, sequence)
        ));
    }
    Ok(sequence)
}

/// Where a stamp is not what its head says, and what is there.
fn torn(bytes: &[u8], unit: u64, writer: u64, sequence: u64) -> String {
    let is_of = |at: usize, sequence| word(bytes, at) == filling(unit, writer, sequence, at);
    let mut words = HEAD_BYTES / 8..bytes.len() / 8;
    let Some(at) = words.find(|&at| !is_of(at, sequence)) else {
        return "in its head".to_owned();
    };
    let what = match (0..=sequence + 1).find(|&other| is_of(at, other)) {
        Some(other) => format!("sequence {other}"),
        None if word(bytes, at) == 0 => "zeros".to_owned(),
        None => "something else".to_owned(),
    };
    format!("from byte {} on {what}", at * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: usize = 512;

    fn written(stamps: &Stamps, unit: usize) -> Vec<u8> {
        let mut data = vec![0; UNIT];
        let change = stamps.begin_write(unit, 7, &mut data);
        stamps.end_write(&change);
        data
    }

    #[test]
    fn what_was_written_last_is_right_and_older_is_not() {
        let stamps = Stamps::new(UNIT, 4);
        let old = written(&stamps, 2);
        let new = written(&stamps, 2);
        let before = stamps.begin_read(2, 1);
        stamps.judge(2, &before, &new).expect("the last");
        assert!(stamps.judge(2, &before, &old).is_err());
        assert!(stamps.judge(2, &before, &[0; UNIT]).is_err());
        assert!(stamps.judge(3, &stamps.begin_read(3, 1), &new).is_err());
    }

    #[test]
    fn what_was_taken_away_is_gone() {
        let stamps = Stamps::new(UNIT, 4);
        let data = written(&stamps, 1);
        let before = stamps.begin_read(1, 1);
        let take = stamps.begin_take(0, 9);
        stamps.judge(1, &before, &data).expect("still there");
        stamps.judge(1, &before, &[0; UNIT]).expect("gone already");
        stamps.end_take(&take);
        let after = stamps.begin_read(1, 1);
        assert!(stamps.judge(1, &after, &data).is_err());
        stamps.judge(1, &after, &[0; UNIT]).expect("gone");
    }

    #[test]
    fn torn_and_foreign_bytes_are_noticed() {
        let stamps = Stamps::new(UNIT, 4);
        let mut data = written(&stamps, 0);
        let before = stamps.begin_read(0, 1);
        data[300] ^= 1;
        assert!(stamps.judge(0, &before, &data).is_err());
        assert!(stamps.judge(0, &before, &[1; UNIT]).is_err());
        let mut unwritten = vec![0; UNIT];
        stamp(&mut unwritten, 0, 7, 9);
        assert!(stamps.judge(0, &before, &unwritten).is_err());
    }
}
