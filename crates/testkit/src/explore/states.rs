//! What a power loss can leave of a recording: every subset of what may be lost when there are few, and the
//! ones that find most when there are many.

use crate::device::{CrashPoint, ForkDevice, RecordLog};
use crate::external::*;

const SECTOR: u64 = 512;

/// How much of what a power loss can leave is tried at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Up to how many writes that may be lost every subset is tried.
    pub exhaustive: usize,
    /// How many writes are torn, in each way.
    pub torn: usize,
    /// Subsets by a seed, besides, torn or not, where there are more.
    pub seeded: usize,
}

impl Budget {
    /// Of a workload of a few operations.
    pub const SHORT: Budget = Budget {
        exhaustive: 6,
        torn: 8,
        seeded: 24,
    };
    /// Of a long workload, which has many points.
    pub const LONG: Budget = Budget {
        exhaustive: 5,
        torn: 4,
        seeded: 16,
    };
    /// Where each state is dear.
    pub const SPARSE: Budget = Budget {
        exhaustive: 1,
        torn: 1,
        seeded: 1,
    };
    /// Of what recovery writes.
    pub const RECOVERY: Budget = Budget {
        exhaustive: 4,
        torn: 3,
        seeded: 4,
    };
}

/// Which parts of which operations are there, besides those that must be.
pub type Choice = Vec<(usize, Range<u64>)>;

/// The choices that are tried at `point`; some leave the same bytes.
pub fn choices(log: &RecordLog, point: &CrashPoint, budget: &Budget, seed: u64) -> Vec<Choice> {
    let whole = |op: usize| (op, log.ops[op].extent());
    let lossy = &point.lossy;
    let mut all: Vec<Choice> = Vec::new();
    if lossy.len() <= budget.exhaustive {
        for mask in 0..1u64 << lossy.len() {
            let there = (0..).zip(lossy).filter(|(bit, _)| mask >> bit & 1 == 1);
            all.push(there.map(|(_, op)| whole(*op)).collect());
        }
    } else {
        let all_prefixes = budget.exhaustive > 1;
        let prefixes = (0..=lossy.len()).filter(|n| all_prefixes || *n == 0 || *n == lossy.len());
        all.extend(prefixes.map(|n| lossy[..n].iter().map(|op| whole(*op)).collect()));
        for left_out in (0..lossy.len()).filter(|_| all_prefixes) {
            let others = |op: &&usize| **op != lossy[left_out];
            all.push(lossy.iter().filter(others).map(|op| whole(*op)).collect());
            all.push(vec![whole(lossy[left_out])]);
        }
    }
    let mut rng = Rng::with_seed(seed);
    tear_some(log, point, budget, &mut rng, &mut all);
    if lossy.len() > budget.exhaustive {
        all.extend((0..budget.seeded).map(|_| by_chance(log, lossy, &mut rng)));
    }
    all
}

/// One write torn: with all before it there, with all others there, and alone; the one that was under way too.
fn tear_some(
    log: &RecordLog,
    point: &CrashPoint,
    budget: &Budget,
    rng: &mut Rng,
    all: &mut Vec<Choice>,
) {
    let mut places: Vec<usize> = (0..point.lossy.len()).collect();
    if places.len() > budget.torn {
        rng.shuffle(&mut places);
        places.truncate(budget.torn);
    }
    let whole = |op: &usize| (*op, log.ops[*op].extent());
    for place in places {
        let op = point.lossy[place];
        let (before, after) = (&point.lossy[..place], &point.lossy[place + 1..]);
        for part in tears(log.ops[op].extent(), rng) {
            all.push(vec![(op, part.clone())]);
            let mut prefix: Choice = before.iter().map(whole).collect();
            prefix.push((op, part));
            if !after.is_empty() {
                all.push(prefix.clone());
            }
            prefix.extend(after.iter().map(whole));
            all.push(prefix);
        }
    }
    if let Some(op) = point.under_way {
        for part in tears(log.ops[op].extent(), rng) {
            all.push(vec![(op, part.clone())]);
            let mut with_all: Choice = point.lossy.iter().map(whole).collect();
            with_all.push((op, part));
            all.push(with_all);
        }
        let mut some = by_chance(log, &point.lossy, rng);
        some.push(whole(&op));
        all.push(some);
    }
}

/// Ways to tear a write: one cut in the middle, the first sector or the last one alone, and without either.
fn tears(extent: Range<u64>, rng: &mut Rng) -> Vec<Range<u64>> {
    let (first, end) = (extent.start / SECTOR, extent.end.div_ceil(SECTOR));
    let sectors = end.saturating_sub(first);
    if sectors < 2 {
        return Vec::new();
    }
    let cut = first + 1 + rng.u64(..sectors - 1);
    let mut bounds = vec![first + 1, cut, end - 1];
    bounds.dedup();
    let mut parts = Vec::new();
    for bound in bounds {
        let at = bound * SECTOR;
        parts.push(extent.start..at);
        parts.push(at..extent.end);
    }
    parts
}

