//! The contract of block devices, for every device.

use std::path::Path;
use uext4_block::portable::PortableFile;
use uext4_block::{
    BlockError, CountDevice, IoEngine, LatencyDevice, OverlayDevice, Qcow2Device, RangeDevice,
    Result,
};
use uext4_testkit::device::contract::{
    Length, check_bytes, check_failed, check_power_loss, check_wrapper,
};
use uext4_testkit::device::{AfterLoss, ForkDevice, Image, LostData, VolatileDevice};
use uext4_testkit::loop_device::LoopDevice;
use uext4_testkit::nbd_server::NbdServer;
use uext4_testkit::prelude::*;

#[test]
fn contract_memory() {
    for seed in 0..4 {
        check_bytes(&MemoryDevice::new(700_001), seed, Length::Changes);
    }
}

#[test]
fn contract_overlay() {
    let below = Arc::new(MemoryDevice::new(100_001));
    check_bytes(&OverlayDevice::new(below), 3, Length::Fixed);
}

/// A part in the middle; what lies beside it stays.
#[test]
fn contract_range() {
    let below = Arc::new(MemoryDevice::new(300_000));
    below.write_at(0, &[7; 300_000]).unwrap();
    let part = RangeDevice::new(below.clone(), 5000, Some(200_001)).unwrap();
    part.zero(0, part.len()).unwrap();
    check_bytes(&part, 9, Length::Fixed);
    let bytes = below.snapshot();
    assert!(
        bytes[..5000]
            .iter()
            .chain(&bytes[205_001..])
            .all(|b| *b == 7)
    );
    assert_eq!(
        RangeDevice::new(below.clone(), 5000, None).unwrap().len(),
        295_000
    );
    RangeDevice::new(below, 5000, Some(295_001)).unwrap_err();
}

fn qcow2(file: Arc<dyn BlockDevice>, len: u64) -> Qcow2Device {
    Qcow2Device::create(Path::new("image"), file, len).unwrap()
}

/// An image, and what is in its file after it was closed.
#[test]
fn contract_qcow2() {
    for seed in 0..4 {
        let file = Arc::new(MemoryDevice::new(0));
        let device = qcow2(file.clone(), 700_001);
        check_bytes(&device, seed, Length::Fixed);
        let bytes = MemoryDevice::copy_of(&device).unwrap().snapshot();
        drop(device);
        let again = Qcow2Device::open(Path::new("image"), file, None).unwrap();
        assert!(MemoryDevice::copy_of(&again).unwrap().snapshot() == bytes);
    }
}

/// A qcow2 image on a device that loses what was not flushed.
#[derive(Debug)]
struct VolatileQcow2(Qcow2Device, Arc<VolatileDevice>);

impl BlockDevice for VolatileQcow2 {
    forward_device!(self => self.0; len, is_read_only, read_at, write_at, flush, discard, zero);
    forward_device!(self => self.0; set_len, identity);
}

#[test]
fn contract_qcow2_power_loss() {
    let make = |len| {
        let file = Arc::new(volatile(8 << 20));
        VolatileQcow2(qcow2(file.clone(), len), file)
    };
    check_power_loss(&make, &|device, seed| {
        let left = Arc::new(device.1.after_power_loss(seed));
        let device = Qcow2Device::open(Path::new("image"), left, None).unwrap();
        MemoryDevice::copy_of(&device).unwrap()
    });
}

