//! `uext4 bench fuse`: every workload for a blink, by every target the machine has: that it runs, that images are
//! clean (checked inside), that its JSON has the keys of docs/BENCHMARKS.md, and that nothing is left behind.
//! Never how fast.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// In memory, as images are measured.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn bench(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_uext4-bench"))
        .args(["fuse", "-i", "1", "--image-size", "128M", "--dir"])
        .arg(dir)
        .args(args)
        .output()
        .unwrap()
}

fn assert_empty(dir: &Path) {
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(&*dir.to_string_lossy()), "{mounts}");
}

/// The rows of a run, each with its keys; none where the machine has no contestant.
fn rows(args: &[&str]) -> Vec<Value> {
    let dir = scratch();
    let out = bench(dir.path(), &[args, &["--json"]].concat());
    let said = String::from_utf8(out.stderr).unwrap();
    assert_empty(dir.path());
    eprint!("{said}");
    if said.contains("no target is left to measure") {
        return Vec::new();
    }
    assert!(out.status.success(), "{args:?}: {said}");
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["benchmark"], "fuse");
    let rows = document["rows"].as_array().unwrap().clone();
    assert!(!rows.is_empty());
    for row in &rows {
        for key in ["workload", "arm", "op"] {
            assert!(row[key].is_string(), "{row}");
        }
        for key in ["threads", "ops", "iterations"] {
            assert!(row[key].as_u64().unwrap() > 0, "{row}");
        }
        for key in ["min", "median", "max"] {
            assert!(row["ops_per_s"][key].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    rows
}

/// Each of `ops` is there once for each target.
fn assert_ops(rows: &[Value], ops: &[&str]) {
    let of = |key: &str| -> BTreeSet<&str> {
        let values = rows.iter().map(|row| row[key].as_str().unwrap());
        values.collect()
    };
    if !rows.is_empty() {
        assert_eq!(of("op"), ops.iter().copied().collect());
        assert_eq!(rows.len(), ops.len() * of("arm").len());
    }
}

#[test]
fn processes_create_stat_and_remove() {
    let args = ["--workload", "create", "--clients", "3", "--files", "20"];
    let rows = rows(&args);
    assert_ops(&rows, &["create", "stat", "remove"]);
    for row in &rows {
        assert_eq!((&row["threads"], &row["ops"]), (&3.into(), &60.into()));
    }
}

#[test]
fn random_reads_and_writes() {
    let args = ["--workload", "randrw", "--threads", "2", "--time", "0.02"];
    let rows = rows(&[&args[..], &["--size", "1M"]].concat());
    assert_ops(&rows, &["randrw", "read", "write"]);
    for row in &rows {
        assert!(row["latency_us"]["p50"].is_f64(), "{row}");
    }
}

#[test]
fn sequential_reads_and_writes() {
    let rows = rows(&["--workload", "seq", "--seq-size", "3M"]);
    let ops = ["write-buffered", "read-buffered"];
    assert_ops(&rows, &[ops, ["write-direct", "read-direct"]].concat());
    for row in &rows {
        assert_eq!(row["ops"], 3);
    }
}

#[test]
fn a_tree_unpacked_and_removed() {
    let rows = rows(&["--workload", "tar", "--tar-files", "400"]);
    assert_ops(&rows, &["extract", "remove"]);
    for row in &rows {
        // 24 directories of 17 files, two above them, one above these, and the tree's.
        assert_eq!(row["ops"], 400 + 24 + 2 + 1 + 1);
    }
}

#[test]
fn wrong_usage_is_refused() {
    let dir = scratch();
    for args in [
        ["--workload", "walk"],
        ["--transport", "pigeon"],
        ["--peer", "ntfs"],
        ["--seq-size", "5000"],
    ] {
        assert_eq!(bench(dir.path(), &args).status.code(), Some(2), "{args:?}");
    }
    let nobody = bench(dir.path(), &["--transport", "none", "--peer", "none"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert_empty(dir.path());
}

#[test]
fn a_mount_that_fails_says_why_and_leaves_nothing() {
    let dir = scratch();
    let args = ["--transport", "dev", "--peer", "none", "--workload", "seq"];
    let out = bench(dir.path(), &[&args[..], &["-o", "no-such-option"]].concat());
    let said = String::from_utf8(out.stderr).unwrap();
    if said.contains("skipped") {
        eprint!("{said}");
        return;
    }
    assert_eq!(out.status.code(), Some(1));
    assert!(said.contains("no-such-option"), "{said}");
    assert_empty(dir.path());
}
