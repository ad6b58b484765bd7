//! Requests answered from a file system.
//!
//! # Data model
//! Nothing is kept of an open file: a request says what it was opened for, and the kernel's reference keeps the inode.
//! The kernel checks permission (`default_permissions`, access control lists included), so what gets here was
//! allowed, and is done with the caller's ids and every capability.
//!
//! # Locking
//! See [`nodes`]; all else is the file system's.
//!
//! | module | answers |
//! | --- | --- |
//! | `names` | look-ups, and whatever changes names |
//! | `attributes` | attributes and extended attributes |
//! | `data` | open files |
//! | `directories` | listing |
//! | `control` | ioctls, the state of the file system, statistics |
//! | [`nodes`] | which inodes the kernel has |
//! | `convert` | values of the file system to those of the protocol |

mod attributes;
mod control;
mod convert;
mod data;
mod directories;
mod invalidation;
mod names;
pub mod nodes;

use crate::abi::{Opcode, ROOT_ID};
use crate::filesystem::{FuseFileSystem, Node};
use crate::gate::Gate;
use crate::handler::Handler;
use crate::mountpoint::Negotiated;
use crate::request::Request;
use crate::settings::{Settings, Synchronous};
use crate::statistics::Statistics;
use crate::transport::TransportKind;
pub use invalidation::Invalidator;
use nodes::Nodes;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uext4_vfs::{Caller, Capabilities, Errno, Error, FileSystem};

/// How often what found no room is tried again, and how long after the last time.
const GIVEN_BACK_TRIES: u32 = 16;
const GIVEN_BACK_PAUSE: Duration = Duration::from_millis(4);

/// The result of an answer: the length of what it wrote.
type Answer = uext4_vfs::Result<usize>;

/// What a server is told beside what was negotiated.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Which changes are durable when they return.
    pub synchronous: Arc<Synchronous>,
    /// Who changes what of the mount can change.
    pub settings: Option<Arc<dyn Settings>>,
    /// What the statistics report besides counters: the image, the transport.
    pub facts: Map<String, Value>,
}

impl ServerOptions {
    /// These, with the transport and its number of threads among the facts.
    #[must_use]
    pub fn with_transport(&self, workers: usize, transport: TransportKind) -> ServerOptions {
        let mut options = self.clone();
        let facts = &mut options.facts;
        facts.insert("transport".into(), transport.name().into());
        facts.insert("threads".into(), workers.into());
        options
    }
}

/// Answers requests from a file system.
pub struct Server<F: FuseFileSystem> {
    adapter: F,
    gate: Gate,
    nodes: Nodes<Node<F>>,
    negotiated: Negotiated,
    options: ServerOptions,
    statistics: Statistics,
    invalidator: Invalidator,
    started: Instant,
}

impl<F: FuseFileSystem> Server<F> {
    /// A server for `workers` threads.
    ///
    /// # Errors
    /// `EUCLEAN`: the root directory cannot be read.
    pub fn new(
        adapter: F,
        workers: usize,
        negotiated: Negotiated,
        options: ServerOptions,
        invalidator: Invalidator,
    ) -> uext4_vfs::Result<Server<F>> {
        let root = adapter.fs().root()?;
        Ok(Server {
            adapter,
            gate: Gate::new(workers),
            nodes: Nodes::new(root),
            negotiated,
            options,
            statistics: Statistics::new(workers),
            invalidator,
            started: Instant::now(),
        })
    }

    /// The file system that is served.
    pub fn fs(&self) -> &F::Fs {
        self.adapter.fs()
    }

    /// The node with that id.
    ///
    /// # Errors
    /// `ESTALE`: the kernel has no reference to it.
    pub fn node(&self, id: u64) -> Result<Node<F>, Errno> {
        self.nodes.get(id).ok_or(Errno::ESTALE)
    }

    /// The id of the node with that inode number.
    fn id_of(&self, ino: u64) -> u64 {
        match ino == self.adapter.root_number() {
            true => ROOT_ID,
            false => ino,
        }
    }

    /// Who asks. What needs a capability was checked by the kernel, but for what only ext4 knows: that is for the
    /// superuser.
    pub fn caller(&self, request: &Request<'_>) -> Caller {
        let header = request.header;
        let mut capabilities = Capabilities::all();
        if header.uid != 0 {
            capabilities -= Capabilities::SYS_ADMIN | Capabilities::SYS_RESOURCE;
        }
        Caller {
            uid: header.uid,
            gid: header.gid,
            groups: None,
            capabilities,
            umask: 0,
        }
    }

