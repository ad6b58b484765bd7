//! The exports of NBD servers: what qemu-nbd, nbdkit and others serve over TCP or a socket.
//!
//! | module | holds |
//! | --- | --- |
//! | [`address`] | [`NbdAddress`]: where an export is |
//! | `wire` | the numbers of the protocol |
//! | `handshake` | what a client and a server agree on first |
//! | `client` | the connections to a server, which all devices of an export share |
//! | `socket`, `tls`, `stream` | what a connection is made of |
//! | `connection` | requests in flight, and the thread that reads the replies |
//! | `replies` | a reply, from its chunks |
//!
//! Source: the NBD project, `doc/proto.md` and `doc/uri.md`.
//!
//! # Failure
//! A connection that is lost is not made again: what the server had not made durable may be lost with it. From then on every call fails,
//! reads too.
//!
//! # TLS
//! `nbds://` and `nbds+unix://` (feature `nbd-tls`) connect with TLS 1.2 or 1.3, or not at all. The server's certificate is always verified: by
//! the authorities of `ca-cert.pem` in the directory that the address names, or those of this host. All files are read before the first connection.
//!
//! # Exclusion
//! NBD has no locks: whether another host writes the export is found by multi-mount protection, or not at all.

pub mod address;
mod client;
mod connection;
mod handshake;
mod replies;
mod socket;
mod stream;
#[cfg(all(test, unix, not(shuttle), not(loom)))]
mod tests;
#[cfg(feature = "nbd-tls")]
mod tls;
#[cfg(not(feature = "nbd-tls"))]
#[path = "no_tls.rs"]
mod tls;
mod wire;

pub use address::NbdAddress;

use self::client::Client;
use self::connection::{Pending, Request};
use self::wire::Command;
use crate::batch::first_run;
use crate::device::{BlockDevice, total_len, total_len_mut};
use crate::device_id::DeviceId;
use crate::error::{BlockError, BlockOp, EINVAL, Failure, Result, check_failure, check_range};
use crate::open::OpenOptions;
use crate::remote_stats::RemoteStats;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use uext4_sync::{DurationCounter, RwLockReadGuard, assert_may_block};

/// A server's number for what it can't do.
const ENOTSUP: i32 = 95;
/// Requests of one batch that are in flight.
const IN_FLIGHT: usize = 16;
/// Zeros that are written where a server can't zero, in bytes.
const ZEROS: usize = 1 << 20;
/// The longest discard or zeroing that is asked for at a time.
const RANGE_MAX: u64 = 1 << 30;

/// An export of an NBD server, open. What a process opens twice shares the connections: a server may let one client in.
#[derive(Debug)]
pub struct NbdDevice {
    client: Arc<Client>,
    /// Immutable.
    is_read_only: bool,
    /// Immutable.
    id: DeviceId,
    flush_times: DurationCounter,
}

impl NbdDevice {
    /// Opens an export.
    ///
    /// # Errors
    /// [`BlockError::Open`]: the server can't be reached, refuses, or can't make writes durable; `EROFS`: the export is read-only, and
    /// is to be written.
    pub fn open(address: &NbdAddress, options: &OpenOptions) -> Result<NbdDevice> {
        let failed = |source| BlockError::Open {
            path: PathBuf::from(address.to_string()),
            source,
        };
        let client = Client::of(address).map_err(failed)?;
        if !options.read_only {
            client.export.check_writable().map_err(failed)?;
        }
        if options.size.is_some_and(|size| size > client.export.len) {
            let why = format!("it has {} bytes, which is too small", client.export.len);
            return Err(failed(io::Error::new(ErrorKind::InvalidInput, why)));
        }
        Ok(NbdDevice {
            is_read_only: options.read_only || client.export.is_read_only(),
            client,
            id: address.identity(),
            flush_times: DurationCounter::default(),
        })
    }

