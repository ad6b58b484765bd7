//! Images made from trees, compared entry by entry with the tree through the kernel's mount.

use uext4_testkit::prelude::*;

use crate::oracle::{Mounted, fsck, make};
use rustix::fs::{AtFlags, CWD, FileType, Mode, SeekFrom, Timespec, Timestamps, XattrFlags};
use uext4_build::{MkfsError, Plan, Scan, mkfs};

fn set_times(path: &Path, atime: (i64, i64), mtime: (i64, i64)) {
    let spec = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: spec(atime),
        last_modification: spec(mtime),
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    if let Err(e) = rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()) {
        eprintln!("skipped: attribute {name}: {e}");
    }
}

fn make_nodes(root: &Path) {
    let nodes = [
        ("fifo", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        ("char", FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
        (
            "block",
            FileType::BlockDevice,
            rustix::fs::makedev(259, 70000),
        ),
    ];
    for (name, kind, dev) in nodes {
        let mode = Mode::from_raw_mode(0o640);
        if let Err(e) = rustix::fs::mknodat(CWD, root.join(name), kind, mode, dev) {
            eprintln!("skipped: node {name}: {e}");
        }
    }
}

/// A file with data at its front, in its middle and nothing at its end.
fn make_sparse(path: &Path) {
    let file = File::create(path).unwrap();
    file.write_at(b"front", 0).unwrap();
    file.write_at(&[7; 5000], 1_000_001).unwrap();
    file.set_len(5_000_000).unwrap();
}

/// A file with so many pieces that its extents need blocks of their own.
fn make_fragmented(path: &Path) {
    let file = File::create(path).unwrap();
    for i in 0..700u64 {
        file.write_at(&[i as u8; 100], i * 16384).unwrap();
    }
}

fn make_attributes(root: &Path) {
    let path = |name: &str| root.join(name);
    for name in ["small attributes", "large attributes", "acl"] {
        fs::write(path(name), "x").unwrap();
    }
    set_xattr(&path("small attributes"), "user.a", b"b");
    set_xattr(&path("small attributes"), "user.empty", b"");
    set_xattr(&path("large attributes"), "user.large", &[9; 600]);
    set_xattr(&path("large attributes"), "user.small", b"value");
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    set_xattr(
        &path("small attributes"),
        "security.capability",
        &capability,
    );
    set_xattr(root, "user.root", b"of the root");
    // Version 2: owner, a user, group, mask, others.
    let mut acl = vec![2, 0, 0, 0];
    for (tag, perm, id) in [
        (1u16, 6u16, !0u32),
        (2, 4, 1000),
        (4, 4, !0),
        (16, 4, !0),
        (32, 0, !0),
    ] {
        acl.extend(tag.to_le_bytes());
        acl.extend(perm.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    set_xattr(&path("acl"), "system.posix_acl_access", &acl);
    let dir = path("acl dir");
    fs::create_dir(&dir).unwrap();
    set_xattr(&dir, "system.posix_acl_default", &acl);
}

/// A tree with everything that is odd.
fn nasty_tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("empty"), "").unwrap();
    fs::write(path("setuid"), "#!").unwrap();
    fs::set_permissions(path("setuid"), fs::Permissions::from_mode(0o6755)).unwrap();
    fs::write(path("block"), [3; 4096]).unwrap();
    fs::write(path("more"), vec![4; 3_000_001]).unwrap();
    fs::create_dir(path("sticky")).unwrap();
    fs::set_permissions(path("sticky"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::hard_link(path("more"), path("sticky/linked")).unwrap();
    fs::hard_link(path("more"), path("again")).unwrap();
    symlink("short", path("fast link")).unwrap();
    symlink("f".repeat(59), path("longest fast link")).unwrap();
    symlink("s".repeat(60), path("shortest slow link")).unwrap();
    symlink("x/".repeat(400), path("slow link")).unwrap();
    fs::write(path(&"n".repeat(255)), "long name").unwrap();
    fs::write(
        dir.path()
            .join(std::ffi::OsStr::from_bytes(b"\xff\xfe bytes")),
        "bytes",
    )
    .unwrap();
    make_sparse(&path("sparse"));
    make_fragmented(&path("fragmented"));
    File::create(path("all hole"))
        .unwrap()
        .set_len(1 << 33)
        .unwrap();
    if rustix::process::geteuid().is_root() {
        fs::rename(path("block"), path("data")).unwrap();
        make_nodes(dir.path());
        std::os::unix::fs::lchown(path("fast link"), Some(70000), Some(80000)).unwrap();
        std::os::unix::fs::chown(path("data"), Some(1234), Some(99999)).unwrap();
    }
    make_attributes(dir.path());
    let mut deep = path("deep");
    for i in 0..40 {
        fs::create_dir(&deep).unwrap();
        fs::write(deep.join("file"), format!("{i}")).unwrap();
        deep = deep.join("d");
    }
    fs::create_dir(path("many")).unwrap();
    for i in 0..5000 {
        fs::write(path(&format!("many/name number {i}")), format!("{i}")).unwrap();
    }
    fs::create_dir(path("wide")).unwrap();
    for i in 0..300 {
        fs::create_dir(path(&format!("wide/{i}{}", "w".repeat(200)))).unwrap();
    }
    fs::create_dir(path("lost+found")).unwrap();
    fs::write(path("lost+found/#17"), "found").unwrap();
    set_times(&path("empty"), (-5, 999_999_999), (-2_000_000_000, 1));
    set_times(
        &path("setuid"),
        (3_000_000_000, 123_456_789),
        (10_000_000_000, 5),
    );
    set_times(&path("fast link"), (1, 2), (3, 4));
    set_times(&path("sticky"), (100, 200), (300, 400));
    dir
}

/// Compares two trees in everything that a program can see.
struct Compare {
    /// Inodes of the source and of the image: hard links must lead to the same one.
    inodes: HashMap<(u64, u64), u64>,
    files: usize,
}

impl Compare {
    fn entry(&mut self, a: &Path, b: &Path) {
        let (x, y) = (
            fs::symlink_metadata(a).unwrap(),
            fs::symlink_metadata(b).unwrap(),
        );
        let what = a.display();
        assert_eq!(x.mode(), y.mode(), "{what}");
        assert_eq!((x.uid(), x.gid()), (y.uid(), y.gid()), "{what}");
        assert_eq!(x.rdev(), y.rdev(), "{what}");
        assert_eq!(
            time(x.mtime(), x.mtime_nsec()),
            time(y.mtime(), y.mtime_nsec()),
            "{what}"
        );
        assert_eq!(
            time(x.ctime(), x.ctime_nsec()),
            time(y.ctime(), y.ctime_nsec()),
            "{what}"
        );
        let seen = !x.is_dir() && self.inodes.contains_key(&(x.dev(), x.ino()));
        if !x.is_symlink() && !seen {
            // Reading, here or by the scan, changes it in the source.
            assert_eq!(
                time(x.atime(), x.atime_nsec()),
                time(y.atime(), y.atime_nsec()),
                "{what}"
            );
        }
        assert_eq!(xattrs(a), xattrs(b), "{what}");
        self.files += 1;
        if x.is_dir() {
            return self.directory(a, b);
        }
        assert_eq!((x.len(), x.nlink()), (y.len(), y.nlink()), "{what}");
        let ino = *self.inodes.entry((x.dev(), x.ino())).or_insert(y.ino());
        assert_eq!(ino, y.ino(), "{what}");
        if x.is_symlink() {
            assert_eq!(
                fs::read_link(a).unwrap(),
                fs::read_link(b).unwrap(),
                "{what}"
            );
        } else if x.is_file() {
            assert_eq!(segments(a), segments(b), "{what}");
            for (start, end) in segments(a) {
                assert!(read(a, start, end) == read(b, start, end), "{what}");
            }
        }
    }

    fn directory(&mut self, a: &Path, b: &Path) {
        let (x, y) = (names(a), names(b));
        let root = a.join("lost+found");
        let made = y
            .iter()
            .filter(|n| !root.exists() && n.as_bytes() == b"lost+found")
            .count();
        assert_eq!(x.len(), y.len() - made, "{}", a.display());
        let dirs = y
            .iter()
            .filter(|n| b.join(n).symlink_metadata().unwrap().is_dir())
            .count();
        assert_eq!(
            fs::metadata(b).unwrap().nlink(),
            dirs as u64 + 2,
            "{}",
            b.display()
        );
        for name in x {
            self.entry(&a.join(&name), &b.join(&name));
        }
    }
}

fn time(sec: i64, nsec: i64) -> (i64, i64) {
    (sec, nsec)
}

fn names(dir: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    names
}

fn xattrs(path: &Path) -> Vec<(CString, Vec<u8>)> {
    let (mut list, mut value) = (vec![0; 65536], vec![0; 65536]);
    let len = rustix::fs::llistxattr(path, &mut list[..]).unwrap_or(0);
    let names = list[..len].split(|b| *b == 0).filter(|n| !n.is_empty());
    let mut all: Vec<_> = names
        .map(|n| {
            let len = rustix::fs::lgetxattr(path, n, &mut value[..]).unwrap();
            (CString::new(n).unwrap(), value[..len].to_vec())
        })
        .collect();
    all.sort();
    all
}

fn segments(path: &Path) -> Vec<(u64, u64)> {
    let file = File::open(path).unwrap();
    let (mut at, mut all) = (0, Vec::new());
    while let Ok(start) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        at = rustix::fs::seek(&file, SeekFrom::Hole(start)).unwrap();
        all.push((start, at));
    }
    all
}

fn read(path: &Path, start: u64, end: u64) -> Vec<u8> {
    let mut bytes = vec![0; (end - start) as usize];
    File::open(path)
        .unwrap()
        .read_exact_at(&mut bytes, start)
        .unwrap();
    bytes
}

fn from(tree: &Path) -> MkfsOptions {
    with(|o: &mut MkfsOptions| (o.from, o.threads) = (vec![tree.into()], 2))
}

fn compare(tree: &Path, image: &Path) {
    if let Some(mounted) = Mounted::new(image, "ro,noatime") {
        let mut compare = Compare {
            inodes: HashMap::new(),
            files: 0,
        };
        compare.entry(tree, &mounted.path());
        assert!(compare.files > 0);
    }
}

#[test]
fn nasty_tree_is_the_same_in_the_image() {
    let tree = nasty_tree();
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let report = make(&image, &from(tree.path())).unwrap();
    assert_eq!(
        (report.hard_links, report.warnings.len()),
        (2, 0),
        "{report:?}"
    );
    fsck(&image, "the nasty tree");
    compare(tree.path(), &image);
}

#[test]
fn nasty_tree_in_every_format() {
    let tree = nasty_tree();
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let formats = [
        (1024, 256, ""),
        (2048, 128, "^metadata_csum,uninit_bg"),
        (4096, 512, "^dir_index,^has_journal"),
        (1024, 1024, "^flex_bg,^64bit"),
        (4096, 256, "^resize_inode,^sparse_super,^metadata_csum"),
        (4096, 256, "^extent"),
        (1024, 256, "^extent,^64bit,^metadata_csum"),
        (4096, 256, "bigalloc"),
        (1024, 256, "bigalloc,^flex_bg,^64bit,quota"),
        (4096, 256, "^filetype"),
        (16384, 128, ""),
        (32768, 256, "^extent,^64bit"),
        (65536, 256, "inline_data,meta_bg,^resize_inode"),
        (4096, 256, "meta_bg,^resize_inode,fast_commit,mmp"),
        (4096, 512, "sparse_super2,inline_data,ea_inode,large_dir"),
        (2048, 256, "^filetype,^dir_index,project,stable_inodes"),
        (
            4096,
            256,
            "none,filetype,ext_attr,large_file,dir_nlink,extra_isize",
        ),
    ];
    for (block_size, inode_size, list) in formats {
        let mut options = from(tree.path());
        (options.block_size, options.inode_size) = (block_size, inode_size);
        options.features = FeatureSet::parse(list).unwrap();
        let what = format!("blocks of {block_size}, inodes of {inode_size}, {list:?}");
        make(&image, &options).unwrap();
        fsck(&image, &what);
        if inode_size > 128 && block_size == 4096 {
            compare(tree.path(), &image);
        }
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn large_files_go_around_metadata() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let bytes: Vec<u8> = (0..70u32 << 18)
        .flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect();
    fs::write(tree.join("large"), &bytes).unwrap();
    let image = dir.path().join("image");
    let mut options = from(&tree);
    // Groups of 8 MiB, with backups in the way.
    options.block_size = 1024;
    make(&image, &options).unwrap();
    fsck(&image, "a file of many groups");
    compare(&tree, &image);
}

#[test]
fn large_directories_are_found_by_the_kernel() {
    let tree = tempfile::tempdir().unwrap();
    let name = |i: usize| format!("{i}-{}", "x".repeat(i % 150));
    for i in 0..12_000 {
        File::create(tree.path().join(name(i))).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    // Small blocks make a tree of two levels; the size leaves room for more files.
    let mut options = from(tree.path());
    (options.block_size, options.size) = (1024, Some(64 << 20));
    make(&image, &options).unwrap();
    fsck(&image, "a directory of two levels");
    if let Some(mounted) = Mounted::new(&image, "rw") {
        for i in (0..12_000).step_by(7) {
            assert!(mounted.path().join(name(i)).exists(), "{i}");
        }
        for i in 0..1000 {
            File::create(mounted.path().join(format!("new {i}"))).unwrap();
            fs::remove_file(mounted.path().join(name(i))).unwrap();
        }
        drop(mounted);
        fsck(&image, "a directory that the kernel changed");
    }
}

#[test]
fn a_directory_of_three_levels() {
    let tree = tempfile::tempdir().unwrap();
    let one = tree.path().join("one");
    fs::write(&one, "1").unwrap();
    // 255 bytes each: three to a block of 1 KiB.
    let name = |i: usize| format!("{i:05}{}", "n".repeat(250));
    for i in 0..48_000 {
        fs::hard_link(&one, tree.path().join(name(i))).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let mut options = from(tree.path());
    (options.block_size, options.size) = (1024, Some(64 << 20));
    let error = make(&image, &options).unwrap_err();
    assert!(error.to_string().ends_with("too many names"), "{error}");
    options.features = FeatureSet::parse("large_dir").unwrap();
    make(&image, &options).unwrap();
    fsck(&image, "a directory of three levels");
    if let Some(mounted) = Mounted::new(&image, "rw") {
        for i in (0..48_000).step_by(97) {
            assert!(mounted.path().join(name(i)).exists(), "{i}");
        }
        for i in 50_000..52_000 {
            File::create(mounted.path().join(name(i))).unwrap();
            fs::remove_file(mounted.path().join(name(i - 50_000))).unwrap();
        }
        drop(mounted);
        fsck(
            &image,
            "a directory of three levels that the kernel changed",
        );
    }
}

#[test]
fn paths_longer_than_the_host_takes() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let name = "d".repeat(250);
    let mut at: std::os::fd::OwnedFd = File::open(&tree).unwrap().into();
    for _ in 0..30 {
        rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, &name, rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    let file = rustix::fs::openat(&at, "file", flags, Mode::RWXU).unwrap();
    rustix::io::write(&file, b"deep down").unwrap();
    rustix::fs::fsetxattr(&file, "user.deep", b"yes", XattrFlags::empty()).unwrap();
    let image = dir.path().join("image");
    let report = make(&image, &from(&tree)).unwrap();
    assert_eq!((report.files, report.directories), (1, 32));
    fsck(&image, "deep paths");
}

#[test]
fn same_bytes_from_any_number_of_threads() {
    let tree = nasty_tree();
    let dir = tempfile::tempdir().unwrap();
    let image = |threads: usize| {
        let mut options = from(tree.path());
        options.uuid = Some("01234567-89ab-cdef-0123-456789abcdef".parse().unwrap());
        options.time = Some(1_700_000_000);
        options.threads = threads;
        let path: PathBuf = dir.path().join(format!("{threads}"));
        make(&path, &options).unwrap();
        fs::read(path).unwrap()
    };
    let one = image(1);
    assert!(one == image(4) && one == image(2));
}

#[test]
fn exact_size_leaves_five_percent() {
    let tree = nasty_tree();
    let dir = tempfile::tempdir().unwrap();
    for block_size in [1024, 4096] {
        let image = dir.path().join("image");
        let mut options = from(tree.path());
        options.block_size = block_size;
        let report = make(&image, &options).unwrap();
        assert_eq!(fs::metadata(&image).unwrap().len(), report.image_bytes);
        let Some(dump) = crate::oracle::dump(&image) else {
            return;
        };
        let number = |name| {
            crate::oracle::field(&dump, name)
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        let files = number("Inode count") - number("Free inodes");
        assert!(number("Free inodes") * 100 >= files * 5);
        let metadata = number("Overhead clusters");
        let used = number("Block count") - number("Free blocks") - metadata;
        let spare = number("Free blocks") as f64 / used as f64;
        assert!((0.045..0.08).contains(&spare), "{spare}");
        assert_eq!(number("Reserved block count"), 0);
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn tiny_trees_and_many_empty_files() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, image) = (dir.path().join("tree"), dir.path().join("image"));
    fs::create_dir(&tree).unwrap();
    make(&image, &from(&tree)).unwrap();
    fsck(&image, "an empty tree");
    fs::remove_file(&image).unwrap();
    for i in 0..40_000 {
        symlink("t", tree.join(format!("{i}"))).unwrap();
    }
    let report = make(&image, &from(&tree)).unwrap();
    assert_eq!(report.symlinks, 40_000);
    fsck(&image, "more inodes than blocks");
    // 256 bytes of inode and 8 to 20 of name each, and a journal of 4 MiB.
    assert!(report.image_bytes < 24 << 20, "{}", report.image_bytes);
    compare(&tree, &image);
}

#[test]
fn files_that_change_under_the_copy() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["grows", "shrinks", "stays"] {
        fs::write(tree.join(name), [1; 10_000]).unwrap();
    }
    let options = from(&tree);
    let scan = Scan::read(&tree, 1, &NoProgress).unwrap();
    let plan = Plan::new(&options, Some(scan)).unwrap();
    fs::write(tree.join("grows"), [2; 20_000]).unwrap();
    fs::write(tree.join("shrinks"), [3; 5]).unwrap();
    let image = dir.path().join("image");
    let device = FileDevice::open(&image, &OpenOptions::create(plan.image_bytes())).unwrap();
    let report = plan.write(&device, &NoProgress).unwrap();
    drop(device);
    assert_eq!(report.warnings.len(), 3, "{report:?}");
    assert!(report.warnings[2].ends_with("too small for one"));
    assert!(report.warnings[0].ends_with("tree/grows: changed while it was copied"));
    fsck(&image, "files that changed");
    if let Some(mounted) = Mounted::new(&image, "ro") {
        let read = |name| fs::read(mounted.path().join(name)).unwrap();
        assert_eq!(read("grows"), [2; 10_000]);
        let mut shrunk = vec![3; 5];
        shrunk.resize(10_000, 0);
        assert_eq!(read("shrinks"), shrunk);
        assert_eq!(read("stays"), [1; 10_000]);
    }
}

#[test]
fn owner_and_attributes_that_do_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), "x").unwrap();
    let mut options = from(&tree);
    options.owner = Some((1000, 70000));
    let image = dir.path().join("image");
    make(&image, &options).unwrap();
    fsck(&image, "another owner");
    if let Some(mounted) = Mounted::new(&image, "ro") {
        let meta = fs::metadata(mounted.path().join("file")).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (1000, 70000));
    }
    let large = vec![1; 1500];
    rustix::fs::setxattr(tree.join("file"), "user.large", &large, XattrFlags::empty()).unwrap();
    options.block_size = 1024;
    let error = mkfs(&MemoryDevice::new(8 << 20), &options, &NoProgress).unwrap_err();
    assert!(matches!(&error, MkfsError::Unfit { .. }));
    assert!(
        error
            .to_string()
            .contains("tree/file: extended attributes do not fit"),
        "{error}"
    );
    fs::remove_file(tree.join("file")).unwrap();
    fs::write(tree.join("lost+found"), "").unwrap();
    let error = mkfs(&MemoryDevice::new(8 << 20), &options, &NoProgress).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("tree/lost+found: must be a directory"),
        "{error}"
    );
}

#[test]
fn a_tree_too_large_for_the_size() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), vec![1; 5 << 20]).unwrap();
    let mut options = from(dir.path());
    options.size = Some(4 << 20);
    let error = mkfs(&MemoryDevice::new(4 << 20), &options, &NoProgress).unwrap_err();
    assert_eq!(
        error.to_string(),
        "size of 1024 blocks is too small: the tree does not fit"
    );
    for i in 0..200 {
        File::create(dir.path().join(format!("{i}"))).unwrap();
    }
    options.size = Some(32 << 20);
    options.inodes = Some(100);
    let error = mkfs(&MemoryDevice::new(8 << 20), &options, &NoProgress).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a number of 112 inodes is too small: 213 are needed"
    );
}
