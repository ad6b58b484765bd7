//! System calls about the processes that use queues.
//!
//! A request has the id of its thread in the PID namespace in which the mount was made, or 0 if the thread is not in that
//! namespace. Nothing can be found out about such a thread.
#![allow(unsafe_code, reason = "these system calls have no safe form")]

use rustix::io::Errno as HostErrno;
use rustix::process::{Pid, PidfdFlags, getpriority_process, pidfd_open};
use std::os::fd::{AsRawFd, OwnedFd};
use uext4::Errno;

/// `SI_MESGQ` of sigaction(2): a message arrived in an empty queue.
const SI_MESGQ: i32 = -3;
/// The length of `siginfo_t`.
const SIGINFO_BYTES: usize = 128;

/// Whether thread `tid` belongs to process `process`.
pub fn is_thread_of(process: u32, tid: u32) -> bool {
    if process == 0 || tid == 0 {
        return false;
    }
    // SAFETY: the call gets no memory and, with signal 0, sends no signal.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, process, tid, 0) };
    // A thread that may not be signalled exists.
    answer == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The process of thread `tid`, which claims to be of process `claimed`; 0 if it cannot be found out.
pub fn process_of(claimed: u32, tid: u32) -> u32 {
    match claimed {
        _ if is_thread_of(claimed, tid) => claimed,
        // The claim is a number of another namespace. The process of a main thread has the thread's number.
        _ if is_thread_of(tid, tid) => tid,
        _ => 0,
    }
}

/// The scheduling priority of a thread, which orders waiters: the real-time priority, or else a negative number that
/// follows from the nice value.
pub fn sched_priority(tid: u32) -> i32 {
    let Some(pid) = i32::try_from(tid).ok().and_then(Pid::from_raw) else {
        return 0;
    };
    let pid_number = pid.as_raw_nonzero().get();
    // The kernel's `struct sched_param` is this number. musl has no call for it.
    let mut priority: libc::c_int = 0;
    // SAFETY: the kernel writes one integer, which outlives the call.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getparam, pid_number, &raw mut priority) };
    match priority {
        priority if answer == 0 && priority > 0 => priority,
        _ => getpriority_process(Some(pid)).map_or(0, |nice| -20 - nice),
    }
}

/// `PIDFD_GET_INFO` of `linux/pidfd.h`, on the first form of its structure.
const PIDFD_GET_INFO: u32 = 0xc040_ff0b;
/// `PIDFD_INFO_CREDS`: the user ids are requested, or present.
const PIDFD_INFO_CREDS: u64 = 1 << 1;

/// `struct pidfd_info`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct PidfdInfo {
    mask: u64,
    cgroupid: u64,
    pid: u32,
    tgid: u32,
    ppid: u32,
    ruid: u32,
    rgid: u32,
    euid: u32,
    egid: u32,
    suid: u32,
    sgid: u32,
    fsuid: u32,
    fsgid: u32,
    exit_code: i32,
}

/// A process to signal on behalf of a user.
pub struct Target {
    process: OwnedFd,
    uid: u32,
}

impl Target {
    /// The process with that id, for user `uid`.
    ///
    /// # Errors
    /// `EPERM`: the server may not signal it or cannot find out its user, or it is another user's.
    pub fn new(process: u32, uid: u32) -> Result<Target, Errno> {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        let opened = pidfd_open(pid.ok_or(Errno::EPERM)?, PidfdFlags::empty());
        let target = Target {
            process: opened.map_err(|_| Errno::EPERM)?,
            uid,
        };
        match target.send(0, None) {
            Ok(()) if target.may_be_signalled() => Ok(target),
            _ => Err(Errno::EPERM),
        }
    }

    /// Whether kill(2) would let the user signal the process, whose user execve(2) may have changed since. Root may always.
    /// Before Linux 6.13 the kernel does not report the users of a process, and other users may not.
    fn may_be_signalled(&self) -> bool {
        let mut info = PidfdInfo {
            mask: PIDFD_INFO_CREDS,
            ..PidfdInfo::default()
        };
        let (fd, request) = (self.process.as_raw_fd(), PIDFD_GET_INFO as libc::Ioctl);
        // SAFETY: the structure consists of integers, has the size that the request encodes, and outlives the call.
        let answer = unsafe { libc::ioctl(fd, request, &raw mut info) };
        let has_users = answer == 0 && info.mask & PIDFD_INFO_CREDS != 0;
        self.uid == 0 || has_users && (info.ruid == self.uid || info.suid == self.uid)
    }

    /// Sends the signal that the kernel sends for a message, with that value and that sender.
    pub fn signal(&self, signo: i32, value: u64, process: u32, uid: u32) {
        let mut info = [0_u8; SIGINFO_BYTES];
        let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &signo.to_ne_bytes());
        put(8, &SI_MESGQ.to_ne_bytes());
        put(16, &process.to_ne_bytes());
        put(20, &uid.to_ne_bytes());
        put(24, &value.to_ne_bytes());
        if self.may_be_signalled() {
            // Fails only if the process has ended.
            let _ = self.send(signo, Some(&info));
        }
    }

    fn send(&self, signo: i32, info: Option<&[u8; SIGINFO_BYTES]>) -> Result<(), HostErrno> {
        let info = info.map_or(std::ptr::null(), |info| info.as_ptr());
        let fd = self.process.as_raw_fd();
        // SAFETY: the array is as long as the `siginfo_t` that the kernel reads, and outlives the call.
        let answer = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signo, info, 0) };
        match answer {
            0 => Ok(()),
            _ => Err(HostErrno::from_io_error(&std::io::Error::last_os_error())
                .unwrap_or(HostErrno::PERM)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_belong_to_processes() {
        let (me, thread) = (std::process::id(), rustix::thread::gettid());
        let thread = thread.as_raw_nonzero().get().cast_unsigned();
        assert!(is_thread_of(me, thread) && is_thread_of(me, me));
        assert!(!is_thread_of(1, thread) && !is_thread_of(0, thread) && !is_thread_of(me, 0));
        assert_eq!((process_of(me, thread), process_of(7, me)), (me, me));
        assert_eq!(process_of(me, 0), 0);
    }

    #[test]
    fn nice_threads_are_last() {
        assert_eq!(sched_priority(0), 0);
        let usual = sched_priority(std::process::id());
        assert!((-40..=0).contains(&usual), "{usual}");
    }

    #[test]
    fn only_existing_processes_can_be_signalled() {
        let uid = rustix::process::getuid().as_raw();
        assert!(Target::new(std::process::id(), uid).is_ok());
        assert!(Target::new(0, uid).is_err_and(|e| e == Errno::EPERM));
        assert!(Target::new(u32::MAX, uid).is_err());
        let of_another_user = Target::new(std::process::id(), uid + 4711);
        assert!(of_another_user.is_err_and(|e| e == Errno::EPERM));
    }
}
