//! Options that change while an image is mounted.

use super::{MountedImage, signal};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use uext4_testkit::built::uext4;
use uext4_testkit::prelude::*;

impl MountedImage {
    fn remount(&self, options: &str) {
        self.ok(&["mount", "-o", &format!("remount,{options}"), "mnt"]);
    }

    fn remount_fails(&self, options: &str) -> String {
        self.fails(&["mount", "-o", &format!("remount,{options}"), "mnt"])
    }

    fn has_flag(&self, flag: &str) -> bool {
        let flags = self.flags("mnt").expect("it is mounted");
        flags.iter().any(|f| f == flag)
    }

    /// Whether the superblock says that the journal must be recovered.
    fn needs_recovery(&self) -> bool {
        let mut incompat = [0; 4];
        let image = File::open(self.path("a.img")).unwrap();
        image.read_exact_at(&mut incompat, 1024 + 96).unwrap();
        u32::from_le_bytes(incompat) & 4 != 0
    }
}

#[test]
fn read_only_is_as_clean_as_unmounted_and_writable_goes_on() {
    let mounted = require!(some MountedImage::new());
    for options in [
        "transport=dev,threads=2",
        "lazytime,strictatime",
        "writeback",
    ] {
        let options = format!("commit=3600,{options}");
        mounted.ok(&["mount", "a.img", "mnt", "-o", &options]);
        for round in ["one", "two"] {
            let file = mounted.path("mnt").join(round);
            fs::write(&file, round).unwrap();
            assert!(mounted.has_flag("rw") && mounted.needs_recovery());
            mounted.remount("ro");
            assert!(mounted.has_flag("ro") && !mounted.needs_recovery());
            mounted.assert_clean();
            assert_eq!(fs::read_to_string(&file).unwrap(), round);
            for e in [
                fs::write(&file, "x").unwrap_err(),
                fs::remove_file(&file).unwrap_err(),
            ] {
                assert_eq!(e.raw_os_error(), Some(libc::EROFS));
            }
            mounted.remount("rw");
            fs::write(mounted.path("mnt/after"), round).unwrap();
        }
        mounted.ok(&["umount", "mnt"]);
        mounted.assert_clean();
        assert_eq!(mounted.ok(&["cat", "a.img:/one"]), "one");
        assert_eq!(mounted.ok(&["cat", "a.img:/two"]), "two");
        assert_eq!(mounted.ok(&["cat", "a.img:/after"]), "two");
    }
}

#[test]
fn what_is_in_a_read_only_mount_needs_no_server() {
    let mounted = require!(some MountedImage::new());
    let child = mounted.foreground(&["-o", "writeback,commit=3600"]);
    fs::write(mounted.path("mnt/kept"), "kept").unwrap();
    mounted.remount("ro");
    signal(mounted.pid("pid"), rustix::process::Signal::KILL);
    assert_eq!(super::end(child).0, Some(1));
    assert!(!mounted.needs_recovery());
    mounted.assert_clean();
    assert_eq!(mounted.ok(&["cat", "a.img:/kept"]), "kept");
}

#[test]
fn what_is_open_for_writing_keeps_a_mount_writable() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt"]);
    let mut open = File::create(mounted.path("mnt/open")).unwrap();
    let said = mounted.remount_fails("ro,commit=77");
    assert!(
        said.contains("in use: a file is open for writing"),
        "{said}"
    );
    assert!(mounted.has_flag("rw"));
    assert_eq!(mounted.stats()["options"]["commit_s"], 5);
    open.write_all(b"still").unwrap();
    drop(open);
    let nameless = File::open(mounted.path("mnt/open")).unwrap();
    fs::remove_file(mounted.path("mnt/open")).unwrap();
    assert!(mounted.remount_fails("ro").contains("in use"));
    let mut data = [0; 5];
    nameless.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(&data, b"still");
    drop(nameless);
    mounted.remount("ro");
    mounted.assert_clean();
    mounted.ok(&["umount", "mnt"]);
}

