//! What each worker does, and where.

use super::{Choice, Workload};
use crate::aligned::AlignedBuf;
use crate::quiet_image::mounted_for;
use anyhow::{Context as _, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use uext4_ext4::{Ext4, InodeRef, MountOptions};
use uext4_mqueue::{IpcNamespace, Limits, MqueueType};
use uext4_vfs::io::Fallocate;
use uext4_vfs::{Caller, FileSystem, IoFlags, NewKind, NewNode};

/// The class of the locks of a device in memory, which are not of the engine.
pub const DEVICE_LOCK: &str = "device";

/// The size of the file of randrw, and of each read and write.
const FILE_BYTES: u64 = 16 << 20;
const IO_BYTES: u64 = 4096;
/// What is allocated at once, and of a file before it is truncated.
const ALLOCATED: u64 = 8 << 10;
const ALLOCATED_MAX: u64 = 1 << 20;
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
        Workload::Fallocate2 => &["allocate"],
        Workload::Clone => &["create and drop"],
    }
}

/// What the workers work on.
pub enum Place {
    /// Directories of their own, or a file in each.
    Names {
        fs: Arc<Ext4>,
        /// The directory of theirs, where each makes its own.
        all: InodeRef,
        dirs: Vec<OnceLock<InodeRef>>,
        workload: Workload,
    },
    /// One file.
    File { fs: Arc<Ext4>, file: InodeRef },
    /// One registry; a ring of namespaces for each.
    Namespaces {
        registry: MqueueType,
        rings: Vec<Mutex<VecDeque<IpcNamespace>>>,
    },
}

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
            Workload::Mdtest | Workload::CreateUnlink | Workload::Fallocate2 => {
                // What is freed stays in use until it is durable.
                let inodes = match workload {
                    Workload::Fallocate2 => items * 2,
                    _ => items,
                };
                let fs = mounted_for(workers, inodes, &choice.options)?;
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

    /// What a worker does once.
    ///
    /// # Errors
    /// An operation that fails.
    pub fn prepare(&self, worker: usize) -> Result<()> {
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
            let mut made = fs.create(&root, all, name.as_bytes(), &new_node(NewKind::Directory))?;
            if *workload == Workload::Fallocate2 {
                made = fs.create(&root, &made, b"file", &new_node(NewKind::Regular))?;
            }
            let _ = dirs[worker].set(made);
            count = phases(*workload).len();
        }
        for phase in 0..count {
            (0..WARM_UP).try_for_each(|item| self.run(worker, phase, item))?;
        }
        Ok(())
    }

    /// One operation of a phase.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, worker: usize, phase: usize, item: u32) -> Result<()> {
        let root = Caller::root();
        match self {
            Place::Names {
                fs, dirs, workload, ..
            } => {
                let dir = dirs[worker].get().context("a worker without directory")?;
                if *workload == Workload::Fallocate2 {
                    return allocate(fs, dir, item);
                }
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
            Place::Namespaces { registry, rings } => {
                let mut ring = ring(&rings[worker]);
                ring.push_back(registry.create(Limits::default()));
                drop(ring.pop_front());
            }
        }
        Ok(())
    }
}

/// The next blocks of a worker's file, or its first.
fn allocate(fs: &Ext4, file: &InodeRef, item: u32) -> Result<()> {
    let at = u64::from(item) * ALLOCATED % ALLOCATED_MAX;
    if at == 0 {
        fs.files.truncate(file, 0)?;
    }
    Ok(fs.fallocate(file, Fallocate::Allocate, at, ALLOCATED)?)
}

/// A worker's own.
fn ring(ring: &Mutex<VecDeque<IpcNamespace>>) -> std::sync::MutexGuard<'_, VecDeque<IpcNamespace>> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}
