//! The library's side.

use crate::machine::capabilities;
use crate::mq::{Attr, File, Mq, Other, Res, Time, Told};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32};
use uext4_mqueue::{
    Description, Interrupt, IpcNamespace, Limits, MqAttr, MqOpen, MqueueType, Notification, Ready,
    Wait,
};
use uext4_testkit::prelude::*;
use uext4_vfs::{Error, Timestamp};

thread_local! {
    static UID: Cell<u32> = const { Cell::new(0) };
    static UMASK: Cell<u32> = const { Cell::new(0o022) };
    static PRIORITY: Cell<i32> = const { Cell::new(0) };
    static INTERRUPT: Cell<Option<Interrupt>> = const { Cell::new(None) };
}

pub struct Library {
    namespace: IpcNamespace,
    open: Mutex<HashMap<i32, Arc<Description>>>,
    next: AtomicI32,
    told: Arc<AtomicU32>,
}

impl Default for Library {
    fn default() -> Library {
        Library {
            namespace: MqueueType::default().create(Limits::default()),
            open: Mutex::default(),
            next: AtomicI32::default(),
            told: Arc::default(),
        }
    }
}

fn errno(e: Error) -> i32 {
    e.errno().0
}

fn caller() -> Caller {
    let mut caller = Caller::user(UID.get(), UID.get());
    caller.capabilities &= Capabilities::from_bits_truncate(capabilities());
    caller
}

fn wait(until: Option<Time>) -> Wait {
    let interrupt = INTERRUPT.take();
    INTERRUPT.set(interrupt.clone());
    Wait {
        deadline: until.map(|(sec, nsec)| Timestamp {
            sec,
            nsec: u32::try_from(nsec).unwrap_or(u32::MAX),
        }),
        interrupt,
        sched_priority: PRIORITY.get(),
    }
}

fn attr(a: MqAttr) -> Attr {
    Attr {
        flags: a.flags,
        maxmsg: a.maxmsg,
        msgsize: a.msgsize,
        curmsgs: a.curmsgs,
    }
}

/// Counts.
fn tell(told: Arc<AtomicU32>) -> Box<dyn FnOnce() + Send> {
    Box::new(move || {
        told.fetch_add(1, Ordering::SeqCst);
    })
}

fn signal(signo: i32, told: Arc<AtomicU32>) -> Notification {
    Notification::Signal {
        signo,
        deliver: tell(told),
    }
}

impl Library {
    fn get(&self, d: i32) -> Res<Arc<Description>> {
        let open = self.open.lock().expect("no panic");
        open.get(&d).cloned().ok_or(Errno::EBADF.0)
    }
}

impl Mq for Library {
    fn open(&self, name: &[u8], flags: i32, mode: u32, size: Option<(i64, i64)>) -> Res<i32> {
        let mut how = match flags & libc::O_ACCMODE {
            libc::O_RDONLY => MqOpen::READ,
            libc::O_WRONLY => MqOpen::WRITE,
            libc::O_RDWR => MqOpen::READ | MqOpen::WRITE,
            _ => MqOpen::empty(),
        };
        how.set(MqOpen::NONBLOCK, flags & libc::O_NONBLOCK != 0);
        how.set(MqOpen::CREATE, flags & libc::O_CREAT != 0);
        how.set(MqOpen::EXCLUSIVE, flags & libc::O_EXCL != 0);
        // The library is given modes with the umask applied.
        let mode = u16::try_from(mode & !UMASK.get()).expect("a mode");
        let made = self.namespace.open(&caller(), name, how, mode, size);
        let made = made.map_err(errno)?;
        let d = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().expect("no panic").insert(d, made);
        Ok(d)
    }

    fn close(&self, d: i32) -> Res<()> {
        let gone = self.open.lock().expect("no panic").remove(&d);
        gone.ok_or(Errno::EBADF.0)?.close(std::process::id());
        Ok(())
    }

    fn unlink(&self, name: &[u8]) -> Res<()> {
        self.namespace.unlink(&caller(), name).map_err(errno)
    }

