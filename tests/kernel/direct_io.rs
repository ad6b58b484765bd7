//! Direct and buffered I/O, fallocate and seeking, step by step beside the kernel's ext4: the same answers,
//! the same errors, the same bytes. `UEXT4_DIRECT_RUNS` sets how many sequences.

use crate::*;
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom};

const FILE_BYTES_MAX: u64 = 300_000;
const NEW: NewNode<'_> = NewNode {
    mode: 0o644,
    kind: NewKind::Regular,
};

/// The same file on both sides.
struct Pair<'a> {
    fs: &'a Ext4,
    ours: InodeRef,
    buffered: OwnedFd,
    direct: OwnedFd,
    append: OwnedFd,
}

const EINVAL: i32 = 22;

/// A count or a position, or an errno.
type Answer = Result<u64, i32>;

#[derive(Clone, Copy, Debug)]
enum Step {
    Read {
        at: u64,
        len: usize,
        skew: usize,
        direct: bool,
    },
    Write {
        at: u64,
        len: usize,
        skew: usize,
        byte: u8,
        direct: bool,
    },
    Append {
        len: usize,
        byte: u8,
    },
    Truncate {
        size: u64,
    },
    Fallocate {
        what: Fallocate,
        at: u64,
        len: u64,
    },
    Seek {
        data: bool,
        at: u64,
    },
}

fn answer(result: rustix::io::Result<u64>) -> Answer {
    result.map_err(|e| e.raw_os_error())
}

fn ours(result: uext4_vfs::errno::Result<u64>) -> Answer {
    result.map_err(|e| e.errno().0)
}

