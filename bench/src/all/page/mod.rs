//! The page: charts with their tables, drawn from `report.json` alone.
//!
//! | module | holds |
//! | --- | --- |
//! | `parts` | the parts of the page and their figures, as data |
//! | `figure` | the chart and table of a figure |
//! | `rows` | rows of a document |
//! | `tables` | locks, stages, repeated generations |
//! | `headlines` | the summary |
//! | `model` | what a simulation projects for more cores |

mod figure;
pub mod headlines;
mod model;
mod parts;
mod rows;
mod tables;

use super::result::{Outcome, Report};
use crate::chart::{Block, Page, Section};
use crate::model::Projection;
use anyhow::{Context as _, ensure};
use parts::Part;
use rows::Rows;
use std::fs;
use std::path::Path;

/// No run has more rows in a section, or more variants.
const ROWS_MAX: usize = 5000;
const VARIANTS_MAX: usize = 64;

/// Writes `report.html` and the charts into `dir`; the names of the charts' files.
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

fn page(report: &Report, projection: &Projection) -> Page {
    let headlines = headlines::tables(report).into_iter();
    let headlines = headlines.map(|(caption, table)| Block::Table { caption, table });
    let mut sections = vec![section(
        "what-stands-out",
        "What stands out",
        headlines.collect(),
    )];
    let parts = parts::parts();
    let measured = parts.iter().filter_map(|part| measured(report, part));
    sections.extend(measured);
    sections.push(model::section(projection));
    let peers = PEERS.iter().map(|text| Block::Text((*text).to_owned()));
    sections.push(section(
        "peers",
        "How the peers are measured",
        peers.collect(),
    ));
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
            "Every workload with every variant of the five mechanisms, measured on this machine in one run. Variants take \
             turns in each round, each on an image of its own, which is checked in the end; figures are medians, \
             with minimum and maximum as whiskers and in brackets; only the projection uses the fastest rounds. Grey is published work on other machines. Below \
             the charts of each part stands how to run it alone."
                .to_owned(),
        ],
        sections,
    }
}

/// A part of the page; `None` if nothing of it was run.
fn measured(report: &Report, part: &Part) -> Option<Section> {
    let commands: Vec<Block> = part
        .sections
        .iter()
        .flat_map(|name| commands(report, name))
        .collect();
    if commands.is_empty() {
        return None;
    }
    let mut blocks = vec![Block::Text(part.text.to_owned())];
    for figure in &part.figures {
        // A quick run does not have every workload of a section; a section that was skipped shows an empty figure.
        let was_run = figure
            .sections
            .iter()
            .any(|name| report.document(name).is_some());
        if !(was_run && figure.rows(report).0.is_empty()) {
            blocks.push(figure.block(report));
        }
    }
    blocks.extend(
        part.locks
            .iter()
            .map(|(section, op)| tables::locks(report, section, op)),
    );
    blocks.extend(part.stages.map(|name| tables::stages(report, name)));
    if part.sections.contains(&"generation") {
        blocks.extend(tables::repeats(report));
    }
    blocks.extend(commands);
    Some(section(part.id, part.title, blocks))
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

/// How peers are measured.
const PEERS: [&str; 6] = [
    "Peers take turns with ours in every round of the same run, with the same counts of threads and the same work.",
    "Linux's ext4 (mdtest-kernel, create-unlink-kernel, randrw-kernel, fsync): two images are made by the same mke2fs \
     command, of the same size, journal and inodes, in files that are fully written. One is opened by ours, the other \
     is mounted by Linux through a loop device. (The charts say tmpfs and disk; where --memory and --disk name other places, \
     those are among the facts above.) On both sides each worker works in a directory of its own with a \
     table of descriptors of its own; a phase of mdtest ends with syncfs inside its time, an fsync returns when the \
     device has flushed, and randrw is O_DIRECT. create-unlink has no sync on either side: both commit every five \
     seconds. On tmpfs a flush costs nothing on either side. For fsync the images are on a disk: ours writes through the \
     host's cache and flushes it, the loop device does direct I/O and flushes the disk. e2fsck -fn finds nothing in both in the end.",
    "What differs: ours is called in the same process, Linux by system calls, which is the point; and a loop device \
     copies each block that Linux writes once more through a thread of the kernel.",
    "fuse2fs and Linux's ext4 beside mounted directories (fuse): the same programs use the same directory through the \
     kernel; each turn has a new image by mke2fs. What was done is durable inside the time: each directory is fsynced where files are created and removed, the \
     file where one is read and written, and a tree is unmounted. fuse2fs keeps no journal, so its fsync promises less \
     than the others'.",
    "Linux's message queues (mq, mq-mounted): the same loop through mq_open(3), mq_send(3) and mq_receive(3); nothing is \
     durable on either side.",
    "Linux's IPC namespaces (clone): unshare(CLONE_NEWIPC) in a loop. Such a namespace also has semaphores, shared \
     memory and sysctls, and is freed later, so only the order of magnitude says anything.",
];