/// A subset by coins of some bias, of which some are torn.
fn by_chance(log: &RecordLog, lossy: &[usize], rng: &mut Rng) -> Choice {
    let percent = *rng.choice(&[10, 50, 90]).unwrap_or(&50);
    let mut choice = Choice::new();
    for op in lossy {
        if rng.u8(..100) >= percent {
            continue;
        }
        let extent = log.ops[*op].extent();
        let parts = match rng.u8(..6) {
            0 => tears(extent.clone(), rng),
            _ => Vec::new(),
        };
        let part = rng.choice(&parts).cloned().unwrap_or(extent);
        choice.push((*op, part));
    }
    choice
}

/// Walks the points of a recording, in order.
#[derive(Debug)]
pub struct Walk<'l> {
    log: &'l RecordLog,
    /// The operations before `applied` are there.
    durable: ForkDevice,
    applied: usize,
}

impl<'l> Walk<'l> {
    /// Of `log`, from what `device` holds.
    pub fn new(log: &'l RecordLog, device: ForkDevice) -> Walk<'l> {
        Walk {
            log,
            durable: device,
            applied: 0,
        }
    }

    /// What a power loss at `point` leaves: what must be there, and of the rest what `choice` says. Points
    /// are in order.
    pub fn state(&mut self, point: &CrashPoint, choice: &Choice) -> ForkDevice {
        for op in &self.log.ops[self.applied..point.durable.max(self.applied)] {
            op.apply_part(&self.durable, op.extent());
        }
        self.applied = self.applied.max(point.durable);
        if self.durable.changed_blocks() > 512 {
            self.durable = ForkDevice::new(self.durable.freeze());
        }
        let device = self.durable.fork();
        let kept = point
            .kept
            .iter()
            .map(|op| (*op, self.log.ops[*op].extent()));
        let mut there: Choice = kept.chain(choice.iter().cloned()).collect();
        there.sort_by_key(|(op, _)| *op);
        for (op, part) in there {
            self.log.ops[op].apply_part(&device, part);
        }
        device
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Image, RecordDevice};

    fn recorded(writes: u64) -> RecordLog {
        let device = RecordDevice::new(MemoryDevice::new(64 << 10)).unwrap();
        for i in 0..writes {
            device.write_at(i * 2048, &[i as u8 + 1; 1024]).unwrap();
        }
        device.write_fua(60 << 10, &[99; 1024]).unwrap();
        device.write_at(0, &[50; 512]).unwrap();
        device.flush().unwrap();
        device.log()
    }

    fn states(log: &RecordLog) -> HashSet<Vec<u8>> {
        let image = Image::new(&[0; 64 << 10], 1024);
        let mut walk = Walk::new(log, ForkDevice::new(image));
        let mut seen = HashSet::new();
        for point in log.crash_points() {
            for choice in choices(log, &point, &Budget::SHORT, 1) {
                let device = walk.state(&point, &choice);
                let mut bytes = vec![0; 64 << 10];
                device.read_at(0, &mut bytes).unwrap();
                seen.insert(bytes);
            }
        }
        seen
    }

    /// Every subset of four writes, before and after the one that is durable at once, and torn ones.
    #[test]
    fn few_writes_are_tried_exhaustively() {
        let seen = states(&recorded(4));
        let whole = |bytes: &Vec<u8>, at: usize, byte| bytes[at..at + 1024] == [byte; 1024];
        for mask in 0..16 {
            for fua in [false, true] {
                let found = seen.iter().any(|bytes| {
                    let fits = |i: usize| {
                        let byte = if mask >> i & 1 == 1 { i as u8 + 1 } else { 0 };
                        whole(bytes, i * 2048, byte)
                    };
                    (0..4).all(fits) && whole(bytes, 60 << 10, if fua { 99 } else { 0 })
                });
                assert!(found, "writes {mask:b}, the durable one {fua}");
            }
        }
        let torn = |bytes: &&Vec<u8>| bytes[..512] != bytes[512..1024];
        assert!(seen.iter().filter(torn).count() > 2);
    }

    #[test]
    fn many_writes_are_tried_by_prefixes_and_chance() {
        let seen = states(&recorded(20));
        for n in 0..=20 {
            let prefix = |bytes: &Vec<u8>| {
                (0..20).all(|i| bytes[i * 2048] == if i < n { i as u8 + 1 } else { 0 })
            };
            assert!(seen.iter().any(prefix), "the first {n}");
        }
        assert!(seen.len() > 100, "{}", seen.len());
    }
}
