//! Options that change while an image is mounted.

use super::{Bed, PROGRAM, signal};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

impl Bed {
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
    let Some(bed) = Bed::new() else { return };
    for options in [
        "transport=dev,threads=2",
        "lazytime,strictatime",
        "writeback",
    ] {
        let options = format!("commit=3600,{options}");
        bed.ok(&["mount", "a.img", "mnt", "-o", &options]);
        for round in ["one", "two"] {
            let file = bed.path("mnt").join(round);
            fs::write(&file, round).unwrap();
            assert!(bed.has_flag("rw") && bed.needs_recovery());
            bed.remount("ro");
            assert!(bed.has_flag("ro") && !bed.needs_recovery());
            bed.assert_clean();
            assert_eq!(fs::read_to_string(&file).unwrap(), round);
            for e in [
                fs::write(&file, "x").unwrap_err(),
                fs::remove_file(&file).unwrap_err(),
            ] {
                assert_eq!(e.raw_os_error(), Some(libc::EROFS));
            }
            bed.remount("rw");
            fs::write(bed.path("mnt/after"), round).unwrap();
        }
        bed.ok(&["umount", "mnt"]);
        bed.assert_clean();
        assert_eq!(bed.ok(&["cat", "a.img:/one"]), "one");
        assert_eq!(bed.ok(&["cat", "a.img:/two"]), "two");
        assert_eq!(bed.ok(&["cat", "a.img:/after"]), "two");
    }
}

#[test]
fn what_is_in_a_read_only_mount_needs_no_server() {
    let Some(bed) = Bed::new() else { return };
    let child = bed.foreground(&["-o", "writeback,commit=3600"]);
    fs::write(bed.path("mnt/kept"), "kept").unwrap();
    bed.remount("ro");
    signal(bed.pid("pid"), rustix::process::Signal::KILL);
    assert_eq!(super::end(child).0, Some(1));
    assert!(!bed.needs_recovery());
    bed.assert_clean();
    assert_eq!(bed.ok(&["cat", "a.img:/kept"]), "kept");
}

#[test]
fn what_is_open_for_writing_keeps_a_mount_writable() {
    let Some(bed) = Bed::new() else { return };
    bed.ok(&["mount", "a.img", "mnt"]);
    let mut open = File::create(bed.path("mnt/open")).unwrap();
    let said = bed.remount_fails("ro,commit=77");
    assert!(
        said.contains("in use: a file is open for writing"),
        "{said}"
    );
    assert!(bed.has_flag("rw"));
    assert_eq!(bed.stats()["options"]["commit_s"], 5);
    open.write_all(b"still").unwrap();
    drop(open);
    let nameless = File::open(bed.path("mnt/open")).unwrap();
    fs::remove_file(bed.path("mnt/open")).unwrap();
    assert!(bed.remount_fails("ro").contains("in use"));
    let mut data = [0; 5];
    nameless.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(&data, b"still");
    drop(nameless);
    bed.remount("ro");
    bed.assert_clean();
    bed.ok(&["umount", "mnt"]);
}

#[test]
fn what_is_named_changes_and_the_rest_stays() {
    let Some(bed) = Bed::new() else { return };
    bed.ok(&["mount", "a.img", "mnt", "-o", "noexec,errors=continue"]);
    let before = bed.stats()["options"].clone();
    bed.remount("noatime,nodiratime,lazytime,commit=30,barrier=0,discard,errors=remount-ro,sync");
    let after = bed.stats()["options"].clone();
    let wanted = serde_json::json!({
        "read_only": false, "atime": "noatime", "nodiratime": true, "lazytime": true, "data": "ordered",
        "commit_s": 30, "barrier": false, "discard": true, "errors": "remount-ro", "sync": true, "dirsync": false,
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
        assert!(bed.has_flag(flag), "{flag}");
    }
    fs::write(bed.path("mnt/x"), "x").unwrap();
    bed.remount(
        "relatime,diratime,nolazytime,commit=5,barrier,nodiscard,errors=continue,async,exec",
    );
    assert_eq!(bed.stats()["options"], before);
    for flag in ["noexec", "noatime", "nodiratime", "sync"] {
        assert!(!bed.has_flag(flag), "{flag}");
    }
    assert!(bed.has_flag("nosuid") && bed.has_flag("relatime"));
    bed.ok(&["umount", "mnt"]);
    bed.assert_clean();
}

/// The time of access of a directory that is read with given options, and then with others.
fn access_after_reading(bed: &Bed, options: &str, others: &str) -> String {
    bed.ok(&["mount", "a.img", "mnt", "-o", options]);
    let dir = bed.path("mnt/d");
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
        bed.remount(others);
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    bed.ok(&["umount", "mnt"]);
    let said = bed.ok(&["stat", "a.img:/d"]);
    let mut access = said
        .lines()
        .filter_map(|line| line.strip_prefix("Access: "));
    access.next_back().unwrap().to_owned()
}

#[test]
fn reading_a_directory_changes_its_time_unless_nodiratime_says_otherwise() {
    let Some(bed) = Bed::new() else { return };
    let before = "1970-01-02T";
    for (options, others, changes) in [
        ("strictatime", "", true),
        ("strictatime,nodiratime", "", false),
        ("strictatime", "nodiratime", false),
        ("strictatime,nodiratime", "diratime", true),
        ("noatime", "relatime", true),
        ("strictatime", "noatime", false),
    ] {
        let access = access_after_reading(&bed, options, others);
        let unchanged = access.starts_with(before);
        assert_eq!(!unchanged, changes, "{options}, then {others}: {access}");
    }
}

#[test]
fn what_a_mount_keeps_is_named() {
    let Some(bed) = Bed::new() else { return };
    bed.ok(&["mount", "a.img", "mnt"]);
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
        let said = bed.remount_fails(option);
        assert!(
            said.contains(want) && bed.has_flag("rw"),
            "{option}: {said}"
        );
        fs::write(bed.path("mnt/x"), "x").unwrap();
    }
    bed.remount(
        "data=ordered,rw,nosuid,nodev,user_id=0,group_id=0,default_permissions,allow_other",
    );
    bed.ok(&["umount", "mnt"]);
    bed.ok(&["mount", "a.img", "mnt", "-o", "ro"]);
    let said = bed.remount_fails("rw");
    assert!(said.contains("it was mounted read-only"), "{said}");
    assert!(bed.has_flag("ro"));
    bed.remount("noatime");
    bed.ok(&["umount", "mnt"]);
    assert!(bed.remount_fails("ro").contains("nothing is mounted there"));
    let said = bed.fails(&["mount", "-o", "remount,ro", "/proc"]);
    assert!(said.contains("not a mount of uext4 but of proc"), "{said}");
    bed.ok(&["mqueue", "mount", "mnt"]);
    assert!(bed.remount_fails("ro").contains("message queues"));
    assert!(bed.has_flag("rw"));
    bed.ok(&["umount", "mnt"]);
}

