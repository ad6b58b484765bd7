//! Sending and receiving, at once or later.

use super::calls::{Calls, WaitsFor};
use super::handles::Opened;
use super::pieces::Pieces;
use super::telling::sent_by;
use super::{Answer, Call, QueueServer, process};
use crate::abi::output;
use crate::handler::{put, put_bytes};
use crate::transport::reply::Replier;
use std::sync::Arc;
use uext4::mqueue::protocol::{self, Piece, Receive, Received, Send, Until};
use uext4::mqueue::wait::OnReceived;
use uext4::mqueue::{Deferred, Started, Wait};
use uext4::{Errno, Result, Timestamp};
use zerocopy::IntoBytes;

/// How a call waits: the deadline of its structure.
fn waiting(flags: u32, sec: i64, nsec: i64) -> Wait {
    match flags & protocol::DEADLINE {
        0 => Wait::default(),
        _ => Wait::until(time(sec, nsec)),
    }
}

fn time(sec: i64, nsec: i64) -> Timestamp {
    Timestamp {
        sec,
        // What is no such number is beyond those that are allowed.
        nsec: u32::try_from(nsec).unwrap_or(u32::MAX),
    }
}

/// Remembers until when the caller will wait.
pub fn until(call: Call<'_>) -> Answer {
    let (arg, _) = call.argument::<Until>()?;
    let tid = call.request.header.pid;
    if tid == 0 {
        return Err(Errno::EPERM.into());
    }
    let deadline = time(arg.sec, arg.nsec);
    call.opened.until.lock().insert(tid, deadline);
    call.done(0)
}

/// How a message is to be received.
struct How {
    nowait: bool,
    wait: Wait,
    /// The caller's buffer in bytes.
    capacity: usize,
    form: Form,
}

/// How a message is handed over.
#[derive(Clone, Copy)]
struct Form {
    /// Whether [`Received`] comes before it; else the result says as much.
    has_head: bool,
    /// How much of the message there is room for.
    room: usize,
}

impl Form {
    /// Where in the caller's memory the message is.
    const fn at(self) -> usize {
        match self.has_head {
            true => size_of::<Received>(),
            false => 0,
        }
    }

    /// The result of the call.
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

impl How {
    fn of(call: &mut Call<'_>) -> Result<How, Errno> {
        let room = call.memory().len();
        if call.command != protocol::RECEIVE_WITH.0 {
            let wait = match call.command == protocol::RECEIVE_UNTIL.0 {
                true => {
                    let told = call.opened.until.lock().remove(&call.request.header.pid);
                    Wait::until(told.ok_or(Errno::EINVAL)?)
                }
                false => Wait::default(),
            };
            return Ok(How {
                nowait: call.command == protocol::RECEIVE_NOWAIT.0,
                wait,
                capacity: room,
                form: Form {
                    has_head: false,
                    room,
                },
            });
        }
        let (arg, _) = call.argument::<Receive>()?;
        let room = room.checked_sub(size_of::<Received>());
        Ok(How {
            nowait: arg.flags & protocol::NOWAIT != 0,
            wait: waiting(arg.flags, arg.deadline_sec, arg.deadline_nsec),
            capacity: usize::try_from(arg.capacity).unwrap_or(usize::MAX),
            form: Form {
                has_head: true,
                room: room.ok_or(Errno::EINVAL)?,
            },
        })
    }
}

impl QueueServer {
    pub(super) fn receive(&self, mut call: Call<'_>) -> Answer {
        let how = How::of(&mut call)?;
        let form = how.form;
        let opened = Arc::clone(&call.opened);
        let description = &opened.description;
        let longest = description.node().queue.size().msgsize as usize;
        let at = call.head + form.at();
        if how.capacity < longest {
            // Whoever may not receive is told that first.
            description.receive(&mut [], &how.wait)?;
            return Err(Errno::EMSGSIZE.into());
        }
        // Of a queue with messages that do not fit into a request, any may be such a one.
        let mut long = match longest > form.room {
            true => {
                self.pieces.check_room(opened.fh)?;
                vec![0; longest]
            }
            false => Vec::new(),
        };
        let buffer = match long.is_empty() {
            true => &mut call.out[at..],
            false => &mut long[..],
        };
        let received = match description.receive(buffer, &how.wait) {
            Err(e) if e == Errno::EAGAIN && !how.nowait => {
                let (id, deferred) = self.deferred_receive(&call, &how)?;
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
                    head.token = self.pieces.keep(opened.fh, long);
                    0
                }
            };
        }
        let len = put(call.memory(), &head)?;
        call.done(len + with_it)
    }

