//! What of an image a mount shows, and as whose; the list of mounts; unmounting by the name of the image.

use super::MountedImage;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use uext4_testkit::prelude::*;

const USER: u32 = 65534;

/// Owner, group and permissions.
fn owner(path: &Path) -> (u32, u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

#[test]
fn owners_and_permissions_are_shown_as_the_options_say() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mkdir", "a.img:/dir"]);
    mounted.ok(&[
        "mount",
        "-o",
        "uid=65534,gid=daemon,umask=027",
        "a.img",
        "mnt",
    ]);
    assert_eq!(owner(&mounted.path("mnt/dir")), (USER, 1, 0o750));
    let unknown = "option 'gid': this host has no group 'nosuch'";
    mounted.refuses(&["mount", "-o", "gid=nosuch", "a.img", "mnt"], unknown);
    // The user may write what root has stored; what it makes is stored as the options say.
    let mut touch = Command::new("touch");
    touch.arg(mounted.path("mnt/dir/new")).uid(USER).gid(USER);
    assert!(touch.status().unwrap().success());
    assert_eq!(owner(&mounted.path("mnt/dir/new")).0, USER);
    // An owner that is fixed stays.
    let path = mounted.path("mnt/dir");
    let refused = std::os::unix::fs::chown(&path, Some(1), None).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    std::os::unix::fs::chown(&path, Some(USER), None).unwrap();
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
    let stored = mounted.ok(&["stat", "a.img:/dir", "a.img:/dir/new"]);
    let owners: Vec<&str> = stored.lines().filter(|l| l.contains("Uid:")).collect();
    assert!(
        owners[0].contains("0755") && owners[0].contains(" 0"),
        "{stored}"
    );
    assert!(
        owners[1].contains("Uid: 65534") && owners[1].contains("Gid: 1"),
        "{stored}"
    );
}

#[test]
fn a_damaged_superblock_is_read_with_its_backup() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mkfs", "-q", "-F", "b.img", "300M"]);
    mounted.ok(&["mkdir", "b.img:/dir"]);
    let image = fs::File::options().write(true).open(mounted.path("b.img"));
    image.unwrap().write_all_at(&[0; 1024], 1024).unwrap();
    let damaged = fs::read(mounted.path("b.img")).unwrap();
    mounted.refuses(&["mount", "b.img", "mnt"], "superblock is damaged");
    for options in ["ro", "ro,sb=32768", "ro,sb=131072"] {
        mounted.ok(&["mount", "-o", options, "b.img", "mnt"]);
        assert!(mounted.path("mnt/dir").is_dir(), "{options}");
        mounted.ok(&["umount", "mnt"]);
    }
    let none = "sb: block 5 holds no backup of the superblock";
    mounted.refuses(&["mount", "-o", "ro,sb=5", "b.img", "mnt"], none);
    assert!(fs::read(mounted.path("b.img")).unwrap() == damaged);
}

/// What such a mount shows is not what is stored.
#[test]
fn an_image_is_not_read_through_a_mount_that_shows_something_else() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mkdir", "-p", "a.img:/srv/www"]);
    fs::create_dir(mounted.path("second")).unwrap();
    for options in ["uid=7", "umask=077", "subdir=/srv"] {
        mounted.ok(&["mount", "-o", options, "a.img", "mnt"]);
        mounted.refuses(&["ls", "a.img:/srv"], "mounted on");
        mounted.refuses(&["mount", "a.img", "mnt"], "/mnt; `uext4 mount -o remount");
        mounted.ok(&["umount", "mnt"]);
    }
    mounted.ok(&["mount", "a.img", "mnt"]);
    mounted.refuses(
        &["mount", "-o", "uid=7", "a.img", "second"],
        "for the first",
    );
    assert_eq!(mounted.ok(&["ls", "a.img:/srv"]), "www\n");
    mounted.ok(&["umount", "mnt"]);
}

