//! The workloads: what each finds, and does.

use super::FILES_IN_LISTING;
use crate::location::{Dir, Location};
use clap::ValueEnum;

/// Bytes of a block.
const BLOCK: usize = 4096;
/// Directories of each level of a tree of paths.
const BRANCHES: u64 = 4;
/// Levels of a tree of paths.
const LEVELS: u32 = 5;
/// What FALLOCATE2 allocates at a time, and until it starts again.
const ALLOCATED: u64 = 8 << 10;
const ALLOCATED_MAX: u64 = 1 << 20;

/// By the names of the paper: of data or metadata, read or written, what, and shared little, medium or much.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Workload {
    /// Reads a block of a private file.
    Drbl,
    /// Reads a private block of a shared file.
    Drbm,
    /// Reads the same block of a shared file.
    Drbh,
    /// Overwrites a block of a private file.
    Dwol,
    /// Overwrites a private block of a shared file.
    Dwom,
    /// Appends a block to a private file.
    Dwal,
    /// Makes a private file shorter by a block.
    Dwtl,
    /// Overwrites a block of a private file, and fsyncs it.
    Dwsl,
    /// Opens a private file by its path.
    Mrpl,
    /// Opens a file of a shared tree by its path, chosen at random.
    Mrpm,
    /// Opens the same file by its path.
    Mrph,
    /// Lists a private directory.
    Mrdl,
    /// Lists a shared directory.
    Mrdm,
    /// Creates a file in a private directory.
    Mwcl,
    /// Creates a file in a shared directory.
    Mwcm,
    /// Removes a file from a private directory.
    Mwul,
    /// Removes a file from a shared directory.
    Mwum,
    /// Gives a private file another name.
    Mwrl,
    /// Moves a private file to a shared directory.
    Mwrm,
    /// Allocates 8 KiB more of a private file, and truncates it when it has 1 MiB; of will-it-scale, and run only if it is named
    Fallocate2,
}

impl Workload {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Workload::Drbl => "DRBL",
            Workload::Drbm => "DRBM",
            Workload::Drbh => "DRBH",
            Workload::Dwol => "DWOL",
            Workload::Dwom => "DWOM",
            Workload::Dwal => "DWAL",
            Workload::Dwtl => "DWTL",
            Workload::Dwsl => "DWSL",
            Workload::Mrpl => "MRPL",
            Workload::Mrpm => "MRPM",
            Workload::Mrph => "MRPH",
            Workload::Mrdl => "MRDL",
            Workload::Mrdm => "MRDM",
            Workload::Mwcl => "MWCL",
            Workload::Mwcm => "MWCM",
            Workload::Mwul => "MWUL",
            Workload::Mwum => "MWUM",
            Workload::Mwrl => "MWRL",
            Workload::Mwrm => "MWRM",
            Workload::Fallocate2 => "FALLOCATE2",
        }
    }

    /// The nineteen of the paper.
    pub fn of_paper() -> &'static [Workload] {
        let all = Workload::value_variants();
        all.get(..19).unwrap_or(all)
    }

    /// Whether it uses up what it works on, so that it ends when that is at its end.
    pub const fn is_limited(self) -> bool {
        matches!(
            self,
            Workload::Dwal
                | Workload::Dwtl
                | Workload::Mwcl
                | Workload::Mwcm
                | Workload::Mwul
                | Workload::Mwum
                | Workload::Mwrm
        )
    }

    /// The file that it works on: whether it is shared, and how many blocks it has.
    const fn file(self, tasks: u64, operations: u64) -> Option<(bool, u64)> {
        match self {
            Workload::Drbl | Workload::Dwol | Workload::Dwsl => Some((false, 1)),
            Workload::Drbm | Workload::Drbh | Workload::Dwom => Some((true, tasks)),
            Workload::Dwal | Workload::Fallocate2 => Some((false, 0)),
            Workload::Dwtl => Some((false, operations)),
            _ => None,
        }
    }
}

