//! `uext4 batch`.
//!
//! | module | holds |
//! | --- | --- |
//! | [`job`] | a job, and the process that does it |
//! | [`log`] | what was done before |

mod job;
mod log;

use self::job::{Ended, Job, Running};
use self::log::JobLog;
use super::Command;
use super::script::{self, Parser};
use crate::bar::Bar;
use crate::diagnostics::Usage;
use crate::system::{paths, process};
use crate::{interrupt, show};
use anyhow::Result;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use uext4::Progress;

/// How soon a signal is passed on.
const INTERVAL: Duration = Duration::from_millis(100);

/// Run a list of commands in parallel, on many images
///
/// Each line of JOBS is a command of uext4, without `uext4`, quoted as for a shell; # begins a comment. Each is done by a
/// process of its own and in any order, so none can need what another makes. When one ends, a line of JSON is printed:
/// the number of its line, the command, its exit status, the seconds it took, what it printed ("output", as JSON
/// if it is that), and its errors. The exit status is 1 if one has failed; the others are done all the same. A job has no
/// standard input.
///
/// With --log the lines are kept, and what that file has as done is not done again: after a failure or an
/// interruption, the same command in the same directory does what is left. What ran when `uext4 batch` itself was killed
/// is done again: such jobs need --force, or what else lets them be done twice.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 batch --log done.jsonl jobs
  ls *.img | sed 's/^/check --json /' | uext4 batch - > results.jsonl
  jq -r 'select(.status != 0) | .job' results.jsonl

A list:
  mkfs a.img --from rootfs-a --spare 1G
  mkfs b.qcow2 --format qcow2 --from b.img      # converts
  check --json c.img")]
pub struct Args {
    /// How many at a time: as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Add the lines to FILE, and leave out what it has as done
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// No summary
    #[arg(short, long)]
    quiet: bool,
    /// The commands, one on each line; - for standard input
    #[arg(value_name = "JOBS")]
    list: PathBuf,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let mut jobs = read(args)?;
    let mut log = args.log.as_deref().map(JobLog::open).transpose()?;
    let all = jobs.len();
    if let Some(log) = &mut log {
        jobs.retain(|job| !log.was_done(&job.text));
    }
    let before = all - jobs.len();
    interrupt::catch()?;
    let failed = do_all(args, &jobs, log.as_mut())?;
    interrupt::check()?;
    if !args.quiet {
        let before = match before {
            0 => String::new(),
            _ => format!(", {before} before"),
        };
        let done = jobs.len() - failed;
        show::warn(format_args!(
            "{}: {done} done, {failed} failed{before}",
            show::count(all as u64, "job", "jobs")
        ));
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Reads the list. All of it is examined before the first job.
fn read(args: &Args) -> Result<Vec<Job>> {
    let (mut jobs, mut parser) = (Vec::new(), Parser::new());
    for (line, words) in script::read(&args.list)? {
        let job = words.and_then(|words| parse(&mut parser, line, &words, args.log.is_some()));
        let wrong = |why| Usage(format!("{}:{line}: {why}", args.list.display()));
        jobs.push(job.map_err(wrong)?);
    }
    Ok(jobs)
}

/// Parses a command; why it can't be a job. One that `is_kept` in a file is known again by its text.
fn parse(
    parser: &mut Parser,
    line: usize,
    words: &[Vec<u8>],
    is_kept: bool,
) -> Result<Job, String> {
    let args = words.iter().cloned().map(paths::word);
    let command = parser.parse(args.clone())?.command;
    if matches!(command, Command::Batch(_)) || command.is_server() {
        return Err("that is not for a list".to_owned());
    }
    let text = shlex::bytes::try_join(words.iter().map(Vec::as_slice));
    let text = text.map_err(|_| "a word has a zero byte".to_owned())?;
    let text = match String::from_utf8(text) {
        Err(_) if is_kept => return Err("not UTF-8, as --log needs it".to_owned()),
        Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        Ok(text) => text,
    };
    Ok(Job {
        line,
        text,
        args: args.collect(),
    })
}

/// Does the jobs: how many of them failed.
fn do_all(args: &Args, jobs: &[Job], log: Option<&mut JobLog>) -> Result<usize> {
    let cpus = || std::thread::available_parallelism().ok();
    let threads = args.jobs.or_else(cpus).map_or(1, NonZeroUsize::get);
    let (next, running) = (AtomicUsize::new(0), Running::default());
    let work = |ends: mpsc::Sender<Ended>| {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(ended) = job.run(&running) else {
                return;
            };
            if ends.send(ended).is_err() {
                return;
            }
        }
    };
    let bar = Bar::unless(args.quiet);
    bar.phase("jobs", jobs.len() as u64);
    let mut failed = 0;
    let mut results = Results { log, is_read: true };
    let mut first_error = None;
    std::thread::scope(|scope| {
        let (ends, finished) = mpsc::channel();
        for number in 0..threads.min(jobs.len()) {
            let ends = ends.clone();
            let worker = std::thread::Builder::new().spawn_scoped(scope, || work(ends));
            match worker {
                Ok(_) => {}
                // Those that there are do it.
                Err(_) if number > 0 => break,
                Err(e) => first_error = Some(e.into()),
            }
        }
        drop(ends);
        loop {
            if let Some(signal) = interrupt::signal() {
                running.stop(signal);
            }
            let ended = match finished.recv_timeout(INTERVAL) {
                Ok(ended) => ended,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            failed += usize::from(ended.status != Some(0));
            bar.advance(1);
            if let Err(e) = results.add(&ended) {
                running.stop(process::SIGTERM);
                first_error.get_or_insert(e);
            }
        }
    });
    first_error.map_or(Ok(failed), Err)
}

/// Where results are kept and printed. What fails is left alone from then on; the other is not.
struct Results<'a> {
    log: Option<&'a mut JobLog>,
    is_read: bool,
}

impl Results<'_> {
    fn add(&mut self, ended: &Ended) -> Result<()> {
        let line = show::json_line(ended)?;
        let kept = self.log.as_mut().map_or(Ok(()), |log| log.add(&line));
        if kept.is_err() {
            self.log = None;
        }
        let mut out = std::io::stdout().lock();
        let printed = match self.is_read {
            true => out.write_all(line.as_bytes()).and_then(|()| out.flush()),
            false => Ok(()),
        };
        self.is_read &= printed.is_ok();
        kept.and(printed.map_err(Into::into))
    }
}
