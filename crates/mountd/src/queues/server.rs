//! The request handler of message queues.

use super::adapter::QueueAdapter;
use super::call::{Answer, Call};
use super::long_messages::LongMessages;
use super::open_queues::{OpenQueue, OpenQueues};
use super::pending_sizes::{Creator, PendingSizes, Size};
use super::process;
use super::registrations::Registrations;
use super::waiting_calls::{WaitingCalls, WaitsFor};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use uext4::unstable::mqueue::{Description, MqFile, MqOpen, Node, Ready, protocol};
use uext4::{Errno, Result};
use uext4_fuse::abi::{
    NOTIFY_POLL, Opcode, OpenReply, POLL_SCHEDULE_NOTIFY, ROOT_ID, input, output,
};
use uext4_fuse::filesystem::VALID_SECONDS;
use uext4_fuse::handler::{Handler, put};
use uext4_fuse::transport::reply::{Replier, send_notification};
use uext4_fuse::{Request, Server};
use zerocopy::{FromBytes, IntoBytes};

/// The events of poll(2) for a readable and a writable queue.
const READABLE: u32 = (libc::POLLIN | libc::POLLRDNORM) as u32;
const WRITABLE: u32 = (libc::POLLOUT | libc::POLLWRNORM) as u32;

/// Answers requests for the queues of a namespace.
pub struct QueueServer {
    server: Server<QueueAdapter>,
    open_queues: OpenQueues,
    pending_sizes: PendingSizes,
    pub(super) long_messages: Arc<LongMessages>,
    pub(super) waiting_calls: Arc<WaitingCalls>,
    pub(super) registrations: Arc<Registrations>,
    /// The descriptor that each thread reads requests from.
    devices: Vec<Arc<OwnedFd>>,
    /// For notifications.
    connection: Arc<OwnedFd>,
}

impl QueueServer {
    /// A server whose threads read from `devices`.
    pub fn new(
        server: Server<QueueAdapter>,
        devices: &[Arc<OwnedFd>],
        connection: OwnedFd,
    ) -> QueueServer {
        QueueServer {
            server,
            open_queues: OpenQueues::default(),
            pending_sizes: PendingSizes::default(),
            long_messages: Arc::default(),
            waiting_calls: Arc::default(),
            registrations: Arc::default(),
            devices: devices.to_vec(),
            connection: Arc::new(connection),
        }
    }

    /// Ends calls whose deadline has passed, until the server stops.
    pub fn expire_calls(&self) {
        self.waiting_calls
            .expire(|unique, what| self.end_call(unique, what, Errno::ETIMEDOUT));
    }

    /// Ends a waiting call with an error.
    pub(super) fn end_call(&self, unique: u64, what: WaitsFor, why: Errno) {
        match what {
            // The queue does not find a call that is complete or not entered yet. The latter checks for its end itself.
            WaitsFor::Queue(opened) => drop(opened.description.node().queue.cancel(unique, why)),
            WaitsFor::Registration(fh, id) => self.registrations.interrupt((fh, id), unique, why),
        }
    }

    /// What sends a later reply to a request that thread `worker` has read.
    ///
    /// # Errors
    /// `EIO`: no such thread.
    pub(super) fn replier(&self, worker: usize, request: &Request<'_>) -> Result<Replier, Errno> {
        let device = self.devices.get(worker).ok_or(Errno::EIO)?;
        Ok(Replier::new(Arc::clone(device), request.header.unique))
    }

