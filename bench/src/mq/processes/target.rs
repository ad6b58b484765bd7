//! Pairs of processes, and the queues between them.
//!
//! # Invariants
//! A target is set up once, for the most pairs that there are; those that a case does not need wait for their input.
//! Queues have names only until both sides have them open.

use super::client::{Half, order};
use super::cost::{Cost, ServerCost};
use super::home::{Home, Named};
use super::usage::Usage;
use crate::fuse::mount::Mount;
use crate::fuse::process::Process;
use crate::fuse::scratch::Scratch;
use crate::histogram::Histogram;
use crate::mount;
use crate::mq::channel::Side;
use crate::mq::{Case, MqArgs};
use crate::sample::Work;
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uext4_mountd::stats;
use uext4_mqueue::QueueSize;

/// Queues of a pair: there and back.
const QUEUES_OF_PAIR: usize = 2;

/// A mount of queues.
struct Server {
    dir: PathBuf,
    pid: u32,
    mount: Mount,
    /// Goes after the mount.
    _scratch: Scratch,
}

/// Pairs of processes, and the queues between them.
pub struct Target {
    pub name: String,
    /// Both sides of the first pair, of the second, and so on. They go before the mount does.
    clients: Vec<Process>,
    /// Where the queues are mounted.
    server: Option<Server>,
}

impl Target {
    /// With queues of the kernel.
    pub fn of_kernel(args: &MqArgs, name: &str) -> anyhow::Result<Target> {
        Ok(Target {
            name: name.to_owned(),
            clients: start_pairs(args, name, None)?,
            server: None,
        })
    }

    /// With mounted queues, served by so many threads, or as many as a mount has by itself.
    pub fn mounted(args: &MqArgs, name: &str, threads: Option<usize>) -> anyhow::Result<Target> {
        let server = Server::start(args, name, threads).context("uext4 mqueue mount")?;
        Ok(Target {
            name: name.to_owned(),
            clients: start_pairs(args, name, Some(&server.dir))?,
            server: Some(server),
        })
    }

    /// Does what a case says for `time`.
    pub fn run(&mut self, case: Case, time: Duration) -> anyhow::Result<(Work, Cost)> {
        let served = || self.server.as_ref().map(Server::served).transpose();
        let before = served()?;
        let clients = Side::BOTH.len() * case.pairs;
        let order = order(case.op, time);
        for client in &mut self.clients[..clients] {
            client.tell(&order)?;
        }
        let (mut work, mut usage) = (Work::default(), Usage::default());
        let (mut first, mut last) = (u64::MAX, 0);
        for client in &mut self.clients[..clients] {
            let half: Half = serde_json::from_str(&client.hear()?)?;
            (first, last) = (first.min(half.began_ns), last.max(half.ended_ns));
            work.ops += half.ops;
            Histogram::add(&mut work.latency, &half.latency);
            usage = usage.plus(half.usage);
        }
        work.seconds = last.saturating_sub(first) as f64 / 1e9;
        let after = served()?;
        let served = after.zip(before).map(|(after, before)| after.since(before));
        let cost = Cost {
            messages: work.ops * case.op.messages(),
            clients: usage,
            served,
        };
        Ok((work, cost))
    }

    /// Ends the processes, and unmounts.
    pub fn finish(self) -> anyhow::Result<()> {
        drop(self.clients);
        self.server.map_or(Ok(()), |server| server.mount.unmount())
    }
}

impl Server {
    fn start(args: &MqArgs, name: &str, threads: Option<usize>) -> anyhow::Result<Server> {
        let scratch = Scratch::make(&std::env::temp_dir(), &format!("mq-{name}"))?;
        let (dir, log) = (scratch.mount_point(), scratch.log());
        let command = mount::command(None, &dir, &options(args, threads));
        let mount = Mount::serve(command, &dir, &log)?;
        let pid = stats::read(&dir)?["pid"].as_u64();
        let pid = pid.context("the mount does not say which process serves it")?;
        Ok(Server {
            pid: u32::try_from(pid)?,
            dir,
            mount,
            _scratch: scratch,
        })
    }

    /// What it did so far.
    fn served(&self) -> anyhow::Result<ServerCost> {
        let usage = Usage::of_process(self.pid).context("the server")?;
        Ok(ServerCost::of(&stats::read(&self.dir)?, usage))
    }
}

/// A limit of messages' lengths can't be less.
const MSGSIZE_MAX_LEAST: u32 = 128;

/// `-o` of a mount that has room for all queues.
fn options(args: &MqArgs, threads: Option<usize>) -> String {
    let queues = QUEUES_OF_PAIR * args.pairs_max();
    let mut all = format!(
        "queues_max={queues},msg_max={},msgsize_max={},user_bytes_max={}",
        args.maxmsg,
        args.msgsize.max(MSGSIZE_MAX_LEAST),
        i64::MAX
    );
    if let Some(threads) = threads {
        all = format!("{all},threads={threads}");
    }
    all
}

/// Starts both sides of each pair, which have their queues open when this returns, and no other process can open them.
fn start_pairs(args: &MqArgs, target: &str, dir: Option<&Path>) -> anyhow::Result<Vec<Process>> {
    let home = Home::new(dir);
    let prefix = format!("/uext4-bench-{target}-{}", std::process::id());
    let queues = QUEUES_OF_PAIR * args.pairs_max();
    let size = QueueSize {
        maxmsg: args.maxmsg,
        msgsize: args.msgsize,
    };
    let named = Named::make(&home, &prefix, queues, size)?;
    let msgsize = args.msgsize.to_string();
    let mut clients = Vec::new();
    for names in named.names().chunks_exact(QUEUES_OF_PAIR) {
        for side in Side::BOTH {
            clients.push(Process::start(|command| {
                command.args(["mq-client", "--side", side.name()]);
                command.args(["--msgsize", &msgsize]);
                if let Some(dir) = dir {
                    command.arg("--mounted").arg(dir);
                }
                command.args(names)
            })?);
        }
    }
    clients.iter_mut().try_for_each(Process::await_ready)?;
    Ok(clients)
}
