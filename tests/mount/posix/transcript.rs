//! Cases, each in a process of its own on either side, and what is different between their transcripts.

use crate::scene::{Scene, call, exit};
use std::fmt::Write as _;
use std::io::Seek;
use std::panic::AssertUnwindSafe;
use uext4_testkit::mounted_dir::Shape;
use uext4_testkit::prelude::*;

/// Seconds after which a case is ended.
const SECONDS_MAX: u32 = 120;
/// Different lines that are shown of a case.
const LINES_MAX: usize = 12;

/// Something to do in an empty directory.
pub type Case = (&'static str, fn(&mut Scene));

/// A difference that there is to be: a case, a text in its line on the kernel, and one in ours. docs/SEMANTICS.md has the
/// reason.
pub type Allowed = (&'static str, &'static str, &'static str);

/// What a case saw.
fn run(mount: &MountedDir, (name, case): &Case) -> Vec<String> {
    let dir = mount.dir().join(name);
    let path = crate::scene::text(dir.as_os_str().as_bytes());
    let mut log = tempfile::tempfile().expect("a file");
    let out = log.try_clone().expect("a file");
    let child = call!(libc::fork).expect("forks");
    if child == 0 {
        let inside = move || {
            call!(libc::alarm, SECONDS_MAX).ok();
            call!(libc::umask, 0).ok();
            call!(libc::mkdir, path.as_ptr(), 0o777).expect("makes the directory of a case");
            call!(libc::chdir, path.as_ptr()).expect("is there");
            act(out, *case);
        };
        let ended = std::panic::catch_unwind(AssertUnwindSafe(inside));
        exit(i32::from(ended.is_err()));
    }
    let ending = wait(child as i32);
    let mut lines = String::new();
    log.rewind().expect("a file");
    log.read_to_string(&mut lines).expect("text");
    lines.push_str(&ending);
    lines.lines().map(str::to_owned).collect()
}

fn act(out: File, case: fn(&mut Scene)) {
    let mut scene = Scene::new(out);
    // Another thread of the parent may have held the lock of what a panic writes to.
    std::panic::set_hook(Box::new(|_| {}));
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| case(&mut scene)));
    if let Err(panic) = ended {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or(panic.downcast_ref::<&str>().copied());
        scene.line(format_args!("panicked: {}", said.unwrap_or("?")));
    }
}

/// How a process ended, if not well.
fn wait(child: i32) -> String {
    let end = Instant::now() + Duration::from_secs(u64::from(SECONDS_MAX) + 10);
    let mut status = 0;
    while Instant::now() < end {
        let done = call!(libc::waitpid, child, &raw mut status, libc::WNOHANG).expect("a child");
        if done == i64::from(child) {
            return match status {
                0 => String::new(),
                status => format!("ended with wait status {status}"),
            };
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    "hangs, and cannot be ended".to_owned()
}

/// Whether both are of blocks, and differ by one at most: how many nodes a tree of a few extents has depends on how they
/// were merged on the way.
fn is_near(a: &str, b: &str) -> bool {
    let sectors = |line: &str| line.strip_prefix("blocks = ")?.parse::<u64>().ok();
    matches!((sectors(a), sectors(b)), (Some(a), Some(b)) if a.abs_diff(b) <= 8)
}

/// The lines that differ, until the two no longer do the same.
fn differences(kernel: &[String], ours: &[String]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for at in 0..kernel.len().max(ours.len()) {
        let line = |side: &[String]| side.get(at).cloned().unwrap_or("(nothing)".to_owned());
        let (a, b) = (line(kernel), line(ours));
        if a != b && !is_near(&a, &b) {
            found.push((format!("{at}: {a}"), b));
        }
    }
    found
}

/// What is different in these cases, and not allowed.
pub fn differing(mounts: [&MountedDir; 2], cases: &[Case], allowed: &[Allowed]) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = vec![false; allowed.len()];
    let only = std::env::var("UEXT4_MOUNTED_CASE").ok();
    let chosen = |(name, _): &&Case| only.as_ref().is_none_or(|only| name.contains(only));
    for case in cases.iter().filter(chosen) {
        let [kernel, ours] = mounts.map(|mount| run(mount, case));
        if std::env::var_os("UEXT4_MOUNTED_VERBOSE").is_some() {
            for (at, line) in kernel.iter().enumerate() {
                eprintln!("{}:{at}: {line}", case.0);
            }
        }
        if kernel
            .last()
            .is_some_and(|line| line.starts_with("panicked"))
        {
            found.push(format!("{}: {:?}", case.0, kernel.last()));
        }
        let mut left = differences(&kernel, &ours);
        left.retain(|(a, b)| {
            let fits = |(name, kernel, ours): &Allowed| {
                *name == case.0 && a.contains(kernel) && b.contains(ours)
            };
            let rule = allowed.iter().position(fits);
            rule.inspect(|at| seen[*at] = true).is_none()
        });
        if !left.is_empty() {
            let mut text = format!("{}: {} lines differ", case.0, left.len());
            for (a, b) in left.iter().take(LINES_MAX) {
                write!(text, "\n  kernel {a}\n  ours   {b}").expect("text");
            }
            found.push(text);
        }
    }
    if only.is_none() && found.is_empty() {
        for ((case, _, ours), _) in allowed.iter().zip(seen).filter(|(_, seen)| !seen) {
            found.push(format!(
                "{case}: {ours:?} is allowed, and no longer different"
            ));
        }
    }
    found
}

/// The same cases on both sides see the same.
pub fn compare(cases: &[Case], allowed: &[Allowed]) {
    compare_on(&Shape::DEFAULT, cases, allowed);
}

/// The same, on images of a shape.
pub fn compare_on(shape: &Shape, cases: &[Case], allowed: &[Allowed]) {
    require!(can_mount());
    let kernel = MountedDir::kernel(shape).expect("mounts");
    let ours = MountedDir::new(Driver::compared(""), shape).expect("mounts");
    let found = differing([&kernel, &ours], cases, allowed);
    let ends = [kernel.finish(), ours.finish()];
    assert!(
        found.is_empty(),
        "{} of {} cases differ:\n{}",
        found.len(),
        cases.len(),
        found.join("\n")
    );
    ends.into_iter()
        .for_each(|end| end.expect("is clean in the end"));
}

/// A case that sees nothing different where there is a difference would see none of ours.
pub fn canary(cases: &[Case], at_least: usize) {
    require!(can_mount());
    let kernel = MountedDir::kernel(&Shape::DEFAULT).expect("mounts");
    let other = MountedDir::new(Driver::Tmpfs, &Shape::DEFAULT).expect("mounts");
    let found = differing([&kernel, &other], cases, &[]);
    assert!(found.len() >= at_least, "tmpfs is ext4 but for {found:?}");
}
