//! `uext4 mqueue` on a mount, and where there is none: what it prints, and what it leaves alone.

use crate::*;

fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(uext4());
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

/// A mounted namespace.
struct Mount(TempDir);

impl Mount {
    /// `None` where nothing can be mounted.
    fn new() -> Option<Mount> {
        if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs /dev/fuse and the superuser");
            return None;
        }
        let dir = TempDir::new().unwrap();
        let done = run(dir.path(), &["mount", "."]);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        Some(Mount(dir))
    }

    fn ok(&self, args: &[&str]) -> String {
        let done = run(self.0.path(), args);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{args:?}: {said}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// A command that has to fail with this text.
    #[track_caller]
    fn refuses(&self, args: &[&str], text: &str) {
        let said = fails(self.0.path(), args);
        assert!(said.contains(text), "{args:?}: {said}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut command = Command::new(uext4());
        let done = command.arg("umount").arg(self.0.path()).status();
        assert!(done.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[test]
fn messages_come_by_priority() {
    let Some(mount) = Mount::new() else { return };
    mount.ok(&[
        "send",
        "--create",
        "--maxmsg",
        "3",
        "--msgsize",
        "100",
        "q",
        "text",
    ]);
    mount.ok(&["send", "--priority", "9", "q", "urgent"]);
    mount.ok(&["send", "q", ""]);
    mount.refuses(&["send", "--nonblock", "q", "more"], "is full");
    mount.refuses(
        &["send", "--timeout", "1ms", "q", "more"],
        "was full until the timeout",
    );
    let listed: serde_json::Value =
        serde_json::from_str(&mount.ok(&["ls", "--json", "."])).unwrap();
    let expected = serde_json::json!([{"name": "q", "mode": "0600", "uid": 0, "gid": 0, "messages": 3,
        "maxmsg": 3, "msgsize": 100, "bytes": 10, "notify": null}]);
    assert_eq!(listed, expected);
    assert!(
        mount
            .ok(&["ls", "-l", "."])
            .ends_with(" 3/3     100    10        - q\n")
    );
    let received: serde_json::Value =
        serde_json::from_str(&mount.ok(&["receive", "--json", "q"])).unwrap();
    let expected = serde_json::json!([{"priority": 9, "length": 6, "text": "urgent"}]);
    assert_eq!(received, expected);
    assert_eq!(mount.ok(&["receive", "--all", "q"]), "text\n");
    assert_eq!(mount.ok(&["receive", "--all", "q"]), "");
    mount.refuses(&["receive", "--nonblock", "q"], "is empty");
    mount.refuses(
        &["send", "q", &"x".repeat(101)],
        "make a queue with --msgsize 101",
    );
}

#[test]
fn queues_are_removed() {
    let Some(mount) = Mount::new() else { return };
    mount.ok(&["send", "--create", "a", "text"]);
    mount.ok(&["send", "--create", "b", "text"]);
    assert_eq!(mount.ok(&["ls", "."]), "a\nb\n");
    mount.ok(&["rm", "a"]);
    mount.ok(&["unlink", "b"]);
    assert_eq!(mount.ok(&["ls", "."]), "");
    for args in [&["rm", "a"], &["unlink", "a"], &["receive", "a"]] {
        mount.refuses(args, "no such queue");
    }
    mount.ok(&["rm", "-f", "a"]);
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
