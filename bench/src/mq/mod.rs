//! mq: messages through queues, from thread to thread or from process to process, beside the kernel's queues.
//!
//! | module | holds |
//! | --- | --- |
//! | `op` | stream, ping-pong, mixed |
//! | `stream`, `ping_pong` | the two sides of each |
//! | [`processes`] | the same through a mount, each side a process |
//! | `message` | what a message says |
//! | `channel`, `kernel` | our queues and the kernel's |

mod channel;
mod kernel;
mod message;
mod op;
mod ping_pong;
pub mod processes;
mod stream;

use crate::device::parse_size;
use crate::grid::Grid;
use crate::peer::Peer;
use crate::report::{Document, Row};
use crate::rounds::{Turn, interleave};
use crate::sample::Sample;
use crate::tables::{side_by_side, table};
use crate::variants::{
    Named, VariantList, once, parse_rounds, parse_run_time, parse_some_names, parse_threads,
};
use anyhow::ensure;
use clap::Args;
use kernel::KernelQueue;
use op::Op;
use processes::cost::{self, MessageCost};
use serde::Serialize;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use uext4_mqueue::{Description, IpcNamespace, Limits, MqOpen, MqueueType, QueueSize};
use uext4_vfs::Caller;

/// The longest message, as Linux has it.
const BYTES_MAX: u32 = 1 << 24;

/// The variant that is ours, in results.
const OURS: &str = "uext4";

/// What is done, with how many queues of which size.
#[derive(Clone, Debug, Args)]
pub struct MqArgs {
    /// Queues, or pairs of them, each with two threads or processes; a comma list runs each count
    #[arg(long, value_name = "LIST", default_value = "1,4,32", value_delimiter = ',', value_parser = parse_threads)]
    pub queues: Vec<usize>,
    /// What is done: stream, ping-pong, mixed, or all
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = parse_some_names::<Op>)]
    pub op: VariantList<Op>,
    /// Bytes of a message
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = parse_msgsize)]
    pub msgsize: u32,
    /// Messages that a queue holds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub maxmsg: u32,
    /// Seconds for each of what is done, count of queues and round
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_run_time)]
    pub time: Duration,
    /// Rounds
    #[arg(short = 'i', long, default_value_t = 3, value_parser = parse_rounds)]
    pub iterations: usize,
    /// Takes turns with uext4: the same through the kernel's queues, whose limits root raises
    #[arg(long, value_name = "PEER")]
    pub peer: Option<Peer>,
    /// From process to process, through queues mounted by `uext4 mqueue mount`, and what a message costs there
    #[arg(long, conflicts_with = "lock_stat")]
    pub mounted: bool,
    /// Mounted: threads of the server, instead of as many as a mount has by itself; a comma list makes each a variant
    #[arg(long, value_name = "LIST", requires = "mounted", value_delimiter = ',', value_parser = parse_threads)]
    pub threads: Vec<usize>,
    /// One more round counts locks; counting costs some speed, so it is in no other figure
    #[arg(long)]
    pub lock_stat: bool,
    /// Prints one JSON document
    #[arg(long)]
    pub json: bool,
}

impl MqArgs {
    /// The most queues, or pairs of them.
    fn pairs_max(&self) -> usize {
        self.queues.iter().copied().max().unwrap_or(1)
    }

    /// Each of what is done with each count of queues.
    fn cases(&self) -> Vec<Case> {
        let counts = once(&self.queues);
        let of_op = |&op: &Op| counts.iter().map(move |&pairs| Case { op, pairs });
        once(&self.op.0).iter().flat_map(of_op).collect()
    }
}

fn parse_msgsize(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text)?;
    match u32::try_from(bytes) {
        Ok(small) if (message::BYTES_MIN as u32..=BYTES_MAX).contains(&small) => Ok(small),
        _ => Err(format!(
            "{} to {BYTES_MAX} bytes are possible",
            message::BYTES_MIN
        )),
    }
}

/// The target, the operation, and the number of queues.
#[derive(Debug, Serialize)]
struct MqRow {
    #[serde(flatten)]
    row: Row,
    /// Queues of a stream, or pairs of queues of ping-pong.
    queues: usize,
    /// From process to process.
    #[serde(flatten)]
    cost: Option<MessageCost>,
}

/// What is done with how many queues, or pairs of queues.
#[derive(Clone, Copy)]
struct Case {
    op: Op,
    pairs: usize,
}

/// Our queues, and the peer's.
struct Targets {
    /// Ends with the queues.
    namespace: IpcNamespace,
    ours: Vec<Arc<Description>>,
    kernel: Option<Vec<KernelQueue>>,
}

impl Targets {
    fn make(args: &MqArgs, queues: &MqueueType) -> anyhow::Result<Targets> {
        let each = once(&args.op.0).iter().map(|op| op.queues_of_pair()).max();
        let n = args.pairs_max() * each.unwrap_or(1);
        let namespace = queues.create(Limits {
            queues_max: u32::MAX,
            user_bytes_max: u64::MAX,
            ..Limits::default()
        });
        let how = MqOpen::READ | MqOpen::WRITE | MqOpen::CREATE | MqOpen::EXCLUSIVE;
        let size = Some((args.maxmsg.into(), args.msgsize.into()));
        let open = |i| {
            let name = format!("/q{i}");
            namespace.open(&Caller::root(), name.as_bytes(), how, 0o600, size)
        };
        let ours = (0..n).map(open).collect::<Result<_, _>>()?;
        Ok(Targets {
            namespace,
            ours,
            kernel: args.peer.and_then(|Peer::Kernel| kernel_queues(args, n)),
        })
    }

    fn len(&self) -> usize {
        1 + usize::from(self.kernel.is_some())
    }

