//! Files with fs-verity, beside what `fsverity digest` makes of the same files.
use uext4_testkit::prelude::*;

use crate::oracle::fsck;
use std::os::unix::fs::symlink;
use uext4::{Errno, Filesystem, FsVerityFile, ImageOptions, MkfsOptions, NoProgress};

/// What `fsverity digest` prints of a file; `None` where it is not installed.
fn digest(file: &Path) -> Option<String> {
    let out = Command::new("fsverity")
        .args(["digest", "--compact"])
        .arg(file)
        .output()
        .ok()?;
    assert!(out.status.success(), "{out:?}");
    Some(String::from_utf8(out.stdout).unwrap().trim().to_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn options(root: &Path) -> MkfsOptions {
    MkfsOptions::new()
        .from(root)
        .uuid([7; 16])
        .time(1)
        .features("^has_journal")
        .unwrap()
}

fn made(image: &Path, options: &MkfsOptions) -> Vec<FsVerityFile> {
    let report = uext4::mkfs(image, options, &NoProgress).unwrap();
    assert_eq!(report.warnings, [""; 0]);
    fsck(image, "fs-verity");
    let checked = uext4::check(image, &uext4::CheckOptions::new(), &uext4::NoCheckProgress);
    assert_eq!(checked.unwrap().faults, []);
    report.fsverity
}

/// Files of all depths of a tree, with and without holes, and what does not get fs-verity.
fn sources(root: &Path) {
    let mut random = fastrand::Rng::with_seed(1);
    let block = 4096;
    for bytes in [
        0,
        1,
        block - 1,
        block,
        block + 1,
        16 * block,
        128 * block,
        128 * block + 1,
        300 * block,
    ] {
        let data: Vec<u8> = (0..bytes).map(|_| random.u8(..)).collect();
        fs::write(root.join(format!("{bytes}.so")), data).unwrap();
    }
    let sparse = File::create(root.join("sparse.so")).unwrap();
    sparse.write_at(b"data", 70 << 20).unwrap();
    sparse.write_at(b"more", (1 << 32) + 5000).unwrap();
    sparse.set_len((1 << 32) + 100_000).unwrap();
    let hole = File::create(root.join("hole.so")).unwrap();
    hole.set_len(1 << 20).unwrap();
    fs::write(root.join("plain"), "data").unwrap();
    fs::hard_link(root.join("1.so"), root.join("0 link")).unwrap();
    symlink("plain", root.join("link.so")).unwrap();
    fs::create_dir(root.join("dir.so")).unwrap();
}

#[test]
fn digests_are_those_that_fsverity_makes() {
    let dir = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    sources(root.path());
    let images = ["one", "eight"].map(|name| dir.path().join(name));
    let files = made(
        &images[0],
        &options(root.path()).fsverity("*.so").threads(1),
    );
    let again = made(
        &images[1],
        &options(root.path()).fsverity("*.so").threads(8),
    );
    assert_eq!(files, again);
    let same = Command::new("cmp").args(&images).status().unwrap();
    assert!(same.success(), "images differ by the number of threads");
    let paths: Vec<_> = files
        .iter()
        .map(|f| f.path.escape_ascii().to_string())
        .collect();
    let names =
        "/0 link /0.so /1228800.so /4095.so /4096.so /4097.so /524288.so /524289.so /65536.so";
    assert_eq!(paths.join(" "), format!("{names} /hole.so /sparse.so"));
    for file in &files {
        let name = String::from_utf8(file.path[1..].to_vec()).unwrap();
        let digest = require!(some digest(&root.path().join(&name)));
        assert_eq!(hex(&file.digest), digest, "{name}");
    }
}

#[test]
fn files_with_fsverity_are_read_and_removed_but_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let data = [7; 70_000];
    fs::write(root.path().join("file"), data).unwrap();
    let image = dir.path().join("image");
    made(&image, &options(root.path()).fsverity("/file"));
    let fs = Filesystem::open(&image, &ImageOptions::read_write()).unwrap();
    assert_eq!(fs.read("/file").unwrap(), data);
    let write = uext4::OpenOptions::new().write(true);
    let e = write.open(&fs, "/file").unwrap_err();
    assert_eq!(e.errno(), Errno::EPERM);
    let e = fs.truncate("/file", 0).unwrap_err();
    assert_eq!(e.errno(), Errno::EPERM);
    fs.set_permissions("/file", 0o600).unwrap();
    fs.write("/other", b"written").unwrap();
    fs.unmount().unwrap();
    fsck(&image, "after changes");
    let fs = Filesystem::open(&image, &ImageOptions::read_write()).unwrap();
    fs.remove_file("/file").unwrap();
    fs.unmount().unwrap();
    fsck(&image, "after the removal");
}

#[test]
fn what_cannot_have_fsverity_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), "data").unwrap();
    let image = dir.path().join("image");
    let options = options(root.path()).fsverity("file");
    let refused = |options: &MkfsOptions| {
        let e = uext4::mkfs(&image, options, &NoProgress).unwrap_err();
        assert!(!image.exists());
        e.to_string()
    };
    let small = refused(&options.clone().block_size(1024));
    assert_eq!(
        small,
        "block size can't be 1024: 4096 for files with fs-verity"
    );
    let maps = refused(&options.clone().features("^extent,^64bit").unwrap());
    assert_eq!(
        maps,
        "fsverity can't be file: files with fs-verity need the feature extent"
    );
    let e = refused(&options.clone().fsverity("["));
    assert_eq!(e, "fsverity can't be [: not a pattern");
    let unused = options.fsverity("*.none");
    let report = uext4::mkfs(&image, &unused, &NoProgress).unwrap();
    assert_eq!(
        report.warnings,
        ["fsverity: no regular file matches *.none"]
    );
}
