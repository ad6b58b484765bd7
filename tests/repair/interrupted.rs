//! Repairs that end at any write. With an undo file, the next one puts the image back and repairs it; without one, it completes what
//! was begun, from the journal if the image has one, and loses nothing that an uninterrupted repair keeps.
//!
//! `UEXT4_REPAIR_KILLS` sets how many images.

use crate::support::{Base, all_of, contents::Contents, loss::losses, plan, repaired};
use crate::verifier::{e2fsck, have_tools, scratch, shapes::SHAPES};
use uext4_repair::UndoPlace;
use uext4_testkit::device::{Cut, RecordDevice, RecordLog};
use uext4_testkit::prelude::*;

/// Writes the first `count` runs of a plan to a device, the last one torn.
fn write_part(device: &dyn BlockDevice, runs: &[(u64, Vec<u8>)], count: usize) {
    for (i, (offset, bytes)) in runs.iter().take(count).enumerate() {
        let torn = i + 1 == count && bytes.len() > 512;
        let len = if torn { bytes.len() / 2 } else { bytes.len() };
        device.write_at(*offset, &bytes[..len]).expect("write");
    }
}

#[test]
fn every_write_can_be_the_last() {
    require!(have_tools());
    let dir = scratch();
    let undo = dir.path().join("undo");
    let base = Base::make(0, dir.path());
    let mut points = 0;
    for i in 0..env_number("UEXT4_REPAIR_KILLS", 12) {
        let Some((bytes, name)) = base.damaged(3, i) else {
            continue;
        };
        let planned = match plan(&bytes) {
            Ok(planned) if !planned.is_empty() => planned,
            _ => continue,
        };
        let whole = repaired(&bytes, &planned);
        let runs = planned.edits.runs(1 << 20).collect::<Vec<_>>();
        for count in 0..=runs.len() {
            points += 1;
            let device = Arc::new(MemoryDevice::from_bytes(&bytes));
            let _ = fs::remove_file(&undo);
            // A device that fails stands for the kill; the undo file is complete before the first write.
            let failing: Arc<dyn BlockDevice> = Arc::new(FailsAt::new(&device, count as u64));
            let result = uext4_repair::apply(&failing, &planned, Some(&UndoPlace::new(&undo)));
            assert!(result.is_err(), "{name}: nothing failed at {count}");
            write_part(&*device, &runs, count);
            assert!(
                uext4_repair::resume(&*device, &UndoPlace::new(&undo)).expect("resume"),
                "{name}"
            );
            assert_eq!(all_of(&*device), bytes, "{name}: not put back at {count}");
            let again = plan(&all_of(&*device)).expect("plan");
            let device: Arc<dyn BlockDevice> = device;
            uext4_repair::apply(&device, &again, Some(&UndoPlace::new(&undo))).expect("apply");
            assert!(all_of(&*device) == whole || again.mends_all(), "{name}");
            uext4_repair::undo(&*device, &undo).expect("undo");
            assert_eq!(all_of(&*device), bytes, "{name}: not undone");
        }
    }
    assert!(points > 20, "{points}");
}

/// What a repair without an undo file wrote, and where it can end: after each write and flush, and with any part of what was not flushed.
fn cuts(log: &RecordLog, rng: &mut Rng) -> Vec<Cut> {
    let all = (0..=log.ops.len()).map(Cut::at);
    all.flat_map(|cut| [cut, cut.seeded(rng.u64(..))]).collect()
}

#[test]
fn without_an_undo_file_nothing_more_is_lost() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("interrupted.img");
    let images = env_number("UEXT4_REPAIR_KILLS", 6);
    let (mut points, mut through_log, mut tried, mut failed) = (0, 0, 0, Vec::new());
    for (shape, i) in (0..SHAPES.len()).cycle().zip(0..images) {
        let base = Base::make(shape, dir.path());
        let Some((bytes, name)) = base.damaged(5, i) else {
            continue;
        };
        let Ok(planned) = plan(&bytes) else { continue };
        if planned.is_empty() || !planned.mends_all() {
            continue;
        }
        tried += 1;
        let original = Contents::read(base.bytes());
        let memory = MemoryDevice::from_bytes(&bytes);
        let recorded = Arc::new(RecordDevice::new(memory).expect("record"));
        let device: Arc<dyn BlockDevice> = recorded.clone();
        uext4_repair::apply(&device, &planned, None).expect("apply");
        let whole = Contents::read(&all_of(&*device));
        let log = recorded.log();
        // Where the journal is used, the only writes to the superblock of the file system ask for recovery and end it.
        through_log += u64::from(planned.log.is_some());
        for cut in cuts(&log, &mut Rng::with_seed(i)) {
            points += 1;
            let left = all_of(&log.replay(&cut));
            let again = match plan(&left) {
                Ok(again) => again,
                Err(e) => {
                    failed.push(format!("{name}: {cut:?}: no plan: {e}"));
                    continue;
                }
            };
            let ended = repaired(&left, &again);
            let mut wrong = losses(&original, &whole, &Contents::read(&ended));
            fs::write(&path, &ended).expect("write");
            if !base.has_mmp && !e2fsck(&path).0 {
                wrong.push("not clean".to_owned());
            }
            if !wrong.is_empty() || !again.mends_all() {
                wrong.truncate(3);
                let of = log.ops.len();
                failed.push(format!("{name}: {cut:?} of {of}: {wrong:?}"));
            }
        }
    }
    println!("{tried} images, {through_log} with a journal, ended at {points} points");
    assert!(points > 20 && through_log > 0, "{points} {through_log}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A device whose write or flush number `left` fails.
#[derive(Debug)]
struct FailsAt {
    device: Arc<MemoryDevice>,
    left: AtomicU64,
}

impl FailsAt {
    fn new(device: &Arc<MemoryDevice>, left: u64) -> Self {
        FailsAt {
            device: Arc::clone(device),
            left: AtomicU64::new(left),
        }
    }

    fn step(&self) -> uext4_block::Result<()> {
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        match left {
            0 => Err(uext4_block::BlockError::ReadOnly {
                op: uext4_block::BlockOp::Write,
                offset: 0,
                len: 0,
            }),
            _ => Ok(()),
        }
    }
}

impl BlockDevice for FailsAt {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> uext4_block::Result<()> {
        self.device.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        self.step()?;
        self.device.write_at(offset, buf)
    }

    fn flush(&self) -> uext4_block::Result<()> {
        self.step()
    }

    fn discard(&self, offset: u64, len: u64) -> uext4_block::Result<()> {
        self.device.discard(offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> uext4_block::Result<()> {
        self.device.zero(offset, len)
    }

    fn set_len(&self, len: u64) -> uext4_block::Result<()> {
        self.device.set_len(len)
    }

    fn identity(&self) -> Option<DeviceId> {
        None
    }
}
