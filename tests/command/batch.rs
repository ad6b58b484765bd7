//! `uext4 batch`: lists of jobs, and what is left of them.

use crate::*;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a list printed, by its lines.
fn results(printed: &str) -> Vec<serde_json::Value> {
    let lines = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let mut results: Vec<serde_json::Value> = lines.collect();
    results.sort_by_key(|result| result["line"].as_u64());
    results
}

fn statuses(printed: &str) -> Vec<(u64, Option<i64>)> {
    let of =
        |result: &serde_json::Value| (result["line"].as_u64().unwrap(), result["status"].as_i64());
    results(printed).iter().map(of).collect()
}

#[test]
fn all_jobs_are_done_and_the_failed_ones_again() {
    let workdir = Workdir::new();
    workdir.tree();
    let list =
        "# images\nmkfs 'an image' --from tree\n\nmkfs b.img --size 16M\ncheck --json later.img\n";
    fs::write(workdir.path("list"), list).unwrap();
    let args = ["batch", "-j", "3", "--log", "log", "list"];
    let out = workdir.run(&args);
    let (printed, said) = (
        String::from_utf8(out.stdout).unwrap(),
        String::from_utf8(out.stderr).unwrap(),
    );
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("3 jobs: 2 done, 1 failed"), "{said}");
    assert_eq!(
        statuses(&printed),
        [(2, Some(0)), (4, Some(0)), (5, Some(8))]
    );
    let first = &results(&printed)[0];
    assert_eq!(first["job"], "mkfs 'an image' --from tree");
    assert!(
        first["output"].as_str().unwrap().contains("an image: "),
        "{first}"
    );
    let failed = &results(&printed)[2];
    assert!(
        failed["errors"].as_str().unwrap().contains("later.img"),
        "{failed}"
    );
    workdir.assert_clean("an image");
    // What was done is left alone, and a line that a crash cut off is forgotten.
    fs::remove_file(workdir.path("b.img")).unwrap();
    workdir.ok(&["mkfs", "later.img", "--size", "16M"]);
    let log = fs::read_to_string(workdir.path("log")).unwrap();
    fs::write(workdir.path("log"), format!("{log}{{\"li")).unwrap();
    let out = workdir.run(&args);
    assert!(out.status.success());
    let again = String::from_utf8(out.stdout).unwrap();
    assert_eq!(statuses(&again), [(5, Some(0))]);
    assert_eq!(results(&again)[0]["output"]["clean"], true);
    assert!(!workdir.path("b.img").exists());
    assert_eq!(
        fs::read_to_string(workdir.path("log")).unwrap(),
        log + &again
    );
    assert_eq!(workdir.ok(&args), "");
}

#[test]
fn nothing_is_begun_that_is_wrong() {
    let workdir = Workdir::new();
    for (list, wanted) in [
        ("mkfs a.img --size 16M\nmkfs", "list:2: "),
        (
            "mkfs a.img --size 16M\nbatch list",
            "list:2: that is not for a list",
        ),
        ("mkfs 'a.img --size 16M", "list:1: a quotation mark"),
        ("mkfs --help", "list:1: only prints its help"),
    ] {
        fs::write(workdir.path("list"), list).unwrap();
        workdir.refuses(2, &["batch", "list"], wanted);
        assert!(!workdir.path("a.img").exists());
    }
    fs::write(workdir.path("list"), "mkfs a.img --size 16M").unwrap();
    for other in ["text", "text\n", "{\"line\":1}\n"] {
        fs::write(workdir.path("other"), other).unwrap();
        workdir.refuses(
            1,
            &["batch", "--log", "other", "list"],
            "give --log a file of its own",
        );
        assert_eq!(fs::read_to_string(workdir.path("other")).unwrap(), other);
    }
    for other in ["/dev/full", "/dev/null", "."] {
        let args = ["batch", "--log", other, "list"];
        let out = workdir.run(&args);
        assert_eq!(out.status.code(), Some(1), "{other}: {out:?}");
    }
    for option in [&["--no-glob"][..], &["--journal", "j"]] {
        let args = [option, &["batch", "list"]].concat();
        workdir.refuses(2, &args, "put them into the lines of the list");
    }
    let log = fs::File::create(workdir.path("log")).unwrap();
    log.lock().unwrap();
    workdir.refuses(
        1,
        &["batch", "--log", "log", "list"],
        "or a job of it, is using it",
    );
    fs::write(workdir.path("list"), b"mkfs \xff.img --size 16M").unwrap();
    let args = ["batch", "--log", "new", "list"];
    workdir.refuses(2, &args, "list:1: not UTF-8");
    assert!(!workdir.path("a.img").exists());
}

