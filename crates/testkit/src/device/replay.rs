//! Images after a power loss, made from a [`RecordLog`].
//!
//! # What a power loss leaves
//! At a cut before operation `at_op`:
//! - everything that a flush returned before the cut covers is there;
//! - so is every FUA write that returned before the cut;
//! - of the other writes, zeroings and discards before the cut any part may be there, and also of
//!   operation `at_op` itself, which was under way: sector by sector (512 bytes), each sector as one
//!   of the operations left it, none older than the last durable one on it;
//! - changes of length are the host's and are there.
//!
//! A discarded sector reads as before or as zeros.
//!
//! [`RecordLog::crash_points`] lists the cuts that matter, with what may be there at each, for a caller that
//! tries all of it. Here a seed chooses the part. What finds bugs differs, so a seed first chooses a habit: each write
//! there or not by a coin of some bias, all but one there, only the later ones there, or most of
//! them torn.

use super::record::{Mark, RecordLog, RecordOp};
use crate::external::*;
use uext4_block::error::Result;

/// The unit that a device writes as a whole.
const SECTOR_BYTES: u64 = 512;

/// The most places where a torn write changes between there and not there.
const TEARS_MAX: u64 = 8;

/// Where the power is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The operations before this index had returned.
    pub at_op: usize,
    /// Which of those that aren't durable are there; `None`: all of them, in order.
    pub seed: Option<u64>,
}

impl RecordLog {
    /// The image after a power loss at `cut`. For many cuts of one log use [`RecordLog::replayer`].
    pub fn replay(&self, cut: &Cut) -> MemoryDevice {
        self.replayer().image_at(cut)
    }

    /// As [`RecordLog::replay`], of a device that lies about flushes: the canary of a crash test.
    pub fn replay_ignoring_flushes(&self, cut: &Cut) -> MemoryDevice {
        self.replayer().ignore_flushes().image_at(cut)
    }

    /// What a device whose flushes are atomic has at `cut`: all up to its last flush.
    pub fn last_flush(&self, cut: &Cut) -> Cut {
        let ops = &self.ops[..cut.at_op.min(self.ops.len())];
        let flush = ops
            .iter()
            .rposition(|op| matches!(op, RecordOp::Flush { .. }));
        Cut::at(flush.map_or(0, |at| at + 1))
    }

    /// Makes images of many cuts.
    pub fn replayer(&self) -> Replayer<'_> {
        Replayer::new(self)
    }

    /// The markers of what had returned before the power loss at `cut`, in order.
    pub fn marks_before(&self, cut: &Cut) -> Vec<Mark> {
        let before = &self.ops[..cut.at_op.min(self.ops.len())];
        let marks = before
            .iter()
            .enumerate()
            .filter_map(|(at_op, op)| match op {
                RecordOp::Mark(value) => Some(Mark {
                    at_op,
                    value: *value,
                }),
                _ => None,
            });
        marks.collect()
    }
}

impl Cut {
    /// Before operation `at_op`, with nothing lost.
    pub fn at(at_op: usize) -> Cut {
        Cut { at_op, seed: None }
    }

    /// The same place, with what the seed chooses lost.
    pub fn seeded(self, seed: u64) -> Cut {
        Cut {
            seed: Some(seed),
            ..self
        }
    }
}

/// A cut, and what of the log may be on the device there. Indices are of the log's operations, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// The operations before this index had returned.
    pub at_op: usize,
    /// The operations before this index are durable.
    pub durable: usize,
    /// Of the others that had returned, those that are durable themselves.
    pub kept: Vec<usize>,
    /// Of the others that had returned, those of which any part may be there.
    pub lossy: Vec<usize>,
    /// The write that was under way, of which any part may be there.
    pub under_way: Option<usize>,
}

impl RecordLog {
    /// The latest cuts before something became durable: before each flush that makes anything durable, before
    /// each FUA write, and at the end. What a power loss can leave elsewhere, it can leave at one of these,
    /// after more guarantees.
    pub fn crash_points(&self) -> Vec<CrashPoint> {
        let mut points = Vec::new();
        let (mut durable, mut lossy, mut kept) = (0, Vec::new(), Vec::new());
        for (index, op) in self.ops.iter().enumerate() {
            let point = |under_way| CrashPoint {
                at_op: index,
                durable,
                kept: Vec::clone(&kept),
                lossy: Vec::clone(&lossy),
                under_way,
            };
            match op {
                RecordOp::Flush { covers } => {
                    if lossy.first().is_some_and(|first| first < covers) {
                        points.push(point(None));
                    }
                    durable = durable.max(*covers);
                    lossy.retain(|op| op >= covers);
                    kept.retain(|op| op >= covers);
                }
                RecordOp::Write { fua: true, .. } => {
                    points.push(point(Some(index)));
                    kept.push(index);
                }
                _ if !extent(op).is_empty() => lossy.push(index),
                _ => {}
            }
        }
        points.push(CrashPoint {
            at_op: self.ops.len(),
            durable,
            kept,
            lossy,
            under_way: None,
        });
        points
    }
}

