//! One file against bytes in memory: random reads, writes, mappings, truncations, holes, zeroed, collapsed and inserted
//! ranges, copies and direct I/O, with syncs, emptied caches and remounts in between.
//!
//! `UEXT4_FSX_OPS` is the number of operations for each kind of mount, `UEXT4_FSX_SEED` the first seed. Needs root, loop
//! devices and /dev/fuse, and skips, saying so, without.

use rustix::fs::{Advice, FallocateFlags, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::num::NonZeroU64;
use uext4_testkit::mounted_dir::{self, Shape};
use uext4_testkit::prelude::*;

/// The largest size, and the longest range.
const SIZE_MAX: usize = 300_000;
const LEN_MAX: usize = 70_000;
const BLOCK: usize = 4096;
/// Operations that a failure reports.
const TOLD: usize = 25;

#[derive(Clone, Copy, Debug)]
enum Op {
    Read(usize, usize),
    Write(usize, usize),
    Append(usize),
    MapRead(usize, usize),
    MapWrite(usize, usize),
    DirectRead(usize, usize),
    DirectWrite(usize, usize),
    Truncate(usize),
    Allocate(usize, usize, bool),
    Punch(usize, usize),
    Zero(usize, usize, bool),
    Collapse(usize, usize),
    Insert(usize, usize),
    Copy(usize, usize, usize),
    Sync(bool),
    EmptyCache,
    Reopen,
    Remount,
}

impl Op {
    fn random(rng: &mut Rng) -> Op {
        let at = match rng.u8(..4) {
            0 => BLOCK * rng.usize(..SIZE_MAX / BLOCK),
            _ => rng.usize(..SIZE_MAX - LEN_MAX),
        };
        let len = match rng.u8(..4) {
            0 => BLOCK * rng.usize(1..8),
            1 => rng.usize(1..200),
            _ => rng.usize(1..LEN_MAX),
        };
        let (blocks_at, blocks) = (at / BLOCK * BLOCK, (len / BLOCK + 1) * BLOCK);
        match rng.u8(..100) {
            0..12 => Op::Read(at, len),
            12..28 => Op::Write(at, len),
            28..31 => Op::Append(len.min(9000)),
            31..40 => Op::MapRead(at, len),
            40..52 => Op::MapWrite(at, len),
            52..57 => Op::DirectRead(blocks_at, blocks),
            57..63 => Op::DirectWrite(blocks_at, blocks),
            63..70 => Op::Truncate(at),
            70..74 => Op::Allocate(at, len, rng.bool()),
            74..80 => Op::Punch(at, len),
            80..84 => Op::Zero(at, len, rng.bool()),
            84..86 => Op::Collapse(blocks_at, blocks.min(4 * BLOCK)),
            86..88 => Op::Insert(blocks_at, blocks.min(4 * BLOCK)),
            88..92 => Op::Copy(at, rng.usize(..SIZE_MAX - LEN_MAX), len),
            92..95 => Op::Sync(rng.bool()),
            95..97 => Op::EmptyCache,
            97..99 => Op::Reopen,
            _ => match rng.u8(..6) {
                0 => Op::Remount,
                _ => Op::Reopen,
            },
        }
    }
}

/// The file, and what should be in it.
pub struct Subject {
    file: File,
    direct: File,
    end: File,
    model: Vec<u8>,
    byte: u8,
    /// The kernel keeps written data for a while.
    keeps_written: bool,
    // The last field: nothing is open when it is unmounted.
    mount: MountedDir,
}

fn path(mount: &MountedDir) -> PathBuf {
    mount.dir().join("subject")
}

fn open(mount: &MountedDir, flags: OFlags) -> Result<File> {
    let all = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | flags;
    Ok(rustix::fs::open(path(mount), all, 0o644.into())?.into())
}

/// Part of a file in memory.
pub(crate) struct Mapping {
    start: *mut std::ffi::c_void,
    len: usize,
}

impl Mapping {
    pub(crate) fn new(file: &File, len: usize) -> Result<Mapping> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the address is the kernel's choice.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, prot, flags, file, 0)? };
        Ok(Mapping { start, len })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as many bytes are mapped, and the file is as long; no other code reads them meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing points there any more.
        let _ = unsafe { rustix::mm::munmap(self.start, self.len) };
    }
}

