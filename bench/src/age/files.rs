//! The files of a worker, and what it does with them.

use anyhow::{bail, ensure};
use fastrand::Rng;
use uext4_ext4::{Ext4, InodeRef};
use uext4_vfs::attr::{NewKind, NewNode, RenameFlags, SetAttr};
use uext4_vfs::caller::Caller;
use uext4_vfs::errno::Errno;
use uext4_vfs::filesystem::FileSystem;
use uext4_vfs::io::Fallocate;

/// Directories of a worker.
const DIRS: usize = 16;

/// What files are filled from.
static BYTES: [u8; 1 << 20] = [0x5a; 1 << 20];

/// A file: its directory and number.
#[derive(Clone, Copy, Debug)]
struct File {
    dir: usize,
    number: u64,
}

/// What a worker has made and not deleted.
pub struct Files {
    worker: usize,
    rng: Rng,
    files: Vec<File>,
    next: u64,
}

/// Whether an operation found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Found,
    Full,
}

fn name(number: u64) -> Vec<u8> {
    format!("file-{number}").into_bytes()
}

/// A size as those of many file systems: most files are small, most bytes are in large ones.
fn size(rng: &mut Rng) -> usize {
    match rng.u8(..100) {
        0..=59 => rng.usize(1..8 << 10),
        60..=89 => rng.usize(8 << 10..64 << 10),
        90..=98 => rng.usize(64 << 10..512 << 10),
        _ => rng.usize(512 << 10..BYTES.len()),
    }
}

