//! What is printed of the pairs, and the gate.

use super::every_cpu::Found;
use super::pairs::{Kind, Pair, Shared};
use super::record::Recording;
use crate::conflicts::ConflictsArgs;
use crate::tables;
use anyhow::Result;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;

/// Pairs of one kind.
#[derive(Clone, Copy, Default)]
struct Count {
    commute: u64,
    free: u64,
}

/// How many pairs share a line.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pairs {
    /// Those that are apart.
    pub apart: u64,
    pub all: u64,
}

/// What was found in one variant.
pub struct Outcome {
    variant: String,
    counts: BTreeMap<Kind, Count>,
    /// Pairs that do not commute.
    pub others: u64,
    /// Shared lines, those of most pairs that are apart first.
    lines: Vec<(Shared, Pairs)>,
    conflicts: Vec<(String, Kind, Vec<Shared>)>,
    /// Calls, instructions and lines of each.
    calls: Vec<(String, u64, usize)>,
}

impl Outcome {
    pub fn new(variant: String) -> Outcome {
        Outcome {
            variant,
            counts: BTreeMap::new(),
            others: 0,
            lines: Vec::new(),
            conflicts: Vec::new(),
            calls: Vec::new(),
        }
    }

    pub fn note_call(&mut self, name: String, recording: &Recording) {
        self.calls
            .push((name, recording.steps, recording.lines.len()));
    }

    pub fn note_pair(&mut self, pair: Pair) {
        let count = self.counts.entry(pair.kind).or_default();
        count.commute += 1;
        if pair.is_conflict_free() {
            count.free += 1;
            return;
        }
        self.conflicts
            .push((pair.names.join(" / "), pair.kind, pair.shared));
    }

    pub fn set_lines(&mut self, frequency: BTreeMap<Shared, Pairs>) {
        self.lines = frequency.into_iter().collect();
        self.lines
            .sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    }

    fn total(&self) -> Count {
        let all = self.counts.values();
        all.fold(Count::default(), |sum, count| Count {
            commute: sum.commute + count.commute,
            free: sum.free + count.free,
        })
    }

    fn print(&self, out: &mut dyn Write, args: &ConflictsArgs) -> Result<()> {
        let percent = |count: Count| match count.commute {
            0 => "-".to_owned(),
            all => format!("{:.1} %", 100.0 * count.free as f64 / all as f64),
        };
        let row = |name: &str, count: Count| {
            vec![
                name.to_owned(),
                count.commute.to_string(),
                count.free.to_string(),
                percent(count),
            ]
        };
        let kinds = Kind::ALL.iter().filter_map(|kind| {
            let count = self.counts.get(kind)?;
            Some(row(kind.name(), *count))
        });
        let rows: Vec<_> = kinds.chain([row("all", self.total())]).collect();
        let what = format!("{}: pairs that|commute|share no line|", self.variant);
        writeln!(out, "{}", tables::table(&what, rows))?;
        writeln!(out, "{} pairs do not commute\n", self.others)?;
        for (shared, pairs) in self.lines.iter().take(args.lines) {
            let by = if shared.of_others {
                ", of malloc or the device in memory"
            } else {
                ""
            };
            let verb = if shared.both_write { "written" } else { "read" };
            let Pairs { apart, all } = pairs;
            writeln!(out, "{all:>5} pairs, {apart} apart{by}: {}", shared.writer)?;
            writeln!(out, "            {verb} by {}", shared.other)?;
        }
        if args.pairs {
            for (name, kind, shared) in &self.conflicts {
                writeln!(out, "{name} ({})", kind.name())?;
                for line in shared.iter().filter(|shared| !shared.of_others) {
                    writeln!(out, "    {} / {}", line.writer, line.other)?;
                }
            }
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let kinds = Kind::ALL.iter().filter_map(|kind| {
            let count = self.counts.get(kind)?;
            Some(json!({"pairs": kind.name(), "commute": count.commute, "free": count.free}))
        });
        let lines = self.lines.iter().map(|(shared, pairs)| {
            json!({
                "pairs": pairs.all, "apart": pairs.apart, "writer": shared.writer.to_string(), "other": shared.other.to_string(),
                "both_write": shared.both_write, "allocator_or_device": shared.of_others,
            })
        });
        let calls = self.calls.iter().map(|(name, instructions, lines)| {
            json!({"call": name, "instructions": instructions, "lines": lines})
        });
        json!({
            "arm": self.variant, "kinds": kinds.collect::<Vec<_>>(), "do_not_commute": self.others,
            "shared_lines": lines.collect::<Vec<_>>(), "calls": calls.collect::<Vec<_>>(),
        })
    }
}

/// What CPUs share that do the same in directories of their own.
pub fn print_found(
    out: &mut dyn Write,
    args: &ConflictsArgs,
    variant: &str,
    found: &Found,
) -> Result<()> {
    let Found {
        written,
        locks_per_create,
        retries_per_create,
    } = found;
    if args.json {
        let rows = written.iter().map(|line| {
            json!({"place": line.place.to_string(), "writers": line.writers, "readers": line.readers})
        });
        let rows: Vec<_> = rows.collect();
        let all = json!({
            "benchmark": "conflicts", "cpus": args.cpus, "arm": variant, "written": rows,
            "locks_per_create": locks_per_create, "retries_per_create": retries_per_create,
        });
        return Ok(writeln!(out, "{all:#}")?);
    }
    let by_two = written.iter().filter(|line| line.writers > 1).count();
    let (cpus, read) = (args.cpus, written.len() - by_two);
    writeln!(
        out,
        "{variant}, {cpus} CPUs: {by_two} places write a line that another CPU writes, {read} one that others read; \
         {locks_per_create:.2} locks and {retries_per_create:.2} retries for each create"
    )?;
    for line in written.iter().take(args.lines) {
        let (writers, readers) = (line.writers, line.readers);
        writeln!(out, "{writers:>6} write, {readers} read: {}", line.place)?;
    }
    Ok(())
}

/// What was found in all variants.
pub struct Report<'a> {
    pub args: &'a ConflictsArgs,
    pub outcomes: Vec<Outcome>,
}

impl Report<'_> {
    pub fn print(&self, out: &mut dyn Write) -> Result<()> {
        if self.args.json {
            let rows: Vec<_> = self.outcomes.iter().map(Outcome::json).collect();
            let all = json!({
                "benchmark": "conflicts", "cpus": self.args.cpus, "on": self.args.on,
                "cold": self.args.cold, "rows": rows,
            });
            return Ok(writeln!(out, "{all:#}")?);
        }
        for outcome in &self.outcomes {
            outcome.print(out, self.args)?;
        }
        Ok(())
    }

    /// Pairs of calls that are apart and share a line, each with its lines.
    pub fn apart(&self) -> BTreeMap<String, String> {
        let all = self.outcomes.iter().flat_map(|outcome| &outcome.conflicts);
        let apart = all.filter(|(_, kind, _)| *kind == Kind::Apart);
        let lines = |shared: &[Shared]| {
            let shared = shared.iter().filter(|shared| !shared.of_others);
            let lines: Vec<_> = shared
                .map(|shared| format!("{} and {}", shared.writer, shared.other))
                .collect();
            lines.join("; ")
        };
        apart
            .map(|(pair, _, shared)| (pair.clone(), lines(shared)))
            .collect()
    }
}
