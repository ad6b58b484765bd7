//! Archives of one tree in every format of GNU tar: the image is that of the tree.
use uext4_testkit::prelude::*;

use crate::containers::{made, options};
use crate::layout::Pack;
use std::ffi::OsStr;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};

fn run(program: &str, args: &[&OsStr]) -> bool {
    let output = Command::new(program).args(args).output();
    match output {
        Ok(output) if output.status.success() => true,
        Ok(output) => panic!("{program}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(e) => {
            eprintln!("skipped: {program}: {e}");
            false
        }
    }
}

/// Packs a tree with GNU tar, without its holes; false where there is none.
fn pack(root: &Path, archive: &Path, options: &[&str]) -> bool {
    let mut args: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    args.extend(["--sparse", "--sort=name", "-C"].map(OsStr::new));
    args.extend([
        root.as_os_str(),
        "-cf".as_ref(),
        archive.as_os_str(),
        ".".as_ref(),
    ]);
    run("tar", &args)
}

/// A tree of what archives have trouble with.
fn tree(root: &Path) {
    let path = |name: &str| root.join(name);
    let deep = path(&["d".repeat(200), "e".repeat(255)].join("/"));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("f".repeat(255)), vec![7; 70_000]).unwrap();
    std::fs::write(root.join(OsStr::from_bytes(b"\xff\xfe\n")), "not UTF-8").unwrap();
    std::fs::write(path("one"), "text").unwrap();
    std::fs::hard_link(path("one"), deep.join("two")).unwrap();
    symlink("x".repeat(300), path("link")).unwrap();
    std::fs::write(path("empty"), "").unwrap();
    // Data at both ends of a block, and more parts than one header has.
    let mut sparse = File::create(path("sparse")).unwrap();
    for i in 0..60u64 {
        sparse.seek(SeekFrom::Start(i * 1_000_003)).unwrap();
        sparse.write_all(&vec![i as u8; 5000]).unwrap();
    }
    sparse.set_len(20 << 30).unwrap();
    let set = |file: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(file, name, value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    set(&path("one"), "user.lines", b"a\nb\n\0c=d\n");
    set(&deep, "user.deep", b"value");
    if rustix::process::geteuid().is_root() {
        let owner = |name: &str, uid, gid| {
            std::os::unix::fs::chown(path(name), Some(uid), Some(gid)).unwrap()
        };
        // More than octal digits hold.
        owner("one", 3_000_000_000, 7);
        owner("empty", 5, 2_097_152);
        let device = rustix::fs::makedev(259, 1_000_000);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        for (name, kind) in [
            ("char", FileType::CharacterDevice),
            ("block", FileType::BlockDevice),
            ("fifo", FileType::Fifo),
        ] {
            rustix::fs::mknodat(rustix::fs::CWD, path(name), kind, mode, device).unwrap();
        }
        set(
            &path("empty"),
            "security.capability",
            b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        );
    }
    for (name, time) in [
        ("one", "1965-03-02 11:12:13.000000001"),
        ("empty", "2001-02-03 04:05:06.789012345"),
    ] {
        let (time, path) = (format!("--date={time}"), path(name));
        assert!(run("touch", &[time.as_ref(), path.as_os_str()]));
    }
}

use rustix::fs::FileType;

#[test]
fn an_archive_makes_the_image_that_its_tree_makes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    tree(&root);
    let archive = dir.path().join("archive");
    let of = |from: &Path| {
        let mut options = options(vec![from.into()]);
        options.time = Some(2_000_000_000);
        made(&options).unwrap()
    };
    let (expected, _) = of(&root);
    for form in [
        "--sparse-version=0.0",
        "--sparse-version=0.1",
        "--sparse-version=1.0",
    ] {
        let options = ["--format=pax", form, "--xattrs", "--xattrs-include=*"];
        if !pack(&root, &archive, &options) {
            return;
        }
        let plain = std::fs::read(&archive).unwrap();
        for pack in [Pack::Plain, Pack::Gzip, Pack::Zstd] {
            std::fs::write(&archive, pack.pack(&plain)).unwrap();
            let (image, report) = of(&archive);
            assert!(image == expected, "{form} {pack:?}: {report:?}");
            assert_eq!(report.hard_links, 1);
        }
    }
}

/// What GNU's own format can't hold is left out: attributes, nanoseconds.
#[test]
fn older_formats_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    std::fs::create_dir_all(root.join("a").join("n".repeat(120))).unwrap();
    std::fs::write(root.join("a/file"), vec![3; 100_000]).unwrap();
    std::fs::hard_link(root.join("a/file"), root.join("b")).unwrap();
    symlink("t".repeat(150), root.join("link")).unwrap();
    let mut sparse = File::create(root.join("sparse")).unwrap();
    for i in 0..60u64 {
        sparse.seek(SeekFrom::Start(i << 20)).unwrap();
        sparse.write_all(&[9; 4096]).unwrap();
    }
    let archive = dir.path().join("archive");
    let whole: Vec<PathBuf> = ["a", "a/file", "b", "link", "sparse", "."]
        .map(|name| root.join(name))
        .into();
    for path in whole.iter().chain([&root.join("a").join("n".repeat(120))]) {
        assert!(run(
            "touch",
            &[
                "-h".as_ref(),
                "--date=@1000000000".as_ref(),
                path.as_os_str()
            ]
        ));
    }
    let (expected, _) = made(&options(vec![root.clone().into()])).unwrap();
    for format in ["gnu", "oldgnu"] {
        let format = format!("--format={format}");
        if !pack(&root, &archive, &[&format]) {
            return;
        }
        let (image, _) = made(&options(vec![archive.as_path().into()])).unwrap();
        assert!(image == expected, "{format}");
    }
    assert!(
        std::fs::metadata(&archive).unwrap().size() < 1 << 20,
        "holes are not in it"
    );
}
