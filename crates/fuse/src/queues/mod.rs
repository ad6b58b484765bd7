//! Message queues served to the kernel: what their files can do beside those of any file system.
//!
//! # Data model
//! An open file is a [`Description`], as a queue's registrations and watches belong to it. Messages go by ioctls
//! ([`uext4::mqueue::protocol`]). A call that has to wait occupies no thread: it lies in its queue, and whoever completes
//! it gives its reply, so the thread that sends a message is the one that wakes the receiver. Names, attributes and
//! permission are [`Server`]'s.
//!
//! # Invariants
//! A request is answered once: by the thread that read it, or by who takes its call out of the queue, under the
//! queue's lock. Who is killed while he waits gets no message: the kernel interrupts his request and waits for
//! the answer.
//!
//! # Locking
//! Tables of open files and of calls that wait, none of them held while a queue is used.
//!
//! | module | holds |
//! | --- | --- |
//! | [`handles`], [`prepared`] | queues that are open, and sizes of those to be made |
//! | `messages`, [`pieces`] | sending and receiving; what is longer than a request |
//! | [`calls`] | who waits, and until when |
//! | `telling`, [`registrations`] | registrations for a notification |
//! | [`process`] | what is asked and told of processes |

pub mod calls;
pub mod handles;
mod messages;
pub mod pieces;
pub mod prepared;
pub mod process;
pub mod registrations;
mod telling;

use crate::abi::{NOTIFY_POLL, Opcode, OpenReply, POLL_SCHEDULE_NOTIFY, ROOT_ID, input, output};
use crate::handler::{Handler, put};
use crate::request::Request;
use crate::server::Server;
use crate::transport::reply::{Replier, send_notification};
use calls::{Calls, WaitsFor};
use handles::{Handles, Opened};
use pieces::Pieces;
use prepared::{Maker, Prepared, Size};
use registrations::Registrations;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use uext4::mqueue::{Description, MqFile, MqOpen, Namespace, Node, Ready, protocol};
use uext4::{Errno, Result};
use zerocopy::{FromBytes, IntoBytes};

/// An answer: the reply's length, or `None` where it is given later.
type Answer = Result<Option<usize>>;

/// What poll(2) calls readable and writable.
const READABLE: u32 = (libc::POLLIN | libc::POLLRDNORM) as u32;
const WRITABLE: u32 = (libc::POLLOUT | libc::POLLWRNORM) as u32;

/// Answers requests for the queues of a namespace.
pub struct QueueServer {
    server: Server<Namespace>,
    handles: Handles,
    prepared: Prepared,
    pieces: Arc<Pieces>,
    calls: Arc<Calls>,
    registrations: Arc<Registrations>,
    /// The descriptor that each thread reads requests from.
    devices: Vec<Arc<OwnedFd>>,
    /// Tells the kernel of what it did not ask for.
    connection: Arc<OwnedFd>,
}

impl QueueServer {
    /// A server whose threads read from `devices`.
    pub fn new(
        server: Server<Namespace>,
        devices: &[Arc<OwnedFd>],
        connection: OwnedFd,
    ) -> QueueServer {
        QueueServer {
            server,
            handles: Handles::default(),
            prepared: Prepared::default(),
            pieces: Arc::default(),
            calls: Arc::default(),
            registrations: Arc::default(),
            devices: devices.to_vec(),
            connection: Arc::new(connection),
        }
    }

    /// Ends calls whose time has come, until the server stops.
    pub fn watch_the_clock(&self) {
        self.calls
            .watch_the_clock(|unique, what| self.end_call(unique, what, Errno::ETIMEDOUT));
    }

    fn end_call(&self, unique: u64, what: WaitsFor, why: Errno) {
        match what {
            // One that is complete, or not there yet, is not to be found; the latter looks for its end itself.
            WaitsFor::Queue(opened) => drop(opened.description.node().queue.cancel(unique, why)),
            WaitsFor::Registration(fh, id) => self.registrations.interrupt((fh, id), unique),
        }
    }

    /// Where the reply of a request that a thread has read goes later.
    ///
    /// # Errors
    /// `EIO`: there is no such thread.
    fn replier(&self, worker: usize, request: &Request<'_>) -> Result<Replier, Errno> {
        let device = self.devices.get(worker).ok_or(Errno::EIO)?;
        Ok(Replier::new(Arc::clone(device), request.header.unique))
    }

    fn answer(&self, worker: usize, request: &Request<'_>, out: &mut [u8]) -> Answer {
        match request.opcode {
            Opcode::Open => self.open(request, out),
            Opcode::Create => {
                let size = self.prepared.take(&maker(request, request.name()?));
                self.server
                    .once_given_back(|| self.create(request, size, out))
            }
            Opcode::Release => self.release(request),
            Opcode::Flush => self.flush(request),
            Opcode::Poll => self.poll(request, out),
            Opcode::Ioctl => self.ioctl(worker, request, out),
            Opcode::Interrupt => self.interrupt(request),
            Opcode::Lookup if request.name()? == protocol::PROBE => {
                Err(Errno(libc::ENOTUNIQ).into())
            }
            _ => self.server.answer_or_wait(request, out),
        }
    }

