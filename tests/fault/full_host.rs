//! A sparse image on a host that runs full: the operation that needs space reports it; nothing else is lost.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use uext4::*;

/// A small tmpfs, unmounted when dropped; `None` where this process may not mount.
struct Host {
    dir: tempfile::TempDir,
}

impl Host {
    fn new(size: &str) -> Option<Host> {
        let dir = tempfile::tempdir().expect("a directory");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"])
            .arg(dir.path())
            .output();
        match mounted {
            Ok(out) if out.status.success() => Some(Host { dir }),
            other => {
                eprintln!("SKIPPED: no tmpfs can be mounted here: {other:?}");
                None
            }
        }
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.dir.path())
            .status();
    }
}

fn make(image: &Path) -> Filesystem {
    let options = MkfsOptions::new().size(1 << 30).journal_size(4 << 20);
    mkfs(image, &options, &NoProgress).expect("mkfs");
    Filesystem::open(image, &ImageOptions::read_write()).expect("open")
}

fn assert_clean(image: &Path) {
    let report = check(image, &CheckOptions::default(), &NoCheckProgress).expect("check");
    assert!(report.is_clean(), "{:?}", report.faults.first());
    let fsck = Command::new("e2fsck").arg("-fn").arg(image).output();
    let fsck = fsck.expect("e2fsck");
    assert!(
        fsck.status.success(),
        "{}",
        String::from_utf8_lossy(&fsck.stdout)
    );
}

/// Repeats `work` until the host is full, and a bit longer.
fn until_full(fs: &Filesystem, work: impl Fn(u32) -> Result<()>) -> u32 {
    let mut done = 0;
    let mut refused = 0;
    for i in 0..400_000 {
        match work(i) {
            Ok(()) => done += 1,
            Err(why) if why.errno() == Errno::ENOSPC => refused += 1,
            Err(why) => panic!("{i}: {why}"),
        }
        if i.is_multiple_of(200) {
            fs.sync().expect("what was accepted has its space");
        }
        if refused > 300 {
            return done;
        }
    }
    panic!("the host was never full");
}

fn run(what: &str, work: fn(&Filesystem, u32) -> Result<()>) {
    let Some(host) = Host::new("20m") else { return };
    let image = host.image();
    let fs = make(&image);
    fs.write("/before", b"was there before").expect("write");
    let done = until_full(&fs, |i| work(&fs, i));
    assert!(done > 10, "{what}: {done}");
    fs.sync().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(fs.read("/before").expect("read"), b"was there before");
    // With space again it continues.
    for i in 0..done / 2 {
        let _ = fs.remove_dir_all(format!("/{i}"));
    }
    fs.sync().expect("sync");
    fs.trim(0).expect("trim");
    fs.write("/after", vec![1; 100_000]).expect("write");
    fs.unmount().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_clean(&image);
}

#[test]
fn data_on_a_full_host() {
    run("data", |fs, i| {
        fs.create_dir(format!("/{i}"))?;
        fs.write(format!("/{i}/data"), vec![7; 60_000])
    });
}

#[test]
fn metadata_on_a_full_host() {
    run("directories", |fs, i| fs.create_dir(format!("/{i}")));
}

#[test]
fn attributes_and_links_on_a_full_host() {
    run("attributes", |fs, i| {
        fs.create_dir(format!("/{i}"))?;
        fs.symlink("t".repeat(500), format!("/{i}/link"))?;
        let name = format!("/{i}");
        fs.set_xattr(name, "user.large", vec![1; 2000], XattrFlags::empty())
    });
}

#[test]
fn the_journal_and_what_is_preallocated_have_their_space() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    let used = |image: &Path| image.metadata().expect("an image").blocks() * 512;
    let options = MkfsOptions::new().size(64 << 20).journal_size(16 << 20);
    mkfs(&image, &options, &NoProgress).expect("mkfs");
    let sparse = used(&image);
    assert!((16 << 20..32 << 20).contains(&sparse), "{sparse}");
    std::fs::remove_file(&image).expect("remove");
    mkfs(&image, &options.preallocate(true), &NoProgress).expect("mkfs");
    assert!(used(&image) >= 64 << 20);
    // One that came without its space gets it for the journal when it is mounted.
    let copy = dir.path().join("copy");
    let copied = Command::new("cp")
        .arg("--sparse=always")
        .args([&image, &copy])
        .status();
    assert!(copied.expect("cp").success() && used(&copy) < 8 << 20);
    let fs = Filesystem::open(&copy, &ImageOptions::read_write()).expect("open");
    assert!(used(&copy) >= 16 << 20);
    fs.unmount().expect("unmount");
    assert_clean(&copy);
}
