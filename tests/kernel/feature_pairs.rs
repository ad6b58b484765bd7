//! Each feature alone, and the pairs that mke2fs allows: filled by debugfs, by uext4 and by this machine's kernel, e2fsck finds no fault,
//! and each reads what the others wrote. A sample of them by default; `UEXT4_MATRIX=1` takes all. `UEXT4_PAIR=casefold+quota` takes one,
//! `UEXT4_PAIR=quota` all with it.
//!
//! What this kernel does not mount, the one of `tests/guest` does.

use std::sync::Mutex;
use uext4_testkit::built::command;
use uext4_testkit::feature_pairs::{Calls, Features, all, same};
use uext4_testkit::prelude::*;

/// How much is left out of a sample.
const SAMPLE: usize = 12;
/// Threads that take the next one: what takes time is waiting.
const THREADS: usize = 3;

/// What this machine can do with an image.
#[derive(Debug, PartialEq, Eq)]
enum Done {
    /// mke2fs does not make it.
    Refused,
    /// All but what needs a kernel that mounts it.
    WithoutKernel,
    All,
}

fn examine(features: &Features, calls: &Calls) -> Result<Done> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let (image, mount) = (dir.path().join("image"), dir.path().join("mount"));
    if !features.make(&image)? {
        return Ok(Done::Refused);
    }
    calls.fill_by_debugfs(&image)?;
    let fill = |mount: &Path| calls.fill(mount, "ours", features);
    let ours = calls.in_our_mount(&image, fill).context("filling it")?;
    let mut filled = vec!["debugfs", "ours"];
    let mut done = Done::WithoutKernel;
    let kernel = features
        .kernel_has()
        .then(|| KernelMount::new(&image, &mount, "rw"));
    if let Some(Ok(kernel)) = kernel {
        same(&calls.list(kernel.dir())?, &ours).context("the kernel reads it")?;
        let fill = calls.fill(kernel.dir(), "kernel", features);
        fill.context("the kernel fills it")?;
        kernel.unmount()?;
        // As it is on disk: in memory files do not have all of their blocks.
        let kernel = KernelMount::new(&image, &mount, "ro")?;
        let theirs = calls.list(kernel.dir())?;
        kernel.unmount()?;
        match features.has("filetype") {
            true => oracle::fsck(&image).context("the kernel's")?,
            // Linux 6.18 leaves what it finds where `.` and `..` would have a type.
            false => drop(oracle::repair(&image)?),
        }
        let ours = calls.in_our_mount(&image, |_| Ok(()))?;
        same(&theirs, &ours).context("reading what the kernel wrote")?;
        filled.push("kernel");
        done = Done::All;
    }
    let change = |mount: &Path| calls.change(mount, &filled);
    let ours = calls.in_our_mount(&image, change).context("changing it")?;
    let mut check = Command::new(command()?);
    uext4_testkit::program::run(check.arg("check").arg(&image))?;
    if done == Done::All {
        let kernel = KernelMount::new(&image, &mount, "ro")?;
        let theirs = calls.list(kernel.dir())?;
        kernel.unmount()?;
        same(&theirs, &ours).context("the kernel reads the changes")?;
    }
    Ok(done)
}

#[test]
fn features_alone_and_in_pairs() {
    require!(can_mount() && kernel_mounts() && is_installed("debugfs"));
    let only = std::env::var("UEXT4_PAIR").ok();
    let every = env_number("UEXT4_MATRIX", 0) != 0;
    let wanted: Vec<Features> = all()
        .into_iter()
        .enumerate()
        .filter(|(i, features)| match &only {
            Some(only) => features.are_asked_for(only),
            None => every || i % SAMPLE == 0,
        })
        .map(|(_, features)| features)
        .collect();
    assert!(!wanted.is_empty());
    let calls = Calls::build().unwrap();
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(features) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let done = examine(features, &calls);
                    outcomes.lock().unwrap().push((&features.name, done));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    let count = |wanted: Done| {
        let of = outcomes
            .iter()
            .filter(|(_, done)| done.as_ref().is_ok_and(|done| *done == wanted));
        of.count()
    };
    println!(
        "features: {} with the kernel, {} that it does not mount, {} that mke2fs refuses",
        count(Done::All),
        count(Done::WithoutKernel),
        count(Done::Refused)
    );
    let failed: Vec<String> = outcomes
        .iter()
        .filter_map(|(name, done)| Some(format!("{name}: {:#}", done.as_ref().err()?)))
        .collect();
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