impl RecordOp {
    /// The bytes that it changes.
    pub fn extent(&self) -> Range<u64> {
        extent(self)
    }

    /// Does to `device` what it does to the bytes in `part` of its extent.
    pub fn apply_part(&self, device: &dyn BlockDevice, part: Range<u64>) {
        apply_part(device, self, part);
    }
}

/// Makes images of many cuts of one log. It keeps the durable image, so that cuts in ascending
/// order cost what lies between them.
#[derive(Debug)]
pub struct Replayer<'a> {
    log: &'a RecordLog,
    ignore_flushes: bool,
    /// The base with the operations before `durable_to` applied.
    durable: MemoryDevice,
    durable_to: usize,
    /// For each flush, its index and how many operations are durable from there on; ascending.
    flushes: Vec<(usize, usize)>,
}

/// What a seed does to the operations of an epoch.
enum Habit {
    /// Each is there by a coin of this bias, in percent.
    Coin(u8),
    /// All but one are there.
    LoseOne(usize),
    /// Only those from here on are there.
    LoseEarlier(usize),
    /// Half are torn, the others there or not.
    Tear,
}

impl<'a> Replayer<'a> {
    /// A replayer of `log`, that stands at its start.
    pub fn new(log: &'a RecordLog) -> Replayer<'a> {
        let mut durable = 0;
        let flushes = log.ops.iter().enumerate().filter_map(|(index, op)| {
            let RecordOp::Flush { covers } = op else {
                return None;
            };
            durable = durable.max(*covers);
            Some((index, durable))
        });
        Replayer {
            log,
            ignore_flushes: false,
            flushes: flushes.collect(),
            durable: log.base.clone(),
            durable_to: 0,
        }
    }

    /// Ignores flushes and FUA: the canary of a crash test, which must fail.
    pub fn ignore_flushes(mut self) -> Replayer<'a> {
        self.ignore_flushes = true;
        self.flushes.clear();
        self
    }

    /// The image after a power loss at `cut`.
    pub fn image_at(&mut self, cut: &Cut) -> MemoryDevice {
        let end = cut.at_op.min(self.log.ops.len());
        let start = self.durable_before(end);
        self.advance(start);
        let image = self.durable.clone();
        match cut.seed {
            None => self.log.ops[start..end]
                .iter()
                .for_each(|op| apply(&image, op)),
            Some(seed) => self.apply_some(&image, start, end, seed),
        }
        image
    }

    /// How many operations were durable just before operation `at_op`.
    fn durable_before(&self, at_op: usize) -> usize {
        let before = self.flushes.partition_point(|&(index, _)| index < at_op);
        before.checked_sub(1).map_or(0, |last| self.flushes[last].1)
    }

    fn advance(&mut self, to: usize) {
        if to < self.durable_to {
            self.durable = self.log.base.clone();
            self.durable_to = 0;
        }
        self.log.ops[self.durable_to..to]
            .iter()
            .for_each(|op| apply(&self.durable, op));
        self.durable_to = to;
    }

    fn apply_some(&self, image: &MemoryDevice, start: usize, end: usize, seed: u64) {
        let mut rng = Rng::with_seed(seed);
        // The one under way at the cut belongs to the choice.
        let under_way = (end + 1).min(self.log.ops.len());
        let lossy: Vec<usize> = (start..under_way).filter(|&i| self.is_lossy(i)).collect();
        let habit = Habit::choose(&mut rng, lossy.len());
        let mut rank = 0;
        for (index, op) in self.log.ops[start..under_way].iter().enumerate() {
            let index = start + index;
            let may_be_lost = self.is_lossy(index) || index == end;
            if !may_be_lost {
                apply(image, op);
                continue;
            }
            for range in habit.parts(&mut rng, rank, extent(op), index == end) {
                apply_part(image, op, range);
            }
            rank += 1;
        }
    }

