//! A C program that calls the C library's mq_* functions for a test.
//!
//! # Data model
//! Each thread of the test that calls has a connection, and so a thread of the driver. The first connection, which
//! carries no calls, is held while the driver is to live.

use crate::c_program::compile;
use crate::calls::{Attr, File, Mq, Other, Res, Time, Told};
use crate::machine::capabilities;
use crate::namespace::preload;
use std::cell::RefCell;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::AtomicI32;
use uext4_mqueue::protocol;
use uext4_testkit::prelude::*;

/// How the driver says that it can't have queues of its own.
const NO_QUEUES: i32 = 77;
/// So often it is looked whether the driver has ended, and so long apart.
const LOOKS: u32 = 6000;
const APART: Duration = Duration::from_millis(10);

/// The requests, as the driver numbers them.
#[derive(Clone, Copy)]
enum What {
    Open = 1,
    Close,
    Unlink,
    Send,
    Receive,
    Getattr,
    Setattr,
    Notify,
    Told,
    Poll,
    Status,
    BecomeUser,
    WriteFile,
    Umask,
    Stat,
    Priority,
    WaitReady,
    OtherProcess,
    Thread,
    ForgetSignal,
    BadAddress,
}

/// Whose queues.
#[derive(Clone, Debug)]
pub enum Queues {
    /// The kernel's, in a namespace of the driver's own.
    Kernel,
    /// Those of a namespace that is mounted.
    Mount(PathBuf),
}

thread_local! {
    /// This thread's connections, by the driver's process.
    static CONNECTIONS: RefCell<HashMap<u32, UnixStream>> = RefCell::default();
}

/// A driver that runs.
pub struct Driver {
    queues: Queues,
    // Ended by `finish`, or killed.
    process: Mutex<Option<Child>>,
    id: u32,
    /// The process that answers for the mount.
    server: Option<u32>,
    first: Option<UnixStream>,
    files: TempDir,
}

/// What the driver answers: four numbers and bytes.
type Answer = ([i64; 4], Vec<u8>);

/// The program, which is compiled once.
fn program() -> Result<&'static Path> {
    static PROGRAM: OnceLock<Result<(TempDir, PathBuf), String>> = OnceLock::new();
    let made = PROGRAM.get_or_init(|| {
        let files = tempfile::tempdir().map_err(|e| e.to_string())?;
        let program = compile("driver", files.path()).map_err(|e| format!("{e:#}"))?;
        Ok((files, program))
    });
    match made {
        Ok((_, program)) => Ok(program),
        Err(error) => anyhow::bail!("{error}"),
    }
}

impl Driver {
    /// Starts it; `None`, having said so, where it can't have such queues.
    pub fn start(queues: Queues) -> Result<Option<Driver>> {
        let files = tempfile::tempdir()?;
        let at = files.path().join("socket");
        let listener = OwnedFd::from(UnixListener::bind(&at)?);
        let mut program = Command::new(program()?);
        program.stdin(Stdio::from(listener));
        match &queues {
            Queues::Kernel => drop(program.arg("own")),
            Queues::Mount(dir) => preload(&mut program, dir),
        }
        let mut process = program.spawn()?;
        // The listener is closed here with the command, so that a driver that ends without accepting is noticed.
        drop(program);
        let mut first = UnixStream::connect(&at).ok();
        let greeting = first
            .as_mut()
            .and_then(|first| ask(first, What::Thread, &[], &[]));
        if greeting.is_none() {
            let status = process.wait()?;
            ensure!(status.code() == Some(NO_QUEUES), "the driver: {status}");
            eprintln!("skipped: the kernel's message queues");
            return Ok(None);
        }
        let server = match &queues {
            Queues::Kernel => None,
            Queues::Mount(dir) => {
                let server = uext4_testkit::server::pid_of(dir, "pid")?;
                Some(server.as_raw_nonzero().get() as u32)
            }
        };
        Ok(Some(Driver {
            queues,
            server,
            id: process.id(),
            process: Mutex::new(Some(process)),
            first,
            files,
        }))
    }

