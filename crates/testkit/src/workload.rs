//! Random operations from a seed, applied to a file system and to a model of what the worker owns.
//!
//! A worker owns one directory of the root, and the names in `shared` that start as its own name
//! does; no other worker changes those, so that its model is exact while others work beside it.

use crate::external::*;
use crate::image::Shape;
use crate::model::{Content, Model};
use crate::operation::{Op, apply, apply_to_ext4};
use crate::tree::{self, Entry, Tree, join, show};
use crate::verdict::{Guarantee, guarantee_of, own_part};

mod contest;
mod remounts;
mod short;

pub use contest::{check_contested, contest, read_contested};
pub use remounts::remounts_on;

/// What a worker is allowed to meet and how much it does.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// `ENOSPC` is not a failure of the file system.
    pub no_space: bool,
    /// The most bytes a file has.
    pub file_bytes_max: u64,
    /// Share of fsync and syncfs, in percent.
    pub sync_percent: u8,
    /// Share, in percent of the rest, of direct writes to one file, most of which fill holes or extend it,
    /// and of what gives blocks to it or takes them.
    pub direct_percent: u8,
    /// Files have no extents: what fallocate does with them is to punch holes.
    pub block_maps: bool,
    /// Share, in percent, of data of about the size that an inode holds.
    pub tiny_percent: u8,
    /// Share, in percent, of attributes, with values that fit no block.
    pub large_values_percent: u8,
    /// Share, in percent, of files whose data is to go through the journal from then on, or no longer.
    pub journal_percent: u8,
    /// What ranges that move in a file are multiples of, in bytes.
    pub moved_unit: u64,
}

impl Default for Habits {
    fn default() -> Self {
        Habits {
            no_space: false,
            file_bytes_max: 64 << 10,
            sync_percent: 12,
            direct_percent: 0,
            block_maps: false,
            tiny_percent: 0,
            large_values_percent: 0,
            journal_percent: 0,
            moved_unit: 4096,
        }
    }
}

impl Habits {
    /// The default ones on such an image. With block maps files are larger: with blocks of 1 KiB, into the
    /// second level of pointer blocks.
    pub fn of(shape: &Shape) -> Habits {
        let mut habits = Habits::default();
        if shape.block_maps {
            habits.block_maps = true;
            habits.file_bytes_max = 400 << 10;
        }
        habits.moved_unit = shape.moved_unit;
        if shape.moved_unit > 4096 {
            habits.file_bytes_max = 300 << 10;
        }
        if shape.inline_data {
            habits.tiny_percent = 80;
        }
        if shape.large_values {
            habits.large_values_percent = 30;
        }
        habits
    }
}

/// One thread's operations.
pub struct Worker<'f> {
    fs: &'f Ext4,
    rng: Rng,
    name: String,
    habits: Habits,
    /// What should be there.
    pub model: Model,
    /// Files open without this name, and what they held if it was their last.
    open: Vec<(InodeRef, Option<Vec<u8>>)>,
    pending: Vec<Op>,
    /// The model as it would be, had the operation that failed last not.
    failed: Option<(Op, Model)>,
}

