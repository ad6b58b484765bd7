//! `uext4 check --repair` on a terminal asks about each fault, and does what the answers say.

use crate::*;
use std::io::Write;
use std::process::{Child, Stdio};

/// An image in which the root says it has another number of links, and lost+found too.
fn image() -> Workdir {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "-q", "a.img", "16M"]);
    for command in ["sif / links_count 9", "sif lost+found links_count 9"] {
        uext4_testkit::mke2fs::debugfs(&workdir.path("a.img"), command);
    }
    workdir
}

/// The command on a terminal of script(1), which gets what is typed.
fn on_terminal(workdir: &Workdir, option: &str) -> Child {
    let command = format!("exec {} check --repair {option} a.img", uext4());
    Command::new("script")
        .args(["-q", "-e", "-c", &command, "/dev/null"])
        .current_dir(workdir.dir())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Types these lines; the exit code, and what is printed.
fn answered(workdir: &Workdir, answers: &str) -> (Option<i32>, String) {
    let mut script = on_terminal(workdir, "");
    let typed = script.stdin.take().unwrap().write_all(answers.as_bytes());
    typed.unwrap();
    let out = script.wait_with_output().unwrap();
    (out.status.code(), String::from_utf8(out.stdout).unwrap())
}

#[test]
fn each_fault_is_asked_about() {
    let workdir = image();
    workdir.refuses(8, &["check", "--repair", "a.img"], "is not a terminal");
    let (code, said) = answered(&workdir, "n\ny\n");
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(said.matches("repair it?").count(), 2, "{said}");
    assert!(
        said.contains("a repair sets the number of names that were found; repair it?"),
        "{said}"
    );
    assert!(
        said.contains("not repaired: inode link count is wrong (inode 2)"),
        "{said}"
    );
    assert!(
        said.contains("repaired: inode link count is wrong (inode 11)"),
        "{said}"
    );
    // Only what was left is asked about again; the end of the input says no.
    assert_eq!(answered(&workdir, "\n").0, Some(4));
    let (code, said) = answered(&workdir, "Yes\n");
    assert_eq!(
        (code, said.matches("repair it?").count()),
        (Some(1), 1),
        "{said}"
    );
    workdir.assert_clean("a.img");
}

#[test]
fn root_gives_up_its_rights_before_the_image_is_read() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root has rights to give up");
        return;
    }
    let workdir = image();
    for (option, is_confined) in [("", true), ("--no-sandbox", false)] {
        let mut script = on_terminal(&workdir, option);
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains("repair it?") {
            let mut byte = [0];
            assert_eq!(script.stdout.as_mut().unwrap().read(&mut byte).unwrap(), 1);
            said.push(byte[0]);
        }
        let children = format!("/proc/{0}/task/{0}/children", script.id());
        let children = fs::read_to_string(children).unwrap();
        let process = format!("/proc/{}", children.trim());
        // Of every thread.
        for task in fs::read_dir(format!("{process}/task")).unwrap() {
            let task = task.unwrap().path();
            let status = fs::read_to_string(task.join("status")).unwrap();
            let has = |line: &str| status.lines().any(|l| l.starts_with(line));
            let rights = ["CapEff:\t0000000000000000", "Seccomp:\t2", "NoNewPrivs:\t1"];
            for right in rights {
                assert_eq!(has(right), is_confined, "{right}: {status}");
            }
            assert_eq!(has("Uid:\t0\t0"), !is_confined, "{status}");
        }
        let typed = script.stdin.take().unwrap().write_all(b"n\nn\n");
        typed.unwrap();
        assert_eq!(script.wait().unwrap().code(), Some(4));
    }
    // What it replaces is in a file that was open before.
    let code = |args: &[&str]| workdir.run(args).status.code();
    assert_eq!(
        code(&["check", "-q", "-y", "--undo", "undo", "a.img"]),
        Some(1)
    );
    workdir.assert_clean("a.img");
    workdir.ok(&["undo", "undo", "a.img"]);
    assert_eq!(code(&["check", "-q", "a.img"]), Some(4));
    // Two names of one file.
    fs::hard_link(workdir.path("a.img"), workdir.path("b.img")).unwrap();
    let out = workdir.run(&["check", "-q", "-y", "a.img", "b.img"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("a.img and b.img are one file"), "{said}");
    // More images than the usual limit of open files allows.
    let names: Vec<String> = (0..70).map(|n| format!("{n}.img")).collect();
    let mut args = vec!["check", "-q", "-y"];
    for name in &names {
        fs::copy(workdir.path("a.img"), workdir.path(name)).unwrap();
        args.push(name);
    }
    assert_eq!(code(&args), Some(0));
}