impl Pair<'_> {
    fn open<'a>(fs: &'a Ext4, dir: &Path) -> Result<Pair<'a>> {
        let path = dir.join("file");
        let _ = std::fs::remove_file(&path);
        let open = |flags: OFlags| {
            let flags = flags | OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
            rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644))
        };
        let top = FileSystem::root(fs)?.clone();
        let _ = FileSystem::unlink(fs, &Caller::root(), &top, b"file");
        Ok(Pair {
            fs,
            ours: FileSystem::create(fs, &Caller::root(), &top, b"file", &NEW)?,
            buffered: open(OFlags::empty())?,
            direct: open(OFlags::DIRECT)?,
            append: open(OFlags::DIRECT | OFlags::APPEND)?,
        })
    }

    fn step(&self, step: Step) -> Result<()> {
        let (have, want) = match step {
            Step::Read {
                at,
                len,
                skew,
                direct,
            } => self.read(at, len, skew, direct)?,
            Step::Write {
                at,
                len,
                skew,
                byte,
                direct,
            } => self.write(at, len, skew, byte, direct),
            Step::Append { len, byte } => self.append(len, byte),
            Step::Truncate { size } => self.truncate(size),
            Step::Fallocate { what, at, len } => self.fallocate(what, at, len),
            Step::Seek { data, at } => self.seek(data, at),
        };
        // What is not aligned is taken where nothing is mapped; and by a loop device, memory of which each
        // page holds whole sectors.
        let odd = matches!(step, Step::Read { at, len, skew, direct: true }
            if !(at as usize | len | skew).is_multiple_of(512))
            && have == Err(EINVAL);
        ensure!(
            have == want || odd,
            "{have:?} instead of the kernel's {want:?}"
        );
        let size = rustix::fs::fstat(&self.buffered)?.st_size as u64;
        let have = FileSystem::getattr(self.fs, &self.ours)?.size;
        ensure!(have == size, "size {have} instead of the kernel's {size}");
        Ok(())
    }

    fn read(&self, at: u64, len: usize, skew: usize, direct: bool) -> Result<(Answer, Answer)> {
        let (mut a, mut b) = (Aligned::new(len + skew), Aligned::new(len + skew));
        let (a, b) = (&mut a.bytes_mut()[skew..], &mut b.bytes_mut()[skew..]);
        let flags = if direct {
            IoFlags::DIRECT
        } else {
            IoFlags::empty()
        };
        let fd = if direct { &self.direct } else { &self.buffered };
        let have = ours(
            self.fs
                .volume
                .report(self.fs.files.read_with(&self.ours, at, a, flags))
                .map(|n| n as u64),
        );
        let want = answer(rustix::io::pread(fd, &mut *b, at).map(|n| n as u64));
        let n = have.and(want).unwrap_or(0) as usize;
        if let Some(wrong) = (0..n).find(|&i| a[i] != b[i]) {
            bail!(
                "byte {wrong} of {n} is {:#x}, the kernel's {:#x}",
                a[wrong],
                b[wrong]
            );
        }
        Ok((have, want))
    }

    fn write(&self, at: u64, len: usize, skew: usize, byte: u8, direct: bool) -> (Answer, Answer) {
        let mut memory = Aligned::new(len + skew);
        memory.bytes_mut().fill(byte);
        let data = &memory.bytes()[skew..];
        let flags = if direct {
            IoFlags::DIRECT
        } else {
            IoFlags::empty()
        };
        let fd = if direct { &self.direct } else { &self.buffered };
        let have = FileSystem::write_with(self.fs, &self.ours, at, data, flags);
        let want = rustix::io::pwrite(fd, data, at).map(|n| n as u64);
        let (have, want) = (ours(have.map(|w| w.len as u64)), answer(want));
        if have.is_err() && want.is_err() {
            // The kernel may have written a part before it refused the rest.
            let _ = FileSystem::write(self.fs, &self.ours, at, data);
            let _ = rustix::io::pwrite(&self.buffered, data, at);
        }
        (self.cached_if_odd(have, want, at, data), want)
    }

    /// Into a hole of a file without extents the kernel writes through its cache, which takes any address:
    /// then so do we.
    fn cached_if_odd(&self, have: Answer, want: Answer, at: u64, data: &[u8]) -> Answer {
        let odd = at | data.len() as u64 | data.as_ptr().addr() as u64;
        let is_cached = have == Err(EINVAL)
            && want.is_ok()
            && !odd.is_multiple_of(512)
            && !self.ours.flags().contains(InodeFlags::EXTENTS);
        match is_cached {
            true => ours(FileSystem::write(self.fs, &self.ours, at, data).map(|n| n as u64)),
            false => have,
        }
    }

    fn append(&self, len: usize, byte: u8) -> (Answer, Answer) {
        let mut memory = Aligned::new(len);
        memory.bytes_mut().fill(byte);
        let flags = IoFlags::DIRECT | IoFlags::APPEND;
        let have = FileSystem::write_with(self.fs, &self.ours, 0, memory.bytes(), flags);
        let want = rustix::io::write(&self.append, memory.bytes()).map(|n| n as u64);
        let (have, want) = (ours(have.map(|w| w.len as u64)), answer(want));
        let end = FileSystem::getattr(self.fs, &self.ours).map_or(0, |attr| attr.size);
        if have.is_err() && want.is_err() {
            let _ = FileSystem::write(self.fs, &self.ours, end, memory.bytes());
            let _ = rustix::io::pwrite(&self.buffered, memory.bytes(), end);
        }
        (self.cached_if_odd(have, want, end, memory.bytes()), want)
    }

    fn truncate(&self, size: u64) -> (Answer, Answer) {
        let change = with(|o: &mut SetAttr| o.size = Some(size));
        let have = FileSystem::setattr(self.fs, &Caller::root(), &self.ours, &change);
        let want = rustix::fs::ftruncate(&self.buffered, size);
        (ours(have.map(|_| 0)), answer(want.map(|()| 0)))
    }

    fn fallocate(&self, what: Fallocate, at: u64, len: u64) -> (Answer, Answer) {
        let keep = FallocateFlags::KEEP_SIZE;
        let mode = match what {
            Fallocate::Allocate => FallocateFlags::empty(),
            Fallocate::AllocateKeepSize => keep,
            Fallocate::PunchHole => FallocateFlags::PUNCH_HOLE | keep,
            Fallocate::ZeroRange => FallocateFlags::ZERO_RANGE,
            Fallocate::ZeroRangeKeepSize => FallocateFlags::ZERO_RANGE | keep,
            Fallocate::CollapseRange => FallocateFlags::COLLAPSE_RANGE,
            Fallocate::InsertRange => FallocateFlags::INSERT_RANGE,
        };
        let have = FileSystem::fallocate(self.fs, &self.ours, what, at, len);
        let want = rustix::fs::fallocate(&self.buffered, mode, at, len);
        (ours(have.map(|()| 0)), answer(want.map(|()| 0)))
    }

    fn seek(&self, data: bool, at: u64) -> (Answer, Answer) {
        let (have, to) = match data {
            true => (
                FileSystem::seek_data(self.fs, &self.ours, at),
                SeekFrom::Data(at),
            ),
            false => (
                FileSystem::seek_hole(self.fs, &self.ours, at),
                SeekFrom::Hole(at),
            ),
        };
        // Without pages in its cache, the kernel uses the extents.
        let _ = rustix::fs::fsync(&self.buffered);
        let _ = rustix::fs::fadvise(&self.buffered, 0, None, rustix::fs::Advice::DontNeed);
        (ours(have), answer(rustix::fs::seek(&self.buffered, to)))
    }

    /// Every byte, read both ways.
    fn compare(&self) -> Result<()> {
        let len = (FILE_BYTES_MAX as usize * 2).next_multiple_of(4096);
        for direct in [false, true] {
            let (have, want) = self.read(0, len, 0, direct)?;
            ensure!(have == want, "all: {have:?} instead of {want:?}");
        }
        Ok(())
    }
}