    fn names(&self) -> Vec<String> {
        let all = [OURS, Peer::Kernel.name()];
        all[..self.len()]
            .iter()
            .map(|name| (*name).to_owned())
            .collect()
    }

    fn run(
        &self,
        target: usize,
        case: Case,
        args: &MqArgs,
        time: Duration,
        counted: bool,
    ) -> anyhow::Result<Sample> {
        let (pairs, bytes) = (case.pairs, args.msgsize as usize);
        Sample::take(None, counted, || match &self.kernel {
            Some(kernel) if target > 0 => case.op.run(kernel, pairs, bytes, time),
            _ => case.op.run(&self.ours, pairs, bytes, time),
        })
    }
}

/// The kernel's queues, or why there are none.
fn kernel_queues(args: &MqArgs, n: usize) -> Option<Vec<KernelQueue>> {
    let size = QueueSize {
        maxmsg: args.maxmsg,
        msgsize: args.msgsize,
    };
    match KernelQueue::make(n, size) {
        Ok(queues) => Some(queues),
        Err(e) => {
            eprintln!(
                "note: no rows of kernel: {n} queues of {} messages of {} bytes: {e:#}",
                args.maxmsg, args.msgsize
            );
            None
        }
    }
}

/// Runs mq for each of what is done and each count of queues, and prints.
pub fn run(args: &MqArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let cases = args.cases();
    let (names, rows) = match args.mounted {
        true => processes::run(args, &cases)?,
        false => run_threads(args, &cases)?,
    };
    if args.json {
        return Document::new("mq", rows).print_json(out);
    }
    Ok(print(args, &names, &rows, out)?)
}

/// From thread to thread: the names of the targets, and the rows of each together.
fn run_threads(args: &MqArgs, cases: &[Case]) -> anyhow::Result<(Vec<String>, Vec<MqRow>)> {
    let queues = MqueueType::default();
    let targets = Targets::make(args, &queues)?;
    let names = targets.names();
    let grid = measure(args, &targets, cases)?;
    let Targets {
        namespace, ours, ..
    } = targets;
    drop(ours);
    for name in namespace.names() {
        namespace.unlink(&Caller::root(), &[b"/", &*name].concat())?;
    }
    ensure!(
        namespace.queues() == 0,
        "{} queues are left",
        namespace.queues()
    );
    drop(namespace);
    ensure!(queues.namespaces() == 0, "the namespace is left");
    let mut rows = Vec::new();
    for (target, name) in names.iter().enumerate() {
        for (i, case) in cases.iter().enumerate() {
            let row = Row::of(
                name,
                case.op.name(),
                2 * case.pairs,
                grid.cell(target, i, 0),
            );
            rows.push(MqRow {
                row,
                queues: case.pairs,
                cost: None,
            });
        }
    }
    Ok((names, rows))
}

fn measure(args: &MqArgs, targets: &Targets, cases: &[Case]) -> anyhow::Result<Grid> {
    let rounds = args.iterations + usize::from(args.lock_stat);
    let mut grid = Grid::new(targets.len(), cases.len(), 1);
    for target in 0..targets.len() {
        for &case in cases {
            targets.run(target, case, args, args.time / 10, false)?;
        }
    }
    let label = |turn: Turn| {
        let Case { op, pairs } = cases[turn.case];
        format!("{}, {pairs} queues", op.name())
    };
    interleave([rounds, cases.len(), targets.len()], label, |turn| {
        let counted = turn.round >= args.iterations;
        // The round that counts locks has nothing to count in the kernel.
        if turn.series == 0 || !counted {
            let sample = targets.run(turn.series, cases[turn.case], args, args.time, counted)?;
            grid.push([turn.series, turn.case, 0], sample, counted);
        }
        Ok(())
    })?;
    Ok(grid)
}

fn print(args: &MqArgs, names: &[String], rows: &[MqRow], out: &mut dyn Write) -> io::Result<()> {
    let (time, rounds) = (args.time.as_secs_f64(), args.iterations);
    // The kernel first, as ratios are to the first.
    let names: Vec<String> = names.iter().rev().cloned().collect();
    for op in &args.op.0 {
        writeln!(
            out,
            "{}: {}, {} bytes, maxmsg {}, {rounds} rounds of {time} s",
            op.name(),
            op.counts(),
            args.msgsize,
            args.maxmsg
        )?;
        let of_op: Vec<&MqRow> = rows
            .iter()
            .rev()
            .filter(|r| r.row.op == op.name())
            .collect();
        let of_count = |&queues: &usize| {
            let some = of_op.iter().filter(move |row| row.queues == queues);
            let spreads = some.map(|row| row.row.ops_per_s).collect();
            (queues.to_string(), spreads)
        };
        let compared: Vec<_> = once(&args.queues).iter().map(of_count).collect();
        writeln!(out, "{}\n", side_by_side("queues", &names, &compared))?;
        print_latency(&of_op, out)?;
        if args.mounted {
            cost::print(&of_op, out)?;
        }
        for row in of_op.iter().rev() {
            row.row.print_tables(out)?;
        }
    }
    Ok(())
}

/// Of round trips, if they are what was measured.
fn print_latency(rows: &[&MqRow], out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    let mut sorted = rows.to_vec();
    sorted.sort_by_key(|row| row.queues);
    for row in sorted {
        if let Some(us) = row.row.latency_us {
            let shown = |us: f64| format!("{us:.1}");
            let (queues, variant) = (row.queues.to_string(), row.row.variant.clone());
            lines.push([queues, variant, shown(us.p50), shown(us.p99), shown(us.max)]);
        }
    }
    match lines.is_empty() {
        true => Ok(()),
        false => writeln!(out, "{}\n", table("queues|arm|p50 us|p99 us|max us", lines)),
    }
}
