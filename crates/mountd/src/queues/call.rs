//! An ioctl on a queue.

use super::open_queues::OpenQueue;
use std::sync::Arc;
use uext4::{Errno, Result};
use uext4_fuse::Request;
use zerocopy::FromBytes;

/// The length of a reply; `None` if the reply follows later.
pub type Answer = Result<Option<usize>>;

/// An ioctl on a queue.
pub struct Call<'a> {
    /// The number of the thread that read the request.
    pub worker: usize,
    /// The request.
    pub request: &'a Request<'a>,
    /// The queue.
    pub opened: Arc<OpenQueue>,
    /// The command number.
    pub command: u32,
    /// The caller's input.
    pub input: &'a [u8],
    /// The offset of the caller's memory in the reply.
    pub head: usize,
    /// The reply, up to the end of the caller's memory.
    pub out: &'a mut [u8],
}

impl Call<'_> {
    /// The structure at the start of the input, and the rest.
    ///
    /// # Errors
    /// `EINVAL`: the input is too short.
    pub fn argument<T: FromBytes>(&self) -> Result<(T, &[u8]), Errno> {
        T::read_from_prefix(self.input).map_err(|_| Errno::EINVAL)
    }

    /// Checks that the caller's memory has room for a structure.
    ///
    /// # Errors
    /// `EINVAL`: it is too short.
    pub fn check_memory<T>(&mut self) -> Result<(), Errno> {
        match self.memory().len() < size_of::<T>() {
            true => Err(Errno::EINVAL),
            false => Ok(()),
        }
    }

    /// The caller's memory.
    pub fn memory(&mut self) -> &mut [u8] {
        &mut self.out[self.head..]
    }

    /// The answer with `len` bytes of the caller's memory.
    pub fn done(&self, len: usize) -> Answer {
        Ok(Some(self.head + len))
    }
}
