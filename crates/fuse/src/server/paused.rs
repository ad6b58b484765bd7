//! Changes that wait while they are paused, which they are while the file system is frozen.
//!
//! # Data model
//! A request that would change something is copied and occupies no thread: threads continue to answer reads, and
//! the request that ends the freeze. The thread that answers that one executes the copies.
//!
//! # Locking
//! Each change passes `fuse_changes`, a gate that is closed while a pause begins or ends, so that no change that the file
//! system would keep waiting reaches it. What waits is under a leaf lock.

use super::Server;
use crate::abi::{Opcode, input};
use crate::filesystem::FuseFileSystem;
use crate::request::Request;
use crate::transport::buffer::PAGE;
use crate::transport::reply::Replier;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use uext4_sync::{Gate, Mutex, Pass, class};
use uext4_vfs::Errno;

/// Room for the reply to a change.
const REPLY_BYTES_MAX: usize = 4096;

/// The direction of an ioctl that only returns something, in the bits of its number that give it.
const IOCTL_READ: u32 = 2;

/// What happens to a request that would change something.
pub(super) enum Admission<'a> {
    /// It runs until this is dropped.
    Runs(Pass<'a>),
    /// A copy waits.
    Waits,
}

/// Changes, running or waiting.
pub(super) struct Changes {
    running: Gate,
    is_paused: AtomicBool,
    waiting: Mutex<Vec<Waiting>>,
    /// What waited when a pause ended.
    released: Mutex<Vec<Waiting>>,
    /// The descriptor of each worker; none if a reply can't be given later.
    devices: Vec<Arc<OwnedFd>>,
}

/// A copy of a request.
pub(super) struct Waiting {
    header: input::Header,
    arg: Vec<u8>,
    /// From `start` on, which is a page's.
    payload: Vec<u8>,
    start: usize,
    device: Arc<OwnedFd>,
}

impl Waiting {
    /// # Errors
    /// `ENOMEM`.
    fn new(request: &Request<'_>, device: &Arc<OwnedFd>) -> Result<Waiting, Errno> {
        let data = request.payload();
        let mut payload: Vec<u8> = Vec::new();
        let reserved = payload.try_reserve_exact(data.len() + PAGE);
        reserved.map_err(|_| Errno(libc::ENOMEM))?;
        let start = payload.as_ptr().addr().wrapping_neg() % PAGE;
        payload.resize(start, 0);
        payload.extend_from_slice(data);
        Ok(Waiting {
            header: input::Header {
                total_extlen: 0,
                ..*request.header
            },
            arg: request.structure().to_vec(),
            payload,
            start,
            device: Arc::clone(device),
        })
    }

    fn request(&self) -> Result<Request<'_>, Errno> {
        let payload = self.payload.get(self.start..).unwrap_or_default();
        Request::from_parts(&self.header, &self.arg, payload)
    }

    fn reply(self, answer: Result<&[u8], Errno>) {
        let replier = Replier::new(self.device, self.header.unique);
        match answer {
            Ok(body) => replier.reply(Ok(&[body])),
            Err(errno) => replier.reply(Err(errno)),
        }
    }
}

/// Whether a request would change something. The last reference to a file without a name does so as well, which the
/// file system puts off itself.
pub(super) fn is_change(request: &Request<'_>) -> bool {
    match request.opcode {
        Opcode::Symlink
        | Opcode::Mknod
        | Opcode::Mkdir
        | Opcode::Create
        | Opcode::Tmpfile
        | Opcode::Unlink
        | Opcode::Rmdir
        | Opcode::Rename
        | Opcode::Rename2
        | Opcode::Link
        | Opcode::Setattr
        | Opcode::Setxattr
        | Opcode::Removexattr
        | Opcode::Write
        | Opcode::Fallocate
        | Opcode::CopyFileRange
        | Opcode::CopyFileRange64 => true,
        Opcode::Open => {
            let arg = request.arg::<input::Open>();
            arg.is_ok_and(|arg| arg.flags & libc::O_TRUNC as u32 != 0)
        }
        Opcode::Ioctl => {
            let arg = request.arg::<input::Ioctl>();
            arg.is_ok_and(|arg| {
                arg.cmd != crate::settings::SETTINGS_IOCTL && arg.cmd >> 30 != IOCTL_READ
            })
        }
        _ => false,
    }
}