/// A task, in the directories of which it works.
pub struct Task<'a, L: Location + 'a> {
    location: &'a L,
    workload: Workload,
    number: u64,
    tasks: u64,
    /// The most operations of one that is limited.
    operations: u64,
    own: L::Dir<'a>,
    shared: L::Dir<'a>,
    file: Option<<L::Dir<'a> as Dir>::File>,
    rng: fastrand::Rng,
    buffer: Box<[u8; BLOCK]>,
    /// The name or path of the file.
    name: String,
}

impl<'a, L: Location> Task<'a, L> {
    /// The task of a number of so many.
    ///
    /// # Errors
    /// A directory can't be opened.
    pub fn new(
        location: &'a L,
        workload: Workload,
        [number, tasks, shared]: [usize; 3],
        operations: u64,
    ) -> anyhow::Result<Self> {
        Ok(Task {
            location,
            workload,
            number: number as u64,
            tasks: tasks as u64,
            operations,
            own: location.enter(number)?,
            shared: location.enter(shared)?,
            file: None,
            rng: fastrand::Rng::with_seed(number as u64),
            buffer: Box::new([0x55; BLOCK]),
            name: String::new(),
        })
    }

    /// Makes what it finds.
    ///
    /// # Errors
    /// The file system's.
    pub fn prepare(&mut self) -> anyhow::Result<()> {
        let is_first = self.number == 0;
        if let Some((is_shared, blocks)) = self.workload.file(self.tasks, self.operations)
            && (is_first || !is_shared)
        {
            let dir = if is_shared { &self.shared } else { &self.own };
            let file = dir.create(b"data")?;
            for block in 0..blocks {
                dir.write_at(&file, &*self.buffer, block * BLOCK as u64)?;
            }
        }
        match self.workload {
            Workload::Mwul | Workload::Mwrm => {
                (0..self.operations).try_for_each(|i| self.create(i))
            }
            Workload::Mwum => (0..self.operations).try_for_each(|i| self.create_shared(i)),
            Workload::Mwrl => self.create(0),
            Workload::Mrdl => (0..FILES_IN_LISTING).try_for_each(|i| self.create(i)),
            Workload::Mrdm if is_first => {
                (0..FILES_IN_LISTING).try_for_each(|i| self.create_shared(i))
            }
            Workload::Mrpl => grow(&self.own, 1, LEVELS),
            Workload::Mrpm | Workload::Mrph if is_first => grow(&self.shared, BRANCHES, LEVELS),
            _ => Ok(()),
        }
    }

    /// Opens the file that it works on, or names the one that it opens.
    ///
    /// # Errors
    /// The file system's.
    pub fn start(&mut self) -> anyhow::Result<()> {
        let file = self.workload.file(self.tasks, self.operations);
        self.file = match file {
            Some((true, _)) => Some(self.shared.open(b"data")?),
            Some((false, _)) => Some(self.own.open(b"data")?),
            None => None,
        };
        match self.workload {
            Workload::Mrpl => self.name = in_tree(&super::own_name(self.number), 0),
            Workload::Mrph => self.name = in_tree(super::SHARED, 0),
            _ => {}
        }
        Ok(())
    }

