//! The links that `make install-e2fsprogs-names` makes, and what the programs say of themselves.

use crate::run::{self, NAMES};
use uext4_testkit::prelude::*;

/// The links in `dir`, the pages in `man` below it.
fn make(dir: &Path, command: &Path) -> Output {
    let variable = |name: &str, path: &Path| format!("{name}={}", path.display());
    let mut make = Command::new("make");
    make.args(["-s", "-C", WORKSPACE, "install-e2fsprogs-names"]);
    make.arg(variable("DIR", dir))
        .arg(variable("MANDIR", &dir.join("man")))
        .arg(variable("COMMAND", command));
    make.output().unwrap()
}

/// Every name is linked; what was there stays, and is named.
#[test]
fn links_are_not_made_over_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mke2fs"), "mine").unwrap();
    let made = make(dir.path(), Path::new(&built::uext4()));
    assert!(made.status.success(), "{made:?}");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(
        said.contains("/mke2fs: is there already, left as it is"),
        "{said}"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("mke2fs")).unwrap(),
        "mine"
    );
    for name in NAMES
        .iter()
        .copied()
        .chain(["fuse2fs"])
        .filter(|name| *name != "mke2fs")
    {
        let link = dir.path().join(name);
        assert!(link.is_symlink(), "{name}");
    }
    // A second time nothing is left to do, and only the file is named.
    let again = make(dir.path(), Path::new(&built::uext4()));
    assert_eq!(again.stderr, made.stderr);
    assert!(!make(dir.path(), Path::new("/none/uext4")).status.success());
}

/// Each link has a page that says what differs; what was there stays, also the one of a program that was.
#[test]
fn pages_are_not_made_over_files() {
    let dir = tempfile::tempdir().unwrap();
    let page = |name: &str| dir.path().join("man/man8").join(name);
    fs::create_dir_all(page("")).unwrap();
    fs::write(page("e2fsck.8"), "mine").unwrap();
    fs::write(page("debugfs.8.gz"), "mine").unwrap();
    fs::write(dir.path().join("tune2fs"), "mine").unwrap();
    let made = make(dir.path(), Path::new(&built::uext4()));
    assert!(made.status.success(), "{made:?}");
    assert_eq!(fs::read_to_string(page("e2fsck.8")).unwrap(), "mine");
    assert!(!page("debugfs.8").exists());
    assert!(!page("tune2fs.8").exists(), "it has no link");
    let resize2fs = fs::read_to_string(page("resize2fs.8")).unwrap();
    for part in [
        "\\fBuext4 resize\\fR",
        "device [\\-b|\\-s|new_size]",
        "\\fB\\-z\\fR is refused",
    ] {
        assert!(resize2fs.contains(part), "{part}: {resize2fs}");
    }
    assert!(dir.path().join("man/man1/chattr.1").exists());
    // These are made anew.
    fs::remove_file(page("e2fsck.8")).unwrap();
    let again = make(dir.path(), Path::new(&built::uext4()));
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(page("e2fsck.8").exists());
}

/// Scripts find the number behind the name.
#[test]
fn versions_are_where_scripts_look_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, args: &[&str]| {
        let link = dir.path().join(name);
        let _ = std::os::unix::fs::symlink(built::uext4(), &link);
        let out = Command::new(link)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    for (name, said) in [
        ("mke2fs", "mke2fs 1.47.0 (uext4 "),
        ("mkfs.ext4", "mke2fs 1.47.0 (uext4 "),
        ("e2fsck", "e2fsck 1.47.0 (uext4 "),
        ("fsck.ext4", "e2fsck 1.47.0 (uext4 "),
        ("dumpe2fs", "dumpe2fs 1.47.0 (uext4 "),
        ("fuse2fs", "fuse2fs 1.47.0 (uext4 "),
    ] {
        let (code, out, err) = run(name, &["-V"]);
        assert_eq!((code, out.as_str()), (Some(0), ""), "{name}");
        assert!(err.starts_with(said), "{name}: {err}");
    }
    let (code, _, err) = run("resize2fs", &["none.img"]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with("resize2fs 1.47.0 (uext4 "), "{err}");
}

