//! Requests answered from a file system.
//!
//! # Data model
//! An open file has no data here: a request has the flags of its open file, and the kernel's reference keeps the inode. The
//! kernel checks permission (`default_permissions`, access control lists included), so each request is executed with the
//! caller's ids and every capability.
//!
//! # Locking
//! See [`nodes`]. All other locks are the file system's.
//!
//! | module | answers |
//! | --- | --- |
//! | `names` | look-ups and changes of names |
//! | `attributes` | attributes and extended attributes |
//! | `data` | open files |
//! | `directories` | listing |
//! | `control` | ioctls, the state of the file system, statistics |
//! | `paused` | changes that wait while the file system is frozen |
//! | [`nodes`] | the inodes that the kernel has references to |
//! | `invalidation` | notifications of stale caches |
//! | `convert` | values of the file system as values of the protocol |

mod attributes;
mod control;
mod convert;
mod data;
mod directories;
mod invalidation;
mod names;
pub mod nodes;
mod paused;

use crate::abi::{Opcode, ROOT_ID};
use crate::filesystem::{FuseFileSystem, Node};
use crate::gate::Gate;
use crate::handler::Handler;
use crate::mountpoint::Negotiated;
use crate::ownership::Ownership;
use crate::request::Request;
use crate::settings::{Settings, Synchronous};
use crate::statistics::{Statistics, name_of};
use crate::transport::TransportKind;
pub use invalidation::Invalidator;
use nodes::Nodes;
use paused::{Changes, is_change};
use serde_json::{Map, Value};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{Span, field::Empty};
use uext4_vfs::{Caller, Capabilities, Errno, Error, FileSystem, in_span};

/// The retries of an operation that found no space, and the pause before each: longer than it takes until another thread reads requests.
const FORGET_TRIES: u32 = 16;
const FORGET_PAUSE: Duration = Duration::from_millis(8);

/// The result of an answer: the length of what it wrote.
type Answer = uext4_vfs::Result<usize>;

/// The options of a server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Which changes are durable when they return.
    pub synchronous: Arc<Synchronous>,
    /// What changes the options of the mount while it is in use.
    pub settings: Option<Arc<dyn Settings>>,
    /// The owners and permissions that are shown.
    pub ownership: Ownership,
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
    changes: Changes,
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
        let root = adapter.root()?;
        Ok(Server {
            adapter,
            gate: Gate::new(workers),
            nodes: Nodes::new(root),
            negotiated,
            options,
            statistics: Statistics::new(workers),
            invalidator,
            changes: Changes::new(&[]),
            started: Instant::now(),
        })
    }

    /// The same, which can pause changes: `devices` are the descriptors that the workers' requests come from.
    #[must_use]
    pub fn with_devices(mut self, devices: &[Arc<OwnedFd>]) -> Server<F> {
        self.changes = Changes::new(devices);
        self
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

    /// The caller of a request. The kernel has checked operations that need a capability, except those that only the file
    /// system knows: they are reserved to the superuser.
    pub fn caller(&self, request: &Request<'_>) -> Caller {
        let header = request.header;
        let mut capabilities = Capabilities::all();
        if header.uid != 0 {
            capabilities -= Capabilities::SYS_ADMIN | Capabilities::SYS_RESOURCE;
        }
        self.options.ownership.caller(Caller {
            uid: header.uid,
            gid: header.gid,
            groups: None,
            capabilities,
            umask: 0,
        })
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
            Opcode::Interrupt => self.interrupt(request),
            Opcode::Release => self.release(request),
            // An open directory has no data here.
            Opcode::Releasedir | Opcode::Destroy => Ok(0),
            // After this answer the kernel does these itself: it opens directories without a request, closes without a
            // flush, reports files as always ready, and keeps locks.
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
        if is_change(request) {
            return self.handle_change(worker, self.changes.device(worker), request, out);
        }
        let answer = self.counted(worker, request, || self.answer_or_wait(request, out));
        if request.opcode == Opcode::Ioctl {
            // It may have ended a pause.
            self.execute_released(worker);
        }
        answer
    }

    fn stop(&self) {
        self.gate.close();
        self.changes.refuse(Errno(libc::ENOTCONN));
        // The last reference to an unlinked file deletes it.
        self.nodes.clear();
    }
}

impl<F: FuseFileSystem> Server<F> {
    /// Answers a request with `answer` and counts it.
    ///
    /// # Errors
    /// `ENOTCONN`: the server has stopped. Others as `answer`.
    pub fn counted(
        &self,
        worker: usize,
        request: &Request<'_>,
        answer: impl FnOnce() -> uext4_vfs::Result<Option<usize>>,
    ) -> Result<Option<usize>, Errno> {
        let _pass = self.gate.enter(worker).ok_or(Errno(libc::ENOTCONN))?;
        let start = Instant::now();
        let answer = in_span(|| self.span(request), answer);
        let failed = answer.as_ref().err().map(Error::errno);
        self.statistics
            .count(worker, request.opcode, start.elapsed(), failed);
        answer.map_err(|e| self.report(request, &e))
    }

    fn span(&self, request: &Request<'_>) -> Span {
        let inode = match request.header.nodeid {
            ROOT_ID => self.adapter.root_number(),
            id => id,
        };
        let operation = name_of(request.opcode);
        tracing::debug_span!("fuse", operation, inode, errno = Empty)
    }

    /// Answers a request; `None` if it has no reply.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn answer_or_wait(
        &self,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> uext4_vfs::Result<Option<usize>> {
        let len = self.retry_after_forget(|| self.answer(request, out))?;
        Ok(request.opcode.has_reply().then_some(len))
    }

    /// Retries an operation that found no space while the kernel forgets nodes. The kernel reports some time after the last
    /// close of an unlinked file that it has forgotten the file, and only then is the space free.
    pub fn retry_after_forget<T>(
        &self,
        mut attempt: impl FnMut() -> uext4_vfs::Result<T>,
    ) -> uext4_vfs::Result<T> {
        for _ in 0..FORGET_TRIES {
            match attempt() {
                Err(e) if e == Errno::ENOSPC || e == Errno::EMFILE => {}
                other => return other,
            }
            let held = self.nodes.count();
            std::thread::sleep(FORGET_PAUSE);
            if self.nodes.count() >= held {
                break;
            }
        }
        attempt()
    }

    /// Logs errors of the image or its device.
    fn report(&self, request: &Request<'_>, e: &Error) -> Errno {
        let errno = e.errno();
        if errno == Errno::EUCLEAN || errno == Errno::EIO {
            let (opcode, node) = (request.opcode, request.header.nodeid);
            tracing::error!("{opcode:?} of inode {node}: {e:#}");
        }
        errno
    }
}
