//! A file system with its journal in another file, through the library. Needs root and loop devices,
//! since mke2fs takes a journal on nothing else.

use uext4::{Errno, Filesystem, ImageOptions};
use uext4_testkit::oracle::wait_for_loop_device;
use uext4_testkit::prelude::*;

/// Runs a command; its output, if it succeeds.
fn run(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    out.status
        .success()
        .then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Makes both; false, and a word about it, where this machine cannot.
fn make(image: &str, journal: &str) -> bool {
    let made = run(
        "mke2fs",
        &["-q", "-b", "4096", "-O", "journal_dev", journal, "8M"],
    )
    .and_then(|_| run("losetup", &["-f", "--show", journal]))
    .is_some_and(|device| {
        let option = format!("device={device}");
        let args = [
            "-q", "-t", "ext4", "-b", "4096", "-J", &option, image, "32M",
        ];
        let made = run("mke2fs", &args).is_some();
        let _ = run("losetup", &["-d", &device]);
        wait_for_loop_device(Path::new(journal));
        made
    });
    if !made {
        eprintln!("SKIPPED: no loop devices here");
    }
    made
}

#[test]
fn a_journal_in_another_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (image, journal) = (path("image"), path("journal"));
    if !make(image.to_str().unwrap(), journal.to_str().unwrap()) {
        return;
    }
    let with_journal = ImageOptions::read_write().journal(&journal);
    let fs = Filesystem::open(&image, &with_journal).unwrap();
    fs.write("/file", b"content").unwrap();
    fs.sync().unwrap();
    // As a crash leaves them.
    let (crashed, crashed_journal) = (path("crashed"), path("crashed_journal"));
    std::fs::copy(&image, &crashed).unwrap();
    std::fs::copy(&journal, &crashed_journal).unwrap();
    fs.unmount().unwrap();
    reads_without_changing(&crashed, &crashed_journal);
    let why = Filesystem::open(&crashed, &ImageOptions::read_write()).unwrap_err();
    assert_eq!(why.errno(), Errno::EOPNOTSUPP, "{why}");
    let recovering = ImageOptions::read_write().journal(&crashed_journal);
    let fs = Filesystem::open(&crashed, &recovering).unwrap();
    assert_eq!(fs.read("/file").unwrap(), b"content");
    fs.unmount().unwrap();
}

fn reads_without_changing(image: &Path, journal: &Path) {
    let before = (
        std::fs::read(image).unwrap(),
        std::fs::read(journal).unwrap(),
    );
    let options = ImageOptions::read_only().journal(journal);
    let fs = Filesystem::open(image, &options).unwrap();
    assert_eq!(fs.read("/file").unwrap(), b"content");
    fs.unmount().unwrap();
    let after = (
        std::fs::read(image).unwrap(),
        std::fs::read(journal).unwrap(),
    );
    assert!(before == after, "reading changed something");
}
