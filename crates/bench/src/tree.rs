//! A directory for each worker below one common directory.
//!
//! Not directly in the root: below it Orlov spreads directories, further down it keeps them near their
//! parent, and that is what makes the workers share groups.

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
    ///
    /// # Errors
    /// Of making them; `EEXIST` if a run that was killed left them behind.
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

    /// Removes the directories, which must be empty.
    ///
    /// # Errors
    /// Of removing them.
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