    fn answer(&self, worker: usize, request: &Request<'_>, out: &mut [u8]) -> Answer {
        match request.opcode {
            Opcode::Open => self.open(request, out),
            Opcode::Create => {
                let size = self.pending_sizes.take(&creator(request, request.name()?));
                self.server
                    .retry_after_forget(|| self.create(request, size, out))
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
        // Before the file is truncated.
        check_flags(arg.flags)?;
        let file = MqFile::Queue(Arc::clone(&node));
        self.server
            .prepare_open(request, &file, arg.flags, arg.open_flags)?;
        Ok(Some(put(out, &self.opened(node, arg.flags))?))
    }

    /// Opens a queue. The kernel has checked the permission.
    fn opened(&self, node: Arc<Node>, flags: u32) -> output::Open {
        let description = Description::new(node, access_mode(flags) | MqOpen::NONBLOCK);
        output::Open {
            fh: self.open_queues.insert(description),
            // The text in a queue file changes with each message.
            open_flags: OpenReply::DIRECT_IO.bits(),
            ..output::Open::default()
        }
    }

    fn create(&self, request: &Request<'_>, size: Option<Size>, out: &mut [u8]) -> Answer {
        let arg: input::Create = request.arg()?;
        // Before the queue is created: after a failure, the kernel keeps its negative entry.
        check_flags(arg.flags)?;
        let name = request.name()?;
        let mut wanted = access_mode(arg.flags) | MqOpen::CREATE;
        wanted.set(MqOpen::EXCLUSIVE, arg.flags & libc::O_EXCL as u32 != 0);
        let caller = self.server.caller(request).with_umask(arg.umask as u16);
        let mode = (arg.mode & 0o7777) as u16;
        let path = [b"/", name].concat();
        let made = self.server.fs().open(&caller, &path, wanted, mode, size);
        let node = Arc::clone(made?.node());
        let (entry, _) = self
            .server
            .entry(MqFile::Queue(Arc::clone(&node)), VALID_SECONDS)?;
        let at = put(out, &entry)?;
        let opened = self.opened(node, arg.flags);
        let len = put(&mut out[at..], &opened)?;
        Ok(Some(at + len))
    }

    fn handle(&self, fh: u64) -> Result<Arc<OpenQueue>, Errno> {
        self.open_queues.get(fh).ok_or(Errno::EBADF)
    }

    /// The last descriptor of an open file is closed.
    fn release(&self, request: &Request<'_>) -> Answer {
        let arg: input::Release = request.arg()?;
        self.open_queues.remove(arg.fh);
        self.long_messages.close(arg.fh);
        self.registrations.close(arg.fh);
        Ok(Some(0))
    }

    /// A descriptor is closed. Removes a registration of the process that closes it.
    fn flush(&self, request: &Request<'_>) -> Answer {
        let arg: input::Flush = request.arg()?;
        if let Some(opened) = self.open_queues.get(arg.fh) {
            let queue = &opened.description.node().queue;
            let registered = queue.registrant().map(|registrant| registrant.process);
            if let Some(process) = registered
                && process::is_thread_of(process, request.header.pid)
            {
                queue.unregister(|registrant| registrant.process == process);
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
            let wakeup = opened.wakeup.get_or_init(|| {
                let connection = Arc::clone(&self.connection);
                let body = output::PollWakeup { kh: arg.kh };
                Arc::new(move || send_notification(&connection, NOTIFY_POLL, body.as_bytes()))
            });
            opened.description.watch(interest, Arc::clone(wakeup))
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

    /// The caller of a request got a signal.
    fn interrupt(&self, request: &Request<'_>) -> Answer {
        let arg: input::Interrupt = request.arg()?;
        if let Some(what) = self.waiting_calls.interrupt(arg.unique) {
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
        self.dispatch(call)
    }

    fn dispatch(&self, call: Call<'_>) -> Answer {
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
            UNTIL => self.set_deadline(call),
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

    /// Remembers the size of a queue that the caller is about to create.
    fn prepare(&self, request: &Request<'_>, command: u32, input: &[u8], out: &mut [u8]) -> Answer {
        if command != protocol::PREPARE.0 {
            return Err(Errno::ENOTTY.into());
        }
        let Ok((size, name)) = protocol::Prepare::read_from_prefix(input) else {
            return Err(Errno::EINVAL.into());
        };
        let creator = creator(request, name);
        match size.maxmsg {
            protocol::FORGET => drop(self.pending_sizes.take(&creator)),
            maxmsg => self.pending_sizes.remember(creator, (maxmsg, size.msgsize)),
        }
        Ok(Some(put(out, &output::Ioctl::default())?))
    }
}

/// Replies with the attributes of a queue. For mq_setattr(3), the description keeps `O_NONBLOCK`: the caller's own flag is
/// in the kernel.
fn attributes(mut call: Call<'_>, is_setattr: bool) -> Answer {
    call.check_memory::<protocol::Attributes>()?;
    let description = &call.opened.description;
    let attr = match is_setattr {
        true => description.setattr(uext4::unstable::mqueue::description::O_NONBLOCK)?,
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

fn creator(request: &Request<'_>, name: &[u8]) -> Creator {
    Creator {
        tid: request.header.pid,
        uid: request.header.uid,
        name: name.into(),
    }
}

/// Checks the flags of open(2).
///
/// # Errors
/// `EINVAL`: `O_DIRECT`, which queue files do not have.
fn check_flags(flags: u32) -> Result<(), Errno> {
    match flags & libc::O_DIRECT as u32 {
        0 => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// The access mode in the flags of open(2).
fn access_mode(flags: u32) -> MqOpen {
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
        self.waiting_calls
            .stop(|unique, what| self.end_call(unique, what, Errno(libc::ENOTCONN)));
        self.open_queues.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use uext4::unstable::mqueue::{Limits, MqueueType};
    use uext4_fuse::{Invalidator, Negotiated, ServerOptions};

    fn answer(server: &QueueServer, node: u64, opcode: Opcode, body: &[u8]) -> Option<Vec<u8>> {
        let header = input::Header {
            len: (size_of::<input::Header>() + body.len()) as u32,
            opcode: opcode as u32,
            unique: 7,
            nodeid: node,
            uid: 0,
            gid: 0,
            pid: 1,
            total_extlen: 0,
            padding: 0,
        };
        let bytes = [header.as_bytes(), body].concat();
        let request = Request::from_bytes(&bytes).expect("a request");
        let mut out = vec![0; 1 << 16];
        let len = Handler::handle(server, 0, &request, &mut out).expect("no error")?;
        out.truncate(len);
        Some(out)
    }

    /// Calls that wait refer to their queue, and it to them: a server that stops ends them.
    #[test]
    fn regression_a_server_that_stops_keeps_no_call() {
        let null = || File::options().read(true).write(true).open("/dev/null");
        let connection = || OwnedFd::from(null().expect("present"));
        let adapter = QueueAdapter(MqueueType::default().create(Limits::default()));
        let invalidator = Invalidator::without_data(&connection()).expect("a descriptor");
        let options = ServerOptions::default();
        let server = Server::new(adapter, 1, Negotiated::default(), options, invalidator);
        let server = server.expect("a root");
        let device = Arc::new(connection());
        let server = QueueServer::new(server, &[Arc::clone(&device)], connection());
        let create = input::Create {
            flags: (libc::O_RDWR | libc::O_CREAT).cast_unsigned(),
            mode: 0o600,
            umask: 0,
            open_flags: 0,
        };
        let body = [create.as_bytes(), b"q\0"].concat();
        let reply = answer(&server, ROOT_ID, Opcode::Create, &body).expect("a reply");
        let number = |at: usize| reply[at..].first_chunk().copied().map(u64::from_ne_bytes);
        let (node, fh) = (number(0).expect("a node"), number(128).expect("a handle"));
        let receive = input::Ioctl {
            fh,
            flags: 0,
            cmd: protocol::number(protocol::RECEIVE, 8192),
            arg: 0,
            in_size: 0,
            out_size: 8192,
        };
        let waits = answer(&server, node, Opcode::Ioctl, receive.as_bytes());
        assert!(waits.is_none(), "an empty queue has nothing");
        let kept = Arc::downgrade(&device);
        drop(device);
        server.stop();
        drop(server);
        assert!(kept.upgrade().is_none(), "a call still has the descriptor");
    }
}