    /// Has it end by itself.
    pub fn finish(mut self) -> Result<()> {
        drop(self.first.take());
        CONNECTIONS.with_borrow_mut(|all| all.remove(&self.id));
        let mut process = self.process.lock().expect("no panic");
        let child = process.as_mut().context("runs")?;
        for _ in 0..LOOKS {
            if let Some(status) = child.try_wait()? {
                *process = None;
                ensure!(status.success(), "the driver: {status}");
                return Ok(());
            }
            std::thread::sleep(APART);
        }
        anyhow::bail!("the driver does not end")
    }

    fn call(&self, what: What, numbers: &[i64], data: &[u8]) -> Res<Answer> {
        let answer = CONNECTIONS.with_borrow_mut(|all| {
            let connection = all.entry(self.id).or_insert_with(|| {
                UnixStream::connect(self.files.path().join("socket")).expect("the driver listens")
            });
            ask(connection, what, numbers, data)
        });
        answer.expect("the driver answers")
    }

    /// Numbers of the call alone.
    fn call_numbers(&self, what: What, numbers: &[i64]) -> Res<[i64; 4]> {
        self.call(what, numbers, &[]).map(|(numbers, _)| numbers)
    }

    /// Whose queues it has.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// The driver has no handler for that signal any more.
    pub fn forget_signal(&self, signal: i32) {
        let forgotten = self.call_numbers(What::ForgetSignal, &[signal.into()]);
        forgotten.expect("a signal");
    }

    /// Has a process of its own make a call (0: send, 1: receive) with an address where no memory is, and
    /// gives the signal that ends it, or 0.
    pub fn bad_address(&self, d: i32, call: i64) -> Res<i32> {
        let numbers = self.call_numbers(What::BadAddress, &[d.into(), call])?;
        Ok(numbers[0] as i32)
    }

    /// What a call gives whose thread gets that signal again and again, while `goes_on` allows, which receives whether
    /// the call has returned.
    pub fn signalled(
        &self,
        call: &(dyn Fn() -> Res<()> + Sync),
        signal: i32,
        goes_on: impl Fn(bool) -> bool,
    ) -> Res<()> {
        let done = AtomicBool::new(false);
        let thread = AtomicI32::new(0);
        std::thread::scope(|s| {
            let waiter = s.spawn(|| {
                // One that such signals reach.
                let [id, ..] = self.call_numbers(What::Thread, &[1]).expect("has one");
                thread.store(id as i32, Ordering::SeqCst);
                let result = call();
                done.store(true, Ordering::SeqCst);
                result
            });
            while goes_on(done.load(Ordering::SeqCst)) {
                std::thread::sleep(Duration::from_millis(5));
                let thread = thread.load(Ordering::SeqCst);
                if thread != 0 {
                    // SAFETY: no memory is passed. The thread outlives the one here that waits for it.
                    unsafe { libc::syscall(libc::SYS_tgkill, self.id, thread, signal) };
                }
            }
            waiter.join().expect("no panic")
        })
    }

    /// The threads of the driver that are blocked in a call which may wait on that descriptor.
    fn waiting(&self, d: i32) -> usize {
        let blocked = blocked(self.id);
        let calls = blocked.iter().flatten();
        calls.filter(|line| self.is_waiting_call(line, d)).count()
    }

    /// Whether calls that are blocked have reached their queue: on a mount, once no thread of the server runs. A thread that is
    /// blocked has handed its request to one that runs until it has dealt with it.
    fn has_arrived(&self) -> bool {
        let all_blocked = |server| blocked(server).iter().all(Option::is_some);
        self.server.is_none_or(all_blocked)
    }