    /// Refuses a call that can't be.
    fn check(&self, op: BlockOp, offset: u64, len: u64) -> Result<()> {
        assert_may_block("a call of a server");
        if op != BlockOp::Read {
            if self.is_read_only && op != BlockOp::Flush {
                return Err(BlockError::ReadOnly { op, offset, len });
            }
            check_failure(&self.client.failure, op, offset, len)?;
        }
        check_range(op, offset, len, self.client.export.len)
    }

    fn start(&self, request: Request, data: &[IoSlice<'_>]) -> io::Result<Pending> {
        self.client.start(request, data)
    }

    fn call(&self, request: Request, data: &[IoSlice<'_>]) -> io::Result<Vec<u8>> {
        self.start(request, data)?.wait()
    }

    /// Whether the server takes a range as it is.
    fn is_aligned(&self, offset: u64, len: u64) -> bool {
        let unit = u64::from(self.client.export.block_min);
        (offset | len).is_multiple_of(unit)
    }

    /// The range of whole blocks of the server around another.
    fn around(&self, offset: u64, len: u64) -> (u64, u64) {
        let unit = u64::from(self.client.export.block_min);
        let start = offset - offset % unit;
        let end = (offset + len).next_multiple_of(unit);
        (start, end - start)
    }

    /// Pieces that a request can have.
    fn pieces(&self, offset: u64, len: u64, most: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let end = offset + len;
        let most = most - most % u64::from(self.client.export.block_min);
        (0..len.div_ceil(most)).map(move |i| {
            let at = offset + i * most;
            (at, most.min(end - at))
        })
    }

    /// Reads whole blocks of the server.
    fn read_blocks(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let most = u64::from(self.client.export.payload_max);
        let mut rest = buf;
        for (at, len) in self.pieces(offset, rest.len() as u64, most) {
            let (now, after) = rest.split_at_mut(len as usize);
            now.copy_from_slice(&self.call(Request::of(Command::Read, at, len), &[])?);
            rest = after;
        }
        Ok(())
    }

    /// Reads any range.
    fn read_any(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let len = buf.len() as u64;
        if self.is_aligned(offset, len) {
            return self.read_blocks(offset, buf);
        }
        let (start, whole) = self.around(offset, len);
        let mut blocks = vec![0; whole as usize];
        self.read_blocks(start, &mut blocks)?;
        let at = (offset - start) as usize;
        buf.copy_from_slice(&blocks[at..at + buf.len()]);
        Ok(())
    }

    /// Writes whole blocks of the server, the buffers one after the other.
    fn write_blocks(&self, offset: u64, bufs: &[IoSlice<'_>], command: Command) -> io::Result<()> {
        let len = total_len(bufs);
        let most = u64::from(self.client.export.payload_max);
        if len <= most {
            return self.call(Request::of(command, offset, len), bufs).map(drop);
        }
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let mut rest = &bytes[..];
        for (at, len) in self.pieces(offset, len, most) {
            let (now, after) = rest.split_at(len as usize);
            self.call(Request::of(command, at, len), &[IoSlice::new(now)])?;
            rest = after;
        }
        Ok(())
    }

    /// Writes any range.
    fn write_any(&self, offset: u64, bufs: &[IoSlice<'_>], command: Command) -> io::Result<()> {
        let len = total_len(bufs);
        if len == 0 {
            return Ok(());
        }
        if self.is_aligned(offset, len) {
            let _beside = self.edges_beside();
            return self.write_blocks(offset, bufs, command);
        }
        let mut blocks = self.client.edges.write();
        let (start, whole) = self.around(offset, len);
        blocks.resize(whole as usize, 0);
        self.read_blocks(start, &mut blocks)?;
        let mut at = (offset - start) as usize;
        for buf in bufs {
            blocks[at..at + buf.len()].copy_from_slice(buf);
            at += buf.len();
        }
        self.write_blocks(start, &[IoSlice::new(&blocks)], command)
    }

    /// Keeps out what reads, changes and writes back, if the server has blocks.
    fn edges_beside(&self) -> Option<RwLockReadGuard<'_, Vec<u8>>> {
        (self.client.export.block_min > 1).then(|| self.client.edges.read())
    }

    /// Zeroes by writing.
    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeros = vec![0; ZEROS.min(len as usize)];
        let unit = zeros.len().max(1) as u64;
        for i in 0..len.div_ceil(unit) {
            let at = offset + i * unit;
            let part = unit.min(offset + len - at) as usize;
            self.write_any(at, &[IoSlice::new(&zeros[..part])], Command::Write)?;
        }
        Ok(())
    }

    fn zero_range(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.client.export.can_zero() || !self.is_aligned(offset, len) {
            return self.write_zeros(offset, len);
        }
        let beside = self.edges_beside();
        let zeroed = self
            .pieces(offset, len, RANGE_MAX)
            .try_for_each(|(at, len)| {
                self.call(Request::of(Command::Zero, at, len), &[])
                    .map(drop)
            });
        drop(beside);
        match zeroed.as_ref().map_err(io::Error::raw_os_error) {
            // The server says that it can, and what it serves can't.
            Err(Some(EINVAL | ENOTSUP)) => self.write_zeros(offset, len),
            _ => zeroed,
        }
    }

    fn discard_range(&self, offset: u64, len: u64) -> io::Result<()> {
        let unit = u64::from(self.client.export.block_min);
        let start = offset.next_multiple_of(unit);
        let end = (offset + len) - (offset + len) % unit;
        if !self.client.export.can_discard() || start >= end {
            return Ok(());
        }
        self.pieces(start, end - start, RANGE_MAX)
            .try_for_each(|(at, len)| {
                self.call(Request::of(Command::Discard, at, len), &[])
                    .map(drop)
            })
    }

    /// After a failure of what was to be durable.
    fn lose(&self) {
        let _ = self.client.failure.set(Failure::WritesLost);
    }

    /// Starts requests one after the other and hands what each returned to `take`, with at most [`IN_FLIGHT`] of them in flight.
    fn pipeline<T>(
        &self,
        items: impl Iterator<Item = T>,
        start: impl Fn(&T) -> io::Result<Pending>,
        mut take: impl FnMut(T, Vec<u8>),
    ) -> io::Result<()> {
        let mut flying: VecDeque<(T, Pending)> = VecDeque::new();
        let mut done = Ok(());
        let mut items = items;
        loop {
            let next = match &done {
                Ok(()) => items.next(),
                // What is in flight is waited for all the same.
                Err(_) => None,
            };
            let is_last = next.is_none();
            if let Some(item) = next {
                match start(&item) {
                    Ok(pending) => flying.push_back((item, pending)),
                    Err(e) => done = Err(e),
                }
            }
            if flying.len() < IN_FLIGHT && !is_last {
                continue;
            }
            match flying
                .pop_front()
                .map(|(item, pending)| (item, pending.wait()))
            {
                None => return done,
                Some((item, Ok(bytes))) => take(item, bytes),
                Some((_, Err(e))) => done = done.and(Err(e)),
            }
        }
    }
}

/// Offsets and lengths are multiples of the server's blocks where it has some: other calls work as well, but read before they write.
impl BlockDevice for NbdDevice {
    fn len(&self) -> u64 {
        self.client.export.len
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn logical_block_size(&self) -> u32 {
        self.client.export.block_min.max(512)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = buf.len() as u64;
        self.check(BlockOp::Read, offset, len)?;
        self.read_any(offset, buf)
            .map_err(|e| BlockError::io(BlockOp::Read, offset, len, e))
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        let mut bytes = vec![0; total_len_mut(bufs) as usize];
        self.read_at(offset, &mut bytes)?;
        let mut rest = &bytes[..];
        for buf in bufs {
            let (now, after) = rest.split_at(buf.len());
            buf.copy_from_slice(now);
            rest = after;
        }
        Ok(())
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let most = u64::from(self.client.export.payload_max);
        let fits = |offset: u64, len: u64| self.is_aligned(offset, len) && len <= most;
        if !reads.iter().all(|(at, buf)| fits(*at, buf.len() as u64)) {
            return reads
                .iter_mut()
                .try_for_each(|(at, buf)| self.read_at(*at, buf));
        }
        let (mut first, mut all) = (0, 0);
        for (at, buf) in reads.iter() {
            self.check(BlockOp::Read, *at, buf.len() as u64)?;
            first = *at;
            all += buf.len() as u64;
        }
        self.pipeline(
            reads.iter_mut(),
            |(at, buf)| self.start(Request::of(Command::Read, *at, buf.len() as u64), &[]),
            |(_, buf), bytes| buf.copy_from_slice(&bytes),
        )
        .map_err(|e| BlockError::io(BlockOp::Read, first, all, e))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.write_vectored_at(offset, &[IoSlice::new(buf)])
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len = total_len(bufs);
        self.check(BlockOp::Write, offset, len)?;
        self.write_any(offset, bufs, Command::Write)
            .map_err(|e| BlockError::io(BlockOp::Write, offset, len, e))
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let mut runs = Vec::new();
        let mut rest = writes;
        while let Some(run) = first_run(rest) {
            let (now, after) = rest.split_at(run.ranges);
            let bufs: Vec<_> = now.iter().map(|(_, b)| IoSlice::new(b)).collect();
            self.check(BlockOp::Write, run.offset, total_len(&bufs))?;
            runs.push((run.offset, bufs));
            rest = after;
        }
        let most = u64::from(self.client.export.payload_max);
        let fits = |(at, bufs): &(u64, Vec<IoSlice<'_>>)| {
            self.is_aligned(*at, total_len(bufs)) && total_len(bufs) <= most
        };
        if !runs.iter().all(fits) {
            return runs
                .iter()
                .try_for_each(|(at, bufs)| self.write_vectored_at(*at, bufs));
        }
        let _beside = self.edges_beside();
        let at = runs.first().map_or(0, |run| run.0);
        let all = runs.iter().map(|(_, bufs)| total_len(bufs)).sum();
        self.pipeline(
            runs.iter(),
            |(at, bufs)| self.start(Request::of(Command::Write, *at, total_len(bufs)), bufs),
            |_, _| {},
        )
        .map_err(|e| BlockError::io(BlockOp::Write, at, all, e))
    }

    fn flush(&self) -> Result<()> {
        self.check(BlockOp::Flush, 0, 0)?;
        if self.is_read_only {
            return Ok(());
        }
        let start = Instant::now();
        let flushed = self.call(Request::of(Command::Flush, 0, 0), &[]);
        self.flush_times.add(start.elapsed());
        flushed.map(drop).map_err(|e| {
            self.lose();
            BlockError::io(BlockOp::Flush, 0, 0, e)
        })
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        if !self.client.export.can_fua() {
            self.write_at(offset, buf)?;
            return self.flush();
        }
        let len = buf.len() as u64;
        self.check(BlockOp::Write, offset, len)?;
        let bufs = [IoSlice::new(buf)];
        self.write_any(offset, &bufs, Command::WriteFua)
            .map_err(|e| {
                self.lose();
                BlockError::io(BlockOp::Write, offset, len, e)
            })
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check(BlockOp::Discard, offset, len)?;
        self.discard_range(offset, len)
            .map_err(|e| BlockError::io(BlockOp::Discard, offset, len, e))
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.check(BlockOp::Zero, offset, len)?;
        self.zero_range(offset, len)
            .map_err(|e| BlockError::io(BlockOp::Zero, offset, len, e))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        match len == self.client.export.len {
            true => Ok(()),
            false => Err(BlockError::io(
                BlockOp::SetLen,
                0,
                len,
                io::Error::from_raw_os_error(EINVAL),
            )),
        }
    }

    fn remote_stats(&self) -> Option<RemoteStats> {
        Some(RemoteStats {
            kind: "nbd",
            lease: None,
            epoch_and_root: None,
            connections: Some(self.client.connections()),
            flushes: self.flush_times.snapshot(),
            cache: None,
        })
    }

    fn identity(&self) -> Option<DeviceId> {
        Some(self.id)
    }
}
