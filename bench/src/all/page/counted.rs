//! What was counted on up to 256 virtual CPUs (`transfers`): another program counts it, so its results are kept, in
//! `transfers.json`, which `make transfers` writes.

use super::figure::published;
use crate::chart::{Axis, Block, Chart, Kind, Mark, Point, Scale, Section, Series};
use serde::Deserialize;
use std::collections::BTreeMap;

const KEPT: &str = include_str!("transfers.json");

/// What `transfers` counted for a mechanism.
#[derive(Deserialize)]
struct Document {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    arm: String,
    op: String,
    cpus: u32,
    transfers: f64,
    contended: f64,
    bitmap_accesses: f64,
}

/// A figure: which rows, and what of them.
struct Figure {
    /// The mechanism's key in the file.
    of: &'static str,
    op: &'static str,
    id: &'static str,
    title: &'static str,
    y: &'static str,
    value: fn(&Row) -> f64,
    published: Option<(&'static str, &'static [(f64, f64)])>,
    notes: &'static [&'static str],
}

const FIGURES: [Figure; 8] = [
    Figure {
        of: "ialloc",
        op: "create",
        id: "counted-ialloc-accesses",
        title: "Inode allocation: attempts to claim an inode",
        y: "inode bitmap accesses per create",
        value: |row| row.bitmap_accesses,
        published: Some(("write access to any block", &[(48.0, 50.7)])),
        notes: &[
            "Published: 73,077,185 calls of jbd2_journal_get_write_access for 1,440,000 creates by 48 processes. About six of each \
             50.7 are to other blocks than an inode bitmap.",
        ],
    },
    Figure {
        of: "ialloc",
        op: "create",
        id: "counted-ialloc-lines",
        title: "Inode allocation: lines moved",
        y: "lines moved per create",
        value: |row| row.transfers,
        published: None,
        notes: &[],
    },
    Figure {
        of: "ialloc",
        op: "remove",
        id: "counted-ialloc-removes",
        title: "Inode allocation: lines moved by removes",
        y: "lines moved per remove",
        value: |row| row.transfers,
        published: None,
        notes: &["Published: removes gained 4 % at 48 processes."],
    },
    Figure {
        of: "generation",
        op: "create and unlink",
        id: "counted-generation",
        title: "Inode generations: lines moved",
        y: "lines moved per create and unlink",
        value: |row| row.transfers,
        published: None,
        notes: &["The published curves are rates; they are drawn with inode generations."],
    },
    Figure {
        of: "icache",
        op: "create and unlink",
        id: "counted-icache-lines",
        title: "Lazy timestamps: lines moved",
        y: "lines moved per create and unlink",
        value: |row| row.transfers,
        published: None,
        notes: &[
            "Published: with the global lock lazytime made create and unlink about 16 times slower.",
        ],
    },
    Figure {
        of: "icache",
        op: "create and unlink",
        id: "counted-icache-waits",
        title: "Lazy timestamps: waits",
        y: "waits and retries per create and unlink",
        value: |row| row.contended,
        published: None,
        notes: &[],
    },
    Figure {
        of: "dio",
        op: "direct read or overwrite",
        id: "counted-dio",
        title: "Direct I/O: waits",
        y: "waits and retries per request",
        value: |row| row.contended,
        published: None,
        notes: &["The published gain in percent is drawn with direct I/O."],
    },
    Figure {
        of: "registry",
        op: "create and drop",
        id: "counted-registry",
        title: "Superblock registry: lines moved",
        y: "lines moved per namespace",
        value: |row| row.transfers,
        published: None,
        notes: &["Published: 5,948 namespaces/s became 9,137 with 32 workers."],
    },
];

pub fn section() -> serde_json::Result<Section> {
    let kept: BTreeMap<String, Document> = serde_json::from_str(KEPT)?;
    let mut blocks = vec![
        Block::Text(
            "The code that ships, on virtual CPUs of which each runs one worker. At each lock, atomic access and call of the \
             journal a scheduler draws, from a seed, which CPU runs next. Counted are lines that moved from one CPU to \
             another, locks that were waited for, and attempts, for each operation: what decides whether it scales."
                .to_owned(),
        ),
        Block::Warning(
            "Counted on another machine and kept, not measured in this run. It cannot show time, memory bandwidth or NUMA: all CPUs \
             advance at the same rate, and a line that moves costs as much as one that waits in a queue of 255."
                .to_owned(),
        ),
    ];
    blocks.extend(
        FIGURES
            .iter()
            .filter_map(|figure| Some(Block::Figure(figure.chart(kept.get(figure.of)?)))),
    );
    blocks.push(Block::Command("make transfers".to_owned()));
    Ok(Section {
        id: "beyond-this-machine".to_owned(),
        title: "On up to 256 CPUs, counted".to_owned(),
        blocks,
    })
}

impl Figure {
    fn chart(&self, document: &Document) -> Chart {
        let mut series: Vec<Series> = Vec::new();
        for row in document.rows.iter().filter(|row| row.op == self.op) {
            let at = series.iter().position(|series| series.name == row.arm);
            let at = at.unwrap_or_else(|| {
                series.push(Series {
                    name: row.arm.clone(),
                    kind: Kind::Variant,
                    mark: Mark::Line,
                    points: Vec::new(),
                });
                series.len() - 1
            });
            let point = Point::new(f64::from(row.cpus), (self.value)(row));
            series[at].points.push(point);
        }
        let drawn = self.published.iter();
        series.extend(drawn.map(|(name, points)| published(name, points)));
        Chart {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            subtitle: "counted on virtual CPUs".to_owned(),
            x: Axis::new("CPUs", Scale::Log),
            y: Axis::new(self.y, Scale::Linear),
            series,
            notes: self.notes.iter().map(|note| (*note).to_owned()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    /// A figure of a create.
    fn of_create(arm: &str, cpus: u32, figure: &str) -> f64 {
        let kept: Value = serde_json::from_str(super::KEPT).expect("the file");
        let rows = kept["ialloc"]["rows"].as_array().expect("rows");
        let is_it =
            |row: &&Value| row["arm"] == arm && row["op"] == "create" && row["cpus"] == cpus;
        let row = rows.iter().find(is_it).expect("the row");
        row[figure].as_f64().expect("a number")
    }

    #[test]
    fn attempts_of_retry_unlocked_grow_with_the_cpus_as_published() {
        let attempts = |arm, cpus| of_create(arm, cpus, "bitmap_accesses");
        let published = 50.7;
        let counted = attempts("retry-unlocked", 48);
        assert!(
            counted > published / 2.0 && counted < 2.0 * published,
            "{counted}"
        );
        for cpus in [2, 4, 8, 16, 32] {
            let (few, many) = (
                attempts("retry-unlocked", cpus),
                attempts("retry-unlocked", 2 * cpus),
            );
            assert!(
                many > 1.2 * few,
                "{cpus} CPUs: {few}, twice as many: {many}"
            );
        }
        for cpus in [16, 48, 64] {
            assert!(attempts("retry-locked", cpus) < 1.1, "{cpus}");
        }
    }

    #[test]
    fn the_default_does_not_take_more_for_a_create_on_more_cpus() {
        let figure = |cpus, figure| of_create("lock-free", cpus, figure);
        for cpus in [16, 48, 256] {
            for name in ["acquisitions", "bitmap_accesses"] {
                let ratio = figure(cpus, name) / figure(1, name);
                assert!((0.9..=1.1).contains(&ratio), "{name}, {cpus} CPUs: {ratio}");
            }
            assert!(figure(cpus, "contended") < 0.1, "{cpus} CPUs");
        }
    }
}
