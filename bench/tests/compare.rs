//! `uext4 bench compare` as a process: what it prints of results, and its exit codes.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn compare(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_uext4-bench"))
        .args(["compare"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap()
}

fn write(dir: &Path, name: &str, rate: f64) {
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
    write(dir.path(), "A.json", 100.0);
    write(dir.path(), "B.json", 50.0);
    let out = compare(dir.path(), &["A.json", "B.json"]);
    let printed = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{printed}");
    for part in ["A: A.json", "0.50-0.50", "slower"] {
        assert!(printed.contains(part), "{printed}");
    }
    let out = compare(dir.path(), &["A.json", "B.json", "--json"]);
    assert_eq!(out.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["benchmark"], "compare");
    assert_eq!(document["a"]["file"], "A.json");
    assert_eq!(document["rows"][0]["verdict"], "slower");
    let out = compare(dir.path(), &["A.json", "A.json", "--all"]);
    let printed = String::from_utf8(out.stdout).unwrap();
    assert!(printed.contains("mdtest: default, create, 48 threads"));
}

#[test]
fn what_is_no_result_is_named_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "A.json", 100.0);
    fs::write(dir.path().join("garbage.json"), "{\"benchmark\":\n1}").unwrap();
    fs::write(dir.path().join("host.json"), "{\"benchmark\": \"mq\"}").unwrap();
    for (args, why) in [
        (["none.json", "A.json"], "uext4: none.json: No such file"),
        (["A.json", "."], "uext4: .: Is a directory"),
        (["A.json", "garbage.json"], "uext4: garbage.json: no result"),
        (["host.json", "A.json"], "missing field `host`"),
    ] {
        let out = compare(dir.path(), &args);
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(out.stdout.is_empty());
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn wrong_usage_has_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "A.json", 100.0);
    for args in [&["A.json"][..], &[], &["A.json", "A.json", "--most"]] {
        assert_eq!(compare(dir.path(), args).status.code(), Some(2));
    }
}
