//! The contract of block devices, for every device.

use std::sync::Arc;
use std::time::Duration;
use uext4_block::contract::{Length, check_bytes, check_power_loss, check_wrapper};
use uext4_block::{
    AfterLoss, BlockDevice, BlockError, CountDevice, Cut, FaultDevice, FaultPlan, FileDevice,
    Image, IoEngine, LatencyDevice, LostData, MemoryDevice, OpenOptions, OverlayDevice,
    RecordDevice, VolatileDevice,
};

#[test]
fn contract_memory() {
    for seed in 0..4 {
        check_bytes(&MemoryDevice::new(700_001), seed, Length::Changes);
    }
}

#[test]
fn contract_overlay() {
    for (seed, block_bytes) in (0..).zip([512, 1024, 4096, 65536]) {
        let image = Image::new(&vec![0; 1 << 20], block_bytes);
        check_bytes(&OverlayDevice::new(image), seed, Length::Fixed);
    }
}

fn volatile(len: u64) -> VolatileDevice {
    let bytes = vec![0; len as usize];
    VolatileDevice::new(bytes, FaultPlan::new(), AfterLoss::Fails, LostData::Cached)
}

#[test]
fn contract_volatile() {
    check_bytes(&volatile(300_000), 7, Length::Fixed);
    check_power_loss(&volatile, &|device, seed| device.after_power_loss(seed));
}

/// Every engine, with the host's cache and without; on a disk and in memory.
#[test]
fn contract_file() {
    for parent in ["/dev/shm", env!("CARGO_TARGET_TMPDIR")] {
        for engine in [None, Some(IoEngine::Plain), Some(IoEngine::Uring)] {
            for direct in [false, true] {
                let Ok(dir) = tempfile::tempdir_in(parent) else {
                    eprintln!("SKIPPED: no {parent}");
                    continue;
                };
                let mut options = OpenOptions::create(700_001);
                (options.engine, options.direct) = (engine, direct);
                match FileDevice::open(dir.path().join("image"), &options) {
                    Err(error @ (BlockError::NoDirect { .. } | BlockError::NoUring { .. })) => {
                        eprintln!("SKIPPED: {error}");
                    }
                    device => check_bytes(&device.unwrap(), 11, Length::Changes),
                }
            }
        }
    }
}

#[test]
fn contract_wrappers() {
    check_wrapper(&|inner| Box::new(inner));
    check_wrapper(&|inner| Box::new(CountDevice::new(inner)));
    check_wrapper(&|inner| Box::new(FaultDevice::new(inner, FaultPlan::new())));
    check_wrapper(&|inner| Box::new(LatencyDevice::new(inner, Duration::from_nanos(1), 4)));
    check_wrapper(&|inner| {
        let base = MemoryDevice::new(inner.len());
        Box::new(RecordDevice::over(inner, base))
    });
}

/// A recorded device, replayed after a power loss.
#[test]
fn contract_record_and_replay() {
    let make = |len| RecordDevice::new(Arc::new(MemoryDevice::new(len))).unwrap();
    check_power_loss(&make, &|device, seed| {
        let log = device.log();
        log.replay(&Cut::at(log.ops.len()).seeded(seed))
    });
    // Nothing lost: all of it is there.
    let device = make(300_000);
    check_bytes(&device, 5, Length::Changes);
    let log = device.log();
    let left = log.replay(&Cut::at(log.ops.len()));
    assert!(left.snapshot() == MemoryDevice::copy_of(&device).unwrap().snapshot());
}
