//! all: every workload with every variant, beside the peers that the machine has, and one page that shows it.
//!
//! # Data model
//! The plan is a list of sections; each is one command of `uext4 bench`, run in a process of its own, whose
//! document is kept as it is. `report.json` holds them; the page and its charts are drawn from it and from what
//! `transfers` counted before, so that `--redraw` makes them again without measuring.
//!
//! | module | holds |
//! | --- | --- |
//! | `plan` | the sections and their commands |
//! | `pair` | two images made alike, one of them mounted by the kernel |
//! | `runner` | sections run one after the other |
//! | `result` | `report.json` |
//! | `page` | `report.html` and the charts |
//! | `summary` | what standard output says of them |

mod page;
mod pair;
mod plan;
mod result;
mod runner;
mod summary;

use crate::fuse::interrupt::Interrupt;
use crate::host::Host;
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use pair::Locations;
use plan::{Scale, Section};
use result::{Outcome, Report, SectionResult};
use std::fs;
use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// What to run, and where the report goes.
#[derive(Clone, Debug, Args)]
pub struct AllArgs {
    /// Where report.html, report.json and the charts go; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub report: PathBuf,
    /// Three minutes instead of half an hour: shorter runs, fewer files
    #[arg(long)]
    pub quick: bool,
    /// A blink for each, to see that it runs
    #[arg(long, hide = true, conflicts_with = "quick")]
    pub smoke: bool,
    /// Only these sections, by the names that the run prints; a name that is none prints them all
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Measures nothing: draws the page and the charts again from DIR/report.json
    #[arg(long, conflicts_with_all = ["quick", "smoke", "only"])]
    pub redraw: bool,
    /// Where images in memory are
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub memory: PathBuf,
    /// Where images on a disk are, for fsync
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub disk: PathBuf,
    /// Prints report.json, too
    #[arg(long)]
    pub json: bool,
}

impl AllArgs {
    fn scale(&self) -> Scale {
        match (self.smoke, self.quick) {
            (true, _) => Scale::Smoke,
            (false, true) => Scale::Quick,
            (false, false) => Scale::Full,
        }
    }

    fn sections(&self) -> anyhow::Result<Vec<Section>> {
        let root = rustix::process::geteuid().is_root();
        let mut all = plan::sections(self.scale(), root)?;
        for name in &self.only {
            let names: Vec<&str> = all.iter().map(|s| &*s.name).collect();
            let known = names.contains(&name.as_str());
            ensure!(known, "no section `{name}`: there are {}", names.join(", "));
        }
        if !self.only.is_empty() {
            all.retain(|s| self.only.contains(&s.name));
        }
        Ok(all)
    }
}

/// Runs all sections, and makes the report.
pub fn run(args: &AllArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let dir = &args.report;
    let (mut report, old) = if args.redraw {
        let report = read(&json_path(dir))?;
        let charts = report.charts.clone();
        (report, charts)
    } else {
        let sections = args.sections()?;
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let old = read(&json_path(dir)).map_or_else(|_| Vec::new(), |report| report.charts);
        (measure(args, &sections, out)?, old)
    };
    page::check(&report).with_context(|| json_path(dir).display().to_string())?;
    report.charts = page::write(dir, &report)?;
    remove_old(dir, &old, &report.charts);
    write_json(&json_path(dir), &report)?;
    // A closed pipe does not keep the report from being written.
    if args.json {
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        summary::print(&report, out)?;
        writeln!(out, "{}", dir.join("report.html").display())?;
    }
    if args.redraw {
        return Ok(());
    }
    match report.failed().as_slice() {
        [] => Ok(()),
        failed => bail!("sections failed: {}", failed.join(", ")),
    }
}

/// Charts of a run before that this one has not.
fn remove_old(dir: &Path, old: &[String], new: &[String]) {
    let is_chart = |name: &&String| name.ends_with(".svg") && !name.contains('/');
    for name in old
        .iter()
        .filter(|name| !new.contains(name))
        .filter(is_chart)
    {
        let _ = fs::remove_file(dir.join(name));
    }
}

fn json_path(dir: &Path) -> PathBuf {
    dir.join("report.json")
}

fn read(path: &Path) -> anyhow::Result<Report> {
    let name = || path.display().to_string();
    let text = fs::read(path).with_context(name)?;
    serde_json::from_slice(&text).with_context(name)
}

fn write_json(path: &Path, report: &Report) -> anyhow::Result<()> {
    let text = serde_json::to_vec(report)?;
    // All of it or what was there: a run that is killed meanwhile has the sections before.
    let new = path.with_extension("json.new");
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| path.display().to_string())
}

fn measure(args: &AllArgs, sections: &[Section], out: &mut dyn Write) -> anyhow::Result<Report> {
    let interrupt = Interrupt::watch()?;
    let locations = Locations {
        memory: args.memory.clone(),
        disk: args.disk.clone(),
    };
    let since = Instant::now();
    let mut report = Report {
        benchmark: "all".to_owned(),
        host: Host::here(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        seconds: 0.0,
        quick: args.scale() != Scale::Full,
        memory: args.memory.display().to_string(),
        disk: args.disk.display().to_string(),
        charts: Vec::new(),
        sections: Vec::new(),
    };
    for (i, section) in sections.iter().enumerate() {
        if std::io::stderr().is_terminal() {
            // Goes under the progress of the section, or its line in the end.
            eprint!("{:2}/{} {}\r", i + 1, sections.len(), section.name);
        }
        let result = runner::run(section, &locations, &interrupt)?;
        report.sections.push(result);
        report.seconds = since.elapsed().as_secs_f64();
        // Half an hour is not lost with the last minute: --redraw makes the page of what is there.
        write_json(&json_path(&args.report), &report)?;
        if let Some(result) = report.sections.last().filter(|_| !args.json) {
            // This may be unread while the report is written.
            let _ = say(i + 1, sections.len(), result, out);
        }
    }
    Ok(report)
}

fn say(nth: usize, of: usize, result: &SectionResult, out: &mut dyn Write) -> std::io::Result<()> {
    let SectionResult { name, seconds, .. } = result;
    let came = match &result.outcome {
        Outcome::Document(_) => String::new(),
        Outcome::Skipped(why) => format!(", skipped: {why}"),
        Outcome::Failed(why) => format!(", FAILED: {why}"),
    };
    writeln!(out, "{nth:2}/{of} {name:<24} {seconds:6.1} s{came}")
}
