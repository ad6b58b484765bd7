//! create: processes that create, stat and unlink files, each in a directory of its own, all starting
//! together.

use super::client::{Phase, READY};
use super::rounds::Figure;
use crate::sample::Work;
use anyhow::{Context as _, bail};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A client, and the pipes to it.
struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(dir: &Path, files: u64) -> anyhow::Result<Client> {
        std::fs::create_dir(dir).with_context(|| dir.display().to_string())?;
        let mut process = Command::new(std::env::current_exe()?)
            .args(["bench", "fuse-client", "--files", &files.to_string()])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.context("a client without pipes")?;
        let mut client = Client {
            process,
            input,
            output: BufReader::new(output),
        };
        match client.hear()?.as_str() {
            READY => Ok(client),
            other => bail!("a client begins with `{other}`"),
        }
    }

    fn tell(&mut self, phase: Phase) -> std::io::Result<()> {
        self.input
            .write_all(format!("{}\n", phase.name()).as_bytes())
    }

    fn hear(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            // It has printed why.
            0 => bail!("a client failed, {}", self.process.wait()?),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// When it began and ended a phase.
    fn hear_times(&mut self) -> anyhow::Result<(u64, u64)> {
        let line = self.hear()?;
        let times = line.split_once(' ').context("a client says no times")?;
        Ok((times.0.parse()?, times.1.parse()?))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs all phases. Each ends with an fsync of every directory inside its time: it commits what was done
/// there.
///
/// # Errors
/// Of any client.
pub fn run(dir: &Path, clients: usize, files: u64) -> anyhow::Result<Vec<Figure>> {
    let start = |number| Client::start(&dir.join(format!("client{number}")), files);
    let mut all: Vec<Client> = (0..clients).map(start).collect::<Result<_, _>>()?;
    let mut figures = Vec::new();
    for phase in Phase::ALL {
        all.iter_mut().try_for_each(|client| client.tell(phase))?;
        let (mut first, mut last) = (u64::MAX, 0);
        for client in &mut all {
            let (began, ended) = client.hear_times()?;
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