#[test]
fn contract_fork() {
    for (seed, block_bytes) in (0..).zip([512, 1024, 4096, 65536]) {
        let image = Image::new(&vec![0; 1 << 20], block_bytes);
        check_bytes(&ForkDevice::new(image), seed, Length::Fixed);
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
                let mut options = OpenOptions::create(700_001).direct(direct);
                if let Some(engine) = engine {
                    options = options.engine(engine);
                }
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

/// The files of other hosts.
#[test]
fn contract_portable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let device = PortableFile::open(&path, &OpenOptions::create(700_001)).unwrap();
    check_bytes(&device, 5, Length::Changes);
    let error = PortableFile::open(&path, &OpenOptions::read_only()).unwrap_err();
    assert!(matches!(error, BlockError::Busy { .. }), "{error}");
    device.unlock();
    let readers = [(); 2].map(|()| PortableFile::open(&path, &OpenOptions::read_only()).unwrap());
    assert_eq!(readers[0].identity(), readers[1].identity());
    let error = readers[0].write_at(0, &[1]).unwrap_err();
    assert!(matches!(error, BlockError::ReadOnly { .. }), "{error}");
    PortableFile::open(&path, &OpenOptions::read_write()).unwrap_err();
    PortableFile::open(dir.path(), &OpenOptions::read_only()).unwrap_err();
}

/// A block device of the host, with the host's cache and without.
#[test]
fn contract_block_device() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("image");
    FileDevice::open(&file, &OpenOptions::create(1 << 20)).unwrap();
    let Some(node) = LoopDevice::attach(&file, &[]) else {
        return;
    };
    for (seed, direct) in [(1, false), (2, true)] {
        let options = OpenOptions::read_write().direct(direct);
        let device = FileDevice::open(node.path(), &options).unwrap();
        device.zero(0, device.len()).unwrap();
        check_bytes(&device, seed, Length::Fixed);
    }
}

/// An export of qemu-nbd.
#[test]
fn contract_nbd() {
    for seed in 0..3 {
        let server = require!(some NbdServer::new(1 << 20));
        let device = open_image(Path::new(&server.name()), &OpenOptions::read_write()).unwrap();
        check_bytes(&*device, seed, Length::Fixed);
        let bytes = MemoryDevice::copy_of(&*device).unwrap().snapshot();
        device.flush().unwrap();
        assert!(std::fs::read(server.file()).unwrap() == bytes);
        let reader = open_image(Path::new(&server.name()), &OpenOptions::read_only()).unwrap();
        assert_eq!(reader.identity(), device.identity());
        assert!(MemoryDevice::copy_of(&*reader).unwrap().snapshot() == bytes);
        let refused = reader.write_at(0, &[1]).unwrap_err();
        assert!(matches!(refused, BlockError::ReadOnly { .. }), "{refused}");
        reader.flush().unwrap();
        drop(device);
        assert!(MemoryDevice::copy_of(&*reader).unwrap().snapshot() == bytes);
    }
}

/// A server that ends takes what it had not made durable with it.
#[test]
fn contract_nbd_without_its_server() {
    let mut server = require!(some NbdServer::new(1 << 20));
    let device = open_image(Path::new(&server.name()), &OpenOptions::read_write()).unwrap();
    device.write_at(0, &[1; 4096]).unwrap();
    server.kill();
    server.start_again();
    for _ in 0..2 {
        let lost = device.flush().unwrap_err();
        assert_eq!(lost.op(), Some(uext4_block::BlockOp::Flush), "{lost}");
        device.write_at(0, &[2; 4096]).unwrap_err();
        device.read_at(0, &mut [0; 4096]).unwrap_err();
    }
    let again = open_image(Path::new(&server.name()), &OpenOptions::read_write()).unwrap();
    again.flush().unwrap();
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

/// What is wrong with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// A write of a part of a sector writes back what was around it.
    LosesNeighbours,
    /// A discard is widened to whole blocks.
    DiscardsMore,
    /// Zeroing does nothing.
    ZeroesNothing,
    /// A write past the end does nothing, and says that all is well.
    TakesWritesPastTheEnd,
    /// A batch loses its last range.
    LosesOfBatches,
    /// A durable write passes on as a write and a flush.
    DurableWriteIsTwoCalls,
    /// The error of a flush does not reach the caller.
    HidesErrors,
}

#[derive(Debug)]
struct Broken(Arc<dyn BlockDevice>, Wrong);