#[test]
fn what_is_named_changes_and_the_rest_stays() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt", "-o", "noexec,errors=continue"]);
    let before = mounted.stats()["options"].clone();
    mounted
        .remount("noatime,nodiratime,lazytime,commit=30,barrier=0,discard,errors=remount-ro,sync");
    let after = mounted.stats()["options"].clone();
    let wanted = serde_json::json!({
        "read_only": false, "frozen": false, "atime": "noatime", "nodiratime": true, "lazytime": true, "data": "ordered",
        "commit_s": 30, "barrier": false, "discard": true, "errors": "remount-ro", "sync": true, "dirsync": false, "encryption_keys": [],
    });
    assert_eq!(after, wanted);
    for flag in [
        "rw",
        "noexec",
        "nosuid",
        "nodev",
        "noatime",
        "nodiratime",
        "sync",
    ] {
        assert!(mounted.has_flag(flag), "{flag}");
    }
    fs::write(mounted.path("mnt/x"), "x").unwrap();
    mounted.remount(
        "relatime,diratime,nolazytime,commit=5,barrier,nodiscard,errors=continue,async,exec",
    );
    assert_eq!(mounted.stats()["options"], before);
    for flag in ["noexec", "noatime", "nodiratime", "sync"] {
        assert!(!mounted.has_flag(flag), "{flag}");
    }
    assert!(mounted.has_flag("nosuid") && mounted.has_flag("relatime"));
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}

/// The time of access of a directory that is read with given options, and then with others.
fn access_after_reading(mounted: &MountedImage, options: &str, others: &str) -> String {
    mounted.ok(&["mount", "a.img", "mnt", "-o", options]);
    let dir = mounted.path("mnt/d");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("entry"), "").unwrap();
    let long_ago = Timespec {
        tv_sec: 86_400,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: long_ago,
        last_modification: long_ago,
    };
    utimensat(CWD, &dir, &times, AtFlags::empty()).unwrap();
    if !others.is_empty() {
        mounted.remount(others);
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    mounted.ok(&["umount", "mnt"]);
    let said = mounted.ok(&["stat", "a.img:/d"]);
    let mut access = said
        .lines()
        .filter_map(|line| line.strip_prefix("Access: "));
    access.next_back().unwrap().to_owned()
}

#[test]
fn reading_a_directory_changes_its_time_unless_nodiratime_says_otherwise() {
    let mounted = require!(some MountedImage::new());
    let before = "1970-01-02T";
    for (options, others, changes) in [
        ("strictatime", "", true),
        ("strictatime,nodiratime", "", false),
        ("strictatime", "nodiratime", false),
        ("strictatime,nodiratime", "diratime", true),
        ("noatime", "relatime", true),
        ("strictatime", "noatime", false),
    ] {
        let access = access_after_reading(&mounted, options, others);
        let unchanged = access.starts_with(before);
        assert_eq!(!unchanged, changes, "{options}, then {others}: {access}");
    }
}

#[test]
fn what_a_mount_keeps_is_named() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt"]);
    for (option, want) in [
        (
            "data=journal",
            "option 'data' can't change while it is mounted",
        ),
        (
            "ro,threads=7",
            "option 'threads' can't change while it is mounted",
        ),
        ("foo", "unknown option 'foo'"),
        ("grpid", "option 'grpid' is not supported"),
        ("commit=x", "'x' is not allowed"),
    ] {
        let said = mounted.remount_fails(option);
        assert!(
            said.contains(want) && mounted.has_flag("rw"),
            "{option}: {said}"
        );
        fs::write(mounted.path("mnt/x"), "x").unwrap();
    }
    mounted.remount(
        "data=ordered,rw,nosuid,nodev,user_id=0,group_id=0,default_permissions,allow_other",
    );
    mounted.ok(&["umount", "mnt"]);
    mounted.ok(&["mount", "a.img", "mnt", "-o", "ro"]);
    let said = mounted.remount_fails("rw");
    assert!(said.contains("it was mounted read-only"), "{said}");
    assert!(mounted.has_flag("ro"));
    mounted.remount("noatime");
    mounted.ok(&["umount", "mnt"]);
    assert!(
        mounted
            .remount_fails("ro")
            .contains("nothing is mounted there")
    );
    mounted.refuses(
        &["mount", "-o", "remount,ro", "/proc"],
        "not a mount of uext4 but of proc",
    );
    mounted.ok(&["mqueue", "mount", "mnt"]);
    assert!(mounted.remount_fails("ro").contains("message queues"));
    assert!(mounted.has_flag("rw"));
    mounted.ok(&["umount", "mnt"]);
}

