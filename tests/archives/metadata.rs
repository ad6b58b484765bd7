//! What options say of files, whatever source they come from: exclusion, owners, manifests, labels.
use uext4_testkit::prelude::*;

use crate::containers::{device, made, oci, options};
use crate::layout::{Pack, layout};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use uext4::FileKind;
use uext4_build::{IdRange, Input};

/// A tree of directories, a hard link and a symbolic link.
fn tree(root: &Path) {
    for dir in ["etc", "usr/bin", "var/cache/deep", "empty"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in [
        "etc/passwd",
        "usr/bin/tool",
        "var/cache/deep/kept",
        "etc/a.pyc",
    ] {
        std::fs::write(root.join(file), file).unwrap();
    }
    std::fs::hard_link(root.join("var/cache/deep/kept"), root.join("usr/kept")).unwrap();
    symlink("usr/bin", root.join("bin")).unwrap();
}

/// The tree as each kind of source.
fn sources(dir: &Path) -> Vec<Input> {
    let root = dir.join("tree");
    tree(&root);
    let archive = dir.join("a.tar");
    let tar = Command::new("tar")
        .args(["--format=posix", "--sort=name", "-C"])
        .arg(&root)
        .arg("-cf")
        .arg(&archive)
        .arg(".")
        .status();
    assert!(tar.unwrap().success());
    let image = dir.join("image");
    let layer = std::fs::read(&archive).unwrap();
    layout(&image, &[(layer, Pack::Gzip)]);
    vec![root.as_path().into(), archive.as_path().into(), oci(&image)]
}

/// The image of a source, opened.
fn opened(options: &MkfsOptions) -> Result<(uext4::Filesystem, Vec<String>), String> {
    let (device, report) = device(options).map_err(|e| e.to_string())?;
    let found = uext4_check::check(&device, &Default::default(), &uext4_check::NoProgress);
    assert!(found.unwrap().is_clean());
    let read_only = uext4::ImageOptions::read_only();
    let fs = uext4::Filesystem::open_device(Arc::new(device), &read_only).unwrap();
    Ok((fs, report.warnings))
}

fn owner(fs: &uext4::Filesystem, path: &str) -> (u32, u32) {
    let metadata = fs.symlink_metadata(path).unwrap();
    (metadata.uid(), metadata.gid())
}

fn kind_and_mode(fs: &uext4::Filesystem, path: &str) -> (FileKind, u16) {
    let metadata = fs.symlink_metadata(path).unwrap();
    (metadata.file_kind(), metadata.permissions())
}

#[test]
fn what_is_excluded_is_in_no_source() {
    let dir = tempfile::tempdir().unwrap();
    let mut images = Vec::new();
    for from in sources(dir.path()) {
        let mut options = options(vec![from]);
        options.exclude = ["/var/cache", "*.pyc", "empty"].map(Into::into).into();
        let (fs, warnings) = opened(&options).unwrap();
        assert_eq!(warnings, [""; 0]);
        for gone in ["var/cache", "etc/a.pyc", "empty"] {
            assert!(!fs.exists(gone).unwrap(), "{gone}");
        }
        // The content of a hard link is kept under its other name.
        assert_eq!(fs.read("usr/kept").unwrap(), b"var/cache/deep/kept");
        assert_eq!(fs.metadata("usr/kept").unwrap().nlink(), 1);
        assert!(fs.exists("var").unwrap() && fs.exists("etc/passwd").unwrap());
        images.push(made(&options).unwrap().0);
    }
    assert!(images.iter().all(|image| *image == images[0]));
    let mut wrong = options(vec![dir.path().join("tree").as_path().into()]);
    wrong.exclude = vec!["[".into()];
    let error = made(&wrong).unwrap_err().to_string();
    assert!(error.contains("exclude can't be ["), "{error}");
}

/// Patterns see the paths of the image, also where a source is put below one.
#[test]
fn what_is_excluded_is_not_even_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    tree(&root);
    let input = Input::parse(format!("/opt={}", root.display()).as_ref());
    let mut options = options(vec![root.as_path().into(), input]);
    options.exclude = vec!["/opt/etc/**".into(), "/usr".into()];
    let (fs, _) = opened(&options).unwrap();
    assert!(fs.exists("etc/passwd").unwrap() && !fs.exists("opt/etc/passwd").unwrap());
    assert!(fs.exists("opt/usr/bin").unwrap() && !fs.exists("usr").unwrap());
    if !rustix::process::geteuid().is_root() {
        let closed = root.join("var");
        std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o0)).unwrap();
        options.exclude.push("var".into());
        opened(&options).unwrap();
        std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    }
}

fn range(inside: u32, outside: u32, count: u32) -> IdRange {
    IdRange {
        inside,
        outside,
        count,
    }
}