/// A mount through fuse2fs, and its refusals.
#[test]
fn fuse2fs_mounts() {
    if !can_mount() || !is_installed("mke2fs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(built::uext4(), dir.path().join("fuse2fs")).unwrap();
    let sh = |line: &str| run::shell(dir.path(), line, Some(dir.path()));
    let made = "mkdir mnt tree; echo text > tree/file; mke2fs -q -t ext4 -d tree t.img 16M";
    assert_eq!(sh(made).0, Some(0));
    for (options, written) in [
        ("ro", false),
        ("fakeroot,errors=continue", true),
        ("norecovery,bsddf", false),
    ] {
        let line = format!("fuse2fs -o {options},no_default_opts t.img mnt && cat mnt/file");
        let (code, out, err) = sh(&line);
        assert_eq!((code, out.as_str()), (Some(0), "text\n"), "{err}");
        assert_eq!(sh("touch mnt/new").0 == Some(0), written, "{options}");
        assert_eq!(sh("umount mnt").0, Some(0));
    }
    for (line, code, said) in [
        ("fuse2fs", 1, "Missing ext4 device/image"),
        ("fuse2fs none.img mnt", 2, "No such file or directory"),
        ("fuse2fs -o minixdf t.img mnt", 1, "minixdf"),
        ("fuse2fs -o frob t.img mnt", 1, "frob"),
    ] {
        let (found, _, err) = sh(line);
        assert_eq!(found, Some(code), "{line}: {err}");
        assert!(err.contains(said), "{line}: {err}");
    }
    sh("while mountpoint -q mnt; do umount -l mnt; done");
}

/// `debugfs -w` recovers the journal of an image that was not unmounted before it changes anything, and without `-w` nothing is written.
#[test]
fn debugfs_recovers_before_it_writes() {
    if !["mke2fs", "e2fsck"].into_iter().all(is_installed) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(built::uext4(), dir.path().join("debugfs")).unwrap();
    let sh = |line: &str| run::shell(dir.path(), line, Some(dir.path()));
    let made = image("64M", "-b 4096 -O quota -J size=4");
    let fs = made.mount();
    let (top, root) = (fs.top(), Caller::root());
    let there = fs.make(&top, b"there", &FILE);
    fs.put(&there, 0, b"data");
    fs.sync().expect("sync");
    // These are in the journal alone.
    fs.rename(&root, &top, b"there", &top, b"renamed", Default::default())
        .expect("rename");
    fs.make(&top, b"made", &FILE);
    let unlinked = fs.make(&top, b"unlinked", &FILE);
    fs.put(&unlinked, 0, &[1; 100_000]);
    fs.unlink(&root, &top, b"unlinked").expect("unlink");
    fs.sync().expect("sync");
    fs.crash();
    drop((there, unlinked));
    drop(fs);
    let copy = dir.path().join("t.img");
    std::fs::copy(&made, &copy).unwrap();
    let before = std::fs::read(&copy).unwrap();
    assert_eq!(
        sh("dumpe2fs -h t.img 2>/dev/null | grep -q needs_recovery").0,
        Some(0)
    );
    let (code, _, err) = sh("debugfs -R 'ls -p' t.img");
    assert_eq!(code, Some(0), "{err}");
    assert!(before == std::fs::read(&copy).unwrap(), "was written");
    for request in [
        "write t.txt /new",
        "ssv volume_name label",
        "sif /renamed mtime 20200101",
        "rm /made",
    ] {
        std::fs::write(&copy, &before).unwrap();
        std::fs::write(dir.path().join("t.txt"), "text").unwrap();
        let line = format!("debugfs -w -R '{request}' t.img");
        let (code, _, err) = sh(&line);
        assert_eq!(code, Some(0), "{request}: {err}");
        let (code, out, _) = sh("PATH=${PATH#*:}; e2fsck -fn t.img");
        assert_eq!(code, Some(0), "{request}: {out}");
        let (_, names, _) = sh("debugfs -R 'ls -p' t.img");
        for (name, is_there) in [
            ("/renamed/", true),
            ("/made/", request != "rm /made"),
            ("/there/", false),
            ("/unlinked/", false),
        ] {
            assert_eq!(names.contains(name), is_there, "{request}: {name}: {names}");
        }
    }
}

/// What mke2fs can do to an image and uext4 can't is refused, and the image stays.
#[test]
fn mke2fs_does_nothing_else_than_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (link, image) = (dir.path().join("mke2fs"), dir.path().join("t.img"));
    std::os::unix::fs::symlink(built::uext4(), &link).unwrap();
    let run = |words: &[&str]| {
        let mut mke2fs = Command::new(&link);
        mke2fs.args(words).arg(&image).arg("8M").output().unwrap()
    };
    assert!(run(&["-q", "-F"]).status.success());
    let made = fs::read(&image).unwrap();
    let refused: [&[&str]; 6] = [
        &["-S"],
        &["-c"],
        &["-l", "list"],
        &["-z", "undo"],
        &["-o", "hurd"],
        &["-r", "0"],
    ];
    for words in refused {
        let out = run(&[&["-F", "-q"], words].concat());
        assert_eq!(out.status.code(), Some(1), "{words:?}");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("is not supported"), "{words:?}: {said}");
        assert_eq!(fs::read(&image).unwrap(), made, "{words:?}");
    }
}
