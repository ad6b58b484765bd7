//! Limits through a mount: a user gets `EDQUOT` at its limit, where the mount enforces it, and root does not.

use super::*;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;

/// The user with a limit.
const USER: u32 = 4711;
const LIMIT: u64 = 1 << 20;

/// Writes twice the limit to a file, as a user.
fn write_as(user: u32, file: &Path) -> std::process::Output {
    let mut command = Command::new("dd");
    command.env("LC_ALL", "C").uid(user).gid(user);
    command.args(["if=/dev/zero", "bs=65536", "count=32"]);
    let mut of = std::ffi::OsString::from("of=");
    of.push(file);
    command.arg(of).output().expect("dd starts")
}

#[test]
fn a_user_is_held_to_its_limit_through_the_mount() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mkfs", "-q", "-F", "a.img", "--size", "64M", "-O", "quota"]);
    let owner = format!("user:{USER}");
    mounted.ok(&["quota", "set", "a.img", &owner, "--blocks-hard", "1M"]);
    for (options, enforces) in [("usrquota", true), ("noquota", false)] {
        mounted.ok(&["mount", "-o", options, "a.img", "mnt"]);
        let dir = mounted.path("mnt/shared");
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        let out = write_as(USER, &dir.join("theirs"));
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.success(), !enforces, "{options}: {said}");
        if enforces {
            assert!(said.contains("Disk quota exceeded"), "{said}");
            let size = fs::metadata(dir.join("theirs")).unwrap().len();
            assert!((LIMIT / 2..=LIMIT).contains(&size), "{size}");
            // Root is exempt.
            fs::remove_file(dir.join("theirs")).unwrap();
            let mut file = fs::File::create(dir.join("theirs")).unwrap();
            std::os::unix::fs::fchown(&file, Some(USER), None).unwrap();
            file.write_all(&vec![1; 2 * LIMIT as usize]).unwrap();
        }
        assert!(write_as(0, &dir.join("ours")).status.success());
        mounted.ok(&["umount", "mnt"]);
        uext4_testkit::mke2fs::fsck(&mounted.path("a.img"));
    }
}

#[test]
fn limits_that_an_image_does_not_have_are_warned_of() {
    let mounted = require!(some MountedImage::new());
    let quotas = "-Equotatype=usrquota";
    for (made, options, warns) in [
        ("-q", "usrquota", true),
        (quotas, "usrquota", false),
        (quotas, "usrquota,grpquota", true),
        ("-q", "relatime", false),
    ] {
        mounted.ok(&["mkfs", "-F", "a.img", "--size", "64M", made]);
        let said = mounted.says(&["mount", "-o", options, "a.img", "mnt"]);
        let found = said.contains("limits are not enforced");
        assert_eq!(found, warns, "{made}, {options}: {said}");
        mounted.ok(&["umount", "mnt"]);
    }
}