    fn open(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Open = request.arg()?;
        let MqFile::Queue(node) = self.server.node(request.header.nodeid)? else {
            return Err(Errno::EISDIR.into());
        };
        // Before it is cut.
        check_flags(arg.flags)?;
        let file = MqFile::Queue(Arc::clone(&node));
        self.server
            .prepare_open(request, &file, arg.flags, arg.open_flags)?;
        Ok(Some(put(out, &self.opened(node, arg.flags))?))
    }

    /// Opens a queue for whoever the kernel found to be allowed to.
    fn opened(&self, node: Arc<Node>, flags: u32) -> output::Open {
        let description = Description::new(node, how(flags) | MqOpen::NONBLOCK);
        output::Open {
            fh: self.handles.insert(description),
            // The status line changes with each message.
            open_flags: OpenReply::DIRECT_IO.bits(),
            ..output::Open::default()
        }
    }

    fn create(&self, request: &Request<'_>, size: Option<Size>, out: &mut [u8]) -> Answer {
        let arg: input::Create = request.arg()?;
        // The kernel would go on knowing that there is none, if it failed with the queue made.
        check_flags(arg.flags)?;
        let name = request.name()?;
        let mut wanted = how(arg.flags) | MqOpen::CREATE;
        wanted.set(MqOpen::EXCLUSIVE, arg.flags & libc::O_EXCL as u32 != 0);
        let caller = self.server.caller(request).with_umask(arg.umask as u16);
        let mode = (arg.mode & 0o7777) as u16;
        let path = [b"/", name].concat();
        let made = self.server.fs().open(&caller, &path, wanted, mode, size);
        let node = Arc::clone(made?.node());
        let (entry, _) = self.server.entry(MqFile::Queue(Arc::clone(&node)))?;
        let at = put(out, &entry)?;
        let opened = self.opened(node, arg.flags);
        let len = put(out.get_mut(at..).unwrap_or_default(), &opened)?;
        Ok(Some(at + len))
    }

    fn handle(&self, fh: u64) -> Result<Arc<Opened>, Errno> {
        self.handles.get(fh).ok_or(Errno::EBADF)
    }

    /// The last descriptor is closed.
    fn release(&self, request: &Request<'_>) -> Answer {
        let arg: input::Release = request.arg()?;
        self.handles.remove(arg.fh);
        self.pieces.close(arg.fh);
        self.registrations.close(arg.fh);
        Ok(Some(0))
    }

    /// A descriptor is closed, perhaps with its process: a registration of that goes.
    fn flush(&self, request: &Request<'_>) -> Answer {
        let arg: input::Flush = request.arg()?;
        if let Some(opened) = self.handles.get(arg.fh) {
            let queue = &opened.description.node().queue;
            let theirs = queue.registrant().map(|who| who.process);
            if let Some(process) = theirs
                && process::is_thread_of(process, request.header.pid)
            {
                queue.unregister(|who| who.process == process);
            }
        }
        Ok(Some(0))
    }

    fn poll(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Poll = request.arg()?;
        let opened = self.handle(arg.fh)?;
        let ready = if arg.flags & POLL_SCHEDULE_NOTIFY != 0 {
            let mut interest = Ready::empty();
            interest.set(Ready::READ, arg.events & READABLE != 0);
            interest.set(Ready::WRITE, arg.events & WRITABLE != 0);
            let tell = opened.tell.get_or_init(|| {
                let connection = Arc::clone(&self.connection);
                let again = output::PollWakeup { kh: arg.kh };
                Arc::new(move || send_notification(&connection, NOTIFY_POLL, again.as_bytes()))
            });
            opened.description.watch(interest, Arc::clone(tell))
        } else {
            opened.description.poll()
        };
        let mut revents = 0;
        if ready.contains(Ready::READ) {
            revents |= READABLE;
        }
        if ready.contains(Ready::WRITE) {
            revents |= WRITABLE;
        }
        let reply = output::Poll {
            revents,
            padding: 0,
        };
        Ok(Some(put(out, &reply)?))
    }

    /// Whoever waits for a request is interrupted, or killed.
    fn interrupt(&self, request: &Request<'_>) -> Answer {
        let arg: input::Interrupt = request.arg()?;
        if let Some(what) = self.calls.interrupt(arg.unique) {
            self.end_call(arg.unique, what, Errno::EINTR);
        }
        Ok(None)
    }

    fn ioctl(&self, worker: usize, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Ioctl = request.arg()?;
        let command = protocol::command_of(arg.cmd).ok_or(Errno::ENOTTY)?;
        let input = request.payload();
        let input = input.get(..arg.in_size as usize).ok_or(Errno::EIO)?;
        if request.header.nodeid == ROOT_ID {
            return self.prepare(request, command, input, out);
        }
        let head = put(out, &output::Ioctl::default())?;
        let room = out.len().min(head + arg.out_size as usize);
        let call = Call {
            worker,
            request,
            opened: self.handle(arg.fh)?,
            command,
            input,
            head,
            out: &mut out[..room],
        };
        self.call(call)
    }

