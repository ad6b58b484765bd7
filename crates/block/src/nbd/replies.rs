//! A reply, from its chunks.

use super::handshake::{get, wrong};
use super::wire::*;
use crate::error::EIO;
use std::io::{self, Read};

/// The longest message of an error that is read.
const MESSAGE_MAX: u32 = 4096;

/// What is known of a request's reply so far.
#[derive(Debug)]
pub struct Reply {
    /// Where the request began.
    offset: u64,
    /// What a read asked for, filled as it arrives; empty for the others.
    data: Vec<u8>,
    /// Bytes of it that have arrived.
    filled: usize,
    error: Option<io::Error>,
}

/// The head of what a server sends.
pub enum Head {
    Simple {
        error: u32,
        cookie: u64,
    },
    Chunk {
        flags: u16,
        kind: u16,
        cookie: u64,
        len: u32,
    },
}

impl Head {
    /// Reads it.
    ///
    /// # Errors
    /// The connection's; it is none.
    pub fn read(from: &mut impl Read) -> io::Result<Head> {
        match get!(from, u32)? {
            SIMPLE_MAGIC => Ok(Head::Simple {
                error: get!(from, u32)?,
                cookie: get!(from, u64)?,
            }),
            CHUNK_MAGIC => Ok(Head::Chunk {
                flags: get!(from, u16)?,
                kind: get!(from, u16)?,
                cookie: get!(from, u64)?,
                len: get!(from, u32)?,
            }),
            _ => Err(wrong("a reply without its magic number")),
        }
    }

    /// The request that it belongs to.
    pub fn cookie(&self) -> u64 {
        match self {
            Head::Simple { cookie, .. } | Head::Chunk { cookie, .. } => *cookie,
        }
    }
}

impl Reply {
    /// Of a request at `offset` that reads `len` bytes.
    pub fn new(offset: u64, len: usize) -> Reply {
        Reply {
            offset,
            data: vec![0; len],
            filled: 0,
            error: None,
        }
    }

    /// Reads what follows a head; whether it was the last.
    ///
    /// # Errors
    /// The connection's, or what follows is wrong: neither can be used any more.
    pub fn read(&mut self, head: &Head, from: &mut impl Read) -> io::Result<bool> {
        match *head {
            Head::Simple { error: 0, .. } => {
                from.read_exact(&mut self.data)?;
                self.filled = self.data.len();
                Ok(true)
            }
            Head::Simple { error, .. } => {
                self.fail(error);
                Ok(true)
            }
            Head::Chunk {
                flags, kind, len, ..
            } => {
                self.read_chunk(kind, len, from)?;
                Ok(flags & CHUNK_DONE != 0)
            }
        }
    }

    fn read_chunk(&mut self, kind: u16, len: u32, from: &mut impl Read) -> io::Result<()> {
        match kind {
            CHUNK_NONE if len == 0 => Ok(()),
            CHUNK_DATA if len > 8 => {
                let offset = get!(from, u64)?;
                let to = self.range(offset, u64::from(len) - 8)?;
                from.read_exact(to)
            }
            CHUNK_HOLE if len == 12 => {
                let offset = get!(from, u64)?;
                let bytes = u64::from(get!(from, u32)?);
                self.range(offset, bytes)?.fill(0);
                Ok(())
            }
            _ if kind & CHUNK_ERROR != 0 && (6..=MESSAGE_MAX).contains(&len) => {
                let error = get!(from, u32)?;
                let mut message = vec![0; len as usize - 4];
                from.read_exact(&mut message)?;
                self.fail(error);
                Ok(())
            }
            _ => Err(wrong("a chunk of a reply that can't be")),
        }
    }

    /// The bytes of a range of the export.
    fn range(&mut self, offset: u64, len: u64) -> io::Result<&mut [u8]> {
        let at = offset.checked_sub(self.offset);
        let range = at.and_then(|at| Some(at..at.checked_add(len)?));
        let range = range.filter(|range| range.end <= self.data.len() as u64);
        let range = range.ok_or_else(|| wrong("a chunk of a reply outside what was asked for"))?;
        self.filled += len as usize;
        Ok(&mut self.data[range.start as usize..range.end as usize])
    }

    /// The server could not do it. Its numbers are those of Linux.
    fn fail(&mut self, error: u32) {
        let errno = i32::try_from(error).ok().filter(|errno| *errno > 0);
        let error = io::Error::from_raw_os_error(errno.unwrap_or(EIO));
        self.error.get_or_insert(error);
    }

    /// What was read.
    ///
    /// # Errors
    /// The server's.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self.error {
            Some(error) => Err(error),
            None if self.filled == self.data.len() => Ok(self.data),
            None => Err(wrong("a part of a read is missing")),
        }
    }
}