impl Subject {
    fn new(mount: MountedDir, keeps_written: bool) -> Result<Subject> {
        Ok(Subject {
            file: open(&mount, OFlags::empty())?,
            direct: open(&mount, OFlags::DIRECT)?,
            end: open(&mount, OFlags::APPEND)?,
            mount,
            model: Vec::new(),
            byte: 0,
            keeps_written,
        })
    }

    fn reopen(&mut self) -> Result<()> {
        self.file = open(&self.mount, OFlags::empty())?;
        self.direct = open(&self.mount, OFlags::DIRECT)?;
        self.end = open(&self.mount, OFlags::APPEND)?;
        Ok(())
    }

    fn remount(&mut self) -> Result<()> {
        let closed = || File::open("/dev/null");
        (self.file, self.direct, self.end) = (closed()?, closed()?, closed()?);
        self.mount.remount()?;
        self.reopen()
    }

    /// Where it was.
    pub fn close(self) -> MountedDir {
        self.mount
    }

    /// What is written next, and is nowhere else: the byte changes with each write and along it.
    fn fresh(&mut self, len: usize) -> Vec<u8> {
        self.byte = self.byte.wrapping_add(1);
        (0..len)
            .map(|at| self.byte.wrapping_add((at / 512) as u8) | 1)
            .collect()
    }

    fn put(&mut self, at: usize, data: &[u8]) {
        self.model.resize(self.model.len().max(at + data.len()), 0);
        self.model[at..at + data.len()].copy_from_slice(data);
    }

    fn expect(&self, at: usize, len: usize, found: &[u8]) -> Result<()> {
        let size = self.model.len();
        let want = &self.model[at.min(size)..(at + len).min(size)];
        let wrong = want.iter().zip(found).position(|(a, b)| a != b);
        if let Some(wrong) = wrong {
            let (a, b) = (want[wrong], found[wrong]);
            let many = want.iter().zip(found).filter(|(a, b)| a != b).count();
            bail!(
                "byte {} is {b:#x}, not {a:#x}; {many} are wrong",
                at + wrong
            );
        }
        let (have, there) = (found.len(), want.len());
        ensure!(have == there, "{have} bytes at {at}, where {there} are");
        Ok(())
    }

    fn read(&self, at: usize, len: usize) -> Result<()> {
        let mut found = vec![0; len];
        let mut n = 0;
        while n < len {
            match rustix::io::pread(&self.file, &mut found[n..], (at + n) as u64)? {
                0 => break,
                more => n += more,
            }
        }
        self.expect(at, len, &found[..n])
    }

    fn write(&mut self, at: usize, len: usize) -> Result<()> {
        let data = self.fresh(len);
        let mut n = 0;
        while n < len {
            n += rustix::io::pwrite(&self.file, &data[n..], (at + n) as u64)?;
        }
        self.put(at, &data);
        Ok(())
    }

    fn direct(&mut self, at: usize, len: usize, write: bool) -> Result<()> {
        if write {
            let data = self.fresh(len);
            let n = rustix::io::pwrite(&self.direct, Aligned::of(&data).bytes(), at as u64)?;
            ensure!(n == len, "{n} of {len} bytes are written");
            self.put(at, &data);
            return Ok(());
        }
        if self.keeps_written {
            // The server learns a new size with the data that is there; up to then it reads nothing from holes
            // before it.
            rustix::fs::fdatasync(&self.direct)?;
        }
        let mut memory = Aligned::new(len);
        let n = rustix::io::pread(&self.direct, memory.bytes_mut(), at as u64)?;
        self.expect(at, len, &memory.bytes()[..n])
    }