#[test]
fn a_mount_is_its_owners_to_change_and_roots() {
    let Some(bed) = Bed::new() else { return };
    bed.ok(&["mount", "a.img", "mnt"]);
    for option in ["commit=9", "ro"] {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--",
            PROGRAM,
        ]);
        let list = format!("remount,{option}");
        let out = command
            .args(["mount", "-o", &list, "."])
            .current_dir(bed.path("mnt"));
        let out = out.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && said.contains("another user's mount"),
            "{said}"
        );
    }
    assert_eq!(bed.stats()["options"]["commit_s"], 5);
    assert!(bed.has_flag("rw"));
    bed.ok(&["umount", "mnt"]);
}

#[test]
fn mount_8_remounts_with_the_flags_that_are_to_hold() {
    let Some(bed) = Bed::new() else { return };
    let helper = bed.path("mount.fuse.uext4");
    std::os::unix::fs::symlink(PROGRAM, &helper).unwrap();
    bed.ok(&["mount", "a.img", "mnt", "-o", "noexec,nodiratime,noatime"]);
    let of_fuse = "user_id=0,group_id=0,default_permissions,allow_other";
    let run = |options: &str| {
        let mut command = Command::new(&helper);
        command
            .arg(bed.path("a.img"))
            .arg(bed.path("mnt"))
            .arg("-o");
        let out = command
            .arg(format!("{options},{of_fuse}"))
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
    };
    run("ro,nosuid,nodev,noexec,noatime,nodiratime,remount");
    for flag in ["ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime"] {
        assert!(bed.has_flag(flag), "{flag}");
    }
    bed.assert_clean();
    // mount -o remount,rw,exec,relatime: what `exec` takes away is left out.
    run("rw,nosuid,nodev,remount,relatime");
    for flag in ["rw", "nosuid", "nodev", "relatime"] {
        assert!(bed.has_flag(flag), "{flag}");
    }
    assert!(!bed.has_flag("noexec") && !bed.has_flag("nodiratime"));
    fs::write(bed.path("mnt/x"), "x").unwrap();
    bed.ok(&["umount", "mnt"]);
    bed.assert_clean();
    by_mount_8(&bed);
}

/// mount(8) itself, by a line of fstab, where the package fuse3 is.
fn by_mount_8(bed: &Bed) {
    let (image, dir) = (bed.path("a.img"), bed.path("mnt"));
    let line = format!(
        "{PROGRAM}#{} {} fuse noauto 0 0\n",
        image.display(),
        dir.display()
    );
    fs::write(bed.path("fstab"), line).unwrap();
    let mount = |more: &[&str]| {
        let mut command = Command::new("mount");
        command
            .arg("-T")
            .arg(bed.path("fstab"))
            .args(more)
            .arg(&dir);
        command.output()
    };
    match mount(&[]) {
        Ok(out) if out.status.success() => {}
        Ok(out) if Path::new("/sbin/mount.fuse").exists() => panic!("{out:?}"),
        _ => return eprintln!("skipped: mount(8) needs the package fuse3"),
    }
    fs::write(bed.path("mnt/y"), "y").unwrap();
    let out = mount(&["-o", "remount,ro"]).unwrap();
    assert!(out.status.success() && bed.has_flag("ro"), "{out:?}");
    assert!(!bed.needs_recovery());
    bed.ok(&["umount", "mnt"]);
    bed.assert_clean();
}