impl Changes {
    /// Of workers with these descriptors.
    pub fn new(devices: &[Arc<OwnedFd>]) -> Changes {
        Changes {
            running: Gate::new(&class::FUSE_CHANGES),
            is_paused: AtomicBool::new(false),
            waiting: Mutex::new(&class::FROZEN, Vec::new()),
            released: Mutex::new(&class::FROZEN, Vec::new()),
            devices: devices.to_vec(),
        }
    }

    /// The descriptor of a worker.
    pub fn device(&self, worker: usize) -> Option<&Arc<OwnedFd>> {
        self.devices.get(worker)
    }

    /// Begins a change that came through `device`, or lets it wait.
    ///
    /// # Errors
    /// `ENOMEM`: it would wait, and there is no memory for that.
    #[inline]
    pub fn begin(
        &self,
        device: Option<&Arc<OwnedFd>>,
        request: &Request<'_>,
    ) -> Result<Admission<'_>, Errno> {
        let pass = self.running.pass();
        if !self.is_paused.load(Relaxed) {
            return Ok(Admission::Runs(pass));
        }
        // Changes are paused only where there is one.
        let copy = Waiting::new(request, device.ok_or(Errno::EIO)?)?;
        self.waiting.lock().push(copy);
        Ok(Admission::Waits)
    }

    /// Takes a change that waits, as its caller got a signal, and answers it.
    pub fn interrupt(&self, unique: u64) {
        let mut waiting = self.waiting.lock();
        let at = waiting.iter().position(|w| w.header.unique == unique);
        let found = at.map(|at| waiting.remove(at));
        drop(waiting);
        if let Some(found) = found {
            found.reply(Err(Errno::EINTR));
        }
    }

    /// Answers all changes that wait with `errno`.
    pub fn refuse(&self, errno: Errno) {
        for list in [&self.waiting, &self.released] {
            let refused = std::mem::take(&mut *list.lock());
            refused.into_iter().for_each(|w| w.reply(Err(errno)));
        }
    }

    fn set_paused(&self, is_paused: bool) {
        let _closed = self.running.close();
        self.is_paused.store(is_paused, Relaxed);
        if !is_paused {
            let waited = std::mem::take(&mut *self.waiting.lock());
            self.released.lock().extend(waited);
        }
    }

    /// Waits for changes that run, and lets later ones wait until [`Changes::resume`].
    ///
    /// # Errors
    /// `EOPNOTSUPP`: a request that waits would occupy what other requests need.
    pub fn pause(&self) -> Result<(), Errno> {
        if self.devices.is_empty() {
            return Err(Errno::EOPNOTSUPP);
        }
        self.set_paused(true);
        Ok(())
    }

    /// Lets changes run.
    pub fn resume(&self) {
        self.set_paused(false);
    }
}

impl<F: FuseFileSystem> Server<F> {
    /// Answers a request that came through `device` and would change something; `None` if it waits.
    pub(super) fn handle_change(
        &self,
        worker: usize,
        device: Option<&Arc<OwnedFd>>,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        match self.changes.begin(device, request)? {
            Admission::Waits => Ok(None),
            Admission::Runs(_pass) => {
                self.counted(worker, request, || self.answer_or_wait(request, out))
            }
        }
    }

    /// Executes what waited for the end of a pause, unless changes are paused again.
    pub(super) fn execute_released(&self, worker: usize) {
        let released = std::mem::take(&mut *self.changes.released.lock());
        let mut out = [0; REPLY_BYTES_MAX];
        for waiting in released {
            let answer = waiting.request().and_then(|request| {
                self.handle_change(worker, Some(&waiting.device), &request, &mut out)
            });
            match answer {
                Ok(Some(len)) => waiting.reply(out.get(..len).ok_or(Errno::EIO)),
                // It waits again, through the descriptor that it came from.
                Ok(None) => {}
                Err(errno) => waiting.reply(Err(errno)),
            }
        }
    }
}
