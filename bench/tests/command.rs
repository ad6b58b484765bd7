//! The program itself: its output, its exit codes, and that it leaves no image.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn mdtest(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uext4-bench"));
    let command = command.current_dir(dir).arg("mdtest").args(args);
    command.output().unwrap()
}

#[test]
fn one_document_is_printed_and_no_image_left() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("bench.img");
    let device = ["--device", "file:bench.img"];
    let workload =
        "--np 2 -n 20 -F -C -T -r -u -i 1 --ialloc all --image-size 64M --journal-size 4M --json";
    let words: Vec<&str> = workload.split(' ').chain(device).collect();
    let out = mdtest(dir.path(), &words);
    assert!(out.status.success());
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["benchmark"], "mdtest");
    assert_eq!(document["rows"].as_array().unwrap().len(), 9);
    assert!(!image.exists());
    std::fs::write(&image, "something else").unwrap();
    let out = mdtest(dir.path(), &device);
    let err = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{err}");
    assert!(
        err.starts_with("uext4: ") && err.lines().count() == 1,
        "{err}"
    );
    let wrong = mdtest(dir.path(), &["--ialloc", "fast"]);
    assert_eq!(wrong.status.code(), Some(2));
}