    /// Does it once; `i` counts.
    ///
    /// # Errors
    /// The file system's.
    #[inline]
    pub fn step(&mut self, i: u64) -> anyhow::Result<()> {
        let block = BLOCK as u64;
        match self.workload {
            Workload::Drbl | Workload::Drbh => self.read(0),
            Workload::Drbm => self.read(self.number * block),
            Workload::Dwol => self.write(0),
            Workload::Dwom => self.write(self.number * block),
            Workload::Dwal => self.write(i * block),
            Workload::Dwtl => {
                let left = (self.operations - 1 - i) * block;
                self.with_file(|dir, file| dir.set_len(file, left))
            }
            Workload::Fallocate2 => {
                let at = i * ALLOCATED % ALLOCATED_MAX;
                self.with_file(|dir, file| {
                    dir.fallocate(file, at, ALLOCATED)?;
                    match at + ALLOCATED {
                        ALLOCATED_MAX => dir.set_len(file, 0),
                        _ => Ok(()),
                    }
                })
            }
            Workload::Dwsl => {
                self.write(0)?;
                self.with_file(|dir, file| dir.fsync(file))
            }
            Workload::Mrpl | Workload::Mrph => self.location.open_and_close(&self.name),
            Workload::Mrpm => {
                let leaf = self.rng.u64(..BRANCHES.pow(LEVELS));
                self.location.open_and_close(&in_tree(super::SHARED, leaf))
            }
            Workload::Mrdl => self.own.list(seen),
            Workload::Mrdm => self.shared.list(seen),
            Workload::Mwcl => self.create(i),
            Workload::Mwcm => self.create_shared(i),
            Workload::Mwul => {
                self.set_own(i);
                self.own.unlink(self.name.as_bytes())
            }
            Workload::Mwum => {
                self.set_shared(i);
                self.shared.unlink(self.name.as_bytes())
            }
            Workload::Mwrl => {
                self.set_own(i);
                let new = format!("f{}", i + 1);
                self.own
                    .rename(self.name.as_bytes(), &self.own, new.as_bytes())
            }
            Workload::Mwrm => {
                self.set_own(i);
                let new = format!("t{}.f{i}", self.number);
                self.own
                    .rename(self.name.as_bytes(), &self.shared, new.as_bytes())
            }
        }
    }

    /// Removes all that is in its own directory, and the first in the shared one.
    ///
    /// # Errors
    /// The file system's.
    pub fn clean(mut self) -> anyhow::Result<()> {
        self.file = None;
        remove_all(&self.own)?;
        match self.number {
            0 => remove_all(&self.shared),
            _ => Ok(()),
        }
    }

    fn with_file(
        &self,
        work: impl FnOnce(&L::Dir<'a>, &<L::Dir<'a> as Dir>::File) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.file
            .as_ref()
            .map_or(Ok(()), |file| work(&self.own, file))
    }

    fn read(&mut self, at: u64) -> anyhow::Result<()> {
        match &self.file {
            Some(file) => self.own.read_at(file, &mut *self.buffer, at),
            None => Ok(()),
        }
    }

    fn write(&self, at: u64) -> anyhow::Result<()> {
        self.with_file(|dir, file| dir.write_at(file, &*self.buffer, at))
    }

    fn set_own(&mut self, i: u64) {
        self.name.clear();
        self.name.push('f');
        self.name.push_str(&i.to_string());
    }

    fn set_shared(&mut self, i: u64) {
        self.name = format!("t{}.f{i}", self.number);
    }

    fn create(&mut self, i: u64) -> anyhow::Result<()> {
        self.set_own(i);
        self.own.create(self.name.as_bytes()).map(drop)
    }

    fn create_shared(&mut self, i: u64) -> anyhow::Result<()> {
        self.set_shared(i);
        self.shared.create(self.name.as_bytes()).map(drop)
    }
}

fn seen(name: &[u8]) {
    std::hint::black_box(name);
}

/// The path of a file in the tree of paths of a directory.
fn in_tree(dir: &str, mut leaf: u64) -> String {
    let mut path = String::with_capacity(32);
    path.push_str(dir);
    for _ in 0..LEVELS {
        path.push('/');
        path.push_str(&(leaf % BRANCHES).to_string());
        leaf /= BRANCHES;
    }
    path.push_str("/file");
    path
}

/// Makes a tree of paths, with so many directories in each.
fn grow(dir: &impl Dir, branches: u64, levels: u32) -> anyhow::Result<()> {
    if levels == 0 {
        return dir.create(b"file").map(drop);
    }
    for branch in 0..branches {
        let name = branch.to_string();
        dir.mkdir(name.as_bytes())?;
        grow(&dir.enter(name.as_bytes())?, branches, levels - 1)?;
    }
    Ok(())
}

fn remove_all(dir: &impl Dir) -> anyhow::Result<()> {
    let mut names = Vec::new();
    dir.list(|name| names.push(name.to_vec()))?;
    for name in names {
        if dir.unlink(&name).is_err() {
            remove_all(&dir.enter(&name)?)?;
            dir.rmdir(&name)?;
        }
    }
    Ok(())
}
