//! Devices that the kernel has mounted, and what can't be written. Needs root, loop devices and the kernel's ext4.

use crate::*;

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
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "disk", "--size", "32M"]);
    let Some(device) = workdir.attach("disk", &[]) else {
        return;
    };
    let name = device.path();
    let root = format!("{name}:/");
    let (kernel, ours) = (workdir.path("kernel"), workdir.path("ours"));
    fs::create_dir(&kernel).unwrap();
    fs::create_dir(&ours).unwrap();
    workdir.ok(&["check", name]);
    let mounted = require!(some Mounted::new(&["-t", "ext4", name], &kernel));
    let at = fs::canonicalize(&kernel).unwrap();
    for (code, args) in [
        (8, &["check", name][..]),
        (1, &["ls", &root]),
        (1, &["mount", "-o", "ro", name, "ours"]),
    ] {
        let line = workdir.fails(code, args);
        let why = format!("is mounted read-write at {}", at.display());
        assert!(line.contains(&why), "{line}");
    }
    for args in [
        &["cp", "disk", name, "--force"][..],
        &["mkfs", name, "--force"],
    ] {
        workdir.fails(1, args);
    }
    workdir.ok(&["info", name]);
    // The caller overrides the check.
    let forced = workdir.run(&["check", "--force", name]);
    assert!(matches!(forced.status.code(), Some(0 | 4)), "{forced:?}");
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&kernel)
        .status();
    assert!(remounted.unwrap().success());
    workdir.ok(&["check", name]);
    workdir.ok(&["ls", &root]);
    drop(mounted);
    workdir.ok(&["touch", &format!("{name}:/after")]);
    workdir.ok(&["check", name]);
}

/// Mounts an image, which must become read-only with a warning that says why.
fn assert_write_protected(workdir: &Workdir, image: &str) {
    let dir = workdir.path("mnt");
    let out = workdir.run(&["mount", image, "mnt"]);
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
    workdir.ok(&["umount", "mnt"]);
}

#[test]
fn what_can_t_be_written_is_mounted_read_only() {
    let workdir = Workdir::new();
    fs::create_dir(workdir.path("mnt")).unwrap();
    fs::create_dir(workdir.path("small")).unwrap();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["touch", "a.img:/kept"]);
    if !Path::new("/dev/fuse").exists() {
        return eprintln!("skipped: mounting needs /dev/fuse");
    }
    let Some(device) = workdir.attach("a.img", &["-r"]) else {
        return;
    };
    assert_write_protected(&workdir, device.path());
    drop(device);
    let small = workdir.path("small");
    let _small = require!(some Mounted::new(&["-t", "tmpfs", "tmpfs"], &small));
    fs::copy(workdir.path("a.img"), small.join("a.img")).unwrap();
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&small)
        .status();
    assert!(remounted.unwrap().success());
    assert_write_protected(&workdir, "small/a.img");
    workdir.refuses(
        1,
        &["touch", "small/a.img:/new"],
        "the file system it is on, is read-only",
    );
    workdir.ok(&["ls", "small/a.img:/kept"]);
}
