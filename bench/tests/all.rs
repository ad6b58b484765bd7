//! `uext4 bench all`: one short run of everything, that nothing is missing in its JSON, on its page and in its
//! charts, and that nothing is left behind. Never how fast.

mod all_run;

use all_run::{Run, run_in};
use roxmltree::Document;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use tempfile::TempDir;
use uext4_bench::chart::number;

/// The sections of the run, each with what it measures: variants that must be there, and operations.
const SECTIONS: [(&str, &str, &str); 22] = [
    ("mdtest", IALLOC, "create remove"),
    ("mdtest-start", IALLOC, "create remove"),
    ("mdtest-access", IALLOC, "create remove"),
    ("mdtest-kernel", "default peer", "create remove"),
    ("create-unlink", GENERATION, "create+unlink"),
    ("create-unlink-lazytime", ICACHE, "create+unlink"),
    ("lazytime", LAZYTIME, "write-pending write-settled"),
    ("create-unlink-kernel", "default peer", "create+unlink"),
    ("generation", GENERATION, "draw"),
    ("icache-shrink", "", "lookup+getattr"),
    ("randrw", DIRECT, "read write"),
    ("randrw-large", LARGE, "read write"),
    ("randrw-published", LARGE, "read write"),
    ("randrw-published-large", LARGE, "read write"),
    ("randrw-kernel", "dioread_nolock peer", "read write"),
    ("clone", "keyed nodev beyond", "create+drop"),
    ("clone-many", "nodev beyond", "create+drop"),
    ("clone-workers", "keyed nodev beyond", "create+drop"),
    ("mq", "uext4", "stream mixed ping-pong"),
    ("mq-mounted", "mounted", "stream ping-pong"),
    ("fsync", "default peer", "fsync"),
    ("fuse", "", "create remove randrw"),
];
const IALLOC: &str = "retry-unlocked retry-locked lock-free";
const GENERATION: &str =
    "spinlock atomic percpu percpu-range percpu-stride random random-prng increment none beyond";
const ICACHE: &str = "global/no-lazytime global/lazytime global-nowait/no-lazytime global-nowait/lazytime \
                      per-bucket/no-lazytime per-bucket/lazytime";
const LAZYTIME: &str = "global global-nowait per-bucket global-hint per-bucket-nohint";
const DIRECT: &str = "bare exclusive-first/dioread_nolock exclusive-first/dioread_lock \
                      shared-first/dioread_nolock shared-first/dioread_lock \
                      shared-always/dioread_nolock shared-always/dioread_lock range/dioread_nolock \
                      range/dioread_lock";
const LARGE: &str = "bare exclusive-first/dioread_nolock exclusive-first/dioread_lock \
                     shared-first/dioread_nolock shared-first/dioread_lock";

fn names<'a>(rows: &'a [Value], key: &str) -> BTreeSet<&'a str> {
    rows.iter().map(|row| row[key].as_str().unwrap()).collect()
}

#[test]
fn every_section_is_run_and_nothing_is_left() {
    let run = Run::of_everything();
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    assert_eq!(run.left, Vec::<String>::new());
    let json = run.json();
    let sections = json["sections"].as_array().unwrap();
    let lines: Vec<&str> = run.out.lines().collect();
    for (section, line) in sections.iter().zip(&lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = section["name"].as_str().unwrap();
        assert!(words.contains(&name), "{name}: {line}");
    }
    assert!(run.out.contains("What each mechanism gains"), "{}", run.out);
    let last = lines.last().unwrap();
    assert!(last.ends_with("/report.html"), "{}", run.out);
    assert!(run.text("report.html").starts_with("<!DOCTYPE html>"));
}

#[test]
fn every_variant_of_every_workload_has_rows() {
    let run = Run::of_everything();
    for (section, variants, ops) in SECTIONS {
        let Some(rows) = run.rows(section) else {
            continue;
        };
        for op in ops.split_whitespace() {
            let of_op: Vec<Value> = rows.iter().filter(|r| r["op"] == op).cloned().collect();
            assert!(
                !of_op.is_empty(),
                "{section}: {op}: {:?}",
                names(&rows, "op")
            );
            let there = names(&of_op, "arm");
            for variant in variants.split_whitespace() {
                assert!(
                    there.contains(variant),
                    "{section}: {op}: {variant}: {there:?}"
                );
            }
        }
    }
}

