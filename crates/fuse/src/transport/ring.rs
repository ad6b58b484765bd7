//! A ring with one request in flight between kernel and server: FUSE over io_uring, as one thread uses it.
//!
//! # Data model
//! The kernel is given two pieces of memory once, one for headers and structures, one for names and data. It fills them
//! with a request, and takes the reply from them, with one system call for a reply and the next request. A ring is made
//! for one descriptor of `/dev/fuse`, and can do nothing but FUSE's commands on that: io_uring has operations that open
//! files and connect sockets, which a process that takes over the server must not find. Layouts
//! and numbers are those of `linux/fuse.h`, `struct fuse_uring_req_header` and what goes with it.
//!
//! # Invariants
//! The kernel uses the memory from [`Ring::register`] or [`Ring::commit`] until the completion, and no method
//! accesses it meanwhile. It is not moved before the ring is dropped, which first ends what is in flight.
#![allow(unsafe_code, reason = "memory that is shared with the kernel")]

use super::buffer::Buffer;
use crate::abi::{DATA_BYTES_MAX, input, output};
use io_uring::register::Restriction;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `FUSE_IO_URING_CMD_REGISTER`.
const REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const COMMIT_AND_FETCH: u32 = 2;

/// Where in an entry of io_uring its length is, in bytes.
const SQE_LEN: usize = 24;

/// How much room there is for a header, and for a structure.
const PART: usize = 128;

/// `struct fuse_uring_ent_in_out`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct EntInOut {
    flags: u64,
    commit_id: u64,
    payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

/// `struct fuse_uring_req_header`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Headers {
    in_out: [u8; PART],
    op_in: [u8; PART],
    ent: EntInOut,
}

/// `struct fuse_uring_cmd_req`.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
struct Command {
    flags: u64,
    commit_id: u64,
    queue: u16,
    padding: [u8; 6],
}

/// `struct iovec`, for the kernel to read.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Vector {
    base: u64,
    len: u64,
}

/// Where in a ring's table of files its descriptor of `/dev/fuse` is.
const DEVICE: types::Fixed = types::Fixed(0);

/// A ring that nothing is offered on yet.
pub type RawRing = IoUring<squeue::Entry128, cqueue::Entry>;

/// A ring for `device`, a descriptor of `/dev/fuse` that may be bound to a mount later.
///
/// # Errors
/// As the host says: `EPERM` or `ENOSYS` where io_uring is not allowed, `EINVAL` where rings cannot be restricted,
/// `ENOMEM`.
pub fn make(device: BorrowedFd<'_>) -> io::Result<RawRing> {
    let ring = RawRing::builder()
        .setup_r_disabled()
        .setup_coop_taskrun()
        .build(2)?;
    let fixed = squeue::Flags::FIXED_FILE.bits();
    let submitter = ring.submitter();
    submitter.register_files(&[device.as_raw_fd()])?;
    submitter.register_restrictions(&mut [
        Restriction::sqe_op(opcode::UringCmd80::CODE),
        Restriction::sqe_flags_required(fixed),
    ])?;
    submitter.register_enable_rings()?;
    Ok(ring)
}

/// The ring of one thread.
pub struct Ring {
    ring: RawRing,
    queue: u16,
    headers: Box<Headers>,
    payload: Buffer,
    vectors: Box<[Vector; 2]>,
    /// A request came with the offer.
    arrived: bool,
}

impl Ring {
    /// A ring of the queue with that number, which is a CPU's.
    pub fn new(ring: RawRing, queue: u16) -> Ring {
        let headers = Box::new(Headers {
            in_out: [0; PART],
            op_in: [0; PART],
            ent: EntInOut::default(),
        });
        Ring {
            ring,
            queue,
            headers,
            payload: Buffer::new(DATA_BYTES_MAX as usize),
            vectors: Box::new([Vector { base: 0, len: 0 }; 2]),
            arrived: false,
        }
    }

    /// Offers the ring to the kernel, which answers with a request when it has one: see [`Ring::wait`].
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `EINVAL`: the kernel does not have it, or has it disabled. `ENOTCONN`: the mount is gone.
    pub fn register(&mut self) -> Result<(), Errno> {
        let headers: *mut Headers = &mut *self.headers;
        let page = self.payload.page();
        self.vectors[0] = Vector {
            base: headers.expose_provenance() as u64,
            len: size_of::<Headers>() as u64,
        };
        self.vectors[1] = Vector {
            base: page.as_mut_ptr().expose_provenance() as u64,
            len: page.len() as u64,
        };
        self.push(REGISTER, 0)?;
        self.submit(0)?;
        // What is refused is so at once.
        match self.ring.completion().next() {
            Some(done) => {
                self.arrived = true;
                outcome(&done)
            }
            None => Ok(()),
        }
    }

    /// Gives the reply that is in the ring to the kernel, which answers with the next request: at once with
    /// `submit`, else when it is waited for.
    ///
    /// # Errors
    /// As [`Ring::wait`].
    pub fn commit(
        &mut self,
        unique: u64,
        answer: Result<usize, uext4_vfs::Errno>,
        submit: bool,
    ) -> Result<(), Errno> {
        let (error, len) = match answer {
            Ok(len) => (0, len),
            Err(errno) => (-errno.0, 0),
        };
        let header = output::Header {
            len: (size_of::<output::Header>() + len) as u32,
            error,
            unique,
        };
        self.headers.in_out[..size_of::<output::Header>()].copy_from_slice(header.as_bytes());
        self.headers.ent.payload_bytes = len as u32;
        self.push(COMMIT_AND_FETCH, self.headers.ent.commit_id)?;
        match submit {
            true => self.submit(0),
            false => Ok(()),
        }
    }

