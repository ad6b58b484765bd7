//! `uext4 bench mq --mounted`: for a blink, from process to process: that messages are counted, that its JSON has its keys, and
//! that neither a mount nor a queue is left behind. Never how fast.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs it with its mounts in `dir`.
fn bench(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_uext4-bench"))
        .args(["mq", "--time", "0.1", "-i", "1"])
        .args(args)
        .env("TMPDIR", dir)
        .output()
        .unwrap()
}

/// Whether directories can be mounted here; says so if not.
fn can_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    let can = root && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: mounting needs root and /dev/fuse");
    }
    can
}

fn assert_nothing_left(dir: &Path) {
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(&*dir.to_string_lossy()), "{mounts}");
}

fn assert_positive(row: &Value, keys: &[&str]) {
    for key in keys {
        assert!(row[key].as_f64().is_some_and(|n| n > 0.0), "{key}: {row}");
    }
}

#[test]
fn processes_send_through_a_mount_and_through_the_kernel() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let args = ["--mounted", "--peer", "kernel", "--queues", "1", "--json"];
    let out = bench(dir.path(), &args);
    let said = String::from_utf8(out.stderr).unwrap();
    eprint!("{said}");
    assert!(out.status.success());
    assert_nothing_left(dir.path());
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["benchmark"], "mq");
    let rows = document["rows"].as_array().unwrap();
    let mut seen = Vec::new();
    for row in rows {
        let (variant, op) = (row["arm"].as_str().unwrap(), row["op"].as_str().unwrap());
        seen.push((variant, op));
        assert_eq!((&row["queues"], &row["threads"]), (&1.into(), &2.into()));
        assert_positive(row, &["ops", "seconds", "iterations"]);
        assert_positive(&row["ops_per_s"], &["min", "median", "max"]);
        assert!(row["client_per_message"]["system_us"].is_f64(), "{row}");
        assert_eq!(row["latency_us"].is_object(), op == "ping-pong", "{row}");
        let mounted = variant == "mounted";
        assert_eq!(row["server_per_message"].is_object(), mounted, "{row}");
        if mounted {
            assert_positive(row, &["server_us_per_request"]);
            // It is sent and received, each with a request; one that was interrupted might be more.
            assert!(
                row["requests_per_message"].as_f64().unwrap() >= 1.99,
                "{row}"
            );
        }
    }
    let ops = ["stream", "ping-pong", "mixed"];
    let of = |variant: &'static str| ops.map(|op| (variant, op));
    assert_eq!(seen, [of("mounted"), of("kernel")].concat());
}

#[test]
fn each_count_of_threads_is_an_variant() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let args = ["--mounted", "--threads", "1,2", "--queues", "1,2"];
    let out = bench(dir.path(), &[&args[..], &["--op", "stream"]].concat());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    assert_nothing_left(dir.path());
    let printed = String::from_utf8(out.stdout).unwrap();
    for variant in ["mounted-1", "mounted-2"] {
        assert!(printed.contains(variant), "{printed}");
    }
    assert!(printed.contains("a message costs"), "{printed}");
}

#[test]
fn a_mount_that_fails_says_why_and_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // More than a mount takes.
    let out = bench(dir.path(), &["--mounted", "--threads", "4096"]);
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("threads"), "{said}");
    assert_nothing_left(dir.path());
}

#[test]
fn wrong_usage_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["--mounted", "--lock-stat"][..], &["--threads", "2"]] {
        assert_eq!(bench(dir.path(), args).status.code(), Some(2), "{args:?}");
    }
}
