//! An image that is mounted already, and one that is in memory.

use super::{MountedImage, end, signal};
use uext4_testkit::built::uext4;
use uext4_testkit::prelude::*;

impl MountedImage {
    /// With a second directory.
    fn with_second() -> Option<MountedImage> {
        let mounted = MountedImage::new()?;
        fs::create_dir(mounted.path("second")).unwrap();
        Some(mounted)
    }
}

#[test]
fn a_second_mount_shows_the_same() {
    let mounted = require!(some MountedImage::with_second());
    mounted.ok(&["mount", "a.img", "mnt"]);
    let said = mounted.says(&["mount", "a.img", "second", "-o", "noexec,noatime"]);
    assert!(
        said.contains("already mounted on") && said.contains("/mnt"),
        "{said}"
    );
    fs::write(mounted.path("mnt/one"), "one").unwrap();
    assert_eq!(
        fs::read_to_string(mounted.path("second/one")).unwrap(),
        "one"
    );
    fs::write(mounted.path("second/two"), "two").unwrap();
    assert_eq!(fs::read_to_string(mounted.path("mnt/two")).unwrap(), "two");
    let has = |dir: &str, flag: &str| mounted.flags(dir).unwrap().iter().any(|f| f == flag);
    assert!(has("second", "noexec") && has("second", "nosuid") && has("second", "noatime"));
    assert!(!has("mnt", "noexec") && !has("mnt", "noatime"));
    // The first may go first.
    let said = mounted.says(&["umount", "mnt"]);
    assert!(
        said.contains("stays open") && said.contains("/second"),
        "{said}"
    );
    assert!(!mounted.is_mounted());
    fs::write(mounted.path("second/three"), "three").unwrap();
    mounted.ok(&["umount", "second"]);
    mounted.assert_clean();
    for name in ["one", "two", "three"] {
        assert_eq!(mounted.ok(&["cat", &format!("a.img:/{name}")]), name);
    }
}

#[test]
fn a_second_mount_that_can_not_be_says_where_the_first_is() {
    let mounted = require!(some MountedImage::with_second());
    mounted.ok(&["mount", "a.img", "mnt"]);
    mounted.refuses(&["mount", "a.img", "mnt"], "it is mounted on");
    mounted.refuses(&["mount", "-f", "a.img", "second"], "/mnt; without -f");
    // To be read it may be shown where the first is written.
    mounted.ok(&["mount", "a.img", "second", "-o", "ro"]);
    let e = fs::write(mounted.path("second/x"), "").unwrap_err();
    assert_eq!(e.raw_os_error(), Some(libc::EROFS));
    mounted.says(&["umount", "second"]);
    mounted.ok(&["mount", "-o", "remount,ro", "mnt"]);
    mounted.refuses(&["mount", "a.img", "second"], "mounted read-only on");
    assert!(mounted.flags("second").is_none());
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}

#[test]
fn a_user_is_told_what_is_mounted_already_and_how_to_end_it() {
    let mounted = require!(some MountedImage::with_second());
    mounted.ok(&["mkfs", "b.img", "--size", "16M"]);
    for name in ["", "a.img", "b.img", "second", "mnt"] {
        fs::set_permissions(mounted.path(name), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let refused = |image: &str, dir: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.args([uext4(), "mount", image, dir]);
        let out = command.current_dir(mounted.dir.path()).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && said.lines().count() == 1, "{said}");
        said
    };
    mounted.ok(&["mount", "a.img", "mnt"]);
    let said = refused("a.img", "second");
    for what in ["it is mounted on ", "/mnt` first; only root", " (process "] {
        assert!(said.contains(what), "{said}");
    }
    let said = refused("b.img", "mnt");
    if said.contains("/dev/fuse: ") {
        eprintln!("SKIPPED: only root may open /dev/fuse");
        mounted.ok(&["umount", "mnt"]);
        return;
    }
    for what in [
        "a.img is mounted there already; `uext4 umount ",
        "/mnt` first",
    ] {
        assert!(said.contains(what), "{said}");
    }
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}

#[test]
fn both_end_with_their_server_and_with_its_monitor() {
    let mounted = require!(some MountedImage::with_second());
    for (field, with, code) in [
        ("pid", rustix::process::Signal::KILL, Some(1)),
        ("monitor_pid", rustix::process::Signal::TERM, Some(0)),
    ] {
        let child = mounted.foreground(&[]);
        mounted.ok(&["mount", "a.img", "second"]);
        fs::write(mounted.path("second/x"), "x").unwrap();
        signal(mounted.pid(field), with);
        let ended = end(child);
        assert_eq!(ended.0, code, "{}", ended.1);
        assert!(!mounted.is_mounted() && mounted.flags("second").is_none());
        mounted.ok(&["mount", "a.img", "mnt"]);
        mounted.ok(&["umount", "mnt"]);
        mounted.assert_clean();
    }
}

#[test]
fn an_image_in_memory_is_mounted_with_a_warning() {
    let mounted = require!(some MountedImage::with_second());
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", "size=64M", "none"])
        .arg(mounted.path("second"));
    assert!(mount.status().unwrap().success());
    mounted.ok(&["mkfs", "second/t.img", "--size", "32M"]);
    let warning = "fsync makes nothing durable";
    let said = mounted.says(&["mount", "second/t.img", "mnt"]);
    assert!(said.contains(warning), "{said}");
    mounted.ok(&["umount", "mnt"]);
    let said = mounted.says(&["mount", "second/t.img", "mnt", "-o", "ro"]);
    assert!(!said.contains(warning), "{said}");
    mounted.ok(&["umount", "mnt"]);
    // A file that only its memory keeps, elsewhere.
    let umount = Command::new("umount").arg(mounted.path("second")).status();
    assert!(umount.unwrap().success());
}

/// The monitor of a mount that was replaced does not take the new one for its own, however late it notices.
#[test]
fn a_mount_that_replaces_another_stays() {
    use rustix::process::Signal;
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "-r", "a.img", "mnt"]);
    let monitor = mounted.pid("monitor_pid");
    signal(monitor, Signal::STOP);
    mounted.ok(&["mount", "-r", "--refresh", "a.img", "mnt"]);
    signal(monitor, Signal::CONT);
    let gone = || rustix::process::test_kill_process(monitor).is_err();
    for _ in 0..100 {
        if !gone() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(gone() && mounted.is_mounted());
    mounted.ok(&["umount", "mnt"]);
}
