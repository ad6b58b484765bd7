//! The program itself, for a blink each: what it prints, its exit codes, that images are clean (checked inside), that its
//! JSON has the keys of docs/BENCHMARKS.md, and that no image, mount or queue is left behind. Never how fast.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Runs a command line in `dir`, which is also for what is temporary.
fn bench(dir: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uext4-bench"));
    command.args(line.split_whitespace()).current_dir(dir);
    command.env("TMPDIR", dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The document that a run printed.
fn document(out: &Output) -> Value {
    let said = text(&out.stderr);
    eprint!("{said}");
    assert!(out.status.success(), "{said}");
    serde_json::from_slice(&out.stdout).unwrap()
}

fn assert_nothing_left(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(&*dir.to_string_lossy()), "{mounts}");
}

fn assert_positive(row: &Value, keys: &[&str]) {
    for key in keys {
        assert!(row[key].as_f64().is_some_and(|n| n > 0.0), "{key}: {row}");
    }
}

#[test]
fn one_document_is_printed_and_no_image_left() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("bench.img");
    let sizes = "--np 2 -n 20 -i 1 --image-size 64M --journal-size 4M";
    let mdtest =
        format!("mdtest {sizes} -F -C -T -r -u --ialloc all --device file:bench.img --json");
    let document = document(&bench(dir.path(), &mdtest));
    assert_eq!(document["benchmark"], "mdtest");
    assert_eq!(document["rows"].as_array().unwrap().len(), 9);
    assert!(!image.exists());
    fs::write(&image, "something else").unwrap();
    let out = bench(dir.path(), "mdtest --device file:bench.img");
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{err}");
    assert!(
        err.starts_with("uext4: ") && err.lines().count() == 1,
        "{err}"
    );
}

#[test]
fn wrong_usage_has_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    write_result(dir.path(), "A.json", 100.0);
    for line in [
        "mdtest --ialloc fast",
        "compare A.json",
        "compare",
        "compare A.json A.json --most",
        "fuse --workload walk",
        "fuse --workload none",
        "fuse --transport pigeon",
        "fuse --peer ntfs",
        "fuse --seq-size 5000",
        "mq --mounted --lock-stat",
        "mq --threads 2",
    ] {
        assert_eq!(bench(dir.path(), line).status.code(), Some(2), "{line}");
    }
    let none = bench(dir.path(), "fuse --transport none --peer none");
    assert_eq!(none.status.code(), Some(1));
}

fn write_result(dir: &Path, name: &str, rate: f64) {
    let document = json!({
        "benchmark": "mdtest",
        "host": {"cpus": 2, "cpu": "a CPU", "kernel": "6.18"},
        "rows": [{
            "arm": "default", "op": "create", "threads": 48,
            "ops_per_s": {"min": rate, "median": rate, "max": rate},
        }],
    });
    fs::write(dir.join(name), document.to_string()).unwrap();
}

#[test]
fn a_slower_result_is_reported_and_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    write_result(dir.path(), "A.json", 100.0);
    write_result(dir.path(), "B.json", 50.0);
    let out = bench(dir.path(), "compare A.json B.json");
    let printed = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{printed}");
    for part in ["A: A.json", "0.50-0.50", "slower"] {
        assert!(printed.contains(part), "{printed}");
    }
    let document = document(&bench(dir.path(), "compare A.json B.json --json"));
    assert_eq!(document["benchmark"], "compare");
    assert_eq!(document["a"]["file"], "A.json");
    assert_eq!(document["rows"][0]["verdict"], "slower");
    let printed = text(&bench(dir.path(), "compare A.json A.json --all").stdout);
    assert!(printed.contains("mdtest: default, create, 48 threads"));
}

#[test]
fn what_is_no_result_is_named_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    write_result(dir.path(), "A.json", 100.0);
    fs::write(dir.path().join("garbage.json"), "{\"benchmark\":\n1}").unwrap();
    fs::write(dir.path().join("host.json"), "{\"benchmark\": \"mq\"}").unwrap();
    for (files, why) in [
        ("none.json A.json", "uext4: none.json: No such file"),
        ("A.json .", "uext4: .: Is a directory"),
        ("A.json garbage.json", "uext4: garbage.json: no result"),
        ("host.json A.json", "missing field `host`"),
    ] {
        let out = bench(dir.path(), &format!("compare {files}"));
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(out.stdout.is_empty());
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(why), "{said}");
    }
}

