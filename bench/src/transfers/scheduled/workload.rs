//! What each worker does, and where.

use super::{Choice, Workload};
use crate::aligned::AlignedBuf;
use crate::fxmark::{self, workload::Task};
use crate::quiet_image::{mounted_for, opened_for};
use crate::tree::{OurLocation, Tree};
use anyhow::{Context as _, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use uext4::Filesystem;
use uext4_ext4::{Ext4, InodeRef};
use uext4_mqueue::{IpcNamespace, Limits, MqueueType};
use uext4_vfs::{Caller, FileSystem, IoFlags, NewKind, NewNode};

/// The class of the locks of a device in memory, which are not of the engine.
pub const DEVICE_LOCK: &str = "device";

/// The size of the file of randrw, and of each read and write.
const FILE_BYTES: u64 = 16 << 20;
const IO_BYTES: u64 = 4096;
/// What a worker does before anything is counted, so that it has what it needs once.
const WARM_UP: u32 = 20;
/// Namespaces of each worker that are alive.
const LIVE: usize = 4;

/// What the phases of a workload count.
pub fn phases(workload: Workload) -> &'static [&'static str] {
    match workload {
        Workload::Mdtest => &["create", "remove"],
        Workload::CreateUnlink => &["create and unlink"],
        Workload::Randrw => &["direct read or overwrite"],
        Workload::Task(_) => &[""],
        Workload::Clone => &["create and drop"],
    }
}

/// What the workers work on.
pub enum Place {
    /// Directories of their own.
    Names {
        fs: Arc<Ext4>,
        /// The directory of theirs, where each makes its own.
        all: InodeRef,
        dirs: Vec<OnceLock<InodeRef>>,
        workload: Workload,
    },
    /// Those of FxMark's tasks.
    Tasks {
        fs: Filesystem,
        tree: Tree,
        workload: fxmark::Workload,
        tasks: usize,
        /// Of each task, those before anything is counted too.
        operations: u64,
    },
    /// One file.
    File { fs: Arc<Ext4>, file: InodeRef },
    /// One registry; a ring of namespaces for each.
    Namespaces {
        registry: MqueueType,
        rings: Vec<Mutex<VecDeque<IpcNamespace>>>,
    },
}

/// A task of FxMark's on an image of ours.
pub type OurTask<'a> = Task<'a, OurLocation<'a>>;

