//! Images that the kernel wrote: clean after unmounting, and through the journal after a crash.
//!
//! Needs root, a loop device and the kernel's ext4; skips, saying so, without them.

use crate::support::*;
use uext4_check::CheckReport;
use uext4_testkit::oracle::wait_for_loop_device;
use uext4_testkit::prelude::*;

/// The workload, run on the mounted file system.
const WORKLOAD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/verifier/support/workload.py"
);

/// Mounts, runs the workload and unmounts; false where the machine can't.
fn fill(image: &Path, mount: &Path, names: usize, extras: &str) -> bool {
    std::fs::create_dir_all(mount).expect("mkdir");
    let (image, mount) = (image.to_str().expect("path"), mount.to_str().expect("path"));
    let out = Command::new("mount")
        .args(["-t", "ext4", "-o", "loop", image, mount])
        .output();
    if !out.as_ref().is_ok_and(|o| o.status.success()) {
        eprintln!("SKIPPED: needs root, a loop device and the kernel's ext4: {out:?}");
        return false;
    }
    let names = names.to_string();
    let out = run("python3", &[WORKLOAD, mount, &names, extras]);
    run_ok("umount", &[mount]);
    wait_for_loop_device(Path::new(image));
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "workload: {text}");
    true
}

fn clean(name: &str, size: &str, options: &str, names: usize, extras: &str) -> Option<CheckReport> {
    if !have_tools() {
        return None;
    }
    let dir = scratch();
    let image = dir.path().join("image");
    mke2fs(&image, size, options, None);
    if !fill(&image, &dir.path().join("mount"), names, extras) {
        return None;
    }
    let (fine, text) = e2fsck(&image);
    assert!(fine, "{name}: {text}");
    let report = assert_clean(&image, name);
    assert!(
        !report.needs_recovery && report.inodes_used > 300,
        "{report:?}"
    );
    Some(report)
}

#[test]
fn default_with_20000_names() {
    clean("default", "300M", "-t ext4 -b 4096 -N 60000", 20_000, "");
}

#[test]
fn blocks_of_1k_with_20000_names() {
    clean("1k", "200M", "-t ext4 -b 1024 -N 60000", 20_000, "");
}

#[test]
fn deep_hash_trees() {
    clean(
        "deep",
        "400M",
        "-t ext4 -b 1024 -O large_dir -N 200000",
        60_000,
        "",
    );
}

#[test]
fn without_journal_and_checksums() {
    clean(
        "nojournal",
        "200M",
        "-t ext4 -O ^has_journal,^metadata_csum",
        3000,
        "",
    );
}

#[test]
fn ext2_and_ext3() {
    clean("ext2", "200M", "-t ext2 -b 1024", 3000, "");
    clean("ext3", "200M", "-t ext3 -I 128", 3000, "");
}

#[test]
fn attribute_inodes() {
    clean("ea_inode", "200M", "-t ext4 -O ea_inode", 500, "ea");
}

#[test]
fn inline_data() {
    clean("inline", "200M", "-t ext4 -O inline_data", 500, "inline");
    clean(
        "inline 1k",
        "200M",
        "-t ext4 -O inline_data -b 1024 -I 512",
        500,
        "inline",
    );
}

#[test]
fn features_that_are_tolerated() {
    clean("bigalloc", "300M", "-t ext4 -O bigalloc -b 4096", 500, "");
    clean("quota", "200M", "-t ext4 -O quota,project", 500, "");
    clean("casefold", "200M", "-t ext4 -O casefold", 500, "casefold");
}

#[test]
fn meta_bg_and_orphan_file() {
    clean(
        "meta_bg",
        "200M",
        "-t ext4 -b 1024 -O meta_bg,^resize_inode,orphan_file",
        500,
        "",
    );
}

#[test]
fn more_subdirectories_than_links() {
    let report = clean(
        "nlink",
        "600M",
        "-t ext4 -b 4096 -I 256 -N 70000",
        100,
        "nlink",
    );
    assert!(report.is_none_or(|r| r.directories > 65_100));
}

/// Crashes while mounted: what the journal holds is checked as replayed, and the image after a real
/// replay gives the same.
fn crashed(name: &str, options: &str, extras: &str) {
    require!(have_tools());
    let dir = scratch();
    let image = dir.path().join("image");
    mke2fs(&image, "200M", options, None);
    if !fill(&image, &dir.path().join("mount"), 2000, extras) {
        return;
    }
    let before = std::fs::read(&image).expect("image");
    let report = assert_clean(&image, name);
    assert!(
        report.needs_recovery && report.replay_blocks > 0,
        "{name}: {report:?}"
    );
    assert_eq!(
        before,
        std::fs::read(&image).expect("image"),
        "{name}: image changed"
    );
    let journal = run(
        "e2fsck",
        &["-fy", "-E", "journal_only", image.to_str().expect("path")],
    );
    let replayed = assert_clean(&image, &format!("{name}, replayed: {journal:?}"));
    assert!(!replayed.needs_recovery, "{replayed:?}");
    // e2fsck deletes the orphans along the way; none of them has a name.
    assert_eq!(
        report.inodes_used - report.orphans,
        replayed.inodes_used,
        "{name}"
    );
    eprintln!(
        "{name}: {} blocks to replay, {} orphans",
        report.replay_blocks, report.orphans
    );
    let (fine, text) = after_orphans(&image);
    assert!(fine, "{name}: {text}");
}

/// e2fsck deletes the orphans first and then must find nothing more.
fn after_orphans(image: &Path) -> (bool, String) {
    let out = run("e2fsck", &["-fp", image.to_str().expect("path")]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    (matches!(out.status.code(), Some(0 | 1)), text)
}

#[test]
fn crash_without_flushing_the_log() {
    crashed("default", "-t ext4 -b 4096", "crash");
    crashed("1k", "-t ext4 -b 1024", "crash");
    crashed("orphan_file", "-t ext4 -O orphan_file", "crash");
    crashed("no checksums", "-t ext4 -O ^metadata_csum,^64bit", "crash");
    crashed("ext3", "-t ext3", "crash");
}

#[test]
fn crash_after_flushing_the_log() {
    crashed("default", "-t ext4 -b 4096", "crash,flush");
    crashed(
        "orphan_file",
        "-t ext4 -O orphan_file -b 1024",
        "crash,flush",
    );
    crashed("inline", "-t ext4 -O inline_data", "crash,flush,inline");
}
