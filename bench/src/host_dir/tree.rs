//! What a run makes in a directory of the host: a directory for each worker below one common directory.

use super::dir::HostDir;
use crate::location::Location;
use anyhow::Context as _;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags, openat};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// The directories. Dropping it removes them with everything in them, as [`HostTree::remove`] does.
#[derive(Debug)]
pub struct HostTree {
    top: PathBuf,
    /// Of `top`.
    handle: File,
    names: Vec<String>,
    removed: bool,
}

impl HostTree {
    /// Makes `dir/uext4-bench-top_name` and the directories `names` in it.
    pub fn make(
        dir: &Path,
        top_name: &'static str,
        names: Vec<String>,
    ) -> anyhow::Result<HostTree> {
        let top = dir.join(format!("uext4-bench-{top_name}"));
        let shown = top.display().to_string();
        fs::create_dir(&top).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                anyhow::anyhow!(
                    "{shown}: is there; a run that was killed left it, or one still runs"
                )
            }
            _ => anyhow::anyhow!("{shown}: {e}"),
        })?;
        let tree = HostTree {
            handle: File::open(&top).with_context(|| shown.clone())?,
            top,
            names,
            removed: false,
        };
        for name in &tree.names {
            fs::create_dir(tree.top.join(name)).with_context(|| format!("{shown}/{name}"))?;
        }
        Ok(tree)
    }

    /// The path of a worker's directory.
    pub fn path(&self, worker: usize) -> PathBuf {
        self.top.join(self.name(worker))
    }

    fn name(&self, worker: usize) -> &str {
        &self.names[worker % self.names.len()]
    }

    /// Removes them with everything in them, durably, so that the next target has nothing of it to write.
    pub fn remove(mut self) -> anyhow::Result<()> {
        self.removed = true;
        let gone = fs::remove_dir_all(&self.top).and_then(|()| match self.top.parent() {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        });
        gone.with_context(|| self.top.display().to_string())
    }
}

impl Drop for HostTree {
    fn drop(&mut self) {
        if !self.removed {
            // After an error, which is the one to report.
            let _ = fs::remove_dir_all(&self.top);
        }
    }
}

impl Location for HostTree {
    type Dir<'a> = HostDir;

    /// Gives the thread a table of descriptors of its own: threads share one, and its lock, as processes do not.
    fn enter(&self, worker: usize) -> anyhow::Result<HostDir> {
        unshare(CloneFlags::CLONE_FILES).context("unshare")?;
        HostDir::open(&self.handle, self.name(worker))
    }

    fn open_and_close(&self, path: &str) -> anyhow::Result<()> {
        drop(openat(&self.handle, path, READ, Mode::empty())?);
        Ok(())
    }

    fn syncfs(&self) -> anyhow::Result<()> {
        Ok(rustix::fs::syncfs(&self.handle)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Dir as _;

    fn make(dir: &Path) -> anyhow::Result<HostTree> {
        HostTree::make(dir, "test", vec!["a".to_owned(), "b".to_owned()])
    }

    fn entries(dir: &Path) -> usize {
        dir.read_dir().unwrap().count()
    }

    /// In a thread of its own, whose table of descriptors goes with it.
    fn apart(work: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    }

    #[test]
    fn nothing_stays() {
        let dir = tempfile::tempdir().unwrap();
        let tree = make(dir.path()).unwrap();
        apart(|| {
            drop(tree.enter(1).unwrap().create(b"file").unwrap());
            tree.enter(0).unwrap().mkdir(b"dir").unwrap();
        });
        assert!(tree.path(1).join("file").exists() && tree.path(2).join("dir").exists());
        assert_eq!(entries(dir.path()), 1);
        drop(tree);
        assert_eq!(entries(dir.path()), 0);
        let tree = make(dir.path()).unwrap();
        fs::write(tree.path(0).join("file"), "some").unwrap();
        tree.remove().unwrap();
        assert_eq!(entries(dir.path()), 0);
    }

    #[test]
    fn what_others_left_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join("uext4-bench-test/theirs");
        fs::create_dir_all(&theirs).unwrap();
        let why = make(dir.path()).unwrap_err().to_string();
        assert!(why.contains("a run that was killed left it"), "{why}");
        assert!(theirs.exists());
        assert!(make(&dir.path().join("none")).is_err());
    }

    #[test]
    fn operations_do_what_they_say() {
        let dir = tempfile::tempdir().unwrap();
        let tree = make(dir.path()).unwrap();
        apart(|| {
            let inside = tree.enter(0).unwrap();
            let file = inside.create(b"file").unwrap();
            assert!(inside.create(b"file").is_err());
            inside.write(&file, b"some bytes").unwrap();
            inside.fsync(&file).unwrap();
            let mut bytes = [0; 4];
            inside.read(b"file", &mut bytes).unwrap();
            assert_eq!(&bytes, b"some");
            inside.stat(b"file").unwrap();
            assert!(inside.rmdir(b"file").is_err());
            inside.unlink(b"file").unwrap();
            assert!(inside.stat(b"file").is_err() && inside.read(b"file", &mut bytes).is_err());
            inside.mkdir(b"dir").unwrap();
            assert!(inside.unlink(b"dir").is_err());
            inside.rmdir(b"dir").unwrap();
            tree.syncfs().unwrap();
        });
        assert_eq!(entries(&tree.path(0)), 0);
    }

    #[test]
    fn a_worker_has_descriptors_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let tree = make(dir.path()).unwrap();
        apart(|| {
            let _file = tree.enter(0).unwrap().create(b"file").unwrap();
            let path = tree.path(0).join("file");
            let has = |table: &str| {
                let mut open = fs::read_dir(table).unwrap().flatten();
                open.any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == path))
            };
            assert!(has("/proc/thread-self/fd"));
            assert!(!has("/proc/self/fd"));
        });
    }
}