impl Files {
    pub fn new(worker: usize) -> Files {
        Files {
            worker,
            rng: Rng::with_seed(worker as u64),
            files: Vec::new(),
            next: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The directories of the worker, made where they are not there.
    fn dirs(&self, fs: &Ext4) -> anyhow::Result<Vec<InodeRef>> {
        let (caller, root) = (Caller::root(), fs.root()?.clone());
        let new = NewNode {
            mode: 0o755,
            kind: NewKind::Directory,
        };
        let dir = |number: usize| {
            let name = format!("worker-{}-{number}", self.worker).into_bytes();
            match fs.lookup(&caller, &root, &name) {
                Err(e) if e == Errno::ENOENT => Ok(fs.create(&caller, &root, &name, &new)?),
                found => Ok(found?),
            }
        };
        (0..DIRS).map(dir).collect()
    }

    /// Creates `count` files of at most 4 KiB: those of which the rate is measured.
    pub fn create_small(&mut self, fs: &Ext4, count: usize) -> anyhow::Result<()> {
        let dirs = self.dirs(fs)?;
        for _ in 0..count {
            let bytes = self.rng.usize(1..=4096);
            if self.create(fs, &dirs, bytes)? == Room::Full {
                bail!("the image is full");
            }
        }
        Ok(())
    }

    /// Creates files of any size until `is_enough`, or there is no room.
    pub fn fill(&mut self, fs: &Ext4, is_enough: impl Fn() -> bool) -> anyhow::Result<u64> {
        let dirs = self.dirs(fs)?;
        let mut made = 0;
        while !is_enough() {
            let bytes = size(&mut self.rng);
            if self.create(fs, &dirs, bytes)? == Room::Full {
                break;
            }
            made += 1;
        }
        Ok(made)
    }

    /// Deletes files, any first, until `is_enough` or none is left.
    pub fn empty(&mut self, fs: &Ext4, is_enough: impl Fn() -> bool) -> anyhow::Result<u64> {
        let dirs = self.dirs(fs)?;
        let mut deleted = 0;
        while !self.files.is_empty() && !is_enough() {
            self.delete(fs, &dirs)?;
            deleted += 1;
        }
        Ok(deleted)
    }

    /// Does `count` things to files; only deletes them while the image is crowded, as files grow more than they shrink.
    pub fn age(
        &mut self,
        fs: &Ext4,
        count: usize,
        is_crowded: impl Fn() -> bool,
    ) -> anyhow::Result<()> {
        let dirs = self.dirs(fs)?;
        for _ in 0..count {
            if self.files.is_empty() {
                break;
            }
            let done = match self.rng.u8(..100) {
                _ if is_crowded() => self.delete(fs, &dirs).map(|()| Room::Found),
                0..=29 => self.delete(fs, &dirs).map(|()| Room::Found),
                30..=59 => {
                    let bytes = size(&mut self.rng);
                    self.create(fs, &dirs, bytes)
                }
                _ => self.change(fs, &dirs),
            };
            if done? == Room::Full {
                self.delete(fs, &dirs)?;
            }
        }
        Ok(())
    }

    fn create(&mut self, fs: &Ext4, dirs: &[InodeRef], bytes: usize) -> anyhow::Result<Room> {
        let file = File {
            dir: self.rng.usize(..dirs.len()),
            number: self.next,
        };
        self.next += 1;
        let new = NewNode {
            mode: 0o644,
            kind: NewKind::Regular,
        };
        let made = fs.create(&Caller::root(), &dirs[file.dir], &name(file.number), &new);
        let node = match made {
            Err(e) if e == Errno::ENOSPC => return Ok(Room::Full),
            made => made?,
        };
        self.files.push(file);
        match fs.write(&node, 0, &BYTES[..bytes]) {
            Err(e) if e == Errno::ENOSPC => Ok(Room::Full),
            Ok(written) if written < bytes => Ok(Room::Full),
            written => written.map(|_| Room::Found).map_err(Into::into),
        }
    }

    fn delete(&mut self, fs: &Ext4, dirs: &[InodeRef]) -> anyhow::Result<()> {
        let at = self.rng.usize(..self.files.len());
        let file = self.files.swap_remove(at);
        Ok(fs.unlink(&Caller::root(), &dirs[file.dir], &name(file.number))?)
    }

    /// Appends, overwrites, truncates, punches or renames.
    fn change(&mut self, fs: &Ext4, dirs: &[InodeRef]) -> anyhow::Result<Room> {
        let at = self.rng.usize(..self.files.len());
        let (caller, file) = (Caller::root(), self.files[at]);
        let node = fs.lookup(&caller, &dirs[file.dir], &name(file.number))?;
        let bytes = self.rng.usize(1..16 << 10);
        let end = fs.getattr(&node)?.size;
        let place = self.rng.u64(..=end);
        let done = match self.rng.u8(..10) {
            0..=3 => fs.append(&node, &BYTES[..bytes]).map(drop),
            4..=6 => fs.write(&node, place, &BYTES[..bytes]).map(drop),
            7 => {
                let change = SetAttr {
                    size: Some(place),
                    ..SetAttr::default()
                };
                fs.setattr(&caller, &node, &change).map(drop)
            }
            8 => fs.fallocate(&node, Fallocate::PunchHole, place, bytes as u64),
            _ => {
                let to = self.rng.usize(..dirs.len());
                let number = self.next;
                self.next += 1;
                let (from, old, new) = (&dirs[file.dir], name(file.number), name(number));
                let flags = RenameFlags::empty();
                let renamed = fs.rename(&caller, from, &old, &dirs[to], &new, flags);
                if renamed.is_ok() {
                    self.files[at] = File { dir: to, number };
                }
                renamed
            }
        };
        match done {
            Err(e) if e == Errno::ENOSPC => Ok(Room::Full),
            done => done.map(|()| Room::Found).map_err(Into::into),
        }
    }

    /// Files and extents of `count` files, any of them, which hold what was written, or holes.
    pub fn extents(&mut self, fs: &Ext4, count: usize) -> anyhow::Result<(u64, u64)> {
        let dirs = self.dirs(fs)?;
        let (mut files, mut extents) = (0, 0);
        for _ in 0..count.min(self.files.len()) {
            let file = self.files[self.rng.usize(..self.files.len())];
            let node = fs.lookup(&Caller::root(), &dirs[file.dir], &name(file.number))?;
            check_data(fs, &node)?;
            files += 1;
            extents += fs.mapping.extents(&node)?.len() as u64;
        }
        Ok((files, extents))
    }
}

/// Whether a file holds what was written to files, or zeros.
fn check_data(fs: &Ext4, node: &InodeRef) -> anyhow::Result<()> {
    let mut data = vec![0; BYTES.len()];
    let (size, mut at) = (fs.getattr(node)?.size, 0);
    while at < size {
        let len = fs.read(node, at, &mut data)?;
        ensure!(len > 0, "byte {at} of {size} cannot be read");
        let wrong = data[..len]
            .iter()
            .find(|byte| ![0, BYTES[0]].contains(byte));
        ensure!(
            wrong.is_none(),
            "a file has a byte {wrong:#x?} from {at} on"
        );
        at += len as u64;
    }
    Ok(())
}