#[test]
fn owners_are_mapped_everywhere() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: files of other owners are made as root only");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    tree(&root);
    let own = |name: &str, uid, gid| {
        std::os::unix::fs::lchown(root.join(name), Some(uid), Some(gid)).unwrap();
    };
    own("etc", 100_000, 200_005);
    own("usr/bin/tool", 165_535, 200_000);
    own("bin", 100_007, 200_000);
    let set = |name: &str, value: &[u8]| {
        let none = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(root.join("etc/passwd"), name, value, none).unwrap();
    };
    // user::rw-, user:100009:r--, group::r--, mask::r--, other::---
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, permission, id) in [
        (1u16, 6u16, u32::MAX),
        (2, 4, 100_009),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        acl.extend([tag.to_le_bytes(), permission.to_le_bytes()].concat());
        acl.extend(id.to_le_bytes());
    }
    set("system.posix_acl_access", &acl);
    let mut options = options(vec![root.as_path().into()]);
    options.map_uid = vec![range(0, 0, 1), range(1, 100_000, 65_536)];
    options.map_gid = vec![range(0, 0, 1), range(1000, 200_000, 100)];
    for from in sources_of(dir.path(), &root) {
        options.from = vec![from];
        let (fs, _) = opened(&options).unwrap();
        assert_eq!(owner(&fs, "etc"), (1, 1005));
        assert_eq!(owner(&fs, "usr/bin/tool"), (65_536, 1000));
        assert_eq!(owner(&fs, "bin"), (8, 1000));
        assert_eq!(owner(&fs, "usr"), (0, 0));
        assert_eq!(owner(&fs, "lost+found"), (0, 0));
        let acl = fs.get_xattr("etc/passwd", "system.posix_acl_access");
        assert!(
            acl.unwrap()
                .windows(4)
                .any(|four| four == 10u32.to_le_bytes())
        );
    }
    options.map_uid.pop();
    let error = opened(&options).map(drop).unwrap_err();
    assert!(error.contains("entry bin at byte "), "{error}");
    let what = "user 100007 is in no range of --map-uid";
    assert!(error.contains(what), "{error}");
    options.owner = Some((1, 1));
    let error = opened(&options).map(drop).unwrap_err();
    assert!(error.contains("owner can't be 1:1"), "{error}");
}

/// A tree that is there, and an archive of it with its attributes.
fn sources_of(dir: &Path, root: &Path) -> Vec<Input> {
    let archive = dir.join("owned.tar");
    let tar = Command::new("tar")
        .args([
            "--format=posix",
            "--xattrs",
            "--acls",
            "--numeric-owner",
            "-C",
        ])
        .arg(root)
        .arg("-cf")
        .arg(&archive)
        .arg(".")
        .status();
    assert!(tar.unwrap().success());
    vec![root.into(), archive.as_path().into()]
}

#[test]
fn a_manifest_describes_and_makes_files() {
    let dir = tempfile::tempdir().unwrap();
    let (manifest, content) = (dir.path().join("m"), dir.path().join("content"));
    std::fs::write(&content, "of the host").unwrap();
    let lines = format!(
        "# owners\n/** uid=7 gid=8\n/etc/passwd uid=1 mode=600 xattr.user.note=two\\ words\n\
         passwd gid=9 xattr.user.bytes=0x00ff\n/dev/null type=char major=1 minor=3 mode=666\n\
         /dev/loop type=block major=259 minor=70000\n/run/pipe type=fifo\n/new/dir type=dir mode=1777\n\
         /new/link type=link target=../etc/passwd\n/new/file type=file contents={}\n/empty2 type=file\n\
         /etc type=dir mode=700\nnothing-is-so-called uid=1\n",
        content.display()
    );
    std::fs::write(&manifest, lines).unwrap();
    let mut images = Vec::new();
    for from in sources(dir.path()) {
        let mut options = options(vec![from]);
        options.manifest = Some(manifest.clone());
        let (fs, warnings) = opened(&options).unwrap();
        let expected = format!(
            "{}: line 13: nothing matches nothing-is-so-called",
            manifest.display()
        );
        assert_eq!(warnings, [expected]);
        assert_eq!(owner(&fs, "usr/bin/tool"), (7, 8));
        assert_eq!(owner(&fs, "etc/passwd"), (1, 9));
        let mode = |path: &str| kind_and_mode(&fs, path);
        assert_eq!(mode("etc/passwd"), (FileKind::Regular, 0o600));
        assert_eq!(mode("etc"), (FileKind::Directory, 0o700));
        let xattr = |name: &str| fs.get_xattr("etc/passwd", name).unwrap();
        assert_eq!(xattr("user.note"), b"two words");
        assert_eq!(xattr("user.bytes"), b"\0\xff");
        assert_eq!(mode("dev/null"), (FileKind::CharDevice, 0o666));
        let device = |path: &str| fs.metadata(path).unwrap().rdev();
        assert_eq!(
            (device("dev/null"), device("dev/loop")),
            ((1, 3), (259, 70_000))
        );
        assert_eq!(mode("run/pipe"), (FileKind::Fifo, 0o644));
        assert_eq!(mode("new/dir"), (FileKind::Directory, 0o1777));
        assert_eq!(fs.read_link("new/link").unwrap(), b"../etc/passwd");
        assert_eq!(fs.read("new/file").unwrap(), b"of the host");
        assert_eq!(fs.read("empty2").unwrap(), b"");
        assert_eq!(fs.read("etc/passwd").unwrap(), b"etc/passwd");
        images.push(made(&options).unwrap().0);
    }
    assert!(images.iter().all(|image| *image == images[0]));
}

