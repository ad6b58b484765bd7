//! create: processes that create, stat and unlink files, each in a directory of its own, all starting
//! together.

use super::client::Phase;
use super::process::Process;
use super::workload::Figure;
use crate::sample::Work;
use crate::variants::Named;
use anyhow::Context as _;
use std::path::Path;

fn start(dir: &Path, files: u64) -> anyhow::Result<Process> {
    std::fs::create_dir(dir).with_context(|| dir.display().to_string())?;
    let files = files.to_string();
    let mut client = Process::start(|command| {
        let command = command.args(["fuse-client", "--files", &files]);
        command.arg(dir)
    })?;
    client.await_ready()?;
    Ok(client)
}

/// When a client began and ended a phase.
fn hear_times(client: &mut Process) -> anyhow::Result<(u64, u64)> {
    let line = client.hear()?;
    let times = line.split_once(' ').context("a client says no times")?;
    Ok((times.0.parse()?, times.1.parse()?))
}

/// Runs all phases. Each ends with an fsync of every directory inside its time: it commits what was done
/// there.
pub fn run(dir: &Path, clients: usize, files: u64) -> anyhow::Result<Vec<Figure>> {
    let start = |number| start(&dir.join(format!("client{number}")), files);
    let mut all: Vec<Process> = (0..clients).map(start).collect::<Result<_, _>>()?;
    let mut figures = Vec::new();
    for &(phase, _) in Phase::NAMES {
        all.iter_mut()
            .try_for_each(|client| client.tell(phase.name()))?;
        let (mut first, mut last) = (u64::MAX, 0);
        for client in &mut all {
            let (began, ended) = hear_times(client)?;
            (first, last) = (first.min(began), last.max(ended));
        }
        figures.push(Figure {
            op: phase.name(),
            threads: clients,
            work: Work {
                ops: files * clients as u64,
                seconds: last.saturating_sub(first) as f64 / 1e9,
                ..Work::default()
            },
        });
    }
    Ok(figures)
}