    /// Whether the operation, returned but not flushed, may be lost.
    fn is_lossy(&self, index: usize) -> bool {
        match self.log.ops[index] {
            RecordOp::Write { fua, .. } => !fua || self.ignore_flushes,
            RecordOp::Zero { .. } | RecordOp::Discard { .. } => true,
            _ => false,
        }
    }
}

impl Habit {
    fn choose(rng: &mut Rng, lossy: usize) -> Habit {
        match rng.u8(..8) {
            0..=2 => Habit::Coin(*rng.choice(&[5, 25, 50, 75, 95]).unwrap_or(&50)),
            3..=4 => Habit::LoseOne(rng.usize(..lossy.max(1))),
            5..=6 => Habit::LoseEarlier(rng.usize(..=lossy)),
            _ => Habit::Tear,
        }
    }

    /// The parts of `extent`, the `rank`th of those that may be lost, that are there.
    fn parts(
        &self,
        rng: &mut Rng,
        rank: usize,
        extent: Range<u64>,
        under_way: bool,
    ) -> Vec<Range<u64>> {
        let torn = match self {
            Habit::Tear => rng.bool(),
            _ => under_way && rng.bool() || rng.u8(..16) == 0,
        };
        if torn {
            return tear(rng, extent);
        }
        let there = match *self {
            Habit::Coin(percent) => rng.u8(..100) < percent,
            Habit::LoseOne(lost) => rank != lost,
            Habit::LoseEarlier(first) => rank >= first,
            Habit::Tear => rng.bool(),
        };
        if there { vec![extent] } else { Vec::new() }
    }
}

/// Some runs of sectors of `extent`.
fn tear(rng: &mut Rng, extent: Range<u64>) -> Vec<Range<u64>> {
    let first = extent.start / SECTOR_BYTES;
    let end = extent.end.div_ceil(SECTOR_BYTES);
    let inner = end.saturating_sub(first).saturating_sub(1);
    let mut bounds: Vec<u64> = (0..rng.u64(..=inner.min(TEARS_MAX)))
        .map(|_| first + 1 + rng.u64(..inner))
        .collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut there = rng.bool();
    let mut parts = Vec::new();
    let mut at = extent.start;
    for bound in bounds {
        let next = bound * SECTOR_BYTES;
        if there {
            parts.push(at..next);
        }
        there = !there;
        at = next;
    }
    if there {
        parts.push(at..extent.end);
    }
    parts
}

/// The bytes that an operation changes.
fn extent(op: &RecordOp) -> Range<u64> {
    match op {
        RecordOp::Write { offset, data, .. } => *offset..offset + data.len() as u64,
        RecordOp::Zero { offset, len } | RecordOp::Discard { offset, len } => *offset..offset + len,
        _ => 0..0,
    }
}

fn apply(image: &MemoryDevice, op: &RecordOp) {
    match op {
        RecordOp::SetLen(len) => must(image.set_len(*len)),
        _ => apply_part(image, op, extent(op)),
    }
}

/// Applies the bytes of an operation that lie in `part`.
fn apply_part(image: &dyn BlockDevice, op: &RecordOp, part: Range<u64>) {
    // The device may have shrunk while the operation ran.
    let end = part.end.min(image.len());
    let len = end.saturating_sub(part.start);
    if len == 0 {
        return;
    }
    match op {
        RecordOp::Write { offset, data, .. } => {
            let from = (part.start - offset) as usize;
            must(image.write_at(part.start, &data[from..from + len as usize]));
        }
        RecordOp::Zero { .. } | RecordOp::Discard { .. } => must(image.zero(part.start, len)),
        RecordOp::Flush { .. } | RecordOp::SetLen(_) | RecordOp::Mark(_) => {}
    }
}