#[test]
fn a_mount_of_a_directory_or_a_partition() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mkdir", "-p", "a.img:/srv/www"]);
    mounted.ok(&["touch", "a.img:/srv/www/page", "a.img:/other"]);
    mounted.ok(&["mount", "-r", "-o", "subdir=/srv/www", "a.img", "mnt"]);
    let names = || -> Vec<_> {
        let entries = fs::read_dir(mounted.path("mnt")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["page"]);
    assert!(fs::write(mounted.path("mnt/page"), "x").is_err());
    mounted.ok(&["umount", "mnt"]);
    mounted.refuses(
        &["mount", "-o", "subdir=/other", "a.img", "mnt"],
        "not a directory",
    );
    mounted.refuses(&["mount", "-o", "subdir=/none", "a.img", "mnt"], "/none");

    let image = fs::read(mounted.path("a.img")).unwrap();
    let disk = File::create(mounted.path("disk.img")).unwrap();
    disk.set_len(image.len() as u64 + (3 << 20)).unwrap();
    disk.write_all_at(&image, 1 << 20).unwrap();
    let part = format!("offset=1M,sizelimit={}", image.len());
    mounted.ok(&["mount", "--options", &part, "disk.img", "mnt"]);
    assert_eq!(names(), ["lost+found", "other", "srv"]);
    fs::write(mounted.path("mnt/new"), "new").unwrap();
    mounted.ok(&["umount", "disk.img"]);
    assert!(!mounted.is_mounted());
    let disk = fs::read(mounted.path("disk.img")).unwrap();
    assert!(
        disk[..1 << 20].iter().all(|byte| *byte == 0),
        "what is before the image stays"
    );
    fs::write(mounted.path("a.img"), &disk[1 << 20..][..image.len()]).unwrap();
    mounted.assert_clean();
    assert_eq!(mounted.ok(&["cat", "a.img:/new"]), "new");
    mounted.refuses(
        &["mount", "-o", "offset=1G", "disk.img", "mnt"],
        "past the end",
    );
}

#[test]
fn mounts_are_listed_and_read_through_and_unmounted_by_image() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "-r", "a.img", "mnt"]);
    let (image, dir) = (mounted.path("a.img"), mounted.path("mnt"));
    let line = format!(
        "{} on {} type fuse.uext4 (ro,",
        image.display(),
        dir.display()
    );
    let list = mounted.ok(&["mount"]);
    assert!(list.contains(&line), "{list}");
    let json: serde_json::Value = serde_json::from_str(&mounted.ok(&["mount", "--json"])).unwrap();
    let is_this = |entry: &serde_json::Value| entry["dir"] == dir.to_str().unwrap();
    let entry = json.as_array().unwrap().iter().find(|entry| is_this(entry));
    assert_eq!(entry.unwrap()["source"], image.to_str().unwrap());
    mounted.ok(&["umount", "a.img"]);
    mounted.ok(&["mount", "a.img", "mnt"]);
    // Only the server has what is not written back yet.
    fs::create_dir(mounted.path("mnt/dir")).unwrap();
    fs::write(mounted.path("mnt/dir/file"), "text").unwrap();
    symlink("/dir/file", mounted.path("mnt/absolute")).unwrap();
    assert_eq!(mounted.ok(&["ls", "a.img:/dir"]), "file\n");
    assert_eq!(mounted.ok(&["cat", "a.img:/absolute"]), "text");
    mounted.ok(&["cp", "a.img:/dir/file", "copy"]);
    assert_eq!(fs::read(mounted.path("copy")).unwrap(), b"text");
    // A link out of the image stays in it.
    symlink("/../../etc/passwd", mounted.path("mnt/out")).unwrap();
    mounted.refuses(&["cat", "a.img:/out"], "no such file");
    mounted.ok(&["umount", "a.img"]);
    assert!(!mounted.is_mounted());
    mounted.assert_clean();
}
