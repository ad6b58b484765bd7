//! The kernel's side, through the C library, in an IPC namespace of its own.

use crate::machine;
use crate::mq::{Attr, File, Mq, Other, Res, Time, Told};
use std::io::Error;
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use uext4_testkit::prelude::*;

/// What is left open is closed after the test: it counts for the user.
#[derive(Default)]
pub struct Kernel {
    open: Mutex<Vec<i32>>,
}

static USER: Exclusive<&str> =
    Exclusive::new("users' bytes, counted over all namespaces, and the signals of the process");
/// Signals caught.
static TOLD: AtomicU32 = AtomicU32::new(0);

extern "C" fn caught(signal: i32) {
    if signal == libc::SIGUSR1 {
        TOLD.fetch_add(1, Ordering::SeqCst);
    }
}

extern "C" fn called(_: libc::sigval) {
    TOLD.fetch_add(1, Ordering::SeqCst);
}

fn errno() -> i32 {
    Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn check(result: i64) -> Res<i64> {
    if result < 0 { Err(errno()) } else { Ok(result) }
}

fn catch(signal: i32, flags: i32) {
    // SAFETY: the handler touches an atomic only; the structure is initialised.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = caught as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

fn c_name(name: &[u8]) -> CString {
    CString::new(name).expect("no zero byte")
}

fn timespec((sec, nsec): Time) -> libc::timespec {
    libc::timespec {
        tv_sec: sec,
        tv_nsec: nsec,
    }
}

fn attr(a: &libc::mq_attr) -> Attr {
    Attr {
        flags: a.mq_flags,
        maxmsg: a.mq_maxmsg,
        msgsize: a.mq_msgsize,
        curmsgs: a.mq_curmsgs,
    }
}

impl Kernel {
    /// Runs a test in a thread that has its own namespace.
    pub fn run(test: fn(&dyn Mq)) {
        let user = USER.take();
        let ran = std::thread::spawn(move || {
            // SAFETY: no memory is passed; it concerns this thread and those it starts.
            if unsafe { libc::unshare(libc::CLONE_NEWIPC) } != 0 {
                let e = Error::last_os_error();
                eprintln!("skipped: the kernel's message queues: no IPC namespace: {e}");
                return;
            }
            let kernel = Kernel::default();
            if kernel.unlink(b"/none") == Err(libc::ENOSYS) {
                eprintln!("skipped: the kernel has no message queues");
                return;
            }
            catch(libc::SIGUSR1, libc::SA_RESTART);
            catch(libc::SIGUSR2, 0);
            test(&kernel);
            let left = std::mem::take(&mut *kernel.open.lock().expect("no panic"));
            for d in left {
                kernel.close(d).expect("is open");
            }
        })
        .join();
        drop(user);
        if let Err(panic) = ran {
            eprintln!("on the kernel's message queues:");
            std::panic::resume_unwind(panic);
        }
    }
}

impl Mq for Kernel {
    fn open(&self, name: &[u8], flags: i32, mode: u32, size: Option<(i64, i64)>) -> Res<i32> {
        let name = c_name(name);
        // SAFETY: name and attributes live through the call.
        let d = unsafe {
            let mut a: libc::mq_attr = zeroed();
            if let Some((maxmsg, msgsize)) = size {
                a.mq_maxmsg = maxmsg;
                a.mq_msgsize = msgsize;
            }
            let a = if size.is_some() { &raw const a } else { null() };
            libc::mq_open(name.as_ptr(), flags, mode, a)
        };
        check(d.into())?;
        self.open.lock().expect("no panic").push(d);
        Ok(d)
    }

    fn close(&self, d: i32) -> Res<()> {
        // SAFETY: no memory is passed.
        check(unsafe { libc::mq_close(d) }.into())?;
        self.open
            .lock()
            .expect("no panic")
            .retain(|open| *open != d);
        Ok(())
    }

    fn unlink(&self, name: &[u8]) -> Res<()> {
        let name = c_name(name);
        // SAFETY: the name lives through the call.
        check(unsafe { libc::mq_unlink(name.as_ptr()) }.into()).map(drop)
    }

    fn timedsend(&self, d: i32, bytes: &[u8], priority: u32, until: Option<Time>) -> Res<()> {
        let (data, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: message and time live through the call.
        let r = unsafe {
            match until.map(timespec) {
                None => libc::mq_send(d, data, len, priority),
                Some(until) => libc::mq_timedsend(d, data, len, priority, &until),
            }
        };
        check(r.into()).map(drop)
    }

    fn timedreceive(&self, d: i32, len: usize, until: Option<Time>) -> Res<(Vec<u8>, u32)> {
        let mut buffer = vec![0u8; len];
        let mut priority = 0;
        let data = buffer.as_mut_ptr().cast();
        // SAFETY: buffer, priority and time live through the call.
        let n = unsafe {
            match until.map(timespec) {
                None => libc::mq_receive(d, data, len, &mut priority),
                Some(until) => libc::mq_timedreceive(d, data, len, &mut priority, &until),
            }
        };
        let n = check(n as i64)?;
        buffer.truncate(usize::try_from(n).expect("a length"));
        Ok((buffer, priority))
    }

    fn getattr(&self, d: i32) -> Res<Attr> {
        // SAFETY: the attributes live through the call.
        unsafe {
            let mut a: libc::mq_attr = zeroed();
            check(libc::mq_getattr(d, &mut a).into())?;
            Ok(attr(&a))
        }
    }

    fn setattr(&self, d: i32, flags: i64) -> Res<Attr> {
        // SAFETY: both attributes live through the call.
        unsafe {
            let (mut new, mut old): (libc::mq_attr, libc::mq_attr) = (zeroed(), zeroed());
            new.mq_flags = flags;
            check(libc::mq_setattr(d, &new, &mut old).into())?;
            Ok(attr(&old))
        }
    }

    fn notify(&self, d: i32, how: Option<Told>) -> Res<()> {
        // SAFETY: the event lives through the call.
        let r = unsafe {
            let mut event: libc::sigevent = zeroed();
            match how {
                None => libc::mq_notify(d, null()),
                Some(how) => {
                    event.sigev_signo = libc::SIGUSR1;
                    event.sigev_notify = match how {
                        Told::None => libc::SIGEV_NONE,
                        Told::Signal => libc::SIGEV_SIGNAL,
                        Told::Number(signo) => {
                            event.sigev_signo = signo;
                            libc::SIGEV_SIGNAL
                        }
                        Told::Thread => {
                            // The function is in the union that has the thread's number for libc.
                            let union = &raw mut event.sigev_notify_thread_id;
                            union.cast::<extern "C" fn(libc::sigval)>().write(called);
                            libc::SIGEV_THREAD
                        }
                    };
                    libc::mq_notify(d, &event)
                }
            }
        };
        check(r.into()).map(drop)
    }

    fn told(&self) -> u32 {
        // Another thread may be the one that catches it.
        std::thread::sleep(Duration::from_millis(20));
        TOLD.load(Ordering::SeqCst)
    }

    fn poll(&self, d: i32) -> (bool, bool) {
        let mut poll = libc::pollfd {
            fd: d,
            events: libc::POLLIN | libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one entry, that lives through the call.
        assert!(unsafe { libc::poll(&mut poll, 1, 0) } >= 0);
        let has = |event| poll.revents & event != 0;
        (has(libc::POLLIN), has(libc::POLLOUT))
    }

    fn status(&self, d: i32) -> String {
        let mut buffer = [0u8; 200];
        // SAFETY: the buffer lives through the call.
        let n = unsafe { libc::pread(d, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let n = usize::try_from(n).expect("the status can be read");
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    }

    fn become_user(&self, uid: u32) {
        machine::become_user(uid);
    }

    fn set_limit(&self, name: &str, value: u32) {
        let path = format!("/proc/sys/fs/mqueue/{name}");
        std::fs::write(path, value.to_string()).expect("as root");
    }

    fn umask(&self, mask: u32) {
        // SAFETY: no memory is passed; it concerns this thread, which has a umask of its own then.
        unsafe {
            assert_eq!(libc::unshare(libc::CLONE_FS), 0);
            libc::umask(mask);
        }
    }

    fn stat(&self, d: i32) -> File {
        // SAFETY: the structure lives through the call.
        let s = unsafe {
            let mut s: libc::stat = zeroed();
            assert_eq!(libc::fstat(d, &mut s), 0);
            s
        };
        File {
            mode: s.st_mode & 0o7777,
            nlink: s.st_nlink,
            owner: (s.st_uid, s.st_gid),
        }
    }

    fn until_waiting(&self, d: i32, waiting: usize) {
        let calls = [libc::SYS_mq_timedsend, libc::SYS_mq_timedreceive];
        let lines = calls.map(|call| format!("{call} {d:#x} "));
        let waits = |task: std::fs::DirEntry| {
            // A thread that runs, or is gone, waits for nothing.
            let line = std::fs::read_to_string(task.path().join("syscall"));
            line.is_ok_and(|line| lines.iter().any(|l| line.starts_with(l)))
        };
        loop {
            let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
            if tasks.flatten().map(waits).filter(|w| *w).count() == waiting {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn set_priority(&self, priority: i32) -> bool {
        // SAFETY: the structure is plain numbers and lives through the call.
        unsafe {
            let mut param: libc::sched_param = zeroed();
            param.sched_priority = priority;
            libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) == 0
        }
    }

    fn wait_ready(&self, d: i32, write: bool) {
        let event = if write { libc::POLLOUT } else { libc::POLLIN };
        let mut poll = libc::pollfd {
            fd: d,
            events: event,
            revents: 0,
        };
        // SAFETY: one entry, that lives through the call.
        assert_eq!(unsafe { libc::poll(&mut poll, 1, -1) }, 1);
        assert_eq!(poll.revents & event, event);
    }

    fn other_process(&self, d: i32, what: Other) -> Res<()> {
        // SAFETY: the child makes system calls alone, and ends; the event lives through its call.
        unsafe {
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_NONE;
            let child = libc::fork();
            if child == 0 {
                let r = match what {
                    Other::Register => libc::mq_notify(d, &event),
                    Other::TakeBack => libc::mq_notify(d, null()),
                    Other::Close => libc::mq_close(d),
                };
                libc::_exit(if r == 0 { 0 } else { *libc::__errno_location() });
            }
            let mut status = 0;
            while libc::waitpid(child, &mut status, 0) < 0 {
                assert_eq!(errno(), libc::EINTR);
            }
            match libc::WEXITSTATUS(status) {
                0 => Ok(()),
                e => Err(e),
            }
        }
    }

    fn interrupted(&self, call: &(dyn Fn() -> Res<()> + Sync), _d: i32) -> Res<()> {
        let done = AtomicBool::new(false);
        let thread = Mutex::new(None);
        std::thread::scope(|s| {
            let waiter = s.spawn(|| {
                // SAFETY: no memory is passed.
                *thread.lock().expect("no panic") = Some(unsafe { libc::pthread_self() });
                let result = call();
                *thread.lock().expect("no panic") = None;
                done.store(true, Ordering::SeqCst);
                result
            });
            while !done.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
                if let Some(thread) = *thread.lock().expect("no panic") {
                    // SAFETY: the thread lives, as it has not taken its number back.
                    unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
                }
            }
            waiter.join().expect("no panic")
        })
    }
}