    /// Whether a request, or the end of the mount, is available without waiting.
    pub fn has_arrived(&mut self) -> bool {
        self.arrived || !self.ring.completion().is_empty()
    }

    /// The request that is in the ring: header, structure, and memory for names and data, of which so many bytes
    /// are there; the reply is written to the same memory.
    pub fn request(&mut self) -> (input::Header, [u8; PART], &mut [u8], usize) {
        let header = input::Header::read_from_prefix(&self.headers.in_out);
        let header = header.map_or_else(|_| input::Header::default(), |(header, _)| header);
        let filled = self.headers.ent.payload_bytes as usize;
        let page = self.payload.page();
        let filled = filled.min(page.len());
        (header, self.headers.op_in, page, filled)
    }

    /// Waits until there is a request in the ring.
    ///
    /// # Errors
    /// `ENOTCONN`, `ECONNABORTED`: the mount is gone.
    pub fn wait(&mut self) -> Result<(), Errno> {
        if std::mem::take(&mut self.arrived) {
            return Ok(());
        }
        loop {
            if let Some(done) = self.ring.completion().next() {
                return outcome(&done);
            }
            self.submit(1)?;
        }
    }

    fn push(&mut self, command: u32, commit_id: u64) -> Result<(), Errno> {
        let request = Command {
            commit_id,
            queue: self.queue,
            ..Command::default()
        };
        let mut bytes = [0; 80];
        bytes[..size_of::<Command>()].copy_from_slice(request.as_bytes());
        let vectors: *const [Vector; 2] = &*self.vectors;
        let mut entry = opcode::UringCmd80::new(DEVICE, command)
            .cmd(bytes)
            .addr(Some(vectors.expose_provenance() as u64))
            .build();
        let entry_bytes: *mut squeue::Entry128 = &mut entry;
        // SAFETY: an Entry128 is the kernel's entry of 128 bytes, as its documentation says, and its length, which the
        // builder of this command leaves out, is the 32 bits at 24; they are aligned as the entry is, to 8 bytes.
        unsafe {
            entry_bytes
                .cast::<u8>()
                .add(SQE_LEN)
                .cast::<u32>()
                .write(self.vectors.len() as u32);
        }
        // SAFETY: what the entry leads to (headers, payload, vectors) is the ring's own, on the heap where it stays, and
        // until the completion only the kernel uses it: readers wait for the completion.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| Errno::AGAIN)
    }

    /// Submits what was pushed, and waits for so many completions; a signal may end that before.
    fn submit(&mut self, completions: usize) -> Result<(), Errno> {
        match self.ring.submit_and_wait(completions) {
            Ok(_) => Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EINTR) => Ok(()),
            Err(e) => Err(Errno::from_io_error(&e).unwrap_or(Errno::IO)),
        }
    }
}

fn outcome(done: &cqueue::Entry) -> Result<(), Errno> {
    match done.result() {
        result if result >= 0 => Ok(()),
        result => Err(Errno::from_raw_os_error(-result)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_ring_asks_fuse_and_does_nothing_else() {
        let made = super::super::open_device().and_then(|device| make(device.as_fd()));
        let Ok(mut ring) = made else {
            return eprintln!("SKIPPED: needs /dev/fuse and io_uring");
        };
        let denied = -Errno::ACCESS.raw_os_error();
        let cwd = types::Fd(libc::AT_FDCWD);
        let stdin = types::Fd(0);
        for (name, entry) in [
            ("nop", opcode::Nop::new().build()),
            ("openat", opcode::OpenAt::new(cwd, std::ptr::null()).build()),
            (
                "socket",
                opcode::Socket::new(libc::AF_UNIX, libc::SOCK_STREAM, 0).build(),
            ),
            (
                "read",
                opcode::Read::new(stdin, std::ptr::null_mut(), 0).build(),
            ),
            (
                "msg_ring",
                opcode::MsgRingData::new(stdin, 0, 0, None).build(),
            ),
        ] {
            // SAFETY: null is memory of none, and an operation that is not denied fails on it.
            unsafe { ring.submission().push(&entry.into()) }.unwrap();
            ring.submit_and_wait(1).unwrap();
            let done = ring.completion().next().unwrap();
            assert_eq!(done.result(), denied, "{name}");
        }
        let mut command = |fd: Option<types::Fd>| {
            let entry = match fd {
                Some(fd) => opcode::UringCmd80::new(fd, REGISTER).build(),
                None => opcode::UringCmd80::new(DEVICE, REGISTER).build(),
            };
            // SAFETY: it points at nothing.
            unsafe { ring.submission().push(&entry) }.unwrap();
            ring.submit_and_wait(1).unwrap();
            ring.completion().next().unwrap().result()
        };
        assert_eq!(command(Some(stdin)), denied, "another file");
        let unbound = command(None);
        assert!(unbound < 0 && unbound != denied, "{unbound}");
        assert!(ring.submitter().register_files_update(0, &[0]).is_err());
    }

    #[test]
    fn structures_have_the_sizes_of_the_protocol() {
        assert_eq!(size_of::<Headers>(), 288);
        assert_eq!(size_of::<Command>(), 24);
        assert_eq!(size_of::<squeue::Entry128>(), 128);
    }
}
