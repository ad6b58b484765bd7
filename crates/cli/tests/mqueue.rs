//! `uext4 mqueue` where there is no mount: what it prints and leaves alone.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
    let command = command.current_dir(dir).arg("mqueue").args(args);
    command.stdin(Stdio::null()).output().unwrap()
}

/// The one line that a command which has to fail prints.
fn fails(dir: &Path, args: &[&str]) -> String {
    let done = run(dir, args);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{args:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("uext4: "), "{said}");
    said
}

#[test]
fn a_directory_that_is_no_mount_is_named_and_left_alone() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), "kept").unwrap();
    let commands: [&[&str]; 9] = [
        &["ls", "."],
        &["send", "new", "text"],
        &["send", "file", "text"],
        &["send", "--create", "new", "text"],
        &["send", "--create", "--maxmsg", "3", "./new", "text"],
        &["receive", "file"],
        &["receive", "--all", "new"],
        &["rm", "-f", "file"],
        &["unlink", "file"],
    ];
    for args in commands {
        let said = fails(dir.path(), args);
        assert!(
            said.ends_with("mount one with: uext4 mqueue mount .\n"),
            "{said}"
        );
    }
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(names.len(), 1);
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"kept");
}

#[test]
fn a_path_without_a_name_is_no_queue() {
    let dir = TempDir::new().unwrap();
    let said = fails(dir.path(), &["receive", "/"]);
    assert!(said.contains("name one in the directory"), "{said}");
}

#[test]
fn arguments_that_exclude_each_other_are_usage_errors() {
    let dir = TempDir::new().unwrap();
    let wrong: [&[&str]; 10] = [
        &["send", "--priority", "32768", "q", "text"],
        &["send", "--timeout", "5x", "q", "text"],
        &["send", "--timeout", "5", "--nonblock", "q", "text"],
        &["send", "--maxmsg", "5", "q", "text"],
        &["send", "--create", "--mode", "9", "q", "text"],
        &["send", "--lines", "q", "text"],
        &["receive", "--all", "--count", "2", "q"],
        &["receive", "--all", "--timeout", "2", "q"],
        &["receive", "--json", "--null", "q"],
        &["unlink", "one", "two"],
    ];
    for args in wrong {
        let done = run(dir.path(), args);
        assert_eq!(done.status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn each_command_has_an_example() {
    let dir = TempDir::new().unwrap();
    for command in ["ls", "send", "receive", "rm", "unlink"] {
        let done = run(dir.path(), &[command, "--help"]);
        let said = String::from_utf8(done.stdout).unwrap();
        let example = format!("Example: uext4 mqueue {command} ");
        assert!(said.contains(&example), "{said}");
    }
}
