//! Many C processes on the same queues, each of which writes down what it does.

pub mod log;
pub mod verdict;

use crate::c_program::compile;
use crate::namespace::{Mounted, can_mount, preload};
use log::{LOG_BYTES, Log, PAGE_BYTES};
use std::fs::Permissions;
use std::process::ExitStatus;
use uext4_testkit::prelude::*;

/// How a worker says that it can't have queues of its own.
const NO_QUEUES: i32 = 77;
/// So often it is looked whether a process has ended, and so long apart; only one that is stuck takes as long.
const LOOKS: u32 = 60_000;
const APART: Duration = Duration::from_millis(1);

/// Whose queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The kernel's, in a namespace of their own.
    Kernel,
    /// Those of a mount, through the preloaded library.
    Mount,
}

impl Side {
    /// All but what `UEXT4_MQ_SIDE` leaves out.
    pub fn chosen() -> &'static [Side] {
        let all = &[Side::Kernel, Side::Mount];
        match std::env::var("UEXT4_MQ_SIDE").is_ok_and(|side| side == "mount") {
            true => &all[1..],
            false => all,
        }
    }
}

/// A process of the workers.
struct Worker {
    index: u32,
    role: &'static str,
    killed: bool,
    // Until it has ended.
    process: Option<Child>,
}

/// The processes, their queues and their logs.
pub struct Workers {
    queues: u32,
    program: PathBuf,
    log: File,
    workers: Vec<Worker>,
    next: u32,
    keeper: Option<Child>,
    mounted: Option<Mounted>,
    files: TempDir,
}

/// Waits for a process to end.
fn end_of(process: &mut Child) -> Result<ExitStatus> {
    for _ in 0..LOOKS {
        if let Some(status) = process.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(APART);
    }
    bail!("process {} is stuck", process.id())
}

impl Workers {
    /// Queues for workers; `None`, having said so, where the machine has none.
    pub fn new(side: Side, queues: u32) -> Result<Option<Workers>> {
        if side != Side::Kernel && !can_mount() {
            return Ok(None);
        }
        let files = tempfile::tempdir_in("/dev/shm")?;
        std::fs::set_permissions(files.path(), Permissions::from_mode(0o755))?;
        let log = files.path().join("log");
        let log = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(log)?;
        log.set_permissions(Permissions::from_mode(0o666))?;
        let mut workers = Workers {
            queues,
            program: compile("worker", files.path())?,
            log,
            workers: Vec::new(),
            next: 0,
            keeper: None,
            mounted: None,
            files,
        };
        if side == Side::Kernel {
            return workers.keep().map(|kept| kept.then_some(workers));
        }
        workers.mounted = Some(Mounted::new()?);
        Ok(Some(workers))
    }

    /// A process that has the namespace; whether there can be one.
    fn keep(&mut self) -> Result<bool> {
        let mut keeper = Command::new(&self.program);
        keeper.args(["-", "0", "keep", "0"]).stdin(Stdio::piped());
        let mut keeper = keeper.stdout(Stdio::piped()).spawn()?;
        let mut ready = [0; 6];
        let said = keeper
            .stdout
            .as_mut()
            .context("piped")?
            .read_exact(&mut ready);
        if said.is_err() {
            let status = keeper.wait()?;
            ensure!(status.code() == Some(NO_QUEUES), "the keeper: {status}");
            eprintln!("skipped: the kernel's message queues");
            return Ok(false);
        }
        self.keeper = Some(keeper);
        Ok(true)
    }

    /// The mount.
    pub fn mounted(&self) -> Option<&Mounted> {
        self.mounted.as_ref()
    }

    /// A worker that will have the next log, on that queue where its role has one.
    fn command(&mut self, role: &str, queue: u32, number: u64) -> Result<(u32, Command)> {
        let index = self.next.next_multiple_of(self.queues) + queue % self.queues;
        self.next = index + 1;
        let len = PAGE_BYTES + u64::from(self.next) * LOG_BYTES;
        self.log.set_len(len)?;
        let mut command = Command::new(&self.program);
        command.arg(self.files.path().join("log"));
        let seed = fastrand::u64(..);
        command.args([
            &index.to_string(),
            role,
            &seed.to_string(),
            &number.to_string(),
        ]);
        command.env("UEXT4_MQ_QUEUES", self.queues.to_string());
        if let Some(keeper) = &self.keeper {
            command.env("UEXT4_MQ_NS", format!("/proc/{}/ns/ipc", keeper.id()));
        }
        if let Some(mounted) = &self.mounted {
            preload(&mut command, mounted.dir());
        }
        command.stdin(Stdio::null());
        Ok((index, command))
    }

    /// Runs one to its end, and gives what it says.
    pub fn run(&mut self, role: &str, number: u64) -> Result<String> {
        let (_, mut command) = self.command(role, 0, number)?;
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let status = end_of(&mut process).with_context(|| role.to_owned())?;
        let mut said = String::new();
        let stdout = process.stdout.as_mut().context("piped")?;
        stdout.read_to_string(&mut said)?;
        ensure!(status.success(), "{role}: {status}: {said}");
        Ok(said)
    }

    /// Starts one, and gives its place among the workers.
    pub fn start(&mut self, role: &'static str, queue: u32, number: u64) -> Result<usize> {
        let (index, mut command) = self.command(role, queue, number)?;
        let process = Some(command.stdout(Stdio::null()).spawn()?);
        self.workers.push(Worker {
            index,
            role,
            killed: false,
            process,
        });
        Ok(self.workers.len() - 1)
    }

    /// Kills one, and waits until it is gone.
    pub fn kill(&mut self, at: usize) -> Result<()> {
        let worker = &mut self.workers[at];
        let mut process = worker.process.take().context("runs")?;
        worker.killed = true;
        process.kill()?;
        let status = end_of(&mut process).with_context(|| worker.role)?;
        let by_signal = status.signal() == Some(libc::SIGKILL);
        ensure!(by_signal, "{} had ended: {status}", worker.role);
        Ok(())
    }

    /// Senders and notified processes are to end.
    pub fn stop(&self) -> Result<()> {
        Ok(self.log.write_all_at(&1u64.to_ne_bytes(), 0)?)
    }

    /// Waits until all that have that role have ended well.
    pub fn join(&mut self, role: &str) -> Result<()> {
        for worker in self.workers.iter_mut().filter(|w| w.role == role) {
            if let Some(mut process) = worker.process.take() {
                let status = end_of(&mut process).with_context(|| role.to_owned())?;
                ensure!(status.success(), "{role}: {status}");
            }
        }
        Ok(())
    }

    /// What senders and receivers wrote down.
    pub fn logs(&self) -> Result<Vec<Log>> {
        let mut logs = Vec::new();
        for worker in self.workers.iter().filter(|w| w.role != "notify") {
            logs.push(Log {
                index: worker.index,
                sends: ["send", "trickle"].contains(&worker.role),
                killed: worker.killed,
                calls: log::read(&self.log, worker.index)?,
            });
        }
        Ok(logs)
    }

    /// The queues' namespace is dropped: it is unused.
    pub fn finish(mut self) -> Result<()> {
        self.mounted.take().map_or(Ok(()), Mounted::unmount)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let all = self.workers.iter_mut().filter_map(|w| w.process.as_mut());
        for process in all.chain(self.keeper.as_mut()) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
