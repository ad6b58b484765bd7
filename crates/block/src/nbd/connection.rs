//! Requests in flight, and the thread that reads the replies.
//!
//! # Locking
//! `sending` is held while a request is sent. `state` is a leaf. The thread is started with the first request: a process that confines
//! itself between opening a device and using it has one thread until then.

use super::handshake::wrong;
use super::replies::{Head, Reply};
use super::stream::Stream;
use super::wire::*;
use std::collections::HashMap;
use std::io::{self, BufReader, ErrorKind, IoSlice, Write};
use std::sync::{Arc, OnceLock};
use uext4_sync::{Condvar, Mutex, class, thread};

/// Bytes that are read ahead of replies.
const READ_AHEAD: usize = 64 << 10;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    command: Command,
    offset: u64,
    len: u32,
}

impl Request {
    /// One whose length was checked to fit.
    pub fn of(command: Command, offset: u64, len: u64) -> Request {
        Request {
            command,
            offset,
            len: len as u32,
        }
    }

    fn encode(&self, cookie: u64, head: &mut Vec<u8>) {
        let (flags, number) = self.command.numbers();
        head.clear();
        head.extend(REQUEST_MAGIC.to_be_bytes());
        head.extend(flags.to_be_bytes());
        head.extend(number.to_be_bytes());
        head.extend(cookie.to_be_bytes());
        head.extend(self.offset.to_be_bytes());
        head.extend(self.len.to_be_bytes());
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct Connection {
    shared: Arc<Shared>,
}

/// A request whose reply is waited for.
#[derive(Debug)]
pub struct Pending {
    shared: Arc<Shared>,
    cookie: u64,
}

#[derive(Debug)]
struct Shared {
    stream: Stream,
    is_structured: bool,
    /// Of all connections to this server.
    lost: Arc<Lost>,
    /// The head of the request that is sent.
    sending: Mutex<Vec<u8>>,
    state: Mutex<State>,
    /// A reply is whole, or none will come any more.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    last_cookie: u64,
    has_reader: bool,
    /// No reply comes any more.
    is_ended: bool,
    calls: HashMap<u64, Call>,
}

/// Why connections to a server can't be used any more: if one is lost, so is what was written and not made durable.
pub type Lost = OnceLock<(ErrorKind, String)>;

#[derive(Debug)]
enum Call {
    Waits(Reply),
    /// The thread reads into it.
    Arrives,
    Done(Reply),
}

impl Connection {
    /// On a socket whose handshake is done.
    pub fn new(stream: Stream, is_structured: bool, lost: &Arc<Lost>) -> Connection {
        Connection {
            shared: Arc::new(Shared {
                stream,
                is_structured,
                lost: Arc::clone(lost),
                sending: Mutex::new(&class::DEVICE_SYNC, Vec::with_capacity(28)),
                state: Mutex::new(&class::DEVICE, State::default()),
                changed: Condvar::new(),
            }),
        }
    }

    /// Sends a request and its data.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn start(&self, request: Request, data: &[IoSlice<'_>]) -> io::Result<Pending> {
        let shared = &self.shared;
        shared.check()?;
        let mut state = shared.state.lock();
        state.last_cookie += 1;
        let cookie = state.last_cookie;
        let bytes = match request.command {
            Command::Read => request.len as usize,
            _ => 0,
        };
        let reply = Reply::new(request.offset, bytes);
        state.calls.insert(cookie, Call::Waits(reply));
        let starts_reader = !std::mem::replace(&mut state.has_reader, true);
        drop(state);
        let pending = Pending {
            shared: Arc::clone(shared),
            cookie,
        };
        if starts_reader {
            let reader = Arc::clone(shared);
            let thread = thread::Builder::new().name("uext4-nbd".into());
            thread
                .spawn(move || reader.read_replies())
                .inspect_err(|e| shared.break_off(e))?;
        }
        let mut head = shared.sending.lock();
        request.encode(cookie, &mut head);
        let sent = shared.send(&head, data);
        drop(head);
        if let Err(e) = &sent {
            shared.break_off(e);
        }
        Ok(pending)
    }

    /// Ends it; no request may be in flight.
    pub fn close(&self) {
        let mut head = self.shared.sending.lock();
        Request::of(Command::Disconnect, 0, 0).encode(0, &mut head);
        // The server may have gone.
        let _ = self.shared.send(&head, &[]);
        self.shared.stream.finish();
        drop(head);
        self.shared.stream.shut_down();
    }
}

impl Pending {
    /// Waits for the reply: what was read.
    ///
    /// # Errors
    /// The server's; the connection is lost.
    pub fn wait(self) -> io::Result<Vec<u8>> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(Call::Done(_)) = state.calls.get(&self.cookie)
                && let Some(Call::Done(reply)) = state.calls.remove(&self.cookie)
            {
                drop(state);
                return reply.finish();
            }
            if state.is_ended {
                self.shared.check()?;
                return Err(ErrorKind::ConnectionAborted.into());
            }
            self.shared.changed.wait(&mut state);
        }
    }
}

impl Shared {
    /// Refuses to use what is lost.
    fn check(&self) -> io::Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some((kind, why)) => Err(io::Error::new(*kind, why.clone())),
        }
    }

    /// Sends all of a request.
    fn send(&self, head: &[u8], data: &[IoSlice<'_>]) -> io::Result<()> {
        let mut bufs = Vec::with_capacity(1 + data.len());
        bufs.push(IoSlice::new(head));
        bufs.extend(data.iter().map(|buf| IoSlice::new(buf)));
        let mut left = &mut bufs[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match (&self.stream).write_vectored(left) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut left, n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// What the thread does until the connection ends.
    fn read_replies(&self) {
        let mut from = BufReader::with_capacity(READ_AHEAD, &self.stream);
        let why = loop {
            if let Err(why) = self.read_reply(&mut from) {
                break why;
            }
        };
        self.break_off(&why);
    }

    fn read_reply(&self, from: &mut BufReader<&Stream>) -> io::Result<()> {
        let head = Head::read(from)?;
        if matches!(head, Head::Chunk { .. }) && !self.is_structured {
            return Err(wrong("a reply in chunks, which were not asked for"));
        }
        let mut state = self.state.lock();
        let call = state.calls.get_mut(&head.cookie());
        let call = call.map(|call| std::mem::replace(call, Call::Arrives));
        drop(state);
        let Some(Call::Waits(mut reply)) = call else {
            return Err(wrong("a reply to nothing that was asked for"));
        };
        let is_done = reply.read(&head, from)?;
        let mut state = self.state.lock();
        let call = match is_done {
            true => Call::Done(reply),
            false => Call::Waits(reply),
        };
        state.calls.insert(head.cookie(), call);
        drop(state);
        if is_done {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Nothing is sent or waited for any more.
    fn break_off(&self, why: &io::Error) {
        let why = match why.kind() {
            ErrorKind::UnexpectedEof => (
                ErrorKind::ConnectionAborted,
                "the server closed the connection".to_owned(),
            ),
            kind => (kind, format!("the connection is lost: {why}")),
        };
        let _ = self.lost.set(why);
        self.state.lock().is_ended = true;
        self.changed.notify_all();
        self.stream.shut_down();
    }
}