#[test]
fn every_figure_is_a_number() {
    let run = Run::of_everything();
    let json = run.json();
    for section in json["sections"].as_array().unwrap() {
        let name = section["name"].as_str().unwrap();
        let Some(rows) = run.rows(name) else {
            continue;
        };
        for row in &rows {
            // A thread that does one request while it runs does no read, or no write.
            let [min, median, max] = spread(row);
            assert!(
                0.0 <= min && min <= median && median <= max,
                "{name}: {row}"
            );
            assert!(max.is_finite(), "{name}: {row}");
        }
        let done = rows.iter().filter(|row| spread(row)[1] > 0.0).count();
        assert!(done * 2 > rows.len(), "{name}: {done} of {}", rows.len());
    }
    // What is not finite is written as null, which is what is not there, too.
    let mut nulls = BTreeSet::new();
    find_nulls(&json, "", &mut nulls);
    // A peer's namespaces are not kept alive.
    nulls.remove(".sections.document.rows.live");
    assert_eq!(nulls, BTreeSet::new());
}

fn spread(row: &Value) -> [f64; 3] {
    ["min", "median", "max"].map(|key| row["ops_per_s"][key].as_f64().unwrap())
}

/// The keys of all values that are null.
fn find_nulls(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Null => drop(found.insert(at.to_owned())),
        Value::Array(values) => values.iter().for_each(|v| find_nulls(v, at, found)),
        Value::Object(entries) => entries
            .iter()
            .for_each(|(key, v)| find_nulls(v, &format!("{at}.{key}"), found)),
        _ => {}
    }
}

/// What the page has between `<figure id="ID"` and its end.
fn figure<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page
        .find(&format!("<figure id=\"{id}\""))
        .unwrap_or_else(|| panic!("no figure {id}"));
    let (figure, _) = page[start..].split_once("</figure>").unwrap();
    figure
}

#[test]
fn every_part_of_the_page_has_its_figures_and_every_figure_its_file() {
    let run = Run::of_everything();
    let page = run.text("report.html");
    for (section, ids) in [
        (
            "inode-allocation",
            "alloc-create alloc-remove alloc-start-create alloc-start-remove",
        ),
        (
            "inode-allocation",
            "alloc-access-create alloc-access-remove alloc-acquisitions alloc-kernel",
        ),
        (
            "inode-generation",
            "generation generation-scaling generation-kernel generation-draws",
        ),
        (
            "lazy-timestamps",
            "lazytime lazytime-ratio lazytime-pending lazytime-settled icache-shrink",
        ),
        (
            "direct-io",
            "dio-gain-4k-nolock dio-gain-1m-lock dio-4k-dioread_nolock",
        ),
        ("direct-io", "dio-kernel-4k dio-kernel-1m"),
        ("namespaces", "clone-cost clone-workers clone-latency"),
        ("message-queues", "mq mq-mounted"),
        ("fsync-on-a-disk", "fsync fsync-latency"),
        ("mounted", "fuse-create fuse-randrw"),
        (
            "beyond-this-machine",
            "counted-ialloc-accesses counted-ialloc-lines counted-generation counted-icache-waits counted-dio counted-registry",
        ),
    ] {
        let (_, of_section) = page
            .split_once(&format!("<section id=\"{section}\""))
            .unwrap();
        let (of_section, _) = of_section.split_once("</section>").unwrap();
        for id in ids.split_whitespace() {
            // The id in the page has no underscore.
            figure(of_section, &id.replace('_', "-"));
        }
    }
    let charts: Vec<&str> = page.split("<figure id=\"").skip(1).collect();
    let charts: BTreeSet<&str> = charts
        .iter()
        .map(|c| c.split_once('"').unwrap().0)
        .collect();
    let files: BTreeSet<String> = run
        .files
        .keys()
        .filter_map(|name| Some(name.strip_suffix(".svg")?.replace('_', "-")))
        .collect();
    assert_eq!(charts, files.iter().map(String::as_str).collect());
    for (name, _) in run.files.iter().filter(|(name, _)| name.ends_with(".svg")) {
        let text = run.text(name);
        let document = Document::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(document.root_element().tag_name().name(), "svg");
    }
}

#[test]
fn figures_on_the_page_are_those_of_the_run() {
    let run = Run::of_everything();
    let page = run.text("report.html");
    let (mut seen, mut spreads) = (0, 0);
    for (section, op, id) in [
        ("mdtest", "create", "alloc-create"),
        ("mdtest-start", "remove", "alloc-start-remove"),
        ("create-unlink", "create+unlink", "generation"),
        ("create-unlink-lazytime", "create+unlink", "lazytime"),
        ("generation", "draw", "generation-draws"),
        ("clone-workers", "create+drop", "clone-workers"),
        ("mq", "stream", "mq"),
    ] {
        let figure = without_small(figure(page, id));
        for row in run
            .rows(section)
            .unwrap()
            .iter()
            .filter(|row| row["op"] == op)
        {
            let [min, median, max] = spread(row);
            let cell = format!("<td>{}</td>", number::spread(min, median, max));
            assert!(figure.contains(&cell), "{id}: {row}: {cell}");
            seen += 1;
            spreads += u32::from(min < max);
        }
    }
    assert!(seen > 50 && spreads > 20, "{seen}, {spreads}");
}