/// `fuse` with images in a directory in memory, as they are measured.
fn fuse(args: &str) -> (TempDir, Output) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let here = dir.path().display();
    let out = bench(
        dir.path(),
        &format!("fuse -i 1 --image-size 128M --dir {here} {args}"),
    );
    assert_nothing_left(dir.path());
    (dir, out)
}

/// The rows of a run, each with its keys, and each of `ops` once for each target; none where the machine has no target.
fn fuse_rows(args: &str, ops: &str) -> Vec<Value> {
    let (_dir, out) = fuse(&format!("{args} --json"));
    if text(&out.stderr).contains("no target is left to measure") {
        eprint!("{}", text(&out.stderr));
        return Vec::new();
    }
    let document = document(&out);
    assert_eq!(document["benchmark"], "fuse");
    let rows = document["rows"].as_array().unwrap().clone();
    for row in &rows {
        assert!(row["workload"].is_string(), "{row}");
        assert_positive(row, &["threads", "ops", "iterations"]);
        assert_positive(&row["ops_per_s"], &["min", "median", "max"]);
    }
    let of = |key: &str| -> BTreeSet<&str> {
        rows.iter().map(|row| row[key].as_str().unwrap()).collect()
    };
    assert_eq!(of("op"), ops.split_whitespace().collect());
    assert_eq!(rows.len(), of("op").len() * of("arm").len());
    rows
}

#[test]
fn processes_create_stat_and_remove() {
    let args = "--workload create --clients 3 --files 20";
    for row in fuse_rows(args, "create stat remove") {
        assert_eq!((&row["threads"], &row["ops"]), (&3.into(), &60.into()));
    }
}

#[test]
fn random_reads_and_writes() {
    let args = "--workload randrw --threads 2 --time 0.02 --size 1M";
    for row in fuse_rows(args, "randrw read write") {
        assert!(row["latency_us"]["p50"].is_f64(), "{row}");
    }
}

#[test]
fn sequential_reads_and_writes() {
    let ops = "write-buffered read-buffered write-direct read-direct";
    for row in fuse_rows("--workload seq --seq-size 3M", ops) {
        assert_eq!(row["ops"], 3);
    }
}

#[test]
fn a_tree_unpacked_and_removed() {
    for row in fuse_rows("--workload tar --tar-files 400", "extract remove") {
        // 24 directories of 17 files, two above them, one above these, and the tree's.
        assert_eq!(row["ops"], 400 + 24 + 2 + 1 + 1);
    }
}

#[test]
fn a_mount_that_fails_says_why_and_leaves_nothing() {
    let (_dir, out) = fuse("--transport dev --peer none --workload seq -o no-such-option");
    let said = text(&out.stderr);
    if said.contains("skipped") {
        eprint!("{said}");
        return;
    }
    assert_eq!(out.status.code(), Some(1));
    assert!(said.contains("no-such-option"), "{said}");
}

/// `mq` through a mount; nothing where the machine cannot mount.
fn mounted_queues(args: &str) -> Option<Output> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: mounting needs root and /dev/fuse");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = bench(dir.path(), &format!("mq --time 0.1 -i 1 --mounted {args}"));
    assert_nothing_left(dir.path());
    Some(out)
}

#[test]
fn processes_send_through_a_mount_and_through_the_kernel() {
    let Some(out) = mounted_queues("--peer kernel --queues 1 --json") else {
        return;
    };
    let document = document(&out);
    assert_eq!(document["benchmark"], "mq");
    let mut seen = Vec::new();
    for row in document["rows"].as_array().unwrap() {
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
            let requests = row["requests_per_message"].as_f64().unwrap();
            assert!(requests >= 1.99, "{row}");
        }
    }
    let of = |variant| ["stream", "ping-pong", "mixed"].map(|op| (variant, op));
    assert_eq!(seen, [of("mounted"), of("kernel")].concat());
}

#[test]
fn each_count_of_threads_is_a_variant() {
    let Some(out) = mounted_queues("--threads 1,2 --queues 1,2 --op stream") else {
        return;
    };
    assert!(out.status.success(), "{}", text(&out.stderr));
    let printed = text(&out.stdout);
    for part in ["mounted-1", "mounted-2", "a message costs"] {
        assert!(printed.contains(part), "{printed}");
    }
}

#[test]
fn queues_whose_mount_fails_say_why_and_leave_nothing() {
    // More than a mount takes.
    if let Some(out) = mounted_queues("--threads 4096") {
        assert_eq!(out.status.code(), Some(1));
        let said = text(&out.stderr);
        assert!(said.contains("threads"), "{said}");
    }
}
