//! An image that is mounted already, and one that is in memory.

use super::{Bed, end, signal};
use std::fs;
use std::process::Command;

impl Bed {
    /// With a second directory.
    fn with_second() -> Option<Bed> {
        let bed = Bed::new()?;
        fs::create_dir(bed.path("second")).unwrap();
        Some(bed)
    }

    /// What is said when it succeeds.
    fn says(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success(), "{args:?}: {said}");
        said
    }
}

#[test]
fn a_second_mount_shows_the_same() {
    let Some(bed) = Bed::with_second() else {
        return;
    };
    bed.ok(&["mount", "a.img", "mnt"]);
    let said = bed.says(&["mount", "a.img", "second", "-o", "noexec,noatime"]);
    assert!(
        said.contains("already mounted on") && said.contains("/mnt"),
        "{said}"
    );
    fs::write(bed.path("mnt/one"), "one").unwrap();
    assert_eq!(fs::read_to_string(bed.path("second/one")).unwrap(), "one");
    fs::write(bed.path("second/two"), "two").unwrap();
    assert_eq!(fs::read_to_string(bed.path("mnt/two")).unwrap(), "two");
    let has = |dir: &str, flag: &str| bed.flags(dir).unwrap().iter().any(|f| f == flag);
    assert!(has("second", "noexec") && has("second", "nosuid") && has("second", "noatime"));
    assert!(!has("mnt", "noexec") && !has("mnt", "noatime"));
    // The first may go first.
    let said = bed.says(&["umount", "mnt"]);
    assert!(
        said.contains("stays open") && said.contains("/second"),
        "{said}"
    );
    assert!(!bed.is_mounted());
    fs::write(bed.path("second/three"), "three").unwrap();
    bed.ok(&["umount", "second"]);
    bed.assert_clean();
    for name in ["one", "two", "three"] {
        assert_eq!(bed.ok(&["cat", &format!("a.img:/{name}")]), name);
    }
}

#[test]
fn a_second_mount_that_can_not_be_says_where_the_first_is() {
    let Some(bed) = Bed::with_second() else {
        return;
    };
    bed.ok(&["mount", "a.img", "mnt"]);
    let said = bed.fails(&["mount", "a.img", "mnt"]);
    assert!(said.contains("it is mounted there"), "{said}");
    let said = bed.fails(&["mount", "-f", "a.img", "second"]);
    assert!(said.contains("/mnt; without -f"), "{said}");
    // To be read it may be shown where the first is written.
    bed.ok(&["mount", "a.img", "second", "-o", "ro"]);
    let e = fs::write(bed.path("second/x"), "").unwrap_err();
    assert_eq!(e.raw_os_error(), Some(libc::EROFS));
    bed.says(&["umount", "second"]);
    bed.ok(&["mount", "-o", "remount,ro", "mnt"]);
    let said = bed.fails(&["mount", "a.img", "second"]);
    assert!(said.contains("mounted read-only on"), "{said}");
    assert!(bed.flags("second").is_none());
    bed.ok(&["umount", "mnt"]);
    bed.assert_clean();
}

#[test]
fn both_end_with_their_server_and_with_its_monitor() {
    let Some(bed) = Bed::with_second() else {
        return;
    };
    for (field, with, code) in [
        ("pid", rustix::process::Signal::KILL, Some(1)),
        ("monitor_pid", rustix::process::Signal::TERM, Some(0)),
    ] {
        let child = bed.foreground(&[]);
        bed.ok(&["mount", "a.img", "second"]);
        fs::write(bed.path("second/x"), "x").unwrap();
        signal(bed.pid(field), with);
        let ended = end(child);
        assert_eq!(ended.0, code, "{}", ended.1);
        assert!(!bed.is_mounted() && bed.flags("second").is_none());
        bed.ok(&["mount", "a.img", "mnt"]);
        bed.ok(&["umount", "mnt"]);
        bed.assert_clean();
    }
}

#[test]
fn an_image_in_memory_is_mounted_with_a_warning() {
    let Some(bed) = Bed::with_second() else {
        return;
    };
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", "size=64M", "none"])
        .arg(bed.path("second"));
    assert!(mount.status().unwrap().success());
    bed.ok(&["mkfs", "second/t.img", "--size", "32M"]);
    let warning = "fsync makes nothing durable";
    let said = bed.says(&["mount", "second/t.img", "mnt"]);
    assert!(said.contains(warning), "{said}");
    bed.ok(&["umount", "mnt"]);
    let said = bed.says(&["mount", "second/t.img", "mnt", "-o", "ro"]);
    assert!(!said.contains(warning), "{said}");
    bed.ok(&["umount", "mnt"]);
    // A file that only its memory keeps, elsewhere.
    let umount = Command::new("umount").arg(bed.path("second")).status();
    assert!(umount.unwrap().success());
}