#[test]
fn a_signal_ends_what_runs_and_the_rest_is_left() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M", "-O", "mmp"]);
    let options = uext4::ImageOptions::read_write();
    let held = uext4::Filesystem::open(workdir.path("a.img"), &options).unwrap();
    // A command that changes it waits for longer than this test runs.
    fs::copy(workdir.path("a.img"), workdir.path("slow.img")).unwrap();
    held.unmount().unwrap();
    let list = "check a.img\nmkdir slow.img:/a\nmkfs b.img --size 16M\n";
    fs::write(workdir.path("list"), list).unwrap();
    let mut command = uext4_in_foreground();
    command
        .args(["batch", "-j1", "--log", "log", "list"])
        .current_dir(workdir.path("."));
    let begin = Instant::now();
    let mut batch = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(batch.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    assert_eq!(statuses(&first), [(1, Some(0))]);
    let pid = rustix::process::Pid::from_child(&batch);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(batch.wait().unwrap().code(), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(20), "it waited");
    assert!(!workdir.path("b.img").exists());
    let log = fs::read_to_string(workdir.path("log")).unwrap();
    assert!(
        statuses(&log)
            .iter()
            .all(|(line, status)| *line == 1 || *status != Some(0)),
        "{log}"
    );
    // The rest.
    fs::copy(workdir.path("a.img"), workdir.path("slow.img")).unwrap();
    let out = workdir.ok(&["batch", "--log", "log", "list"]);
    assert_eq!(statuses(&out), [(2, Some(0)), (3, Some(0))]);
}

#[test]
fn the_log_is_in_use_until_the_last_job_has_ended() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    let fifo = workdir.path("fifo");
    guards::copy::fifo(&fifo);
    fs::write(workdir.path("list"), "cp fifo a.img:/f\n").unwrap();
    let args = ["batch", "--log", "log", "list"];
    let mut command = Command::new(uext4());
    command.args(args).current_dir(workdir.path("."));
    let mut batch = command.stderr(Stdio::null()).spawn().unwrap();
    // Its job has the FIFO open then.
    let mut writer = fs::File::options().write(true).open(&fifo).unwrap();
    batch.kill().unwrap();
    batch.wait().unwrap();
    workdir.refuses(1, &args, "or a job of it, is using it");
    writer.write_all(b"text").unwrap();
    drop(writer);
    let begin = Instant::now();
    while fs::File::open(workdir.path("log"))
        .unwrap()
        .try_lock()
        .is_err()
    {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "the job has not ended"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    workdir.prints(&["cat", "a.img:/f"], "text");
    assert_eq!(fs::read(workdir.path("log")).unwrap(), b"");
}

#[test]
fn what_a_job_prints_is_kept_as_it_is() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    fs::write(workdir.path("number"), "1e400").unwrap();
    workdir.ok(&["cp", "number", "a.img:/"]);
    fs::write(workdir.path("list"), "cat a.img:/number\n").unwrap();
    let out = workdir.ok(&["batch", "list"]);
    assert_eq!(results(&out)[0]["output"], "1e400");
    fs::write(workdir.path("bytes"), b"a\xff").unwrap();
    workdir.ok(&["cp", "bytes", "a.img:/"]);
    fs::write(workdir.path("list"), "cat a.img:/bytes\n").unwrap();
    let out = workdir.ok(&["batch", "list"]);
    assert_eq!(results(&out)[0]["is_lossy"], true);
    // There is no input to take for an empty one.
    fs::write(workdir.path("list"), "cp - a.img:/f\napply a.img -\n").unwrap();
    let out = workdir.run(&["batch", "list"]);
    let printed = String::from_utf8(out.stdout).unwrap();
    assert_eq!(statuses(&printed), [(1, Some(1)), (2, Some(1))]);
    // What is not read any more ends it, and is kept.
    let list = "check a.img\n".repeat(40);
    fs::write(workdir.path("list"), list).unwrap();
    let mut command = Command::new(uext4());
    command
        .args(["batch", "-j2", "--log", "log", "list"])
        .current_dir(workdir.path("."))
        .stderr(Stdio::null());
    let mut batch = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(batch.stdout.take());
    assert_eq!(batch.wait().unwrap().code(), Some(128 + 13));
    let log = fs::read_to_string(workdir.path("log")).unwrap();
    let done = statuses(&log).len();
    assert!((1..40).contains(&done), "{log}");
}