    fn map(&mut self, at: usize, len: usize, write: bool) -> Result<()> {
        let size = self.model.len();
        let (from, to) = (at.min(size), (at + len).min(size));
        if from == to {
            return Ok(());
        }
        let mut map = Mapping::new(&self.file, size)?;
        if write {
            let data = self.fresh(to - from);
            map.bytes()[from..to].copy_from_slice(&data);
            self.put(from, &data);
            if self.byte.is_multiple_of(3) {
                // SAFETY: as many bytes are mapped.
                unsafe { rustix::mm::msync(map.start, map.len, MsyncFlags::SYNC)? };
            }
            return Ok(());
        }
        let found = map.bytes()[from..to].to_vec();
        self.expect(from, to - from, &found)
    }

    fn fallocate(&self, flags: FallocateFlags, at: usize, len: usize) -> Result<bool> {
        match rustix::fs::fallocate(&self.file, flags, at as u64, len as u64) {
            Ok(()) => Ok(true),
            // FUSE knows of fewer than ext4.
            Err(Errno::OPNOTSUPP) => Ok(false),
            Err(e) => Err(e).context("fallocate"),
        }
    }

    fn space(&mut self, op: Op) -> Result<()> {
        let keep = FallocateFlags::KEEP_SIZE;
        let size = self.model.len();
        match op {
            Op::Allocate(at, len, keeps) => {
                let flags = if keeps { keep } else { FallocateFlags::empty() };
                if self.fallocate(flags, at, len)? && !keeps {
                    self.model.resize(size.max(at + len), 0);
                }
            }
            Op::Punch(at, len) => {
                self.fallocate(FallocateFlags::PUNCH_HOLE | keep, at, len)?;
                self.model[at.min(size)..(at + len).min(size)].fill(0);
            }
            Op::Zero(at, len, keeps) => {
                let mut flags = FallocateFlags::ZERO_RANGE;
                flags.set(keep, keeps);
                if self.fallocate(flags, at, len)? {
                    self.model
                        .resize(if keeps { size } else { size.max(at + len) }, 0);
                    let size = self.model.len();
                    self.model[at.min(size)..(at + len).min(size)].fill(0);
                }
            }
            Op::Collapse(at, len) if at + len < size => {
                let moved = self.fallocate(FallocateFlags::COLLAPSE_RANGE, at, len)?;
                if moved {
                    self.model.drain(at..at + len);
                }
            }
            Op::Insert(at, len) if at < size && size + len < SIZE_MAX => {
                let moved = self.fallocate(FallocateFlags::INSERT_RANGE, at, len)?;
                if moved {
                    self.model.splice(at..at, std::iter::repeat_n(0, len));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn copy(&mut self, from: usize, to: usize, len: usize) -> Result<()> {
        let size = self.model.len();
        let len = len.min(size.saturating_sub(from));
        if len == 0 || from.abs_diff(to) < len {
            return Ok(());
        }
        let (mut a, mut b) = (from as u64, to as u64);
        let mut left = len;
        while left > 0 {
            let file = &self.file;
            let n = rustix::fs::copy_file_range(file, Some(&mut a), file, Some(&mut b), left)?;
            ensure!(n > 0, "copying ends {left} bytes early");
            left -= n;
        }
        let data = self.model[from..from + len].to_vec();
        self.put(to, &data);
        Ok(())
    }

    fn act(&mut self, op: Op) -> Result<()> {
        match op {
            Op::Read(at, len) => self.read(at, len),
            Op::Write(at, len) => self.write(at, len),
            Op::Append(len) if self.model.len() + len < SIZE_MAX => {
                let data = self.fresh(len);
                let n = rustix::io::write(&self.end, &data)?;
                ensure!(n == len, "{n} of {len} bytes are appended");
                self.put(self.model.len(), &data);
                Ok(())
            }
            Op::Append(_) => Ok(()),
            Op::MapRead(at, len) => self.map(at, len, false),
            Op::MapWrite(at, len) => self.map(at, len, true),
            Op::DirectRead(at, len) => self.direct(at, len, false),
            Op::DirectWrite(at, len) => self.direct(at, len, true),
            Op::Truncate(size) => {
                rustix::fs::ftruncate(&self.file, size as u64)?;
                self.model.resize(size, 0);
                Ok(())
            }
            Op::Copy(from, to, len) => self.copy(from, to, len),
            Op::Sync(true) => Ok(rustix::fs::fdatasync(&self.file)?),
            Op::Sync(false) => Ok(rustix::fs::fsync(&self.file)?),
            Op::EmptyCache => {
                rustix::fs::fsync(&self.file)?;
                let all = None::<NonZeroU64>;
                Ok(rustix::fs::fadvise(&self.file, 0, all, Advice::DontNeed)?)
            }
            Op::Reopen => self.reopen(),
            Op::Remount => self.remount(),
            _ => self.space(op),
        }?;
        let size = self.file.metadata()?.len();
        ensure!(
            size == self.model.len() as u64,
            "{size} bytes, not {}",
            self.model.len()
        );
        Ok(())
    }
}

/// Random operations; the subject afterwards.
pub fn run(mount: MountedDir, keeps_written: bool, seed: u64, count: u64) -> Result<Subject> {
    let mut rng = Rng::with_seed(seed);
    let mut subject = Subject::new(mount, keeps_written)?;
    let mut done = Vec::new();
    for step in 0..count {
        let op = Op::random(&mut rng);
        done.push(op);
        let outcome = subject.act(op).and_then(|()| match step % 20 {
            19 => subject.read(0, SIZE_MAX * 2),
            _ => Ok(()),
        });
        outcome.with_context(|| {
            let told = &done[done.len().saturating_sub(TOLD)..];
            format!("seed {seed}, step {step}, the last ones {told:#?}")
        })?;
    }
    subject.remount()?;
    subject
        .read(0, SIZE_MAX * 2)
        .with_context(|| format!("seed {seed}, mounted again"))?;
    Ok(subject)
}

fn fsx(driver: Driver) {
    require!(can_mount());
    let (seed, count) = (
        env_number("UEXT4_FSX_SEED", 1),
        env_number("UEXT4_FSX_OPS", 4000),
    );
    let keeps_written = matches!(&driver, Driver::Ours(options) if options.contains("writeback"));
    let mount = MountedDir::new(driver.clone(), &Shape::DEFAULT).expect("mounts");
    let subject =
        run(mount, keeps_written, seed, count).unwrap_or_else(|e| panic!("{driver:?}: {e:#}"));
    subject.close().finish().expect("is clean in the end");
}

/// Turns FUSE over io_uring on, for good: other tests may be using it when this one ends.
fn has_uring() -> bool {
    let there = std::fs::write("/sys/module/fuse/parameters/enable_uring", "Y").is_ok();
    if !there {
        eprintln!("skipped: needs FUSE over io_uring");
    }
    there
}

#[test]
fn fsx_on_the_kernel() {
    fsx(Driver::Kernel);
}

#[test]
fn fsx_over_dev() {
    fsx(Driver::compared("transport=dev"));
}

#[test]
fn fsx_over_dev_with_writeback() {
    fsx(Driver::compared("transport=dev,writeback"));
}

#[test]
fn fsx_over_uring() {
    if !mounted_dir::can_mount() || !has_uring() {
        return;
    }
    fsx(Driver::compared("transport=uring"));
    fsx(Driver::compared("transport=uring,writeback"));
}

#[test]
fn canary_a_wrong_byte_is_found() {
    require!(can_mount());
    let mount = MountedDir::kernel(&Shape::DEFAULT).expect("mounts");
    let mut subject = run(mount, false, 1, 100).expect("is right");
    subject.act(Op::Write(0, 5000)).expect("writes");
    let file = open(&subject.mount, OFlags::empty()).expect("opens");
    rustix::io::pwrite(&file, b"\0", 3000).expect("writes");
    assert!(subject.read(0, SIZE_MAX).is_err());
}
