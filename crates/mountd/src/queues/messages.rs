//! Sending and receiving, at once or after waiting.

use super::call::{Answer, Call};
use super::long_messages::LongMessages;
use super::notifications::with_sender;
use super::open_queues::OpenQueue;
use super::process;
use super::server::QueueServer;
use super::waiting_calls::{LaterReply, WaitsFor};
use std::sync::Arc;
use uext4::unstable::mqueue::protocol::{self, Piece, Receive, Received, Send, Until};
use uext4::unstable::mqueue::wait::OnReceived;
use uext4::unstable::mqueue::{Deferred, Started, Wait};
use uext4::{Errno, Result, Timestamp};
use uext4_fuse::abi::output;
use uext4_fuse::handler::{put, put_bytes};
use zerocopy::IntoBytes;

/// How a call waits, by the deadline in its structure.
fn wait_of(flags: u32, sec: i64, nsec: i64) -> Wait {
    match flags & protocol::DEADLINE {
        0 => Wait::default(),
        _ => Wait::until(time(sec, nsec)),
    }
}

fn time(sec: i64, nsec: i64) -> Timestamp {
    Timestamp {
        sec,
        // A number out of range becomes one that the queue refuses.
        nsec: u32::try_from(nsec).unwrap_or(u32::MAX),
    }
}

/// The arguments of a receiving call.
struct ReceiveArgs {
    nowait: bool,
    wait: Wait,
    /// The size of the caller's buffer in bytes.
    capacity: usize,
    form: ReplyForm,
}

/// The form in which a reply has the message.
#[derive(Clone, Copy)]
struct ReplyForm {
    /// Whether [`Received`] precedes the message. Without it, the result has the length and the priority.
    has_head: bool,
    /// How many bytes of the message fit.
    room: usize,
}

impl ReplyForm {
    /// The offset of the message in the caller's memory.
    const fn at(self) -> usize {
        match self.has_head {
            true => size_of::<Received>(),
            false => 0,
        }
    }

    /// The head of the reply.
    const fn result(self, len: usize, priority: u32) -> output::Ioctl {
        output::Ioctl {
            result: match self.has_head {
                true => 0,
                false => protocol::result_of(len, priority),
            },
            flags: 0,
            in_iovs: 0,
            out_iovs: 0,
        }
    }
}

impl ReceiveArgs {
    fn of(call: &mut Call<'_>) -> Result<ReceiveArgs, Errno> {
        let room = call.memory().len();
        if call.command != protocol::RECEIVE_WITH.0 {
            let wait = match call.command == protocol::RECEIVE_UNTIL.0 {
                true => {
                    let tid = call.request.header.pid;
                    let deadline = call.opened.deadlines.lock().remove(&tid);
                    Wait::until(deadline.ok_or(Errno::EINVAL)?)
                }
                false => Wait::default(),
            };
            return Ok(ReceiveArgs {
                nowait: call.command == protocol::RECEIVE_NOWAIT.0,
                wait,
                capacity: room,
                form: ReplyForm {
                    has_head: false,
                    room,
                },
            });
        }
        let (arg, _) = call.argument::<Receive>()?;
        let room = room.checked_sub(size_of::<Received>());
        Ok(ReceiveArgs {
            nowait: arg.flags & protocol::NOWAIT != 0,
            wait: wait_of(arg.flags, arg.deadline_sec, arg.deadline_nsec),
            capacity: usize::try_from(arg.capacity).unwrap_or(usize::MAX),
            form: ReplyForm {
                has_head: true,
                room: room.ok_or(Errno::EINVAL)?,
            },
        })
    }
}

impl QueueServer {
    /// Remembers until when the caller will wait in its next receiving call.
    pub(super) fn set_deadline(&self, call: Call<'_>) -> Answer {
        let (arg, _) = call.argument::<Until>()?;
        let tid = call.request.header.pid;
        if tid == 0 {
            return Err(Errno::EPERM.into());
        }
        let deadline = time(arg.sec, arg.nsec);
        call.opened.deadlines.lock().insert(tid, deadline);
        call.done(0)
    }