    fn is_waiting_call(&self, line: &str, d: i32) -> bool {
        let mut words = line.split(' ');
        let call = words.next().and_then(|word| word.parse::<i64>().ok());
        let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let arguments: Vec<u64> = words.filter_map(hex).collect();
        let (Some(call), [on, request, ..]) = (call, arguments.as_slice()) else {
            return false;
        };
        let calls = match self.queues {
            Queues::Kernel => [libc::SYS_mq_timedsend, libc::SYS_mq_timedreceive].contains(&call),
            Queues::Mount(_) => {
                let waiting = [protocol::SEND, protocol::RECEIVE, protocol::RECEIVE_WITH];
                let command = protocol::command_of(*request as u32);
                let is_one = waiting.iter().any(|(number, _)| Some(*number) == command);
                call == libc::SYS_ioctl && is_one
            }
        };
        calls && *on as i32 == d
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(child) = self.process.get_mut().expect("no panic").as_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The system call of each thread of a process that is blocked in one, with its arguments; `None` for one that runs.
fn blocked(process: u32) -> Vec<Option<String>> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process runs");
    let call = |task: std::fs::DirEntry| {
        // One that ends meanwhile is taken for one that runs: the caller checks again.
        let line = std::fs::read_to_string(task.path().join("syscall")).ok()?;
        (!line.starts_with("running")).then_some(line)
    };
    tasks.flatten().map(call).collect()
}

/// `None` where the driver is gone.
fn ask(
    connection: &mut UnixStream,
    what: What,
    numbers: &[i64],
    data: &[u8],
) -> Option<Res<Answer>> {
    let mut request = [0i64; 8];
    request[0] = what as i64;
    request[1..=numbers.len()].copy_from_slice(numbers);
    request[7] = data.len() as i64;
    let mut bytes: Vec<u8> = request.iter().flat_map(|n| n.to_ne_bytes()).collect();
    bytes.extend_from_slice(data);
    connection.write_all(&bytes).ok()?;
    let mut answer = [0; 48];
    connection.read_exact(&mut answer).ok()?;
    let mut number = answer.chunks_exact(8).map(|bytes| {
        let bytes = bytes.try_into().expect("eight bytes");
        i64::from_ne_bytes(bytes)
    });
    let [error, a, b, c, d, len] = std::array::from_fn(|_| number.next().expect("six"));
    let mut data = vec![0; usize::try_from(len).ok()?];
    connection.read_exact(&mut data).ok()?;
    Some(match error {
        0 => Ok(([a, b, c, d], data)),
        error => Err(error as i32),
    })
}

/// A time as three numbers.
fn time(until: Option<Time>) -> [i64; 3] {
    until.map_or([0; 3], |(sec, nsec)| [1, sec, nsec])
}

fn attr([flags, maxmsg, msgsize, curmsgs]: [i64; 4]) -> Attr {
    Attr {
        flags,
        maxmsg,
        msgsize,
        curmsgs,
    }
}

impl Mq for Driver {
    fn open(&self, name: &[u8], flags: i32, mode: u32, size: Option<(i64, i64)>) -> Res<i32> {
        let [has, maxmsg, msgsize] = time(size);
        let numbers = [flags.into(), mode.into(), has, maxmsg, msgsize];
        let ([d, ..], _) = self.call(What::Open, &numbers, name)?;
        Ok(d as i32)
    }

    fn close(&self, d: i32) -> Res<()> {
        self.call_numbers(What::Close, &[d.into()]).map(drop)
    }

    fn unlink(&self, name: &[u8]) -> Res<()> {
        self.call(What::Unlink, &[], name).map(drop)
    }

    fn timedsend(&self, d: i32, bytes: &[u8], priority: u32, until: Option<Time>) -> Res<()> {
        let [has, sec, nsec] = time(until);
        let numbers = [d.into(), priority.into(), has, sec, nsec];
        self.call(What::Send, &numbers, bytes).map(drop)
    }

    fn timedreceive(&self, d: i32, len: usize, until: Option<Time>) -> Res<(Vec<u8>, u32)> {
        let [has, sec, nsec] = time(until);
        let numbers = [d.into(), len as i64, has, sec, nsec];
        let ([priority, ..], bytes) = self.call(What::Receive, &numbers, &[])?;
        Ok((bytes, priority as u32))
    }

