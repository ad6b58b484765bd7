//! Positioned I/O of the host on an open file, finished where the host stops half-way.
//!
//! # Locking
//! None: the host's calls are positioned.

use crate::device::{total_len, total_len_mut};
use crate::error::{BlockError, BlockOp, Result};
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

/// Bytes of the largest page of a host.
const LARGEST_PAGE: u64 = 64 << 10;

/// The name of this host.
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// An open file of the host. Ranges aren't checked against a length.
#[derive(Debug)]
pub(crate) struct HostFile {
    /// Immutable.
    pub fd: OwnedFd,
}

impl HostFile {
    /// Drops the pages that hold a range from the host's cache, but for those that it has not written yet.
    pub fn drop_cache(&self, offset: u64, len: u64) -> rustix::io::Result<()> {
        // It drops whole pages.
        let start = offset - offset % LARGEST_PAGE;
        let end = (offset + len).next_multiple_of(LARGEST_PAGE);
        let len = NonZeroU64::new(end - start);
        rustix::fs::fadvise(&self.fd, start, len, Advice::DontNeed)
    }

    /// Reads up to the end of the file or of `buf`: how much.
    pub fn read_some(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            match rustix::io::pread(&self.fd, &mut buf[done..], at) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                // What is after a last sector that is not whole is not asked for as direct I/O can ask.
                Err(Errno::INVAL) if done > 0 => break,
                Err(e) => return Err(BlockError::io(BlockOp::Read, offset, buf.len() as u64, e)),
            }
        }
        Ok(done)
    }

    /// Fills `buf`.
    pub fn read_all(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let done = self.read_some(offset, buf)?;
        if done < buf.len() {
            return Err(short(BlockOp::Read, offset, buf.len(), done));
        }
        Ok(())
    }

    /// Writes all of `buf`.
    pub fn write_all(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match rustix::io::pwrite(&self.fd, &buf[done..], offset + done as u64) {
                Ok(0) => return Err(short(BlockOp::Write, offset, buf.len(), done)),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(BlockError::io(BlockOp::Write, offset, buf.len() as u64, e)),
            }
        }
        Ok(())
    }

    /// Writes at most `IOV_MAX` buffers: one call of the host, unless it stops half-way.
    pub fn write_run(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        if let [buf] = bufs {
            return self.write_all(offset, buf);
        }
        let done = retry_on_intr(|| rustix::io::pwritev(&self.fd, bufs, offset))
            .map_err(|e| BlockError::io(BlockOp::Write, offset, total_len(bufs), e))?;
        self.finish_write(offset, bufs, done)
    }

    /// Writes what is left of `bufs` after the first `done` bytes.
    pub fn finish_write(&self, offset: u64, bufs: &[IoSlice<'_>], done: usize) -> Result<()> {
        let want = total_len(bufs);
        let (mut at, mut skip) = (offset, done);
        for buf in bufs.iter().filter(|_| (done as u64) < want) {
            let present = skip.min(buf.len());
            skip -= present;
            self.write_all(at + present as u64, &buf[present..])?;
            at += buf.len() as u64;
        }
        Ok(())
    }

    /// Reads at most `IOV_MAX` buffers, as [`HostFile::write_run`] writes them.
    pub fn read_run(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        if let [buf] = bufs {
            return self.read_all(offset, buf);
        }
        let want = total_len_mut(bufs);
        let done = retry_on_intr(|| rustix::io::preadv(&self.fd, bufs, offset))
            .map_err(|e| BlockError::io(BlockOp::Read, offset, want, e))?;
        self.finish_read(offset, bufs, done)
    }

    /// Reads what is left of `bufs` after the first `done` bytes.
    pub fn finish_read(&self, offset: u64, bufs: &mut [IoSliceMut<'_>], done: usize) -> Result<()> {
        let want = total_len_mut(bufs);
        let (mut at, mut skip) = (offset, done);
        for buf in bufs.iter_mut().filter(|_| (done as u64) < want) {
            let present = skip.min(buf.len());
            skip -= present;
            self.read_all(at + present as u64, &mut buf[present..])?;
            at += buf.len() as u64;
        }
        Ok(())
    }

    /// Writes durably with one call; false where that is not available, or stopped half-way.
    pub fn write_durably(&self, offset: u64, buf: &[u8]) -> Result<bool> {
        let bufs = [IoSlice::new(buf)];
        let flags = ReadWriteFlags::DSYNC;
        match retry_on_intr(|| rustix::io::pwritev2(&self.fd, &bufs, offset, flags)) {
            Ok(done) => Ok(done == buf.len()),
            // A host that doesn't know the flag.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
            Err(e) => Err(BlockError::io(BlockOp::Write, offset, buf.len() as u64, e)),
        }
    }
}

/// The error of a call that ended early.
pub(crate) fn short(op: BlockOp, offset: u64, len: usize, done: usize) -> BlockError {
    BlockError::Short {
        op,
        offset,
        len: len as u64,
        done: done as u64,
    }
}
