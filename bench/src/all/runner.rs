//! Runs the sections, each by this program in a process of its own, which gives its document.

use super::pair::{Locations, Pair};
use super::plan::{IMAGE, MEMORY, PEER, Section};
use super::result::{Outcome, SectionResult};
use crate::fuse::interrupt::Interrupt;
use crate::mount::this_program;
use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{IsTerminal as _, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often a child is polled.
const LOOK: Duration = Duration::from_millis(20);
/// A child that was asked to end has so long to clear up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs one section. What it lacks of the machine, or that it failed, is in the result.
pub fn run(
    section: &Section,
    locations: &Locations,
    interrupt: &Interrupt,
) -> anyhow::Result<SectionResult> {
    let since = Instant::now();
    let outcome = match measure(section, locations, interrupt) {
        Ok(outcome) => outcome,
        Err(why) => Outcome::Failed(format!("{why:#}")),
    };
    interrupt.check()?;
    Ok(SectionResult {
        name: section.name.clone(),
        command: section.command(locations),
        before: section
            .pair
            .iter()
            .flat_map(|pair| pair.commands(locations.of(pair)))
            .collect(),
        seconds: since.elapsed().as_secs_f64(),
        outcome,
    })
}

fn measure(
    section: &Section,
    locations: &Locations,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    if let Some(device) = section
        .device
        .as_ref()
        .filter(|device| !Path::new(device).exists())
    {
        return Ok(Outcome::Skipped(format!("there is no {device}")));
    }
    let memory = text(&locations.memory)?;
    let Some(spec) = &section.pair else {
        let words = section.words(&[(MEMORY, &memory)]);
        return Ok(Outcome::Document(child(&words, interrupt)?));
    };
    let parent = locations.of(spec);
    // A location that the user named and that does not exist is an error, not a missing feature.
    let mut pair = Pair::begin(parent)?;
    if let Err(why) = pair.make(spec, interrupt) {
        return Ok(Outcome::Skipped(lacking(&why)));
    }
    let (ours, theirs) = (text(&pair.ours())?, text(&pair.mounted())?);
    let words = section.words(&[(IMAGE, &ours), (PEER, &theirs)]);
    let document = child(&words, interrupt)?;
    pair.finish()?;
    Ok(Outcome::Document(document))
}

fn lacking(why: &anyhow::Error) -> String {
    let first = format!("{why:#}")
        .lines()
        .take(3)
        .collect::<Vec<_>>()
        .join(" ");
    format!("the kernel's ext4 is not available here: {first}")
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("{}: not UTF-8", path.display()))
}

/// Runs `uext4 bench WORDS --json`. Its progress is for a terminal; elsewhere what it says is kept for the case
/// that it fails.
fn child(words: &[String], interrupt: &Interrupt) -> anyhow::Result<Value> {
    let mut command = this_program();
    command.args(words).arg("--json");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // Ctrl-C is for this process, which signals the child once: a second time would end it at once.
    command.process_group(0);
    let shown = std::io::stderr().is_terminal();
    command.stderr(if shown {
        Stdio::inherit()
    } else {
        Stdio::piped()
    });
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    let (out, said) = (read(child.stdout.take()), read(child.stderr.take()));
    let status = wait(&mut child, interrupt)?;
    if !status.success() {
        let said = said.join().unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let last = said
            .lines()
            .last()
            .map_or_else(String::new, |line| format!(": {line}"));
        bail!("it ended, {status}{last}");
    }
    let out = out.join().unwrap_or_default();
    serde_json::from_slice(&out).context("what it printed is not JSON")
}

/// Reads all of a pipe meanwhile.
fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is as good.
            let _ = pipe.read_to_end(&mut all);
        }
        all
    })
}

/// Waits until it has ended; an interrupt asks it to end, and kills it if it continues.
fn wait(child: &mut Child, interrupt: &Interrupt) -> anyhow::Result<ExitStatus> {
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match told {
            None if interrupt.check().is_err() => {
                let child = Pid::from_child(child);
                let _ = kill_process(child, Signal::TERM);
                told = Some(Instant::now());
            }
            Some(since) if since.elapsed() > PATIENCE => child.kill()?,
            _ => {}
        }
        thread::sleep(LOOK);
    }
}