impl BlockDevice for Broken {
    forward_device!(self => self.0; len, is_read_only, read_at, set_len, identity);

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let end = offset + buf.len() as u64;
        match self.1 {
            Wrong::TakesWritesPastTheEnd if end > self.len() => Ok(()),
            Wrong::LosesNeighbours if end.next_multiple_of(512) <= self.len() => {
                let start = offset / 512 * 512;
                let mut whole = vec![0; (end.next_multiple_of(512) - start) as usize];
                self.0.read_at(start, &mut whole)?;
                std::thread::yield_now();
                whole[(offset - start) as usize..][..buf.len()].copy_from_slice(buf);
                self.0.write_at(start, &whole)
            }
            _ => self.0.write_at(offset, buf),
        }
    }
    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        match (self.1, writes.split_last()) {
            (Wrong::LosesOfBatches, Some((_, first))) => self.0.write_batch(first),
            _ => self.0.write_batch(writes),
        }
    }
    fn flush(&self) -> Result<()> {
        let flushed = self.0.flush();
        if self.1 == Wrong::HidesErrors {
            Ok(())
        } else {
            flushed
        }
    }
    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        if self.1 == Wrong::DurableWriteIsTwoCalls {
            self.0.write_at(offset, buf)?;
            return self.0.flush();
        }
        self.0.write_fua(offset, buf)
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        if self.1 == Wrong::DiscardsMore && len > 0 {
            let start = offset / 4096 * 4096;
            let end = (offset + len).next_multiple_of(4096).min(self.len());
            return self.0.discard(start, end - start);
        }
        self.0.discard(offset, len)
    }
    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        if self.1 == Wrong::ZeroesNothing {
            return self.0.zero(offset, 0);
        }
        self.0.zero(offset, len)
    }
}

/// Whether the suite refuses what `check` checks; its panic is not shown.
fn is_caught(check: impl FnOnce() + std::panic::UnwindSafe) -> bool {
    std::panic::catch_unwind(check).is_err()
}

#[test]
fn contract_canaries_are_caught() {
    let mut missed = Vec::new();
    for wrong in [
        Wrong::LosesNeighbours,
        Wrong::DiscardsMore,
        Wrong::ZeroesNothing,
        Wrong::TakesWritesPastTheEnd,
        Wrong::LosesOfBatches,
        Wrong::DurableWriteIsTwoCalls,
        Wrong::HidesErrors,
    ] {
        let check = move || check_wrapper(&move |inner| Box::new(Broken(inner, wrong)));
        if !is_caught(check) {
            missed.push(format!("{wrong:?}"));
        }
    }
    // A device whose flushes make nothing durable.
    let make = |len| RecordDevice::new(MemoryDevice::new(len)).unwrap();
    let lies = move || {
        check_power_loss(&make, &|device, seed| {
            let log = device.log();
            log.replay_ignoring_flushes(&Cut::at(log.ops.len()).seeded(seed))
        });
    };
    // One that tears sectors.
    let tears = || {
        check_power_loss(&volatile, &|device, seed| {
            let left = device.after_power_loss(seed);
            let mut half = [0; 256];
            device.read_at(1024, &mut half).unwrap();
            left.write_at(1024, &half.map(|byte| byte ^ 1)).unwrap();
            left
        });
    };
    // One that forgets that it lost writes.
    let forgets = || {
        let plan = FaultPlan::new();
        plan.add(FaultRule::new(FaultCall::Flush).nth(1));
        let (after, lost) = (AfterLoss::Forgets, LostData::Cached);
        let device = VolatileDevice::new(vec![0; 16384], plan, after, lost);
        device.flush().unwrap_err();
        check_failed(&device);
    };
    if !is_caught(lies) {
        missed.push("lies about flushes".into());
    }
    if !is_caught(tears) {
        missed.push("tears sectors".into());
    }
    if !is_caught(forgets) {
        missed.push("forgets a loss".into());
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