#[test]
fn a_mount_is_its_owners_to_change_and_roots() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt"]);
    for option in ["commit=9", "ro"] {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--",
            uext4(),
        ]);
        let list = format!("remount,{option}");
        let out = command
            .args(["mount", "-o", &list, "."])
            .current_dir(mounted.path("mnt"));
        let out = out.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && said.contains("another user's mount"),
            "{said}"
        );
    }
    assert_eq!(mounted.stats()["options"]["commit_s"], 5);
    assert!(mounted.has_flag("rw"));
    mounted.ok(&["umount", "mnt"]);
}

#[test]
fn mount_8_remounts_with_the_flags_that_are_to_hold() {
    let mounted = require!(some MountedImage::new());
    let helper = mounted.path("mount.fuse.uext4");
    std::os::unix::fs::symlink(uext4(), &helper).unwrap();
    mounted.ok(&["mount", "a.img", "mnt", "-o", "noexec,nodiratime,noatime"]);
    let of_fuse = "user_id=0,group_id=0,default_permissions,allow_other";
    let run = |options: &str| {
        let mut command = Command::new(&helper);
        command
            .arg(mounted.path("a.img"))
            .arg(mounted.path("mnt"))
            .arg("-o");
        let out = command
            .arg(format!("{options},{of_fuse}"))
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
    };
    run("ro,nosuid,nodev,noexec,noatime,nodiratime,remount");
    for flag in ["ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime"] {
        assert!(mounted.has_flag(flag), "{flag}");
    }
    mounted.assert_clean();
    // mount -o remount,rw,exec,relatime: what `exec` takes away is left out.
    run("rw,nosuid,nodev,remount,relatime");
    for flag in ["rw", "nosuid", "nodev", "relatime"] {
        assert!(mounted.has_flag(flag), "{flag}");
    }
    assert!(!mounted.has_flag("noexec") && !mounted.has_flag("nodiratime"));
    fs::write(mounted.path("mnt/x"), "x").unwrap();
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
    by_mount_8(&mounted);
}

/// mount(8) itself, by a line of fstab, where the package fuse3 is.
fn by_mount_8(mounted: &MountedImage) {
    let (image, dir) = (mounted.path("a.img"), mounted.path("mnt"));
    let line = format!(
        "{}#{} {} fuse noauto 0 0\n",
        uext4(),
        image.display(),
        dir.display()
    );
    fs::write(mounted.path("fstab"), line).unwrap();
    let mount = |more: &[&str]| {
        let mut command = Command::new("mount");
        command
            .arg("-T")
            .arg(mounted.path("fstab"))
            .args(more)
            .arg(&dir);
        command.output()
    };
    match mount(&[]) {
        Ok(out) if out.status.success() => {}
        Ok(out) if Path::new("/sbin/mount.fuse").exists() => panic!("{out:?}"),
        _ => return eprintln!("skipped: mount(8) needs the package fuse3"),
    }
    fs::write(mounted.path("mnt/y"), "y").unwrap();
    let out = mount(&["-o", "remount,ro"]).unwrap();
    assert!(out.status.success() && mounted.has_flag("ro"), "{out:?}");
    assert!(!mounted.needs_recovery());
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}