#[test]
fn a_manifest_that_does_not_fit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    tree(&root);
    let manifest = dir.path().join("m");
    let mut options = options(vec![root.as_path().into()]);
    options.manifest = Some(manifest.clone());
    for (lines, said) in [
        (
            "/etc/passwd type=dir",
            "line 1: a source has a file of another type",
        ),
        ("#\n/etc/passwd/x type=dir", "line 2: "),
        ("/x type=file contents=/none/such", "line 1: /none/such: "),
        ("/x type=file contents=/", "line 1: /: is not a file"),
        ("[ uid=1", "line 1: `[`: "),
        (
            "#mtree\nx type=file size=5",
            "line 2: no source has the file",
        ),
    ] {
        std::fs::write(&manifest, lines).unwrap();
        let error = opened(&options).map(drop).unwrap_err();
        assert!(error.contains(said), "{lines}: {error}");
    }
    std::fs::remove_file(&manifest).unwrap();
    opened(&options).map(drop).unwrap_err();
}

/// A manifest in the format of mtree(5), as bsdtar writes it, gives a copied tree its attributes again.
#[test]
fn a_manifest_of_mtree_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = dir.path().join("m");
    std::fs::write(
        &manifest,
        "#mtree\n/set type=file uid=5 gid=6 mode=640\n. type=dir mode=755\n etc type=dir mode=711\n  passwd time=1000.000000009\n\
         \x20 missing optional\n  ..\n./usr/bin/tool mode=4755 nlink=1 sha256digest=00 \\\n  size=12\n\
         ./dev/x\\040y type=block device=linux,8,1\n./lnk type=link link=a\\040b mode=777\n",
    )
    .unwrap();
    for from in sources(dir.path()) {
        let mut options = options(vec![from]);
        options.manifest = Some(manifest.clone());
        let (fs, warnings) = opened(&options).unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].ends_with("line 6: nothing matches etc/missing"),
            "{warnings:?}"
        );
        assert_eq!(owner(&fs, "etc"), (5, 6));
        let passwd = fs.metadata("etc/passwd").unwrap();
        assert_eq!((passwd.modified().sec, passwd.modified().nsec), (1000, 9));
        let mode = |path: &str| kind_and_mode(&fs, path);
        assert_eq!(mode("etc/passwd"), (FileKind::Regular, 0o640));
        assert_eq!(mode("usr/bin/tool"), (FileKind::Regular, 0o4755));
        assert_eq!(mode("dev/x y"), (FileKind::BlockDevice, 0o640));
        assert_eq!(fs.read_link("lnk").unwrap(), b"a b");
        assert_ne!(owner(&fs, "usr"), (5, 6));
    }
}

#[test]
fn labels_follow_paths() {
    let dir = tempfile::tempdir().unwrap();
    let contexts = dir.path().join("file_contexts");
    std::fs::write(
        &contexts,
        "/.*\tsystem_u:object_r:default_t:s0\n/etc(/.*)?\tsystem_u:object_r:etc_t:s0\n\
         /usr/bin/.*\t--\tsystem_u:object_r:bin_t:s0\n/bin\t-l\tsystem_u:object_r:bin_t:s0\n/empty\t<<none>>\n",
    )
    .unwrap();
    let mut images = Vec::new();
    for from in sources(dir.path()) {
        let mut options = options(vec![from]);
        options.contexts = Some(contexts.clone());
        let (fs, _) = opened(&options).unwrap();
        let label = |path: &str| fs.get_xattr(path, "security.selinux").ok();
        let of = |kind: &str| Some(format!("system_u:object_r:{kind}_t:s0\0").into_bytes());
        for (path, kind) in [
            ("/", "default"),
            ("etc", "etc"),
            ("etc/passwd", "etc"),
            ("usr/bin", "default"),
            ("usr/bin/tool", "bin"),
            ("bin", "bin"),
            ("lost+found", "default"),
        ] {
            assert_eq!(label(path), of(kind), "{path}");
        }
        assert_eq!(label("empty"), None);
        images.push(made(&options).unwrap().0);
    }
    assert!(images.iter().all(|image| *image == images[0]));
    std::fs::write(&contexts, "/x( s:x").unwrap();
    let mut wrong = options(vec![dir.path().join("tree").as_path().into()]);
    wrong.contexts = Some(contexts);
    let error = made(&wrong).unwrap_err().to_string();
    assert!(error.contains("file_contexts: line 1: `/x(`"), "{error}");
}
