//! What is asked and told of the processes that use queues.
//!
//! The kernel names the thread that makes a request by its number in the namespace of processes in which the mount was
//! made; 0 stands for one that is not in it. Of such a thread nothing is known here.
#![allow(unsafe_code, reason = "these system calls have no safe form")]

use rustix::io::Errno as HostErrno;
use rustix::process::{Pid, PidfdFlags, getpriority_process, pidfd_open};
use std::os::fd::{AsRawFd, OwnedFd};
use uext4::Errno;

/// `SI_MESGQ` of sigaction(2): a message came to a queue.
const SI_MESGQ: i32 = -3;
/// The length of `siginfo_t`.
const SIGINFO_BYTES: usize = 128;

/// Whether thread `tid` belongs to process `process`.
pub fn is_thread_of(process: u32, tid: u32) -> bool {
    if process == 0 || tid == 0 {
        return false;
    }
    // SAFETY: no memory is passed, and no signal sent.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, process, tid, 0) };
    // One that may not be signalled is there all the same.
    answer == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The process of thread `tid`, which says that it is `claimed`; 0 if that can't be known.
pub fn process_of(claimed: u32, tid: u32) -> u32 {
    match claimed {
        _ if is_thread_of(claimed, tid) => claimed,
        // Its own namespace has other numbers; a process with one thread has the thread's.
        _ if is_thread_of(tid, tid) => tid,
        _ => 0,
    }
}

/// Who goes first of several that wait: by the priority of real time, then by the nice value.
pub fn rank(tid: u32) -> i32 {
    let Some(pid) = i32::try_from(tid).ok().and_then(Pid::from_raw) else {
        return 0;
    };
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is plain numbers and lives through the call.
    let answer = unsafe { libc::sched_getparam(pid.as_raw_nonzero().get(), &raw mut param) };
    match param.sched_priority {
        priority if answer == 0 && priority > 0 => priority,
        _ => getpriority_process(Some(pid)).map_or(0, |nice| -20 - nice),
    }
}

/// `PIDFD_GET_INFO` of `linux/pidfd.h`, on the first form of its structure.
const PIDFD_GET_INFO: u32 = 0xc040_ff0b;
/// `PIDFD_INFO_CREDS`: the users are wanted, and there.
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

/// A process that may be sent a signal for a user.
pub struct Target {
    process: OwnedFd,
    uid: u32,
}

impl Target {
    /// The process with that number, which user `uid` has.
    ///
    /// # Errors
    /// `EPERM`: the server may not signal it, or can't know it.
    pub fn new(process: u32, uid: u32) -> Result<Target, Errno> {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        let opened = pidfd_open(pid.ok_or(Errno::EPERM)?, PidfdFlags::empty());
        let target = Target {
            process: opened.map_err(|_| Errno::EPERM)?,
            uid,
        };
        match target.send(0, None) {
            Ok(()) if target.is_the_users() => Ok(target),
            _ => Err(Errno::EPERM),
        }
    }

    /// Whether the user might signal it himself (kill(2)): it may have become another's since, by execve(2). Root may
    /// always; of others a kernel before Linux 6.13 does not tell.
    fn is_the_users(&self) -> bool {
        let mut info = PidfdInfo {
            mask: PIDFD_INFO_CREDS,
            ..PidfdInfo::default()
        };
        let (fd, request) = (self.process.as_raw_fd(), PIDFD_GET_INFO as libc::Ioctl);
        // SAFETY: the structure is plain numbers, as long as the request says, and lives through the call.
        let answer = unsafe { libc::ioctl(fd, request, &raw mut info) };
        let told = answer == 0 && info.mask & PIDFD_INFO_CREDS != 0;
        self.uid == 0 || told && (info.ruid == self.uid || info.suid == self.uid)
    }

    /// Tells it, as the kernel does, that a message came, by that signal with that value, sent by that process of that
    /// user.
    pub fn tell(&self, signo: i32, value: u64, process: u32, uid: u32) {
        let mut info = [0_u8; SIGINFO_BYTES];
        let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &signo.to_ne_bytes());
        put(8, &SI_MESGQ.to_ne_bytes());
        put(16, &process.to_ne_bytes());
        put(20, &uid.to_ne_bytes());
        put(24, &value.to_ne_bytes());
        if self.is_the_users() {
            // One that is gone needs not be told.
            let _ = self.send(signo, Some(&info));
        }
    }

    fn send(&self, signo: i32, info: Option<&[u8; SIGINFO_BYTES]>) -> Result<(), HostErrno> {
        let info = info.map_or(std::ptr::null(), |info| info.as_ptr());
        let fd = self.process.as_raw_fd();
        // SAFETY: the information lives through the call, and is as long as the kernel reads.
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
    fn nice_threads_go_last() {
        assert_eq!(rank(0), 0);
        let usual = rank(std::process::id());
        assert!((-40..=0).contains(&usual), "{usual}");
    }

    #[test]
    fn only_processes_that_are_there_can_be_told() {
        let uid = rustix::process::getuid().as_raw();
        assert!(Target::new(std::process::id(), uid).is_ok());
        assert!(Target::new(0, uid).is_err_and(|e| e == Errno::EPERM));
        assert!(Target::new(u32::MAX, uid).is_err());
        let of_another = Target::new(std::process::id(), uid + 4711);
        assert!(of_another.is_err_and(|e| e == Errno::EPERM));
    }
}