    fn timedsend(&self, d: i32, bytes: &[u8], priority: u32, until: Option<Time>) -> Res<()> {
        let d = self.get(d)?;
        d.send(bytes, priority, &wait(until)).map_err(errno)
    }

    fn timedreceive(&self, d: i32, len: usize, until: Option<Time>) -> Res<(Vec<u8>, u32)> {
        let mut buffer = vec![0; len];
        let d = self.get(d)?;
        let got = d.receive(&mut buffer, &wait(until)).map_err(errno)?;
        buffer.truncate(got.len);
        Ok((buffer, got.priority))
    }

    fn getattr(&self, d: i32) -> Res<Attr> {
        Ok(attr(self.get(d)?.getattr()))
    }

    fn setattr(&self, d: i32, flags: i64) -> Res<Attr> {
        self.get(d)?.setattr(flags).map(attr).map_err(errno)
    }

    fn notify(&self, d: i32, how: Option<Told>) -> Res<()> {
        let told = Arc::clone(&self.told);
        let how = how.map(|how| match how {
            Told::None => Notification::None,
            Told::Signal => signal(libc::SIGUSR1, told),
            Told::Number(signo) => signal(signo, told),
            Told::Thread => Notification::Call(tell(told)),
        });
        let d = self.get(d)?;
        d.notify(std::process::id(), how).map_err(errno)
    }

    fn told(&self) -> u32 {
        self.told.load(Ordering::SeqCst)
    }

    fn poll(&self, d: i32) -> (bool, bool) {
        let ready = self.get(d).expect("open").poll();
        (ready.contains(Ready::READ), ready.contains(Ready::WRITE))
    }

    fn status(&self, d: i32) -> String {
        self.get(d).expect("open").status()
    }

    fn become_user(&self, uid: u32) {
        UID.set(uid);
    }

    fn set_limit(&self, name: &str, value: u32) {
        let mut limits = self.namespace.limits();
        *match name {
            "queues_max" => &mut limits.queues_max,
            "msg_max" => &mut limits.msg_max,
            "msg_default" => &mut limits.msg_default,
            "msgsize_max" => &mut limits.msgsize_max,
            "msgsize_default" => &mut limits.msgsize_default,
            other => panic!("no such limit: {other}"),
        } = value;
        self.namespace.set_limits(limits);
    }

    fn umask(&self, mask: u32) {
        UMASK.set(mask);
    }

    fn stat(&self, d: i32) -> File {
        let attr = self.get(d).expect("open").node().attr();
        File {
            mode: attr.mode.into(),
            nlink: attr.nlink.into(),
            owner: (attr.uid, attr.gid),
        }
    }

    fn until_waiting(&self, d: i32, waiting: usize) {
        let d = self.get(d).expect("open");
        loop {
            let (senders, receivers) = d.node().queue.waiting();
            if senders + receivers == waiting {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn set_priority(&self, priority: i32) -> bool {
        PRIORITY.set(priority);
        true
    }

    fn wait_ready(&self, d: i32, write: bool) {
        let interest = if write { Ready::WRITE } else { Ready::READ };
        let d = self.get(d).expect("open");
        assert_eq!(d.poll_wait(interest, &Wait::default()).ok(), Some(interest));
    }

    fn other_process(&self, d: i32, what: Other) -> Res<()> {
        let other = std::process::id() + 1;
        let d = self.get(d)?;
        let result = match what {
            Other::Register => d.notify(other, Some(Notification::None)),
            Other::TakeBack => d.notify(other, None),
            Other::Close => Ok(()),
        };
        d.close(other);
        result.map_err(errno)
    }

    fn interrupted(&self, call: &(dyn Fn() -> Res<()> + Sync), d: i32) -> Res<()> {
        let d = self.get(d)?;
        let interrupt = Interrupt::new();
        std::thread::scope(|s| {
            let waiter = s.spawn(|| {
                INTERRUPT.set(Some(interrupt.clone()));
                call()
            });
            while d.node().queue.waiting() == (0, 0) {
                std::thread::sleep(Duration::from_millis(1));
            }
            d.interrupt(&interrupt);
            waiter.join().expect("no panic")
        })
    }
}