    fn getattr(&self, d: i32) -> Res<Attr> {
        self.call_numbers(What::Getattr, &[d.into()]).map(attr)
    }

    fn setattr(&self, d: i32, flags: i64) -> Res<Attr> {
        self.call_numbers(What::Setattr, &[d.into(), flags])
            .map(attr)
    }

    fn notify(&self, d: i32, how: Option<Told>) -> Res<()> {
        let (how, signal) = match how {
            Some(Told::None) => (0, 0),
            Some(Told::Signal) => (1, libc::SIGUSR1),
            Some(Told::Number(signal)) => (1, signal),
            Some(Told::Thread) => (2, 0),
            None => (3, 0),
        };
        self.call_numbers(What::Notify, &[d.into(), how, signal.into()])
            .map(drop)
    }

    fn told(&self) -> u32 {
        self.call_numbers(What::Told, &[]).expect("counts")[0] as u32
    }

    fn poll(&self, d: i32) -> (bool, bool) {
        let [ready, ..] = self
            .call_numbers(What::Poll, &[d.into(), 0])
            .expect("polls");
        let has = |event| ready as i16 & event != 0;
        (has(libc::POLLIN), has(libc::POLLOUT))
    }

    fn status(&self, d: i32) -> String {
        let (_, line) = self
            .call(What::Status, &[d.into()], &[])
            .expect("can be read");
        String::from_utf8(line).expect("a line of text")
    }

    fn process(&self) -> u32 {
        self.id
    }

    fn root_has_no_limits(&self) -> bool {
        match self.queues {
            Queues::Kernel => capabilities() & (1 << 24) != 0,
            // The server of a mount knows users, and not what they may.
            Queues::Mount(_) => true,
        }
    }

    fn become_user(&self, uid: u32) {
        self.call_numbers(What::BecomeUser, &[uid.into()])
            .expect("from root");
    }

    fn set_limit(&self, name: &str, value: u32) {
        let value = value.to_string();
        match &self.queues {
            Queues::Kernel => {
                // By a thread of the namespace, whose file it is.
                let data = format!("/proc/sys/fs/mqueue/{name}\0{value}");
                self.call(What::WriteFile, &[], data.as_bytes())
                    .expect("as root");
            }
            Queues::Mount(dir) => {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(dir, format!("uext4.{name}"), value.as_bytes(), flags)
                    .expect("as root");
            }
        }
    }

    fn umask(&self, mask: u32) {
        self.call_numbers(What::Umask, &[mask.into()])
            .expect("may have its own");
    }

    fn stat(&self, d: i32) -> File {
        let [mode, nlink, uid, gid] = self.call_numbers(What::Stat, &[d.into()]).expect("is open");
        File {
            mode: mode as u32,
            nlink: nlink as u64,
            owner: (uid as u32, gid as u32),
        }
    }

    fn until_waiting(&self, d: i32, waiting: usize) {
        while self.waiting(d) != waiting || !self.has_arrived() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn set_priority(&self, priority: i32) -> bool {
        self.call_numbers(What::Priority, &[priority.into()])
            .is_ok()
    }

    fn wait_ready(&self, d: i32, write: bool) {
        let event = if write { libc::POLLOUT } else { libc::POLLIN };
        let numbers = [d.into(), event.into()];
        let [ready, ..] = self.call_numbers(What::WaitReady, &numbers).expect("polls");
        assert_eq!(ready as i16 & event, event);
    }

    fn other_process(&self, d: i32, what: Other) -> Res<()> {
        let what = match what {
            Other::Register => 0,
            Other::TakeBack => 1,
            Other::Close => 2,
        };
        self.call_numbers(What::OtherProcess, &[d.into(), what])
            .map(drop)
    }

    fn interrupted(&self, call: &(dyn Fn() -> Res<()> + Sync), _d: i32) -> Res<()> {
        self.signalled(call, libc::SIGUSR2, |done| !done)
    }
}