    pub(super) fn receive(&self, mut call: Call<'_>) -> Answer {
        let args = ReceiveArgs::of(&mut call)?;
        let form = args.form;
        let opened = Arc::clone(&call.opened);
        let description = &opened.description;
        let longest = description.node().queue.size().msgsize as usize;
        let at = call.head + form.at();
        if args.capacity < longest {
            // Reports a missing right to receive first.
            description.receive(&mut [], &args.wait)?;
            return Err(Errno::EMSGSIZE.into());
        }
        // If the longest message of the queue does not fit into the reply, this one may not fit either.
        let mut long = match longest > form.room {
            true => {
                self.long_messages.check_room(opened.fh)?;
                vec![0; longest]
            }
            false => Vec::new(),
        };
        let buffer = match long.is_empty() {
            true => &mut call.out[at..],
            false => &mut long[..],
        };
        let received = match description.receive(buffer, &args.wait) {
            Err(e) if e == Errno::EAGAIN && !args.nowait => {
                let (id, deferred) = self.deferred_receive(&call, &args)?;
                let buffer = match long.is_empty() {
                    true => &mut call.out[at..],
                    false => &mut long[..],
                };
                let started = description.start_receive(buffer, deferred);
                match self.started(id, &opened, started)? {
                    Some(received) => received,
                    None => return Ok(None),
                }
            }
            other => other?,
        };
        put(call.out, &form.result(received.len, received.priority))?;
        if !form.has_head {
            return call.done(received.len);
        }
        let mut head = Received {
            token: 0,
            len: received.len as u32,
            priority: received.priority,
        };
        let mut with_it = received.len;
        if !long.is_empty() {
            long.truncate(received.len);
            with_it = match long.len() <= form.room {
                true => put_bytes(&mut call.out[at..], &long)?,
                false => {
                    head.token = self.long_messages.keep(opened.fh, long);
                    0
                }
            };
        }
        let len = put(call.memory(), &head)?;
        call.done(len + with_it)
    }

    /// A call that is about to wait, and its number, which is the request's.
    ///
    /// # Errors
    /// `EINTR`: the request was interrupted.
    fn deferred_receive(
        &self,
        call: &Call<'_>,
        args: &ReceiveArgs,
    ) -> Result<(u64, Deferred<OnReceived>)> {
        let later = self.later(call, WaitsFor::Queue(Arc::clone(&call.opened)), &args.wait)?;
        let id = later.id;
        let (long_messages, fh, form) =
            (Arc::clone(&self.long_messages), call.opened.fh, args.form);
        let answer = move |outcome: Result<(&[u8], u32)>| match outcome {
            Ok((bytes, priority)) => later.received(bytes, priority, form, &long_messages, fh),
            Err(e) => later.reply(Err(e.errno())),
        };
        let deferred = Deferred {
            id,
            sched_priority: process::sched_priority(call.request.header.pid),
            answer: Box::new(answer) as _,
        };
        Ok((id, deferred))
    }

    /// Registers a call that is about to wait, and returns what will answer it.
    ///
    /// # Errors
    /// `EINTR`: the request was interrupted.
    pub(super) fn later(
        &self,
        call: &Call<'_>,
        what: WaitsFor,
        wait: &Wait,
    ) -> Result<LaterReply, Errno> {
        let replier = self.replier(call.worker, call.request)?;
        let id = call.request.header.unique;
        self.waiting_calls.begin(id, what, wait)?;
        Ok(LaterReply {
            id,
            waiting_calls: Arc::clone(&self.waiting_calls),
            replier,
        })
    }

    /// The result of a call that may have to wait; `None` if it waits.
    fn started<T>(
        &self,
        id: u64,
        opened: &Arc<OpenQueue>,
        started: Result<Started<T>>,
    ) -> Result<Option<T>> {
        match started {
            Ok(Started::Waits) => {
                // A thread that ended the call before it entered the queue did not find it there.
                if let Some(why) = self.waiting_calls.ended(id) {
                    self.end_call(id, WaitsFor::Queue(Arc::clone(opened)), why);
                }
                Ok(None)
            }
            Ok(Started::Done(done)) => {
                self.waiting_calls.end(id);
                Ok(Some(done))
            }
            Err(e) => {
                self.waiting_calls.end(id);
                Err(e)
            }
        }
    }