    fn answer(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        match request.opcode {
            Opcode::Lookup => self.lookup(request, out),
            Opcode::Forget => self.forget(request),
            Opcode::BatchForget => self.batch_forget(request),
            Opcode::Symlink => self.symlink(request, out),
            Opcode::Mknod => self.mknod(request, out),
            Opcode::Mkdir => self.mkdir(request, out),
            Opcode::Create => self.create(request, out),
            Opcode::Tmpfile => self.tmpfile(request, out),
            Opcode::Unlink => self.unlink(request),
            Opcode::Rmdir => self.rmdir(request),
            Opcode::Rename | Opcode::Rename2 => self.rename(request),
            Opcode::Link => self.link(request, out),
            Opcode::Readlink => self.readlink(request, out),
            Opcode::Getattr => self.getattr(request, out),
            Opcode::Statx => self.statx(request, out),
            Opcode::Setattr => self.setattr(request, out),
            Opcode::Access => self.access(request),
            Opcode::Getxattr => self.getxattr(request, out),
            Opcode::Listxattr => self.listxattr(request, out),
            Opcode::Setxattr => self.setxattr(request),
            Opcode::Removexattr => self.removexattr(request),
            Opcode::Open => self.open(request, out),
            Opcode::Read => self.read(request, out),
            Opcode::Write => self.write(request, out),
            Opcode::Fallocate => self.fallocate(request),
            Opcode::Lseek => self.lseek(request, out),
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => self.copy_file_range(request, out),
            Opcode::Fsync | Opcode::Fsyncdir => self.fsync(request),
            Opcode::Syncfs => self.fs().syncfs().map(|()| 0),
            Opcode::Readdir => self.readdir(request, out, false),
            Opcode::Readdirplus => self.readdir(request, out, true),
            Opcode::Statfs => self.statfs(out),
            Opcode::Ioctl => self.ioctl(request, out),
            // Nothing is kept of an open file; nothing waits so long that it could be interrupted.
            Opcode::Release | Opcode::Releasedir | Opcode::Interrupt | Opcode::Destroy => Ok(0),
            // The kernel does these itself from the first such answer on: directories are open without asking,
            // closing writes nothing that is not written, files are always ready, locks are its own.
            Opcode::Opendir
            | Opcode::Flush
            | Opcode::Poll
            | Opcode::Getlk
            | Opcode::Setlk
            | Opcode::Setlkw
            | Opcode::Bmap
            | Opcode::Init
            | Opcode::NotifyReply => Err(Errno::ENOSYS.into()),
        }
    }
}

impl<F: FuseFileSystem> Handler for Server<F> {
    fn handle(
        &self,
        worker: usize,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        self.counted(worker, request, || self.answer_or_wait(request, out))
    }

    fn stop(&self) {
        self.gate.close();
        // Files without a name go with their last reference.
        self.nodes.clear();
    }
}

impl<F: FuseFileSystem> Server<F> {
    /// Lets `answer` answer a request, unless no more are answered, and counts it.
    pub fn counted(
        &self,
        worker: usize,
        request: &Request<'_>,
        answer: impl FnOnce() -> uext4_vfs::Result<Option<usize>>,
    ) -> Result<Option<usize>, Errno> {
        let _pass = self.gate.enter(worker).ok_or(Errno(libc::ENOTCONN))?;
        let start = Instant::now();
        let answer = answer();
        let failed = answer.is_err();
        self.statistics
            .count(worker, request.opcode, start.elapsed(), failed);
        answer.map_err(|e| self.report(request, &e))
    }

    /// Answers a request, `None` where it has no reply.
    pub fn answer_or_wait(
        &self,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> uext4_vfs::Result<Option<usize>> {
        let len = self.retry_after_forget(|| self.answer(request, out))?;
        Ok(request.opcode.has_reply().then_some(len))
    }

    /// Tries again what found no room, as long as the kernel gives nodes back meanwhile: it tells some time after a file
    /// without a name was closed, and whoever removed it expects its room now.
    pub fn retry_after_forget<T>(
        &self,
        mut attempt: impl FnMut() -> uext4_vfs::Result<T>,
    ) -> uext4_vfs::Result<T> {
        for _ in 0..GIVEN_BACK_TRIES {
            let held = self.nodes.count();
            match attempt() {
                Err(e) if e == Errno::ENOSPC || e == Errno::EMFILE => {}
                other => return other,
            }
            std::thread::sleep(GIVEN_BACK_PAUSE);
            if self.nodes.count() >= held {
                break;
            }
        }
        attempt()
    }

    /// Logs what is wrong with the image or its device, and not with the request.
    fn report(&self, request: &Request<'_>, e: &Error) -> Errno {
        let errno = e.errno();
        if errno == Errno::EUCLEAN || errno == Errno::EIO {
            let (opcode, node) = (request.opcode, request.header.nodeid);
            tracing::error!("{opcode:?} of inode {node}: {e:#}");
        }
        errno
    }
}
