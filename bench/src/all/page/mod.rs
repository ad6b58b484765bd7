//! The page: charts with their figures, drawn from `report.json` alone.
//!
//! | module | holds |
//! | --- | --- |
//! | `rows` | rows of a document, chosen and turned into series |
//! | `figures` | the kinds of figures |
//! | `headlines` | what stands out |
//! | `allocation`, `generation`, `timestamps`, `direct_io`, `namespaces` | the five mechanisms |
//! | `queues`, `mounts` | message queues; fsync and mounted directories |
//! | `model` | what a simulation projects for more cores |
//! | `peers` | how peers are measured |

mod allocation;
mod direct_io;
mod figures;
mod generation;
pub mod headlines;
mod model;
mod mounts;
mod namespaces;
mod peers;
mod queues;
mod rows;
mod timestamps;

use super::result::Report;
use crate::chart::{Page, Section};
use crate::model::Projection;
use anyhow::{Context as _, ensure};
use rows::Rows;
use std::fs;
use std::path::Path;

/// No run has more rows in a section, or more arms.
const ROWS_MAX: usize = 5000;
const ARMS_MAX: usize = 64;

/// Writes `report.html` and the charts into `dir`; the names of the charts' files.
///
/// # Errors
/// Of writing.
pub fn write(dir: &Path, report: &Report, projection: &Projection) -> anyhow::Result<Vec<String>> {
    let page = page(report, projection);
    let put = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    put("report.html", page.html())?;
    let mut names = Vec::new();
    for chart in page.charts() {
        let name = format!("{}.svg", chart.id);
        put(&name, chart.svg())?;
        names.push(name);
    }
    Ok(names)
}

/// Whether the report is one that this version makes.
///
/// # Errors
/// What is wrong with it.
pub fn check(report: &Report) -> anyhow::Result<()> {
    for section in &report.sections {
        let name = || format!("section {}", section.name);
        let rows = Rows::read(report, &section.name).with_context(name)?;
        let (many, arms) = (rows.0.len(), rows.arms().len());
        ensure!(
            many <= ROWS_MAX && arms <= ARMS_MAX && rows.counts().len() <= ARMS_MAX,
            "section {}: {many} rows of {arms} arms are more than a run has",
            section.name
        );
    }
    Ok(())
}

fn page(report: &Report, projection: &Projection) -> Page {
    let mut sections = vec![headlines::section(report)];
    let measured = [
        allocation::section(report),
        generation::section(report),
        timestamps::section(report),
        direct_io::section(report),
        namespaces::section(report),
        queues::section(report),
        mounts::fsync(report),
        mounts::mounted(report),
    ];
    sections.extend(measured.into_iter().filter(is_of_run));
    sections.push(model::section(projection));
    sections.push(peers::section());
    let host = &report.host;
    let fact = |name: &str, value: String| (name.to_owned(), value);
    Page {
        title: "uext4: what a lock costs".to_owned(),
        facts: vec![
            fact("CPU", format!("{}, {} CPUs", host.cpu, host.cpus)),
            fact("Linux", host.kernel.clone()),
            fact("uext4", report.version.clone()),
            fact("Date", report.date.clone()),
            fact("Run", run_of(report)),
            fact("Images", format!("{}; {} for fsync", report.memory, report.disk)),
        ],
        intro: vec![
            "Every workload with every arm of the five mechanisms, measured on this machine in one run. Arms take \
             turns in each round, each on an image of its own, which is checked in the end; figures are medians, \
             with minimum and maximum as whiskers and in brackets; only the projection looks at the fastest rounds. Grey is published work on other machines. Below \
             the charts of each part stands how to run it alone."
                .to_owned(),
        ],
        sections,
    }
}

/// A part of which nothing was run has no commands: it is left out.
fn is_of_run(section: &Section) -> bool {
    let command = |block: &crate::chart::Block| matches!(block, crate::chart::Block::Command(_));
    section.blocks.iter().any(command)
}

fn run_of(report: &Report) -> String {
    let kind = if report.quick {
        "quick (short runs: expect more noise)"
    } else {
        "full"
    };
    format!("{kind}, {:.0} s", report.seconds)
}