/// What is in brackets is set smaller.
fn without_small(html: &str) -> String {
    html.replace("<small>", "").replace("</small>", "")
}

/// The files of a run in a new directory.
fn put(run: &Run) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in &run.files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

#[test]
fn drawn_again_it_is_the_same() {
    let run = Run::of_everything();
    let dir = put(run);
    fs::remove_file(dir.path().join("report.html")).unwrap();
    let again = run_in(dir.path(), &["--redraw"]);
    assert_eq!(again.code, Some(0), "{}", again.err);
    for (name, bytes) in &run.files {
        assert!(again.files.get(name) == Some(bytes), "{name} differs");
    }
    assert_eq!(again.files.len(), run.files.len());
}

#[test]
fn what_is_no_report_is_refused_in_one_line() {
    let whole = Run::of_everything().text("report.json");
    for (what, text) in [
        ("truncated", whole.get(..whole.len() / 2).unwrap()),
        ("empty", ""),
        ("a list", "[]"),
        ("of a workload", "{\"benchmark\": \"mq\", \"rows\": []}"),
        ("rows", &whole.replacen("\"op\":\"create\"", "\"op\":7", 1)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("report.json"), text).unwrap();
        refused(&run_in(dir.path(), &["--redraw"]), what);
    }
    let dir = tempfile::tempdir().unwrap();
    refused(&run_in(dir.path(), &["--redraw"]), "nothing there");
}

fn refused(run: &Run, what: &str) {
    assert_eq!(run.code, Some(1), "{what}: {}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{what}: {}", run.err);
    assert!(run.err.starts_with("uext4: "), "{what}: {}", run.err);
    assert!(!run.err.contains("panicked"), "{what}: {}", run.err);
}

#[test]
fn a_section_that_is_not_there_is_refused_with_those_that_are() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_in(dir.path(), &["--smoke", "--only", "nosuch"]);
    refused(&run, "nosuch");
    for (section, ..) in SECTIONS {
        assert!(run.err.contains(section), "{}", run.err);
    }
    assert_eq!(run.files.len(), 0);
}

#[test]
fn one_section_alone_is_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_in(dir.path(), &["--smoke", "--only", "mq"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let page = run.text("report.html");
    assert!(page.contains("<section id=\"message-queues\""));
    for other in [
        "inode-allocation",
        "direct-io",
        "fsync-on-a-disk",
        "mounted",
    ] {
        assert!(
            !page.contains(&format!("<section id=\"{other}\"")),
            "{other}"
        );
    }
    assert_eq!(run.json()["sections"].as_array().unwrap().len(), 1);
}

#[test]
fn compared_with_itself_nothing_changed() {
    let run = Run::of_everything();
    let dir = put(run);
    let mut command = Command::new(env!("CARGO_BIN_EXE_uext4-bench"));
    command.args(["compare", "report.json", "report.json", "--json"]);
    let out = command.current_dir(&dir).output().unwrap();
    let printed = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{printed}");
    let compared: Value = serde_json::from_str(&printed).unwrap();
    let rows = compared["rows"].as_array().unwrap();
    let measured = SECTIONS.map(|(section, ..)| run.rows(section).map_or(0, |rows| rows.len()));
    assert_eq!(rows.len(), measured.iter().sum::<usize>());
    assert_eq!(names(rows, "verdict"), ["within"].into());
}

#[test]
fn a_section_that_fails_is_named_and_the_others_are_on_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let missing = dir.path().join("missing");
    for (option, place, section) in [
        ("--memory", &file, "create-unlink-kernel"),
        ("--memory", &missing, "fuse"),
        ("--disk", &missing, "fsync"),
    ] {
        let report = tempfile::tempdir().unwrap();
        let only = format!("mq,{section}");
        let args = ["--smoke", "--only", &only, option, place.to_str().unwrap()];
        let run = run_in(report.path(), &args);
        assert_eq!(run.code, Some(1), "{section}: {}", run.err);
        let said = format!("uext4: sections failed: {section} (");
        let last = run.err.lines().last().unwrap();
        assert!(last.starts_with(&said), "{section}: {}", run.err);
        assert!(run.out.contains("FAILED"), "{section}: {}", run.out);
        let page = run.text("report.html");
        assert!(page.contains(&format!("{section} failed: ")), "{section}");
        assert!(page.contains("<section id=\"message-queues\""), "{section}");
        let json = run.json();
        let mut sections = json["sections"].as_array().unwrap().iter();
        let failed = sections.find(|s| s["name"] == section).unwrap();
        assert!(failed["failed"].is_string(), "{failed}");
        assert_eq!(run.left, Vec::<String>::new());
    }
}