impl<'f> Worker<'f> {
    /// A worker called `name` on a file system that has the directory `shared`.
    pub fn new(fs: &'f Ext4, name: &str, seed: u64, habits: Habits) -> Result<Worker<'f>> {
        let mut model = Model::new();
        let dir = |path: &str| Op::Mkdir {
            path: path.into(),
            mode: 0o755,
        };
        apply(fs, &dir(name))?;
        for path in ["shared", name] {
            let made = model.apply(&dir(path));
            made.map_err(|e| anyhow::anyhow!("model: {e}"))?;
        }
        Ok(Self::resume(fs, name, seed, habits, model))
    }

    /// A worker that continues from a model.
    pub fn resume(fs: &'f Ext4, name: &str, seed: u64, habits: Habits, model: Model) -> Self {
        Worker {
            fs,
            rng: Rng::with_seed(seed),
            name: name.to_owned(),
            habits,
            model,
            open: Vec::new(),
            pending: Vec::new(),
            failed: None,
        }
    }

    /// Does one operation on both sides.
    pub fn step(&mut self) -> Result<(Op, Option<Guarantee>)> {
        if self.rng.u8(..100) < 6 {
            self.use_open()?;
        }
        let op = self.next();
        let guarantee = self.apply(&op)?;
        Ok((op, guarantee))
    }

    fn next(&mut self) -> Op {
        match self.pending.pop() {
            Some(op) => op,
            None => self.choose(),
        }
    }

    /// Chooses operations to do later, as if each did what the model says.
    pub fn script(&mut self, count: usize) -> Vec<Op> {
        let model = self.model.clone();
        let chosen = (0..count).map(|_| {
            let op = self.next();
            // One that must fail changes nothing.
            let _ = self.model.apply(&op);
            op
        });
        let chosen = chosen.collect();
        self.model = model;
        self.pending.clear();
        chosen
    }

    /// Does an operation on both sides.
    pub fn apply(&mut self, op: &Op) -> Result<Option<Guarantee>> {
        self.both(op)
            .with_context(|| format!("{}: {op:?}", self.name))
    }

    /// Uses what is open without a name, and compares what is at one path with the model.
    pub fn examine(&mut self) -> Result<()> {
        self.use_open()?;
        let Some(path) = self.any(None) else {
            return Ok(());
        };
        let want = self.model.find(&path).map(|id| self.model.entry(id));
        let want = want.map_err(|e| anyhow!("model: {e}"))?;
        let node = crate::operation::find(self.fs, &path);
        let have = node.map_err(anyhow::Error::from);
        let have = have.and_then(|node| tree::entry_of(self.fs, &node));
        let have = have.with_context(|| format!("{}, {}", self.name, show(&path)))?;
        match tree::difference(&one(&path, want), &one(&path, have)) {
            Some(difference) => bail!("{}, model / found: {difference}", self.name),
            None => Ok(()),
        }
    }

    /// Whether far more is free than an operation needs.
    fn has_room(&self) -> Result<bool> {
        let stat = self.fs.statfs()?;
        Ok(stat.blocks_free > stat.blocks / 3 && stat.inodes_free > stat.inodes / 3)
    }

    fn both(&mut self, op: &Op) -> Result<Option<Guarantee>> {
        let mut after = self.model.clone();
        let mut expected = after.apply(op);
        let is_there = matches!(expected, Ok(()) | Err(Errno::EINVAL));
        if self.habits.block_maps && is_there && needs_extents(op) {
            (after, expected) = (self.model.clone(), Err(Errno::EOPNOTSUPP));
        }
        let kept = match op {
            Op::Unlink { path, keep: true } => self.last_data(path),
            _ => None,
        };
        match (apply_to_ext4(self.fs, op), expected) {
            (Ok(node), Ok(())) => {
                self.model = after;
                if let Some(node) = node {
                    self.open.push((node, kept));
                }
                Ok(guarantee_of(&self.model, op))
            }
            (Err(e), Err(errno)) if e == errno => Ok(None),
            // Attributes have no more than a block.
            (Err(e), expected)
                if e == Errno::ENOSPC
                    && self.habits.no_space
                    && !matches!(op, Op::SetXattr { .. })
                    && self.has_room()? =>
            {
                self.failed = expected.is_ok().then(|| (op.clone(), after));
                bail!("{e:?}, and a third of the image is free")
            }
            (Err(e), Ok(())) if e == Errno::ENOSPC && self.habits.no_space => {
                self.failed = Some((op.clone(), after));
                self.resize_after_short_write(op)?;
                self.failed = None;
                Ok(None)
            }
            (Err(e), _) if e == Errno::ENOSPC && self.habits.no_space => Ok(None),
            (Err(e), Ok(()))
                if e == Errno::ENOSPC
                    && self.habits.large_values_percent == 0
                    && attribute_bytes(op, &after) > 700 =>
            {
                Ok(None)
            }
            (Ok(_), Err(errno)) => bail!("succeeded instead of {errno:?}"),
            (Err(e), expected) => {
                self.failed = expected.is_ok().then(|| (op.clone(), after));
                bail!("{e:?} instead of {expected:?}")
            }
        }
    }

    /// What a file holds whose only name is `path`.
    fn last_data(&self, path: &[u8]) -> Option<Vec<u8>> {
        let id = self.model.find(path).ok()?;
        let only = self.model.node(id)?.names == 1;
        only.then(|| self.model.data(id).map(|data| data.to_vec()))
            .flatten()
    }

    /// Reads, writes or closes a file that is open without a name.
    fn use_open(&mut self) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let index = self.rng.usize(..self.open.len());
        let (node, data) = &mut self.open[index];
        if let Some(data) = data {
            let mut have = vec![0; data.len() + 1];
            let n = self.fs.read(node, 0, &mut have)?;
            if have[..n] != data[..] {
                bail!("{}: an open file without a name lost its data", self.name);
            }
            if self.rng.bool() {
                let more = vec![self.rng.u8(1..); self.rng.usize(1..5000)];
                // In a block of its own: where the file had data before it was truncated, a crash may
                // bring that size back, with what was written there since.
                let at = data.len().next_multiple_of(4096);
                match FileSystem::write(self.fs, node, at as u64, &more) {
                    Ok(n) => {
                        data.resize(at, 0);
                        data.extend_from_slice(&more[..n]);
                    }
                    Err(e) if e == Errno::ENOSPC && self.habits.no_space => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        if self.rng.bool() {
            self.open.swap_remove(index);
        }
        Ok(())
    }

    /// The operation after which [`Worker::step`] failed, and the model with it done: it may have happened.
    pub fn pending_after_failure(&mut self) -> Option<(Op, Model)> {
        self.failed.take()
    }

    /// Closes all files.
    pub fn close(&mut self) {
        self.open.clear();
    }

    /// What of `tree` belongs to this worker.
    pub fn own_part(&self, tree: &Tree) -> Tree {
        own_part(&self.name, tree)
    }

    /// Compares all that the worker owns with its model.
    pub fn compare(&self) -> Result<()> {
        let have = self.own_part(&tree::of_fs(self.fs)?);
        let want = self.own_part(&self.model.tree());
        match tree::difference(&want, &have) {
            Some(difference) => bail!("{}, model / found: {difference}", self.name),
            None => Ok(()),
        }
    }

    fn paths(&self, kind: Option<FileKind>) -> Vec<Vec<u8>> {
        let mut paths = self.model.paths(kind);
        paths.retain(|path| path != b"shared" && path != self.name.as_bytes());
        paths
    }

    fn any(&mut self, kind: Option<FileKind>) -> Option<Vec<u8>> {
        let paths = self.paths(kind);
        let index = self.rng.usize(..paths.len().max(1));
        paths.into_iter().nth(index)
    }

    fn file(&mut self) -> Option<Vec<u8>> {
        self.any(Some(FileKind::Regular))
    }

    /// A path for a new name; now and then one that exists.
    fn fresh(&mut self) -> Vec<u8> {
        if self.rng.u8(..100) < 5
            && let Some(path) = self.any(None)
        {
            return path;
        }
        let mut dirs = self.paths(Some(FileKind::Directory));
        let own = self.name.clone().into_bytes();
        dirs.extend([own.clone(), own, b"shared".to_vec()]);
        let dir = dirs[self.rng.usize(..dirs.len())].clone();
        let pad = match self.rng.u8(..4) {
            0 => self.rng.usize(..200),
            _ => 0,
        };
        let name = format!("{}-{}{}", self.name, self.rng.u32(..2000), "x".repeat(pad));
        join(&dir, name.as_bytes())
    }

    fn choose(&mut self) -> Op {
        if self.rng.u8(..100) < self.habits.sync_percent {
            return self.choose_sync();
        }
        // Without the habit, random numbers stay what they were.
        let percent = self.habits.journal_percent;
        if percent > 0
            && self.rng.u8(..100) < percent
            && let Some(path) = self.file()
        {
            let on = self.rng.bool();
            return Op::JournalData { path, on };
        }
        let percent = self.habits.direct_percent;
        if percent > 0
            && self.rng.u8(..100) < percent
            && let Some(op) = self.choose_direct()
        {
            return op;
        }
        self.choose_change().unwrap_or_else(|| Op::Create {
            path: self.fresh(),
            mode: 0o644,
        })
    }

    fn choose_sync(&mut self) -> Op {
        match (self.rng.u8(..3), self.any(None)) {
            (1.., Some(path)) => match self
                .model
                .find(&path)
                .ok()
                .and_then(|id| self.model.node(id))
            {
                Some(node) if matches!(node.content, Content::File(_) | Content::Dir(_)) => {
                    Op::Fsync {
                        path,
                        data_only: self.rng.bool(),
                    }
                }
                _ => Op::Syncfs,
            },
            _ => Op::Syncfs,
        }
    }

    /// Something that direct writes to one file are about.
    fn choose_direct(&mut self) -> Option<Op> {
        let path = self.paths(Some(FileKind::Regular)).into_iter().next()?;
        let id = self.model.find(&path).ok()?;
        let size = self.model.data(id)?.len() as u64;
        let max = self.habits.file_bytes_max;
        let unit = *self.rng.choice(&[512, 1024, 4096]).unwrap_or(&512);
        let kind = self.rng.u8(..20);
        let at = match kind {
            // At the end, or with a gap before it.
            0..=6 => size.next_multiple_of(unit) + unit * self.rng.u64(..3),
            _ => self.rng.u64(..max),
        };
        let at = at - at % unit;
        if kind >= 17 || at >= max {
            use Fallocate::{Allocate, AllocateKeepSize, PunchHole, ZeroRange};
            let all = [Allocate, AllocateKeepSize, PunchHole, PunchHole, ZeroRange];
            let at = self.rng.u64(..max);
            return Some(match self.rng.u8(..3) {
                0 => Op::Truncate { path, size: at },
                _ => Op::Fallocate {
                    path,
                    what: self.rng.choice(all).unwrap_or(PunchHole),
                    at,
                    len: self.rng.u64(1..=(max - at).min(30_000)),
                },
            });
        }
        let mut data = self.bytes();
        data.truncate((max - at) as usize);
        data.resize(data.len().next_multiple_of(unit as usize), 0x5a);
        Some(Op::Write {
            path,
            at,
            data,
            direct: true,
        })
    }

    fn choose_change(&mut self) -> Option<Op> {
        let mode = 0o600 | self.rng.u16(..0o100);
        let percent = self.habits.large_values_percent;
        if percent > 0 && self.rng.u8(..100) < percent {
            return self.choose_attribute(mode);
        }
        match self.rng.u8(..43) {
            0..=21 => self.choose_name(mode),
            22..=32 => self.choose_data(),
            33..=37 => self.choose_attribute(mode),
            38..=40 => self.choose_fallocate(),
            _ => self.choose_many(mode),
        }
    }

    fn choose_name(&mut self, mode: u16) -> Option<Op> {
        Some(match self.rng.u8(..22) {
            0..=5 => Op::Create {
                path: self.fresh(),
                mode,
            },
            6..=8 => Op::Mkdir {
                path: self.fresh(),
                mode: mode | 0o100,
            },
            9 => Op::Symlink {
                path: self.fresh(),
                target: vec![
                    b't';
                    *self
                        .rng
                        .choice(&[1, 30, 59, 60, 61, 200, 800])
                        .unwrap_or(&5)
                ],
            },
            10..=11 => Op::Link {
                old: self.any(None)?,
                new: self.fresh(),
            },
            12..=15 => Op::Unlink {
                path: self.any(None)?,
                keep: self.rng.bool(),
            },
            16..=17 => Op::Rmdir {
                path: self.any(Some(FileKind::Directory))?,
            },
            _ => {
                let (old, fresh) = (self.any(None)?, self.fresh());
                let (new, flags) = match self.rng.u8(..6) {
                    0 => (self.any(None)?, RenameFlags::EXCHANGE),
                    1 => (fresh, RenameFlags::NOREPLACE),
                    2..=3 => (self.any(None)?, RenameFlags::empty()),
                    _ => (fresh, RenameFlags::empty()),
                };
                Op::Rename { old, new, flags }
            }
        })
    }

    fn choose_data(&mut self) -> Option<Op> {
        Some(match self.rng.u8(..11) {
            0..=4 => {
                let (path, mut data) = (self.file()?, self.bytes());
                let max = self
                    .habits
                    .file_bytes_max
                    .saturating_sub(data.len() as u64)
                    .max(1);
                let mut at = self.position(max);
                let direct = self.rng.bool();
                if direct {
                    let unit = *self.rng.choice(&[512, 1024, 4096]).unwrap_or(&512);
                    at -= at % unit as u64;
                    data.resize(data.len().next_multiple_of(unit), 0x5a);
                }
                Op::Write {
                    path,
                    at,
                    data,
                    direct,
                }
            }
            5..=7 => {
                let (path, data) = (self.file()?, self.bytes());
                let len = self
                    .model
                    .find(&path)
                    .ok()
                    .and_then(|id| self.model.data(id))
                    .map_or(0, |d| d.len());
                if len as u64 > self.habits.file_bytes_max {
                    return Some(Op::Truncate { path, size: 0 });
                }
                Op::Append { path, data }
            }
            _ => Op::Truncate {
                path: self.file()?,
                size: self.position(self.habits.file_bytes_max),
            },
        })
    }

    fn choose_attribute(&mut self, mode: u16) -> Option<Op> {
        Some(match self.rng.u8(..5) {
            0 => Op::Chmod {
                path: self.file()?,
                mode,
            },
            1..=3 => Op::SetXattr {
                path: self.file()?,
                name: format!("user.{}", self.rng.char('a'..='e')).into_bytes(),
                value: self.value(),
            },
            _ => Op::RemoveXattr {
                path: self.file()?,
                name: format!("user.{}", self.rng.char('a'..='e')).into_bytes(),
            },
        })
    }

    fn value(&mut self) -> Vec<u8> {
        let byte = self.rng.u8(..);
        let lens: &[usize] = match self.habits.large_values_percent {
            0 => &[0, 10, 40, 300, 600],
            // What is left of a block always has room for another entry.
            _ => &[0, 10, 40, 600, 2500, 4096, 6000, 9000, 65536],
        };
        vec![byte; *self.rng.choice(lens).unwrap_or(&1)]
    }

    fn choose_fallocate(&mut self) -> Option<Op> {
        use Fallocate::{Allocate, AllocateKeepSize, PunchHole, ZeroRange, ZeroRangeKeepSize};
        let all = [
            Allocate,
            AllocateKeepSize,
            PunchHole,
            PunchHole,
            ZeroRange,
            ZeroRangeKeepSize,
        ];
        let max = self.habits.file_bytes_max;
        let at = self.rng.u64(..max);
        if self.rng.u8(..4) == 0 {
            return self.choose_move();
        }
        Some(Op::Fallocate {
            path: self.file()?,
            what: self.rng.choice(all).unwrap_or(Allocate),
            at,
            len: self.rng.u64(1..=(max - at).min(100_000)),
        })
    }

    /// A range that is taken out of a file or put into it; of synced data, so that what a crash leaves of it
    /// is from one place.
    fn choose_move(&mut self) -> Option<Op> {
        let path = self.file()?;
        let id = self.model.find(&path).ok()?;
        let unit = self.habits.moved_unit;
        let units = self.model.data(id)?.len() as u64 / unit;
        self.pending.push(Op::Fallocate {
            path: path.clone(),
            what: match self.rng.bool() {
                true => Fallocate::CollapseRange,
                false => Fallocate::InsertRange,
            },
            at: self.rng.u64(..=units) * unit,
            len: self.rng.u64(1..4) * unit,
        });
        Some(Op::Fsync {
            path,
            data_only: false,
        })
    }

    /// Many names in one directory.
    fn choose_many(&mut self, mode: u16) -> Option<Op> {
        let dir = self
            .any(Some(FileKind::Directory))
            .unwrap_or(self.name.clone().into_bytes());
        let pad = "y".repeat(self.rng.usize(..150));
        let count = match self.is_tiny() {
            true => 1..8,
            false => 5..40,
        };
        for i in 0..self.rng.usize(count) {
            let name = format!("{}-many-{i}{pad}", self.name);
            self.pending.push(Op::Create {
                path: join(&dir, name.as_bytes()),
                mode,
            });
        }
        self.pending.pop()
    }

    /// Whether the next data is to be tiny. Without the habit, random numbers stay what they were.
    fn is_tiny(&mut self) -> bool {
        let percent = self.habits.tiny_percent;
        percent > 0 && self.rng.u8(..100) < percent
    }

    /// A place in a file of `max` bytes.
    fn position(&mut self, max: u64) -> u64 {
        match self.is_tiny() {
            true => self.rng.u64(..max.min(300)),
            false => self.rng.u64(..max),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        if self.is_tiny() {
            let byte = self.rng.u8(1..);
            return vec![byte; self.rng.usize(1..150)];
        }
        let len = match self.rng.u8(..6) {
            0 => 4096 * self.rng.usize(1..6),
            1 => self.rng.usize(1..40_000),
            _ => self.rng.usize(1..6000),
        };
        // Each write has bytes of its own, so that old data shows.
        let byte = self.rng.u8(1..);
        (0..len).map(|i| byte ^ (i / 512) as u8 | 1).collect()
    }
}

fn one(path: &[u8], entry: Entry) -> Tree {
    Tree::from([(path.to_vec(), entry)])
}

/// Whether blocks are to be allocated that were never written, or to move.
fn needs_extents(op: &Op) -> bool {
    matches!(op, Op::Fallocate { what, .. } if *what != Fallocate::PunchHole)
}

/// The bytes of all attributes of the file whose attribute `op` sets: they must fit a block.
fn attribute_bytes(op: &Op, after: &Model) -> usize {
    let Op::SetXattr { path, .. } = op else {
        return 0;
    };
    let node = after.find(path).ok().and_then(|id| after.node(id));
    node.map_or(0, |node| {
        node.xattrs
            .iter()
            .map(|(k, v)| k.len() + v.len() + 20)
            .sum()
    })
}
