//! Linux's side: a mount of type `mqueue`, and the C library's calls, in namespaces of their own.

use crate::calls::Res;
use crate::directory::{Directory, Queues, check};
use crate::machine;
use rustix::fs::OFlags;
use std::io::Error;
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use uext4_testkit::prelude::*;

/// The calls of the C library, which go to the namespace of the thread that mounted it.
pub struct Kernel;

fn c_name(name: &str) -> CString {
    CString::new(name).expect("no zero byte")
}

impl Kernel {
    /// A mount in a new IPC namespace and a new mount namespace, of this thread alone.
    pub fn mount() -> Option<Directory<Kernel>> {
        let refused = |what| {
            let e = Error::last_os_error();
            eprintln!("skipped: Linux's mount of message queues: {what}: {e}");
            None
        };
        // SAFETY: no memory is passed; it concerns this thread.
        if unsafe { libc::unshare(libc::CLONE_NEWIPC | libc::CLONE_NEWNS) } != 0 {
            return refused("no namespaces");
        }
        let private = libc::MS_REC | libc::MS_PRIVATE;
        // SAFETY: the texts are constants; nothing else is pointed at.
        unsafe {
            if libc::mount(null(), c"/".as_ptr(), null(), private, null()) != 0 {
                return refused("the mount namespace");
            }
            let (none, at, kind) = (c"none".as_ptr(), c"/tmp".as_ptr(), c"mqueue".as_ptr());
            if libc::mount(none, at, kind, 0, null()) != 0 {
                return refused("mount");
            }
            libc::umask(0);
        }
        machine::become_user(0);
        Some(Directory::new(Path::new("/tmp"), Kernel))
    }
}

impl Queues for Kernel {
    fn set_queues_max(&self, max: u32) {
        std::fs::write("/proc/sys/fs/mqueue/queues_max", max.to_string()).expect("as root");
    }

    fn open(&self, name: &str, flags: OFlags) -> Res<OwnedFd> {
        let (name, flags) = (c_name(name), flags.bits().cast_signed());
        // SAFETY: the name lives through the call.
        let d = unsafe { libc::mq_open(name.as_ptr(), flags, 0o600, null::<libc::mq_attr>()) };
        check(d.into())?;
        // SAFETY: it is new, and owned here; mq_close(3) is close(2).
        Ok(unsafe { OwnedFd::from_raw_fd(d) })
    }

    fn unlink(&self, name: &str) -> Res<()> {
        let name = c_name(name);
        // SAFETY: the name lives through the call.
        check(unsafe { libc::mq_unlink(name.as_ptr()) }.into()).map(drop)
    }

    fn send(&self, queue: BorrowedFd<'_>, bytes: &[u8]) -> Res<()> {
        let (at, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the message lives through the call.
        check(unsafe { libc::mq_send(queue.as_raw_fd(), at, len, 0) }.into()).map(drop)
    }

    fn receive(&self, queue: BorrowedFd<'_>, bytes: &mut [u8]) -> Res<usize> {
        let (at, len) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the buffer lives through the call.
        let n = unsafe { libc::mq_receive(queue.as_raw_fd(), at, len, null_mut()) };
        Ok(usize::try_from(check(n as i64)?).expect("a length"))
    }

    fn register(&self, queue: BorrowedFd<'_>) -> Res<()> {
        // SAFETY: the event is initialised, and lives through the call.
        let r = unsafe {
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_NONE;
            libc::mq_notify(queue.as_raw_fd(), &event)
        };
        check(r.into()).map(drop)
    }
}