    fn call(&self, call: Call<'_>) -> Answer {
        const RECEIVE: u32 = protocol::RECEIVE.0;
        const RECEIVE_NOWAIT: u32 = protocol::RECEIVE_NOWAIT.0;
        const RECEIVE_WITH: u32 = protocol::RECEIVE_WITH.0;
        const RECEIVE_UNTIL: u32 = protocol::RECEIVE_UNTIL.0;
        const UNTIL: u32 = protocol::UNTIL.0;
        const SEND: u32 = protocol::SEND.0;
        const STAGE: u32 = protocol::STAGE.0;
        const FETCH: u32 = protocol::FETCH.0;
        const GETATTR: u32 = protocol::GETATTR.0;
        const SETATTR: u32 = protocol::SETATTR.0;
        const NOTIFY: u32 = protocol::NOTIFY.0;
        const AWAIT: u32 = protocol::AWAIT.0;
        match call.command {
            RECEIVE | RECEIVE_NOWAIT | RECEIVE_WITH | RECEIVE_UNTIL => self.receive(call),
            UNTIL => messages::until(call),
            SEND => self.send(call),
            STAGE => self.stage(call),
            FETCH => self.fetch(call),
            GETATTR => attributes(call, false),
            SETATTR => attributes(call, true),
            NOTIFY => self.notify(call),
            AWAIT => self.wait_for_registration(call),
            _ => Err(Errno::ENOTTY.into()),
        }
    }

    /// Remembers the size of a queue that the caller is about to make.
    fn prepare(&self, request: &Request<'_>, command: u32, input: &[u8], out: &mut [u8]) -> Answer {
        if command != protocol::PREPARE.0 {
            return Err(Errno::ENOTTY.into());
        }
        let Ok((size, name)) = protocol::Prepare::read_from_prefix(input) else {
            return Err(Errno::EINVAL.into());
        };
        let maker = maker(request, name);
        match size.maxmsg {
            protocol::FORGET => drop(self.prepared.take(&maker)),
            maxmsg => self.prepared.remember(maker, (maxmsg, size.msgsize)),
        }
        Ok(Some(put(out, &output::Ioctl::default())?))
    }
}

/// An ioctl on a queue.
struct Call<'a> {
    /// The thread that read it.
    worker: usize,
    request: &'a Request<'a>,
    opened: Arc<Opened>,
    command: u32,
    input: &'a [u8],
    /// Where in the reply the caller's memory begins.
    head: usize,
    /// The reply, up to the end of the caller's memory.
    out: &'a mut [u8],
}

impl Call<'_> {
    /// What the input begins with, and what follows it.
    ///
    /// # Errors
    /// `EINVAL`: it is too short.
    fn argument<T: FromBytes>(&self) -> Result<(T, &[u8]), Errno> {
        T::read_from_prefix(self.input).map_err(|_| Errno::EINVAL)
    }

    /// Checks that the caller's memory has room for a structure.
    ///
    /// # Errors
    /// `EINVAL`: it has not.
    fn check_memory<T>(&mut self) -> Result<(), Errno> {
        match self.memory().len() < size_of::<T>() {
            true => Err(Errno::EINVAL),
            false => Ok(()),
        }
    }

    /// The caller's memory.
    fn memory(&mut self) -> &mut [u8] {
        &mut self.out[self.head..]
    }

    /// The reply, with so many bytes of the caller's memory.
    fn done(&self, len: usize) -> Answer {
        Ok(Some(self.head + len))
    }
}

fn attributes(mut call: Call<'_>, are_set: bool) -> Answer {
    call.check_memory::<protocol::Attributes>()?;
    let description = &call.opened.description;
    let attr = match are_set {
        true => description.setattr(uext4::mqueue::description::O_NONBLOCK)?,
        false => description.getattr(),
    };
    let reply = protocol::Attributes {
        maxmsg: attr.maxmsg,
        msgsize: attr.msgsize,
        curmsgs: attr.curmsgs,
    };
    let len = put(call.memory(), &reply)?;
    call.done(len)
}

fn maker(request: &Request<'_>, name: &[u8]) -> Maker {
    Maker {
        tid: request.header.pid,
        uid: request.header.uid,
        name: name.into(),
    }
}

/// `EINVAL` for `O_DIRECT`, which no file of a queue can do.
fn check_flags(flags: u32) -> Result<(), Errno> {
    match flags & libc::O_DIRECT as u32 {
        0 => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// What a file that is opened with these flags can be used for.
fn how(flags: u32) -> MqOpen {
    match flags.cast_signed() & libc::O_ACCMODE {
        libc::O_RDONLY => MqOpen::READ,
        libc::O_WRONLY => MqOpen::WRITE,
        _ => MqOpen::READ | MqOpen::WRITE,
    }
}

impl Handler for QueueServer {
    fn handle(
        &self,
        worker: usize,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        self.server
            .counted(worker, request, || self.answer(worker, request, out))
    }

    fn stop(&self) {
        self.server.stop();
        self.calls.stop();
        self.handles.clear();
    }
}
