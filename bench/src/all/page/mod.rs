//! The page: charts with their tables, drawn from `report.json` alone.
//!
//! | module | holds |
//! | --- | --- |
//! | `template` | what the page has, as data in `page.json` |
//! | `figure` | the chart of a figure |
//! | `rows` | rows of a document |
//! | `tables` | locks, stages, repeated generations |
//! | `headlines` | the summary |
//! | `counted` | what `transfers` counted on up to 256 CPUs |

mod counted;
mod figure;
mod headlines;
mod rows;
mod tables;
mod template;

use super::result::{Outcome, Report};
use crate::chart::{Block, Page, Section, Table};
use anyhow::{Context as _, ensure};
use rows::Rows;
use std::fs;
use std::path::Path;
use template::{Part, Template};

/// No run has more rows in a section, or more variants.
const ROWS_MAX: usize = 5000;
const VARIANTS_MAX: usize = 64;

/// Writes `report.html` and the charts into `dir`; the names of the charts' files.
pub fn write(dir: &Path, report: &Report) -> anyhow::Result<Vec<String>> {
    let page = page(report)?;
    let put = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    put("report.html", page.html()?)?;
    let mut names = Vec::new();
    for chart in page.charts() {
        let name = format!("{}.svg", chart.id);
        put(&name, chart.svg()?)?;
        names.push(name);
    }
    Ok(names)
}

/// Whether the report is one that this version makes.
pub fn check(report: &Report) -> anyhow::Result<()> {
    for section in &report.sections {
        let name = || format!("section {}", section.name);
        let rows = Rows::read(report, &section.name).with_context(name)?;
        let (many, variants) = (rows.0.len(), rows.variants());
        ensure!(
            many <= ROWS_MAX && variants <= VARIANTS_MAX && rows.counts().len() <= VARIANTS_MAX,
            "section {}: {many} rows of {variants} variants are more than a run has",
            section.name
        );
    }
    Ok(())
}

/// The summary: tables, each with its caption.
pub fn headlines(report: &Report) -> anyhow::Result<Vec<(String, Table)>> {
    let all = Template::read()?.headlines;
    Ok(all.iter().filter_map(|table| table.table(report)).collect())
}

fn page(report: &Report) -> anyhow::Result<Page> {
    let template = Template::read()?;
    let headlines = headlines(report)?.into_iter();
    let headlines = headlines.map(|(caption, table)| Block::Table { caption, table });
    let mut sections = vec![section(
        "what-stands-out",
        "What stands out",
        headlines.collect(),
    )];
    sections.extend(
        template
            .parts
            .iter()
            .filter_map(|part| measured(report, part)),
    );
    sections.push(counted::section()?);
    let peers = template.peers.into_iter().map(Block::Text);
    sections.push(section(
        "peers",
        "How the peers are measured",
        peers.collect(),
    ));
    let host = &report.host;
    let fact = |name: &str, value: String| (name.to_owned(), value);
    Ok(Page {
        title: template.title,
        facts: vec![
            fact("CPU", format!("{}, {} CPUs", host.cpu, host.cpus)),
            fact("Linux", host.kernel.clone()),
            fact("uext4", report.version.clone()),
            fact("Date", report.date.clone()),
            fact("Run", run_of(report)),
            fact(
                "Images",
                format!("{}; {} for fsync", report.memory, report.disk),
            ),
        ],
        intro: vec![template.intro],
        sections,
    })
}

/// A part of the page; `None` if nothing of it was run.
fn measured(report: &Report, part: &Part) -> Option<Section> {
    let sections = part.sections.iter();
    let commands: Vec<Block> = sections.flat_map(|name| commands(report, name)).collect();
    if commands.is_empty() {
        return None;
    }
    let mut blocks = vec![Block::Text(part.text.clone())];
    for figure in &part.figures {
        // A quick run does not have every workload of a section; a section that was skipped shows an empty figure.
        let was_run = figure
            .sections
            .iter()
            .any(|name| report.document(name).is_some());
        if !(was_run && figure.rows(report).0.is_empty()) {
            blocks.push(Block::Figure(figure.chart(report)));
        }
    }
    blocks.extend(
        part.locks
            .iter()
            .map(|(section, op)| tables::locks(report, section, op)),
    );
    blocks.extend(part.stages.iter().map(|name| tables::stages(report, name)));
    if part.sections.iter().any(|name| name == "generation") {
        blocks.extend(tables::repeats(report));
    }
    blocks.extend(commands);
    Some(section(&part.id, &part.title, blocks))
}

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section {
        id: id.to_owned(),
        title: title.to_owned(),
        blocks,
    }
}

/// How a section was run, and why it has no figures.
fn commands(report: &Report, name: &str) -> Vec<Block> {
    let Some(section) = report.sections.iter().find(|s| s.name == name) else {
        return Vec::new();
    };
    let mut typed = section.before.clone();
    typed.push(section.command.clone());
    let command = Block::Command(typed.join("\n"));
    match &section.outcome {
        Outcome::Document(_) => vec![command],
        Outcome::Skipped(why) => vec![
            command,
            Block::Warning(format!("{name} was left out: {why}")),
        ],
        Outcome::Failed(why) => vec![command, Block::Warning(format!("{name} failed: {why}"))],
    }
}

fn run_of(report: &Report) -> String {
    let kind = if report.quick {
        "quick (short runs: expect more noise)"
    } else {
        "full"
    };
    format!("{kind}, {:.0} s", report.seconds)
}