    pub(super) fn send(&self, call: Call<'_>) -> Answer {
        let (arg, data) = call.argument::<Send>()?;
        let staged;
        let bytes = match arg.flags & protocol::STAGED {
            0 => data,
            _ => {
                let token = data.first_chunk().ok_or(Errno::EINVAL)?;
                staged = self
                    .long_messages
                    .take(call.opened.fh, u64::from_ne_bytes(*token))?;
                &staged
            }
        };
        let wait = wait_of(arg.flags, arg.deadline_sec, arg.deadline_nsec);
        let header = call.request.header;
        let description = &call.opened.description;
        let sender = (arg.process, header.pid, header.uid);
        let send = || description.send(bytes, arg.priority, &wait);
        match with_sender(sender, send) {
            Err(e) if e == Errno::EAGAIN && arg.flags & protocol::NOWAIT == 0 => {}
            other => {
                other?;
                return call.done(0);
            }
        }
        let later = self.later(&call, WaitsFor::Queue(Arc::clone(&call.opened)), &wait)?;
        let id = later.id;
        let deferred = Deferred {
            id,
            sched_priority: process::sched_priority(header.pid),
            answer: Box::new(move |outcome: Result<()>| match outcome {
                Ok(()) => later.sent(),
                Err(e) => later.reply(Err(e.errno())),
            }) as _,
        };
        let start = || description.start_send(bytes, arg.priority, deferred);
        let started = with_sender(sender, start);
        match self.started(id, &call.opened, started)? {
            Some(()) => call.done(0),
            None => Ok(None),
        }
    }

    /// Keeps a piece of a long message.
    pub(super) fn stage(&self, mut call: Call<'_>) -> Answer {
        call.check_memory::<Piece>()?;
        let (mut piece, data) = call.argument::<Piece>()?;
        let data = data.get(..piece.len as usize).ok_or(Errno::EINVAL)?;
        let max = call.opened.description.node().queue.size().msgsize as usize;
        if max + size_of::<Send>() <= protocol::BYTES_MAX {
            // Messages of this queue fit into one request.
            return Err(Errno::EMSGSIZE.into());
        }
        if piece.token == 0 {
            self.long_messages.check_room(call.opened.fh)?;
            piece.token = self.long_messages.keep(call.opened.fh, Vec::new());
        }
        let at = piece.offset as usize;
        self.long_messages
            .add((call.opened.fh, piece.token), at, data, max)?;
        let len = put(call.memory(), &piece)?;
        call.done(len)
    }

    /// Copies a piece of a long message to the caller.
    pub(super) fn fetch(&self, mut call: Call<'_>) -> Answer {
        let (piece, _) = call.argument::<Piece>()?;
        let fh = call.opened.fh;
        let memory = call.memory();
        let wanted = memory.len().min(piece.len as usize);
        let from = piece.offset as usize;
        let len = self
            .long_messages
            .copy((fh, piece.token), from, &mut memory[..wanted])?;
        call.done(len)
    }
}

impl LaterReply {
    /// Replies that the message is in the queue.
    fn sent(self) {
        self.reply(Ok(&[output::Ioctl::default().as_bytes()]));
    }

    /// Replies with a message, or with the token of a message that does not fit.
    fn received(
        self,
        bytes: &[u8],
        priority: u32,
        form: ReplyForm,
        long_messages: &LongMessages,
        fh: u64,
    ) {
        let result = form.result(bytes.len(), priority);
        if !form.has_head {
            return self.reply(Ok(&[result.as_bytes(), bytes]));
        }
        let fits = bytes.len() <= form.room;
        let head = Received {
            token: match fits {
                true => 0,
                false => long_messages.keep(fh, bytes.to_vec()),
            },
            len: bytes.len() as u32,
            priority,
        };
        let data = if fits { bytes } else { &[] };
        self.reply(Ok(&[result.as_bytes(), head.as_bytes(), data]));
    }
}