/// With `allocates`, ranges are allocated and zeroed, and writes are not always aligned, but it is not asked
/// where data is: the kernel writes zeros around what it converts, and leaves blocks where a write failed.
fn choose(rng: &mut Rng, block: u64, allocates: bool) -> Step {
    let unit = *rng
        .choice(&[1, 512, 512, block, block, block])
        .unwrap_or(&1);
    let at = rng.u64(..FILE_BYTES_MAX) / unit * unit;
    let len = rng.usize(1..40_000).next_multiple_of(unit as usize);
    // Within one page of memory a loop device takes any address.
    let skew = match rng.u8(..10) == 0 && len > 8192 {
        true => *rng.choice(&[1, 512]).unwrap_or(&1),
        false => 0,
    };
    let direct = rng.u8(..4) > 0;
    let byte = rng.u8(1..);
    let (at, len, skew) = match direct && !allocates {
        true => (at - at % 512, len.next_multiple_of(512), 0),
        false => (at, len, skew),
    };
    match rng.u8(..20) {
        0..=5 => Step::Read {
            at,
            len,
            skew,
            direct,
        },
        6..=12 => Step::Write {
            at,
            len,
            skew,
            byte,
            direct,
        },
        13 => Step::Append { len, byte },
        14 => Step::Truncate { size: at },
        15 if !allocates => Step::Seek {
            data: rng.bool(),
            at,
        },
        16 if !allocates => Step::Seek {
            data: rng.bool(),
            at,
        },
        15..=17 if allocates => {
            use Fallocate::{Allocate, AllocateKeepSize, ZeroRange, ZeroRangeKeepSize};
            if rng.u8(..3) == 0 {
                let unit = if rng.u8(..5) == 0 { 1 } else { 4096 };
                let (at, len) = (at / unit * unit, rng.u64(0..40_000) / unit * unit);
                let moves = [Fallocate::CollapseRange, Fallocate::InsertRange];
                let what = rng.choice(moves).unwrap_or(Fallocate::InsertRange);
                return Step::Fallocate { what, at, len };
            }
            let all = [Allocate, AllocateKeepSize, ZeroRange, ZeroRangeKeepSize];
            let len = rng.u64(0..100_000);
            Step::Fallocate {
                what: rng.choice(all).unwrap_or(Allocate),
                at,
                len,
            }
        }
        _ => Step::Fallocate {
            what: Fallocate::PunchHole,
            at,
            len: len as u64,
        },
    }
}

fn run(seed: u64, kernel: &Path, shape: &Shape) -> Result<()> {
    let device = Arc::new(shape.make()?);
    let fs = mount_as(Arc::clone(&device) as Arc<_>, seed)?;
    let pair = Pair::open(&fs, kernel)?;
    let mut rng = Rng::with_seed(seed);
    let allocates = rng.bool();
    let mut done = Vec::new();
    for at in 0..200 {
        let step = choose(
            &mut rng,
            u64::from(fs.volume.geometry().block_size),
            allocates,
        );
        done.push(step);
        pair.step(step).with_context(|| {
            format!(
                "seed {seed}, step {at}: {step:?}, after {:?}",
                &done[at.max(6) - 6..at]
            )
        })?;
        if at % 10 == 0 {
            pair.compare()
                .with_context(|| format!("seed {seed}, after step {at}: {step:?}"))?;
        }
    }
    pair.compare().with_context(|| format!("seed {seed}"))?;
    drop(pair);
    fs.unmount()?;
    drop(fs);
    oracle::check(&*device)?;
    oracle::fsck_device(&device)
}

#[test]
fn reftest_direct_io_answers_as_the_kernel_does() {
    answers_as_the_kernel(30, &[Shape::ALL[0], Shape::ALL[3]]);
}

#[test]
fn reftest_direct_io_with_block_maps_answers_as_the_kernel_does() {
    answers_as_the_kernel(12, &Shape::BLOCK_MAPPED[..2]);
}

fn answers_as_the_kernel(runs: u64, shapes: &[Shape]) {
    require!(kernel_mounts());
    let runs = env_number("UEXT4_DIRECT_RUNS", runs);
    let first = env_number("UEXT4_DIRECT_SEED", 1);
    for shape in shapes {
        let dir = tempfile::tempdir().expect("tempdir");
        let image = dir.path().join("image");
        shape
            .make()
            .and_then(|d| Ok(d.save_to(&image)?))
            .expect("image");
        let mount =
            oracle::KernelMount::new(&image, &dir.path().join("mount"), "rw").expect("mount");
        for seed in first..first + runs {
            if let Err(why) = run(seed, mount.dir(), shape) {
                panic!("{}: {why:#}", shape.name);
            }
        }
        mount.unmount().expect("unmount");
    }
}