/// Memory takes every operation inside its length.
fn must(result: Result<()>) {
    if let Err(error) = result {
        unreachable!("replay in memory: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::record::RecordDevice;

    const LEN: u64 = 64 << 10;

    /// A log of random changes of whole and partial sectors.
    fn random_log(seed: u64) -> RecordLog {
        let mut rng = Rng::with_seed(seed);
        let mut base = vec![0; LEN as usize];
        rng.fill(&mut base);
        let device = RecordDevice::new(MemoryDevice::from_bytes(&base)).unwrap();
        for i in 0..120 {
            let offset = rng.u64(..LEN);
            let len = rng.u64(1..=(LEN - offset).min(6000));
            let mut data = vec![0; len as usize];
            rng.fill(&mut data);
            match rng.u8(..20) {
                0 => device.zero(offset, len).unwrap(),
                1 => device.discard(offset, len).unwrap(),
                2..=3 => device.flush().unwrap(),
                4..=5 => device.write_fua(offset, &data).unwrap(),
                6 => device.mark(i),
                _ => device.write_at(offset, &data).unwrap(),
            }
        }
        device.log()
    }

    /// What each sector may hold at a cut, by the rules at the head of `replay.rs`, done naively.
    fn allowed(log: &RecordLog, at_op: usize, honest: bool) -> Vec<HashSet<Vec<u8>>> {
        let covered = log.ops[..at_op]
            .iter()
            .filter_map(|op| match op {
                RecordOp::Flush { covers } if honest => Some(*covers),
                _ => None,
            })
            .max()
            .unwrap_or(0);
        let base = log.base.snapshot();
        let mut sectors: Vec<HashSet<Vec<u8>>> = base
            .chunks(SECTOR_BYTES as usize)
            .map(|sector| HashSet::from([sector.to_vec()]))
            .collect();
        for (index, op) in log.ops.iter().enumerate().take(at_op + 1) {
            let sure = index < covered
                || honest && index < at_op && matches!(op, RecordOp::Write { fua: true, .. });
            for (number, versions) in sectors.iter_mut().enumerate() {
                let start = number as u64 * SECTOR_BYTES;
                let touched = extent(op).start.max(start)..extent(op).end.min(start + SECTOR_BYTES);
                if touched.is_empty() {
                    continue;
                }
                let mut after: HashSet<Vec<u8>> = HashSet::new();
                for version in versions.iter() {
                    let mut version = version.clone();
                    let part = (touched.start - start) as usize..(touched.end - start) as usize;
                    match op {
                        RecordOp::Write { offset, data, .. } => version[part].copy_from_slice(
                            &data[(touched.start - offset) as usize
                                ..(touched.end - offset) as usize],
                        ),
                        _ => version[part].fill(0),
                    }
                    after.insert(version);
                }
                match sure {
                    true => *versions = after,
                    false => versions.extend(after),
                }
            }
        }
        sectors
    }

    fn within(image: &MemoryDevice, allowed: &[HashSet<Vec<u8>>]) -> bool {
        let bytes = image.snapshot();
        bytes
            .chunks(SECTOR_BYTES as usize)
            .zip(allowed)
            .all(|(sector, versions)| versions.contains(sector))
    }

    #[test]
    fn every_sector_is_old_or_new() {
        for log_seed in 0..6 {
            let log = random_log(log_seed);
            let mut replayer = log.replayer();
            for at_op in (0..=log.ops.len()).step_by(7) {
                let allowed = allowed(&log, at_op, true);
                for seed in 0..12 {
                    let image = replayer.image_at(&Cut::at(at_op).seeded(seed));
                    assert!(
                        within(&image, &allowed),
                        "log {log_seed}, cut {at_op}, seed {seed}"
                    );
                }
            }
        }
    }

    #[test]
    fn ignored_flushes_show() {
        let log = random_log(1);
        let at_op = log.ops.len();
        let honest = allowed(&log, at_op, true);
        let lying = allowed(&log, at_op, false);
        let mut replayer = log.replayer().ignore_flushes();
        let mut losses = 0;
        for seed in 0..50 {
            let image = replayer.image_at(&Cut::at(at_op).seeded(seed));
            losses += usize::from(!within(&image, &honest));
            assert!(within(&image, &lying));
            let same = log.replay_ignoring_flushes(&Cut::at(at_op).seeded(seed));
            assert!(same.snapshot() == image.snapshot());
        }
        assert!(losses > 0);
    }

    #[test]
    fn crash_points_are_before_what_becomes_durable() {
        let device = RecordDevice::new(MemoryDevice::new(LEN)).unwrap();
        device.write_at(0, &[1; 512]).unwrap();
        device.write_fua(512, &[2; 512]).unwrap();
        device.mark(7);
        device.write_at(1024, &[3; 512]).unwrap();
        device.flush().unwrap();
        device.flush().unwrap();
        device.zero(0, 512).unwrap();
        let point = |at_op, durable, kept: &[usize], lossy: &[usize], under_way| CrashPoint {
            at_op,
            durable,
            kept: kept.to_vec(),
            lossy: lossy.to_vec(),
            under_way,
        };
        let want = [
            point(1, 0, &[], &[0], Some(1)),
            point(4, 0, &[1], &[0, 3], None),
            point(7, 5, &[], &[6], None),
        ];
        assert_eq!(device.log().crash_points(), want);
    }

    /// What a seed leaves at any cut is what some choice leaves at the next point.
    #[test]
    fn crash_points_cover_every_cut() {
        for log_seed in 0..6 {
            let log = random_log(log_seed);
            let points = log.crash_points();
            for at_op in (0..=log.ops.len()).step_by(5) {
                let next = points.iter().find(|point| point.at_op >= at_op);
                let next = next.expect("the last is at the end");
                let allowed = allowed(&log, next.at_op, true);
                let image = log.replay(&Cut::at(at_op).seeded(at_op as u64));
                // A write under way at the cut has returned at the point.
                assert!(within(&image, &allowed), "log {log_seed}, cut {at_op}");
            }
        }
    }

    #[test]
    fn nothing_lost_without_a_seed() {
        let log = random_log(2);
        let mut model = log.base.snapshot();
        let mut replayer = log.replayer();
        for at_op in 0..=log.ops.len() {
            assert!(replayer.image_at(&Cut::at(at_op)).snapshot() == model);
            match log.ops.get(at_op) {
                Some(RecordOp::Write { offset, data, .. }) => {
                    model[*offset as usize..][..data.len()].copy_from_slice(data);
                }
                Some(RecordOp::Zero { offset, len } | RecordOp::Discard { offset, len }) => {
                    model[*offset as usize..][..*len as usize].fill(0);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn order_of_cuts_does_not_matter() {
        let log = random_log(3);
        let mut replayer = log.replayer();
        for at_op in [90, 10, 119, 0, 60] {
            let cut = Cut::at(at_op).seeded(at_op as u64);
            assert!(replayer.image_at(&cut).snapshot() == log.replay(&cut).snapshot());
        }
        assert!(replayer.image_at(&Cut::at(usize::MAX)).snapshot().len() == LEN as usize);
    }

    /// Two writes of a block after a flush: the seeds must show each outcome that matters.
    #[test]
    fn seeds_reach_every_kind_of_loss() {
        let device = RecordDevice::new(MemoryDevice::new(LEN)).unwrap();
        device.flush().unwrap();
        device.write_at(0, &[1; 4096]).unwrap();
        device.write_at(8192, &[2; 4096]).unwrap();
        let log = device.log();
        let mut seen = HashSet::new();
        for seed in 0..300 {
            let image = log.replay(&Cut::at(3).seeded(seed)).snapshot();
            let present = |at: usize| {
                let sectors = image[at..at + 4096].chunks(512).filter(|s| s[0] != 0);
                sectors.count()
            };
            seen.insert((
                present(0).min(1) + present(0) / 8,
                present(8192).min(1) + present(8192) / 8,
            ));
        }
        // Each of absent, torn and whole, for the earlier and the later write.
        assert_eq!(seen.len(), 9, "{seen:?}");
    }

    #[test]
    fn a_write_under_way_may_be_torn_even_with_fua() {
        let device = RecordDevice::new(MemoryDevice::new(LEN)).unwrap();
        device.write_fua(0, &[1; 4096]).unwrap();
        let log = device.log();
        let count = |cut: Cut| {
            log.replay(&cut)
                .snapshot()
                .iter()
                .filter(|&&b| b == 1)
                .count()
        };
        assert!((0..50).all(|seed| count(Cut::at(1).seeded(seed)) == 4096));
        let counts: HashSet<usize> = (0..50).map(|seed| count(Cut::at(0).seeded(seed))).collect();
        assert!(counts.len() > 2 && counts.iter().all(|count| count % 512 == 0));
    }

    #[test]
    fn length_changes_stay() {
        let device = RecordDevice::new(MemoryDevice::new(4096)).unwrap();
        device.write_at(2048, &[3; 2048]).unwrap();
        device.set_len(2048).unwrap();
        device.set_len(8192).unwrap();
        device.write_at(8000, &[4; 192]).unwrap();
        let log = device.log();
        for seed in 0..30 {
            let image = log.replay(&Cut::at(4).seeded(seed)).snapshot();
            assert_eq!(image.len(), 8192);
            assert!(image[..7680].iter().all(|&b| b == 0));
        }
    }
}
