//! Sixteen threads read, write, cut, punch, zero and allocate one file, mostly directly, and every reader
//! knows what it may find. `UEXT4_DIRECT_OPS` sets how many operations, `UEXT4_DIRECT_SEED` the first seed.

use uext4_testkit::image::mount_as;
use uext4_testkit::prelude::*;
use uext4_testkit::stamps::{Stamps, is_stamp};

const THREADS: usize = 16;
/// Units that one thread writes to, one after the other.
const STRIPE: usize = 8;
const STRIPES: usize = 4;
const UNITS: usize = THREADS * STRIPES * STRIPE;
const NEW: NewNode<'_> = NewNode {
    mode: 0o644,
    kind: NewKind::Regular,
};

/// One thread's part.
struct Worker<'a> {
    fs: &'a Ext4,
    file: &'a InodeRef,
    stamps: &'a Stamps,
    unit: usize,
    number: usize,
    rng: Rng,
    /// The file has a block map: ranges can only lose their blocks.
    block_map: bool,
}

impl Worker<'_> {
    fn step(&mut self) -> Result<()> {
        match self.rng.u8(..100) {
            0..=44 => self.read(),
            45..=89 => self.write(),
            90..=92 => self.truncate(),
            93..=95 => self.take(Fallocate::PunchHole),
            96..=98 if self.block_map => self.take(Fallocate::PunchHole),
            96 => self.take(Fallocate::ZeroRangeKeepSize),
            97..=98 => self.allocate(),
            _ => Ok(FileSystem::fsync(self.fs, self.file, self.rng.bool())?),
        }
    }

    fn flags(&mut self) -> IoFlags {
        let mut flags = IoFlags::DIRECT;
        if self.rng.u8(..8) == 0 {
            flags = IoFlags::empty();
        } else if self.rng.u8(..8) == 0 {
            flags |= IoFlags::NOWAIT;
        }
        flags
    }

    fn bytes(&self, units: usize) -> u64 {
        (units * self.unit) as u64
    }

    fn read(&mut self) -> Result<()> {
        let first = self.rng.usize(..UNITS);
        let units = self.rng.usize(1..=(UNITS - first).min(24));
        let mut memory = Aligned::new(units * self.unit);
        memory.bytes_mut().fill(0xee);
        let flags = self.flags();
        let before = self.stamps.begin_read(first, units);
        let data = memory.bytes_mut();
        match FileSystem::read_with(self.fs, self.file, self.bytes(first), data, flags) {
            // Past the end there is nothing, which counts as zeros.
            Ok(n) => data[n..].fill(0),
            Err(e) if e == Errno::EAGAIN && flags.contains(IoFlags::NOWAIT) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        let judged = self.stamps.judge(first, &before, memory.bytes());
        judged.map_err(|why| anyhow!("{why} ({flags:?})"))
    }

    fn write(&mut self) -> Result<()> {
        let stripe = self.rng.usize(..STRIPES) * THREADS + self.number;
        let from = self.rng.usize(..STRIPE);
        let units = self.rng.usize(1..=STRIPE - from);
        let first = stripe * STRIPE + from;
        let mut memory = Aligned::new(units * self.unit);
        let flags = self.flags();
        let writer = self.number as u64;
        let change = self.stamps.begin_write(first, writer, memory.bytes_mut());
        let offset = self.bytes(first);
        let mut flags_now = flags;
        loop {
            let data = memory.bytes();
            match FileSystem::write_with(self.fs, self.file, offset, data, flags_now) {
                Ok(written) if written.len == data.len() => break,
                Ok(written) => bail!("only {} bytes written", written.len),
                Err(e) if e == Errno::EAGAIN && flags_now.contains(IoFlags::NOWAIT) => {
                    flags_now -= IoFlags::NOWAIT;
                }
                Err(e) if e == Errno::EOPNOTSUPP => flags_now -= IoFlags::NOWAIT,
                Err(e) => return Err(e.into()),
            }
        }
        self.stamps.end_write(&change);
        Ok(())
    }

    fn truncate(&mut self) -> Result<()> {
        let keeps = self.rng.usize(UNITS / 4..=UNITS);
        let change = self.stamps.begin_take(keeps, UNITS);
        let size = with(|o: &mut SetAttr| o.size = Some(self.bytes(keeps)));
        FileSystem::setattr(self.fs, &Caller::root(), self.file, &size)?;
        self.stamps.end_take(&change);
        Ok(())
    }

    fn take(&mut self, what: Fallocate) -> Result<()> {
        let first = self.rng.usize(..UNITS);
        let units = self.rng.usize(1..=(UNITS - first).min(40));
        let change = self.stamps.begin_take(first, first + units);
        let (offset, len) = (self.bytes(first), self.bytes(units));
        FileSystem::fallocate(self.fs, self.file, what, offset, len)?;
        self.stamps.end_take(&change);
        Ok(())
    }

    fn allocate(&mut self) -> Result<()> {
        let first = self.rng.usize(..UNITS);
        let units = self.rng.usize(1..=(UNITS - first).min(40));
        let (offset, len) = (self.bytes(first), self.bytes(units));
        let what = match self.rng.bool() {
            true => Fallocate::Allocate,
            false => Fallocate::AllocateKeepSize,
        };
        Ok(FileSystem::fallocate(
            self.fs, self.file, what, offset, len,
        )?)
    }
}