fn new_node(kind: NewKind<'_>) -> NewNode<'_> {
    NewNode { mode: 0o755, kind }
}

impl Place {
    /// For so many workers and operations of each.
    ///
    /// # Errors
    /// An operation that fails.
    pub fn make(workload: Workload, choice: &Choice, workers: usize, items: u32) -> Result<Place> {
        let root = Caller::root();
        match workload {
            Workload::Mdtest | Workload::CreateUnlink => {
                let fs = mounted_for(workers, items, &choice.options)?;
                let top = fs.root()?.clone();
                // Below one directory, as mdtest lays them out.
                let all = fs.create(&root, &top, b"all", &new_node(NewKind::Directory))?;
                let dirs = (0..workers).map(|_| OnceLock::new()).collect();
                Ok(Place::Names {
                    fs,
                    all,
                    dirs,
                    workload,
                })
            }
            Workload::Task(workload) => {
                let operations = items + WARM_UP;
                // What is freed stays in use until it is durable.
                let fs = opened_for(workers, 2 * operations, &choice.options)?;
                let own = (0..workers as u64).map(fxmark::own_name);
                let names = own.chain([fxmark::SHARED.to_owned()]).collect();
                let tree = Tree::top(&fs, "fxmark", names)?;
                tree.make_dir(workers)?;
                Ok(Place::Tasks {
                    fs,
                    tree,
                    workload,
                    tasks: workers,
                    operations: operations.into(),
                })
            }
            Workload::Randrw => {
                let fs = mounted_for(workers, 0, &choice.options)?;
                let top = fs.root()?.clone();
                let file = fs.create(&root, &top, b"file", &new_node(NewKind::Regular))?;
                let data = AlignedBuf::zeroed(FILE_BYTES as usize);
                fs.write_with(&file, 0, data.bytes(), IoFlags::DIRECT)?;
                fs.fsync(&file, false)?;
                Ok(Place::File { fs, file })
            }
            Workload::Clone => Ok(Place::Namespaces {
                registry: MqueueType::new(choice.registry),
                rings: (0..workers).map(|_| Mutex::default()).collect(),
            }),
        }
    }

    /// The task of a worker.
    fn task<'a>(
        &self,
        location: &'a OurLocation<'a>,
        worker: usize,
    ) -> Result<Option<OurTask<'a>>> {
        let Place::Tasks {
            workload,
            tasks,
            operations,
            ..
        } = self
        else {
            return Ok(None);
        };
        Task::new(location, *workload, [worker, *tasks, *tasks], *operations).map(Some)
    }

    /// Where tasks are.
    pub fn location(&self) -> Option<OurLocation<'_>> {
        match self {
            Place::Tasks { fs, tree, .. } => Some(tree.on(fs)),
            _ => None,
        }
    }

    /// The task of a worker, once all have prepared, as it is after some operations.
    ///
    /// # Errors
    /// An operation that fails.
    pub fn started<'a>(
        &self,
        location: Option<&'a OurLocation<'a>>,
        worker: usize,
    ) -> Result<Option<OurTask<'a>>> {
        let task = location.map(|location| self.task(location, worker));
        let Some(mut task) = task.transpose()?.flatten() else {
            return Ok(None);
        };
        task.start()?;
        (0..u64::from(WARM_UP)).try_for_each(|item| task.step(item))?;
        Ok(Some(task))
    }

    /// What a worker does once.
    ///
    /// # Errors
    /// An operation that fails.
    pub fn prepare(&self, worker: usize) -> Result<()> {
        if let (Place::Tasks { tree, .. }, Some(location)) = (self, self.location()) {
            tree.make_dir(worker)?;
            let task = self.task(&location, worker)?;
            return task.map_or(Ok(()), |mut task| task.prepare());
        }
        if let Place::Namespaces { registry, rings } = self {
            let mut ring = ring(&rings[worker]);
            ring.extend((0..LIVE).map(|_| registry.create(Limits::default())));
        }
        let mut count = 1;
        if let Place::Names {
            fs,
            all,
            dirs,
            workload,
        } = self
        {
            let (root, name) = (Caller::root(), format!("worker{worker}"));
            let made = fs.create(&root, all, name.as_bytes(), &new_node(NewKind::Directory))?;
            let _ = dirs[worker].set(made);
            count = phases(*workload).len();
        }
        for phase in 0..count {
            (0..WARM_UP).try_for_each(|item| self.run(worker, None, phase, item))?;
        }
        Ok(())
    }

    /// One operation of a phase.
    ///
    /// # Errors
    /// It fails.
    pub fn run(
        &self,
        worker: usize,
        task: Option<&mut OurTask<'_>>,
        phase: usize,
        item: u32,
    ) -> Result<()> {
        if let Some(task) = task {
            return task.step(u64::from(WARM_UP + item));
        }
        let root = Caller::root();
        match self {
            Place::Names {
                fs, dirs, workload, ..
            } => {
                let dir = dirs[worker].get().context("a worker without directory")?;
                let name = match workload {
                    Workload::Mdtest => format!("file.mdtest.{worker}.{item}"),
                    _ => "file".to_owned(),
                };
                if phase == 0 {
                    drop(fs.create(&root, dir, name.as_bytes(), &new_node(NewKind::Regular))?);
                }
                if phase == 1 || *workload == Workload::CreateUnlink {
                    fs.unlink(&root, dir, name.as_bytes())?;
                }
            }
            Place::File { fs, file } => {
                // Every worker at another place, with a step that visits all.
                let blocks = FILE_BYTES / IO_BYTES;
                let at = (worker as u64 * 977 + u64::from(item) * 1021) % blocks * IO_BYTES;
                let mut data = AlignedBuf::zeroed(IO_BYTES as usize);
                match (worker as u64 + u64::from(item)).is_multiple_of(2) {
                    true => drop(fs.read_with(file, at, data.bytes_mut(), IoFlags::DIRECT)?),
                    false => drop(fs.write_with(file, at, data.bytes(), IoFlags::DIRECT)?),
                }
            }
            Place::Tasks { .. } => {}
            Place::Namespaces { registry, rings } => {
                let mut ring = ring(&rings[worker]);
                ring.push_back(registry.create(Limits::default()));
                drop(ring.pop_front());
            }
        }
        Ok(())
    }
}

/// A worker's own.
fn ring(ring: &Mutex<VecDeque<IpcNamespace>>) -> std::sync::MutexGuard<'_, VecDeque<IpcNamespace>> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}
