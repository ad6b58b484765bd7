//! Runs the sections, each by this program in a process of its own, which gives its document.

use super::pair::Pair;
use super::plan::{IMAGE, MEMORY, PEER, Section};
use super::result::{Outcome, SectionResult};
use crate::fuse::interrupt::Interrupt;
use anyhow::{Context as _, bail};
use serde_json::Value;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Where images are for the time of the run.
pub struct Places {
    /// In memory.
    pub memory: PathBuf,
    /// On a disk.
    pub disk: PathBuf,
}

/// Runs one section. What it lacks of the machine, or that it failed, is in the result.
///
/// # Errors
/// The user wants no more.
pub fn run(
    section: &Section,
    places: &Places,
    interrupt: &Interrupt,
) -> anyhow::Result<SectionResult> {
    let since = Instant::now();
    let outcome = match measure(section, places) {
        Ok(outcome) => outcome,
        Err(why) => Outcome::Failed(format!("{why:#}")),
    };
    interrupt.check()?;
    Ok(SectionResult {
        name: section.name.to_owned(),
        command: section.command(),
        before: section
            .pair
            .iter()
            .flat_map(|pair| pair.commands())
            .collect(),
        seconds: since.elapsed().as_secs_f64(),
        outcome,
    })
}

fn measure(section: &Section, places: &Places) -> anyhow::Result<Outcome> {
    if let Some(device) = section.device.filter(|device| !Path::new(device).exists()) {
        return Ok(Outcome::Skipped(format!("there is no {device}")));
    }
    let memory = text(&places.memory)?;
    let Some(spec) = &section.pair else {
        let words = section.words(&[(MEMORY, &memory)]);
        return Ok(Outcome::Document(child(&words)?));
    };
    let parent = if spec.on_disk {
        &places.disk
    } else {
        &places.memory
    };
    // A place that the user named and that is none is no matter of what the machine has.
    let mut pair = Pair::begin(parent)?;
    if let Err(why) = pair.make(spec) {
        return Ok(Outcome::Skipped(lacking(&why)));
    }
    let (ours, theirs) = (text(&pair.ours())?, text(&pair.mounted())?);
    let words = section.words(&[(IMAGE, &ours), (PEER, &theirs)]);
    let document = child(&words)?;
    pair.finish()?;
    Ok(Outcome::Document(document))
}

fn lacking(why: &anyhow::Error) -> String {
    let first = format!("{why:#}")
        .lines()
        .take(3)
        .collect::<Vec<_>>()
        .join(" ");
    format!("the kernel's ext4 can't be had here: {first}")
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("{}: not UTF-8", path.display()))
}

/// Runs `uext4 bench WORDS --json`. Its progress is for a terminal; elsewhere what it says is kept for the case
/// that it fails.
fn child(words: &[String]) -> anyhow::Result<Value> {
    // Not by its name, where another one may lie by now.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("bench")
        .args(words)
        .arg("--json")
        .stdin(Stdio::null());
    let shown = std::io::stderr().is_terminal();
    command.stderr(if shown {
        Stdio::inherit()
    } else {
        Stdio::piped()
    });
    let out = command.output().with_context(|| format!("{command:?}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        let last = said.lines().last().unwrap_or("what it said is above");
        bail!("it ended, {}: {last}", out.status);
    }
    serde_json::from_slice(&out.stdout).context("what it printed is no JSON")
}
