//! A directory for each worker below one common directory.
//!
//! Not directly in the root: below it Orlov spreads directories, further down it keeps them near their
//! parent, and that is what makes the workers share groups.

use crate::location::{Dir, Location};
use std::sync::Arc;
use uext4_ext4::{Ext4, InodeRef};
use uext4_vfs::attr::{NewKind, NewNode};
use uext4_vfs::caller::Caller;
use uext4_vfs::filesystem::FileSystem;

/// What every directory is made as.
pub const DIRECTORY: NewNode<'static> = NewNode {
    mode: 0o755,
    kind: NewKind::Directory,
};

/// What every file is made as.
pub const FILE: NewNode<'static> = NewNode {
    mode: 0o644,
    kind: NewKind::Regular,
};

/// The directories.
#[derive(Debug)]
pub struct Tree {
    top_name: &'static str,
    top: InodeRef,
    names: Vec<String>,
    dirs: Vec<InodeRef>,
}

impl Tree {
    /// Makes `/top_name` and the directories `names` in it.
    pub fn make(
        fs: &Arc<Ext4>,
        top_name: &'static str,
        names: Vec<String>,
    ) -> anyhow::Result<Tree> {
        let root = Caller::root();
        let make = |dir: &InodeRef, name: &str| {
            FileSystem::create(&**fs, &root, dir, name.as_bytes(), &DIRECTORY)
                .map_err(|e| anyhow::anyhow!("{name}: {e}"))
        };
        let top = make(&FileSystem::root(&**fs)?, top_name)?;
        let dirs = names.iter().map(|name| make(&top, name));
        Ok(Tree {
            top_name,
            dirs: dirs.collect::<Result<_, _>>()?,
            top,
            names,
        })
    }

    /// The directory of a worker; they share it if there are fewer.
    pub fn dir(&self, worker: usize) -> &InodeRef {
        &self.dirs[worker % self.dirs.len()]
    }

    /// Them on their mount, for workers.
    pub fn on<'a>(&'a self, fs: &'a Arc<Ext4>) -> OurLocation<'a> {
        OurLocation { fs, tree: self }
    }

    /// Removes the directories, which must be empty.
    pub fn remove(self, fs: &Arc<Ext4>) -> anyhow::Result<()> {
        let root = Caller::root();
        drop(self.dirs);
        for name in &self.names {
            FileSystem::rmdir(&**fs, &root, &self.top, name.as_bytes())?;
        }
        drop(self.top);
        let top_dir = FileSystem::root(&**fs)?;
        Ok(FileSystem::rmdir(
            &**fs,
            &root,
            &top_dir,
            self.top_name.as_bytes(),
        )?)
    }
}

/// The directories on their mount.
#[derive(Clone, Copy)]
pub struct OurLocation<'a> {
    fs: &'a Arc<Ext4>,
    tree: &'a Tree,
}

impl Location for OurLocation<'_> {
    type Dir<'a>
        = OurDir<'a>
    where
        Self: 'a;

    fn enter(&self, worker: usize) -> anyhow::Result<OurDir<'_>> {
        Ok(OurDir {
            fs: self.fs,
            node: self.tree.dir(worker),
            caller: Caller::root(),
        })
    }

    fn syncfs(&self) -> anyhow::Result<()> {
        Ok(FileSystem::syncfs(&**self.fs)?)
    }
}

/// A worker's directory.
pub struct OurDir<'a> {
    fs: &'a Ext4,
    node: &'a InodeRef,
    caller: Caller,
}

impl OurDir<'_> {
    fn make(&self, name: &[u8], new: &NewNode<'_>) -> anyhow::Result<InodeRef> {
        Ok(FileSystem::create(
            self.fs,
            &self.caller,
            self.node,
            name,
            new,
        )?)
    }

    fn lookup(&self, name: &[u8]) -> anyhow::Result<InodeRef> {
        Ok(FileSystem::lookup(self.fs, &self.caller, self.node, name)?)
    }
}

impl Dir for OurDir<'_> {
    type File = InodeRef;

    fn create(&self, name: &[u8]) -> anyhow::Result<InodeRef> {
        self.make(name, &FILE)
    }

    fn write(&self, file: &InodeRef, bytes: &[u8]) -> anyhow::Result<()> {
        FileSystem::write(self.fs, file, 0, bytes)?;
        Ok(())
    }

    fn fsync(&self, file: &InodeRef) -> anyhow::Result<()> {
        Ok(FileSystem::fsync(self.fs, file, false)?)
    }

    fn stat(&self, name: &[u8]) -> anyhow::Result<()> {
        let node = self.lookup(name)?;
        std::hint::black_box(FileSystem::getattr(self.fs, &node)?);
        Ok(())
    }

    fn read(&self, name: &[u8], buffer: &mut [u8]) -> anyhow::Result<()> {
        let node = self.lookup(name)?;
        FileSystem::read(self.fs, &node, 0, buffer)?;
        Ok(())
    }

    fn unlink(&self, name: &[u8]) -> anyhow::Result<()> {
        Ok(FileSystem::unlink(self.fs, &self.caller, self.node, name)?)
    }

    fn mkdir(&self, name: &[u8]) -> anyhow::Result<()> {
        drop(self.make(name, &DIRECTORY)?);
        Ok(())
    }

    fn rmdir(&self, name: &[u8]) -> anyhow::Result<()> {
        Ok(FileSystem::rmdir(self.fs, &self.caller, self.node, name)?)
    }
}
