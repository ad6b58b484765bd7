//! The ioctls of a queue.
#![allow(unsafe_code, reason = "ioctls have no safe form")]

use crate::protocol::{BYTES_MAX, Way, number};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use std::ffi::c_void;
use std::os::fd::BorrowedFd;

/// A call on some memory, whose length is in its number.
struct Call<'memory> {
    command: (u32, Way),
    memory: &'memory mut [u8],
}

// SAFETY: the number says how long the memory is, and which way it goes, so that the kernel touches no more than that;
// any bytes may be written to it. The result is a number.
unsafe impl Ioctl for Call<'_> {
    type Output = u32;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        number(self.command, self.memory.len().min(BYTES_MAX)) as Opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.memory.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> Result<u32, Errno> {
        Ok(out.cast_unsigned())
    }
}

/// Calls `command` with `memory`, at most [`BYTES_MAX`] of it, and gives the result.
///
/// # Errors
/// `ENOTTY`: `fd` knows no such command. Others as the server says.
pub fn call(fd: BorrowedFd<'_>, command: (u32, Way), memory: &mut [u8]) -> Result<u32, Errno> {
    debug_assert!(memory.len() <= BYTES_MAX);
    // SAFETY: see `Call`.
    unsafe { ioctl(fd, Call { command, memory }) }
}