/// Runs `operations` on `device`, in units of a block at most; the first thing that must not be.
fn run(device: Arc<dyn BlockDevice>, seed: u64, unit: usize, operations: u64) -> Result<()> {
    let fs = mount_as(device, seed)?;
    let top = FileSystem::root(&*fs)?.clone();
    let file = FileSystem::create(&*fs, &Caller::root(), &top, b"file", &NEW)?;
    // A read beside an overwrite finds each block whole, but not what is more than a block.
    let unit = unit.min(FileSystem::statfs(&*fs)?.block_size as usize);
    let stamps = Stamps::new(unit, UNITS);
    let (done, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let result = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (fs, file, stamps, done, failed) = (&*fs, &file, &stamps, &done, &failed);
                scope.spawn(move || -> Result<()> {
                    let mut worker = Worker {
                        fs,
                        file,
                        stamps,
                        unit,
                        number,
                        rng: Rng::with_seed(seed ^ (number as u64) << 32),
                        block_map: !file.flags().contains(InodeFlags::EXTENTS),
                    };
                    while done.fetch_add(1, Ordering::Relaxed) < operations
                        && !failed.load(Ordering::Relaxed)
                    {
                        worker
                            .step()
                            .inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
            .fold(Ok(()), Result::and)
    });
    drop((file, top));
    fs.unmount()?;
    result
}

#[test]
fn stress_direct_io_is_never_torn_or_stale() {
    stress(env_number("UEXT4_DIRECT_OPS", 48_000), &Shape::ALL);
}

#[test]
fn stress_direct_io_with_block_maps() {
    let shapes = &Shape::BLOCK_MAPPED[..Shape::BLOCK_MAPPED_JOURNALED];
    stress(env_number("UEXT4_DIRECT_OPS", 32_000), shapes);
}

fn stress(operations: u64, shapes: &[Shape]) {
    let first = env_number("UEXT4_DIRECT_SEED", 1);
    let rounds = (operations / 8_000).clamp(1, 40);
    for seed in first..first + rounds {
        let unit = if seed % 2 == 0 { 512 } else { 4096 };
        let shape = shapes[seed as usize % shapes.len()];
        let device = Arc::new(shape.make().expect("mkfs"));
        run(
            Arc::clone(&device) as Arc<_>,
            seed,
            unit,
            operations / rounds,
        )
        .and_then(|()| oracle::check(&*device))
        .and_then(|()| oracle::fsck_device(&device))
        .with_context(|| format!("seed {seed}, {}", shape.name))
        .unwrap_or_else(|why| panic!("{why:#}"));
    }
    println!("{operations} operations by {THREADS} threads in {rounds} mounts");
}

/// A device that forgets one write of data in some hundreds.
#[derive(Debug)]
struct Forgetful {
    inner: MemoryDevice,
    writes: AtomicU64,
}

impl BlockDevice for Forgetful {
    forward_device!(self => self.inner;
        len, is_read_only, read_at, flush, discard, zero, set_len, identity);

    fn write_at(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        if is_stamp(buf) && self.writes.fetch_add(1, Ordering::Relaxed) % 300 == 299 {
            return Ok(());
        }
        self.inner.write_at(offset, buf)
    }
}

#[test]
fn stress_canary_a_forgotten_write_is_caught() {
    let device = Forgetful {
        inner: Shape::DEFAULT.make().expect("mkfs"),
        writes: AtomicU64::new(0),
    };
    let result = run(Arc::new(device), 1, 4096, 20_000);
    let why = format!("{:#}", result.expect_err("forgotten writes went unnoticed"));
    assert!(why.contains("unit"), "{why}");
}
