//! Repairs that end at any write: with an undo file, the next one puts the image back and repairs it.
//!
//! `UEXT4_REPAIR_KILLS` sets how many images.

use crate::support::{Base, all_of, plan, repaired};
use crate::verifier::{have_tools, scratch};
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
        let runs = planned.edits.runs(1 << 20);
        for count in 0..=runs.len() {
            points += 1;
            let device = MemoryDevice::from_bytes(&bytes);
            let _ = fs::remove_file(&undo);
            // A device that fails stands for the kill; the undo file is complete before the first write.
            let failing = FailsAt::new(&device, count as u64);
            let result = uext4_repair::apply(&failing, &planned, Some(&undo));
            assert!(result.is_err(), "{name}: nothing failed at {count}");
            write_part(&device, &runs, count);
            assert!(
                uext4_repair::resume(&device, &undo).expect("resume"),
                "{name}"
            );
            assert_eq!(all_of(&device), bytes, "{name}: not put back at {count}");
            let again = plan(&all_of(&device)).expect("plan");
            uext4_repair::apply(&device, &again, Some(&undo)).expect("apply");
            assert!(all_of(&device) == whole || again.mends_all(), "{name}");
            uext4_repair::undo(&device, &undo).expect("undo");
            assert_eq!(all_of(&device), bytes, "{name}: not undone");
        }
    }
    assert!(points > 20, "{points}");
}

/// A device whose write or flush number `left` fails.
#[derive(Debug)]
struct FailsAt<'d> {
    device: &'d MemoryDevice,
    left: AtomicU64,
}

impl<'d> FailsAt<'d> {
    fn new(device: &'d MemoryDevice, left: u64) -> Self {
        FailsAt {
            device,
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

impl BlockDevice for FailsAt<'_> {
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
