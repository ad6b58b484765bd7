//! A directory for each worker below one common directory.
//!
//! Not directly in the root: below it Orlov spreads directories, further down it keeps them near their
//! parent, and that is what makes the workers share groups.

use crate::location::{Dir, Location};
use anyhow::Context as _;
use uext4::unstable::InodeRef;
use uext4::{Fallocate, File, Filesystem, OpenOptions, RenameFlags};
use uext4_vfs::attr::{NewKind, NewNode};

const DIRECTORY_MODE: u16 = 0o755;

/// What every file is made as by workloads that use the file system below open files.
pub const FILE: NewNode<'static> = NewNode {
    mode: 0o644,
    kind: NewKind::Regular,
};

/// As `open(O_CREAT | O_EXCL | O_WRONLY)`.
const CREATE: OpenOptions = OpenOptions::new().write(true).create_new(true);
const READ: OpenOptions = OpenOptions::new().read(true);
const BOTH: OpenOptions = OpenOptions::new().read(true).write(true);

/// The directories.
#[derive(Debug)]
pub struct Tree {
    top_name: &'static str,
    top: uext4::Dir,
    names: Vec<String>,
    dirs: Vec<uext4::Dir>,
}

impl Tree {
    /// Makes `/top_name` and the directories `names` in it.
    pub fn make(
        fs: &Filesystem,
        top_name: &'static str,
        names: Vec<String>,
    ) -> anyhow::Result<Tree> {
        let mut tree = Tree::top(fs, top_name, names)?;
        let dirs = (0..tree.names.len()).map(|worker| tree.make_dir(worker));
        tree.dirs = dirs.collect::<Result<_, _>>()?;
        Ok(tree)
    }

    /// As [`Tree::make`], but of the directories only the one that they will be in.
    pub fn top(
        fs: &Filesystem,
        top_name: &'static str,
        names: Vec<String>,
    ) -> anyhow::Result<Tree> {
        let made = fs.root()?.mkdir(top_name, DIRECTORY_MODE);
        Ok(Tree {
            top_name,
            top: made.context(top_name)?,
            names,
            dirs: Vec::new(),
        })
    }

    /// Makes the directory of a worker.
    pub fn make_dir(&self, worker: usize) -> anyhow::Result<uext4::Dir> {
        let name = &*self.names[worker];
        let made = self.top.mkdir(name, DIRECTORY_MODE);
        made.with_context(|| name.to_owned())
    }

    /// The directory of a worker, below open files; they share it if there are fewer.
    pub fn dir(&self, worker: usize) -> &InodeRef {
        self.dirs[worker % self.dirs.len()].node()
    }

    /// Them on their mount, for workers.
    pub const fn on<'a>(&'a self, fs: &'a Filesystem) -> OurLocation<'a> {
        OurLocation { fs, tree: self }
    }

    /// Removes the directories, which must be empty.
    pub fn remove(self, fs: &Filesystem) -> anyhow::Result<()> {
        drop(self.dirs);
        for name in &self.names {
            self.top.rmdir(name)?;
        }
        drop(self.top);
        Ok(fs.root()?.rmdir(self.top_name)?)
    }
}

/// The directories on their mount.
#[derive(Clone, Copy)]
pub struct OurLocation<'a> {
    fs: &'a Filesystem,
    tree: &'a Tree,
}

impl Location for OurLocation<'_> {
    type Dir<'a>
        = OurDir
    where
        Self: 'a;

    fn enter(&self, worker: usize) -> anyhow::Result<OurDir> {
        let name = &self.tree.names[worker % self.tree.names.len()];
        Ok(OurDir(self.tree.top.open_dir(name)?))
    }

    fn open_and_close(&self, path: &str) -> anyhow::Result<()> {
        let path = [self.tree.top_name, "/", path].concat();
        drop(READ.open(self.fs, &*path)?);
        Ok(())
    }

    fn syncfs(&self) -> anyhow::Result<()> {
        Ok(self.fs.sync()?)
    }
}

/// A worker's directory, used through the public API as the peer's is through system calls.
pub struct OurDir(uext4::Dir);

impl Dir for OurDir {
    type File = File;

    fn create(&self, name: &[u8]) -> anyhow::Result<File> {
        Ok(self.0.open_file(name, &CREATE)?)
    }

    fn write(&self, file: &File, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(file.write_all_at(bytes, 0)?)
    }

    fn fsync(&self, file: &File) -> anyhow::Result<()> {
        Ok(file.sync_all()?)
    }

    fn stat(&self, name: &[u8]) -> anyhow::Result<()> {
        std::hint::black_box(self.0.metadata(name)?);
        Ok(())
    }

    fn read(&self, name: &[u8], buffer: &mut [u8]) -> anyhow::Result<()> {
        self.0.open_file(name, &READ)?.read_at(buffer, 0)?;
        Ok(())
    }

    fn unlink(&self, name: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.unlink(name)?)
    }

    fn open(&self, name: &[u8]) -> anyhow::Result<File> {
        Ok(self.0.open_file(name, &BOTH)?)
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], at: u64) -> anyhow::Result<()> {
        Ok(file.read_exact_at(buffer, at)?)
    }

    fn write_at(&self, file: &File, bytes: &[u8], at: u64) -> anyhow::Result<()> {
        Ok(file.write_all_at(bytes, at)?)
    }

    fn fallocate(&self, file: &File, at: u64, len: u64) -> anyhow::Result<()> {
        Ok(file.fallocate(Fallocate::Allocate, at, len)?)
    }

    fn set_len(&self, file: &File, len: u64) -> anyhow::Result<()> {
        Ok(file.set_len(len)?)
    }

    fn rename(&self, name: &[u8], to: &OurDir, new: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.rename_at(name, &to.0, new, RenameFlags::empty())?)
    }

    fn list(&self, mut each: impl FnMut(&[u8])) -> anyhow::Result<()> {
        for entry in self.0.read_dir()? {
            each(entry?.name());
        }
        Ok(())
    }

    fn enter(&self, name: &[u8]) -> anyhow::Result<OurDir> {
        Ok(OurDir(self.0.open_dir(name)?))
    }

    fn mkdir(&self, name: &[u8]) -> anyhow::Result<()> {
        drop(self.0.mkdir(name, DIRECTORY_MODE)?);
        Ok(())
    }

    fn rmdir(&self, name: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.rmdir(name)?)
    }
}
