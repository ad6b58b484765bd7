//! Devices that the kernel has mounted, and what can't be written. Needs root, loop devices and the kernel's ext4.

use crate::here::Here;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Something mounted; unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl Mounted<'_> {
    fn new<'a>(args: &[&str], dir: &'a Path) -> Option<Mounted<'a>> {
        match Command::new("mount").args(args).arg(dir).output() {
            Ok(out) if out.status.success() => Some(Mounted(dir)),
            other => {
                eprintln!("skipped: can't mount {args:?}: {other:?}");
                None
            }
        }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_device_that_the_kernel_writes_is_not_read() {
    let here = Here::new();
    here.ok(&["mkfs", "disk", "--size", "32M"]);
    let Some(device) = here.attach("disk", &[]) else {
        return;
    };
    let name = device.name();
    let root = format!("{name}:/");
    let (kernel, ours) = (here.path("kernel"), here.path("ours"));
    fs::create_dir(&kernel).unwrap();
    fs::create_dir(&ours).unwrap();
    here.ok(&["check", name]);
    let Some(mounted) = Mounted::new(&["-t", "ext4", name], &kernel) else {
        return;
    };
    let at = fs::canonicalize(&kernel).unwrap();
    for (code, args) in [
        (8, &["check", name][..]),
        (1, &["ls", &root]),
        (1, &["mount", "-o", "ro", name, "ours"]),
    ] {
        let line = here.fails(code, args);
        let why = format!("is mounted read-write at {}", at.display());
        assert!(line.contains(&why), "{line}");
    }
    for args in [
        &["cp", "disk", name, "--force"][..],
        &["mkfs", name, "--force"],
    ] {
        here.fails(1, args);
    }
    here.ok(&["info", name]);
    // Whoever knows better.
    let forced = here.run(&["check", "--force", name]);
    assert!(matches!(forced.status.code(), Some(0 | 4)), "{forced:?}");
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&kernel)
        .status();
    assert!(remounted.unwrap().success());
    here.ok(&["check", name]);
    here.ok(&["ls", &root]);
    drop(mounted);
    here.ok(&["touch", &format!("{name}:/after")]);
    here.ok(&["check", name]);
}

/// Mounts an image, which must become read-only with a warning that says why.
fn assert_write_protected(here: &Here, image: &str) {
    let dir = here.path("mnt");
    let out = here.run(&["mount", image, "mnt"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{said}");
    let _mounted = Mounted(&dir);
    assert!(
        said.contains("write-protected, mounted read-only"),
        "{said}"
    );
    assert!(dir.join("kept").exists());
    let made = fs::write(dir.join("new"), "");
    assert_eq!(
        made.unwrap_err().kind(),
        std::io::ErrorKind::ReadOnlyFilesystem
    );
    // Waits until the image is closed, so that what holds it can be unmounted.
    here.ok(&["umount", "mnt"]);
}

#[test]
fn what_can_t_be_written_is_mounted_read_only() {
    let here = Here::new();
    fs::create_dir(here.path("mnt")).unwrap();
    fs::create_dir(here.path("small")).unwrap();
    here.ok(&["mkfs", "a.img", "--size", "16M"]);
    here.ok(&["touch", "a.img:/kept"]);
    if !Path::new("/dev/fuse").exists() {
        return eprintln!("skipped: mounting needs /dev/fuse");
    }
    let Some(device) = here.attach("a.img", &["-r"]) else {
        return;
    };
    assert_write_protected(&here, device.name());
    drop(device);
    let small = here.path("small");
    let Some(_small) = Mounted::new(&["-t", "tmpfs", "tmpfs"], &small) else {
        return;
    };
    fs::copy(here.path("a.img"), small.join("a.img")).unwrap();
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&small)
        .status();
    assert!(remounted.unwrap().success());
    assert_write_protected(&here, "small/a.img");
    let line = here.fails(1, &["touch", "small/a.img:/new"]);
    assert!(
        line.contains("the file system it is on, is read-only"),
        "{line}"
    );
    here.ok(&["ls", "small/a.img:/kept"]);
}