    /// A call that is about to wait, under the number of its request.
    ///
    /// # Errors
    /// `EINTR`: it is interrupted.
    fn deferred_receive(&self, call: &Call<'_>, how: &How) -> Result<(u64, Deferred<OnReceived>)> {
        let later = self.later(call, &how.wait)?;
        let id = later.id;
        let (pieces, fh, form) = (Arc::clone(&self.pieces), call.opened.fh, how.form);
        let answer = move |outcome: Result<(&[u8], u32)>| match outcome {
            Ok((bytes, priority)) => later.received(bytes, priority, form, &pieces, fh),
            Err(e) => later.reply(Err(e.errno())),
        };
        let deferred = Deferred {
            id,
            sched_priority: process::rank(call.request.header.pid),
            answer: Box::new(answer) as _,
        };
        Ok((id, deferred))
    }

    /// Notes that a call is about to wait, and gives what will answer it.
    ///
    /// # Errors
    /// `EINTR`: it is interrupted.
    fn later(&self, call: &Call<'_>, wait: &Wait) -> Result<Later, Errno> {
        let replier = self.replier(call.worker, call.request)?;
        let id = call.request.header.unique;
        let what = WaitsFor::Queue(Arc::clone(&call.opened));
        self.calls.begin(id, what, wait)?;
        Ok(Later {
            id,
            calls: Arc::clone(&self.calls),
            replier,
        })
    }

    /// What became of a call that might have to wait: its result, or `None` if it waits.
    fn started<T>(
        &self,
        id: u64,
        opened: &Arc<Opened>,
        started: Result<Started<T>>,
    ) -> Result<Option<T>> {
        match started {
            Ok(Started::Waits) => {
                // Whoever ended it meanwhile may not have found it.
                if let Some(why) = self.calls.ended(id) {
                    self.end_call(id, WaitsFor::Queue(Arc::clone(opened)), why);
                }
                Ok(None)
            }
            Ok(Started::Done(done)) => {
                self.calls.end(id);
                Ok(Some(done))
            }
            Err(e) => {
                self.calls.end(id);
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
                    .pieces
                    .take(call.opened.fh, u64::from_ne_bytes(*token))?;
                &staged
            }
        };
        let wait = waiting(arg.flags, arg.deadline_sec, arg.deadline_nsec);
        let header = call.request.header;
        let description = &call.opened.description;
        let sender = (arg.process, header.pid, header.uid);
        let send = || description.send(bytes, arg.priority, &wait);
        match sent_by(sender, send) {
            Err(e) if e == Errno::EAGAIN && arg.flags & protocol::NOWAIT == 0 => {}
            other => {
                other?;
                return call.done(0);
            }
        }
        let later = self.later(&call, &wait)?;
        let id = later.id;
        let deferred = Deferred {
            id,
            sched_priority: process::rank(header.pid),
            answer: Box::new(move |outcome: Result<()>| match outcome {
                Ok(()) => later.sent(),
                Err(e) => later.reply(Err(e.errno())),
            }) as _,
        };
        let start = || description.start_send(bytes, arg.priority, deferred);
        let started = sent_by(sender, start);
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
            // Nobody has to send such messages in pieces.
            return Err(Errno::EMSGSIZE.into());
        }
        if piece.token == 0 {
            self.pieces.check_room(call.opened.fh)?;
            piece.token = self.pieces.keep(call.opened.fh, Vec::new());
        }
        let at = piece.offset as usize;
        self.pieces
            .add((call.opened.fh, piece.token), at, data, max)?;
        let len = put(call.memory(), &piece)?;
        call.done(len)
    }

    /// Gives a piece of a long message.
    pub(super) fn fetch(&self, mut call: Call<'_>) -> Answer {
        let (piece, _) = call.argument::<Piece>()?;
        let fh = call.opened.fh;
        let memory = call.memory();
        let wanted = memory.len().min(piece.len as usize);
        let from = piece.offset as usize;
        let len = self
            .pieces
            .copy((fh, piece.token), from, &mut memory[..wanted])?;
        call.done(len)
    }
}

/// Answers a call that has waited.
struct Later {
    id: u64,
    calls: Arc<Calls>,
    replier: Replier,
}

impl Later {
    fn reply(self, answer: Result<&[&[u8]], Errno>) {
        self.calls.end(self.id);
        self.replier.reply(answer);
    }

    fn sent(self) {
        self.reply(Ok(&[output::Ioctl::default().as_bytes()]));
    }

    /// Hands over a message, or the number of one that there is no room for.
    fn received(self, bytes: &[u8], priority: u32, form: Form, pieces: &Pieces, fh: u64) {
        let result = form.result(bytes.len(), priority);
        if !form.has_head {
            return self.reply(Ok(&[result.as_bytes(), bytes]));
        }
        let fits = bytes.len() <= form.room;
        let head = Received {
            token: match fits {
                true => 0,
                false => pieces.keep(fh, bytes.to_vec()),
            },
            len: bytes.len() as u32,
            priority,
        };
        let data = if fits { bytes } else { &[] };
        self.reply(Ok(&[result.as_bytes(), head.as_bytes(), data]));
    }
}
