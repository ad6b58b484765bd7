//! Trees of images as archives and layers, and as images again.
use uext4_testkit::prelude::*;

use crate::containers::{device, oci, options};
use crate::generator::Generator;
use crate::layout::{Pack, layout};
use std::sync::Arc;
use uext4::{
    AtimeUpdate, Change, Compression, Difference, ExportError, ExportOptions, ExportReport,
    FileKind, Filesystem, ImageOptions, NewKind, NoProgress, TimeSet, Timestamp, XattrFlags,
};
use uext4_build::Input;

pub fn open(device: MemoryDevice) -> Filesystem {
    let options = ImageOptions::read_write().atime(AtimeUpdate::Never);
    Filesystem::open_device(Arc::new(device), &options).unwrap()
}

/// The image of sources, if they make one; times of files are cut to one before today.
pub fn made(from: Vec<Input>) -> Option<Filesystem> {
    let (device, report) = device(&options(from)).ok()?;
    assert_eq!(report.warnings, [""; 0]);
    Some(open(device))
}

/// The image of sources.
fn image(from: Vec<Input>) -> Filesystem {
    let options = MkfsOptions {
        // With one, files have no time but that of their last change.
        time: None,
        ..options(from)
    };
    let (device, report) = device(&options).unwrap();
    assert_eq!(report.warnings, [""; 0]);
    open(device)
}

fn image_of_archive(archive: &[u8]) -> Filesystem {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), archive).unwrap();
    image(vec![Input::parse(file.path().as_os_str())])
}

fn export(fs: &Filesystem, options: &ExportOptions) -> (Vec<u8>, ExportReport) {
    let mut archive = Vec::new();
    let report = fs.export("/", &mut archive, options, &NoProgress).unwrap();
    (archive, report)
}

fn plain(fs: &Filesystem) -> Vec<u8> {
    export(fs, &ExportOptions::new()).0
}

/// The differences, as text.
pub fn diff(old: &Filesystem, new: &Filesystem) -> Vec<String> {
    let mut changes = Vec::new();
    let found = |change: Change| {
        let path = change.path.escape_ascii();
        changes.push(format!("{:?} {path} {:?}", change.kind, change.differences));
        Ok::<(), ExportError>(())
    };
    old.diff("/", new, "/", &NoProgress, found).unwrap();
    changes
}

fn difference_layer(old: &Filesystem, new: &Filesystem) -> Vec<u8> {
    let (mut layer, options) = (Vec::new(), ExportOptions::new());
    old.export_diff("/", new, "/", &mut layer, &options, &NoProgress)
        .unwrap();
    layer
}

#[test]
fn an_archive_of_an_image_makes_the_same_image() {
    for seed in 0..30 {
        let mut generator = Generator::new(seed);
        let layers: Vec<_> = (0..1 + seed % 4).map(|_| generator.layer()).collect();
        let (_dir, from) = in_layout(&layers);
        let Some(fs) = made(from) else {
            continue;
        };
        let archive = plain(&fs);
        let again = image_of_archive(&archive);
        assert_eq!(diff(&fs, &again), [""; 0], "seed {seed}");
        assert!(plain(&again) == archive, "seed {seed}");
    }
}

/// A layout of layers, and it as a source.
pub fn in_layout(layers: &[Vec<u8>]) -> (tempfile::TempDir, Vec<Input>) {
    let dir = tempfile::tempdir().unwrap();
    let layers: Vec<_> = layers.iter().map(|l| (l.clone(), Pack::Plain)).collect();
    layout(dir.path(), &layers);
    let from = vec![oci(dir.path())];
    (dir, from)
}

/// Images of two unrelated sets of layers, or of one and the same with more on top.
fn two_images(seed: u64) -> Option<(Vec<Vec<u8>>, Filesystem, Filesystem)> {
    let mut generator = Generator::new(seed);
    let old: Vec<_> = (0..1 + seed % 3).map(|_| generator.layer()).collect();
    let new = match seed % 2 {
        0 => [&old[..], &[generator.layer()]].concat(),
        _ => vec![Generator::new(seed + 1000).layer()],
    };
    let image = |layers: &[Vec<u8>]| {
        let (_dir, from) = in_layout(layers);
        made(from)
    };
    image(&old).zip(image(&new)).map(|(a, b)| (old, a, b))
}

#[test]
fn a_layer_of_the_changes_makes_the_new_image_of_the_old() {
    let mut tried = 0;
    for seed in 0..60 {
        let Some((mut layers, old, new)) = two_images(seed) else {
            continue;
        };
        tried += 1;
        layers.push(difference_layer(&old, &new));
        let (_dir, from) = in_layout(&layers);
        let changes = diff(&made(from).unwrap(), &new);
        assert_eq!(changes, [""; 0], "seed {seed}");
    }
    assert!(tried > 30);
}

/// umoci unpacks what was exported as it is in the image.
#[test]
fn umoci_unpacks_a_layer_of_changes() {
    require!(rustix::process::geteuid().is_root());
    for seed in 0..10 {
        let Some((mut layers, old, new)) = two_images(seed) else {
            continue;
        };
        layers.push(difference_layer(&old, &new));
        let (dir, _) = in_layout(&layers);
        let bundle = dir.path().join("bundle");
        let from = format!("{}:x", dir.path().display());
        let args = ["unpack", "--image", &from, bundle.to_str().unwrap()];
        let Ok(unpacked) = Command::new("umoci").args(args).output() else {
            eprintln!("skipped: no umoci");
            return;
        };
        let said = String::from_utf8_lossy(&unpacked.stderr);
        assert!(unpacked.status.success(), "seed {seed}: {said}");
        let theirs = made(vec![bundle.join("rootfs").into()]).unwrap();
        let changes = diff(&theirs, &new);
        assert_eq!(changes, [""; 0], "seed {seed}");
    }
}

/// A tree of what is rare.
pub fn rare() -> Filesystem {
    let fs = image(vec![]);
    let long = "n".repeat(255);
    let deep = format!("/{long}/{long}/{long}");
    fs.create_dir_all(&deep).unwrap();
    fs.write(format!("{deep}/file"), b"deep").unwrap();
    fs.symlink(&long, format!("{deep}/link")).unwrap();
    fs.hard_link(format!("{deep}/file"), "/hard").unwrap();
    fs.write(&b"/\xff=\n"[..], b"no text").unwrap();
    for (name, value) in [
        (&b"user.plain"[..], &b"a\nb\0"[..]),
        (b"user.a=b", b"equals"),
        (b"user.\xfe", b"no text"),
        (b"trusted.x", b""),
    ] {
        fs.set_xattr("/hard", name, value, XattrFlags::empty())
            .unwrap();
    }
    fs.chown("/hard", Some(u32::MAX - 1), Some(4_000_000))
        .unwrap();
    fs.mknod(
        "/char",
        0o6600,
        NewKind::Device {
            kind: FileKind::CharDevice,
            major: 4095,
            minor: 1_048_575,
        },
    )
    .unwrap();
    fs.mknod("/fifo", 0o640, NewKind::Fifo).unwrap();
    let before_1970 = TimeSet::At(Timestamp {
        sec: -5,
        nsec: 250_000_000,
    });
    fs.set_times("/fifo", None, Some(before_1970)).unwrap();
    let sparse = fs.create_file("/sparse").unwrap();
    sparse.set_len(20 << 30).unwrap();
    for at in [0, 3 << 30, (3 << 30) + 8192, (20 << 30) - 1] {
        sparse.write_all_at(b"x", at).unwrap();
    }
    fs
}

#[test]
fn what_is_rare_survives() {
    let fs = rare();
    let archive = plain(&fs);
    assert!(archive.len() < 100_000, "{} bytes", archive.len());
    let again = image_of_archive(&archive);
    assert_eq!(diff(&fs, &again), [""; 0]);
    assert!(plain(&again) == archive);
    for name in [&b"user.a=b"[..], b"user.\xfe", b"user.plain", b"trusted.x"] {
        let value = |fs: &Filesystem| fs.get_xattr("/hard", name).unwrap();
        assert_eq!(value(&fs), value(&again));
    }
    assert!(again.metadata("/sparse").unwrap().blocks() < 100);
}

#[test]
fn gnu_tar_extracts_it() {
    require!(rustix::process::geteuid().is_root());
    let dir = tempfile::tempdir().unwrap();
    let fs = rare();
    for name in ["user.a=b", "trusted.x"] {
        fs.remove_xattr("/hard", name).unwrap();
    }
    fs.remove_xattr("/hard", b"user.\xfe").unwrap();
    // user::rw-, user:5:r--, group::r--, mask::r--, other::---
    let list = acl(&[
        (1, 6, u32::MAX),
        (2, 4, 5),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ]);
    fs.set_xattr(
        "/hard",
        "system.posix_acl_access",
        list,
        XattrFlags::empty(),
    )
    .unwrap();
    let file = dir.path().join("a.tar");
    std::fs::write(&file, plain(&fs)).unwrap();
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let run = Command::new("tar")
        .args([
            "--numeric-owner",
            "--xattrs",
            "--xattrs-include=*",
            "--acls",
            "-xpf",
        ])
        .args([&file, Path::new("-C"), &out])
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    assert_eq!(diff(&fs, &image(vec![out.into()])), [""; 0]);
}

/// A value of `system.posix_acl_access`.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, permission, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permission.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let fs = image(vec![]);
    let mut rng = fastrand::Rng::with_seed(1);
    let data: Vec<u8> = (0..9 << 20).map(|_| rng.u8(0..9)).collect();
    fs.write("/data", &data).unwrap();
    for compression in [
        Compression::Zstd,
        Compression::Xz,
        Compression::Gzip,
        Compression::Bzip2,
    ] {
        let options = ExportOptions::new().compression(compression).level(1);
        let options = options.digests(true);
        let (archive, report) = export(&fs, &options.clone().threads(1));
        let (other, other_report) = export(&fs, &options.threads(8));
        assert!(archive == other, "{compression:?}");
        assert_eq!(report, other_report);
        assert_eq!(report.written_bytes, archive.len() as u64);
        assert_eq!(report.digest, Some(crate::layout::digest(&archive)));
        let diff_id = crate::layout::digest(&plain(&fs));
        assert_eq!(report.diff_id, Some(diff_id));
        assert_eq!(diff(&fs, &image_of_archive(&archive)), [""; 0]);
    }
    let wrong = ExportOptions::new()
        .compression(Compression::Gzip)
        .level(10);
    let failed = fs.export("/", std::io::sink(), &wrong, &NoProgress);
    assert!(matches!(failed, Err(ExportError::Level(10))));
}

#[test]
fn a_layout_has_the_tree_under_its_tag() {
    let dir = tempfile::tempdir().unwrap();
    let layout = dir.path().join("layout");
    let options = ExportOptions::new().compression(Compression::Gzip);
    let export = |fs: &Filesystem, tag: &str| {
        fs.export_to_layout("/", &layout, tag, None, &options, &NoProgress)
    };
    let (first, second) = (rare(), image(vec![]));
    second.write("/only", b"here").unwrap();
    export(&first, "x").unwrap();
    export(&second, "y").unwrap();
    let read = |tag: &str| {
        let text = format!("oci:{}:{tag}", layout.display());
        image(vec![Input::parse(text.as_ref())])
    };
    assert_eq!(diff(&first, &read("x")), [""; 0]);
    assert_eq!(diff(&second, &read("y")), [""; 0]);
    // The tag moves.
    export(&second, "x").unwrap();
    assert_eq!(diff(&second, &read("x")), [""; 0]);
    if let Ok(seen) = Command::new("skopeo")
        .args(["inspect", &format!("oci:{}:y", layout.display())])
        .output()
    {
        let said = String::from_utf8_lossy(&seen.stderr);
        assert!(seen.status.success(), "{said}");
    }
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("file"), b"x").unwrap();
    let failed = second.export_to_layout("/", &other, "x", None, &options, &NoProgress);
    assert!(matches!(failed, Err(ExportError::Layout(_))));
}

#[test]
fn what_has_no_place_is_named() {
    let fs = image(vec![]);
    fs.create_dir("/d").unwrap();
    fs.mknod("/d/socket", 0o600, NewKind::Socket).unwrap();
    let (_, report) = export(&fs, &ExportOptions::new());
    assert_eq!(report.warnings, ["/d/socket: a socket is left out"]);
    assert_eq!((report.directories, report.others), (2, 0));
    fs.write("/d/.wh.x", b"").unwrap();
    plain(&fs);
    let dir = tempfile::tempdir().unwrap();
    let options = ExportOptions::new();
    let failed = fs.export_to_layout("/", dir.path().join("l"), "x", None, &options, &NoProgress);
    let Err(ExportError::Whiteout { path }) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(path, b"/d/.wh.x");
    let failed = fs.export("/none", std::io::sink(), &options, &NoProgress);
    assert!(matches!(failed, Err(ExportError::Image { path, .. }) if path == b"/none"));
}

#[test]
fn every_difference_is_found() {
    let make = || {
        let fs = image(vec![]);
        for name in [
            "/data", "/len", "/mode", "/owner", "/time", "/xattr", "/gone", "/type",
        ] {
            fs.write(name, b"old").unwrap();
        }
        fs.symlink("old", "/target").unwrap();
        fs.hard_link("/data", "/linked").unwrap();
        fs.mknod(
            "/device",
            0o600,
            NewKind::Device {
                kind: FileKind::BlockDevice,
                major: 1,
                minor: 2,
            },
        )
        .unwrap();
        let time = Some(TimeSet::At(Timestamp { sec: 1, nsec: 2 }));
        for name in [
            "/", "/data", "/len", "/mode", "/owner", "/time", "/xattr", "/gone", "/type",
        ] {
            fs.set_times(name, time, time).unwrap();
        }
        fs
    };
    let (old, new) = (make(), make());
    let time = Some(TimeSet::At(Timestamp { sec: 1, nsec: 2 }));
    for name in ["/target", "/device"] {
        let metadata = old.symlink_metadata(name).unwrap();
        let same = Some(TimeSet::At(metadata.modified()));
        let change = uext4::unstable::SetAttr {
            mtime: same,
            ..Default::default()
        };
        new.set_attr(name, &change).unwrap();
    }
    assert_eq!(diff(&old, &new), [""; 0]);
    new.write("/data", b"new").unwrap();
    new.set_times("/data", None, time).unwrap();
    new.write("/len", b"longer").unwrap();
    new.set_times("/len", None, time).unwrap();
    new.set_permissions("/mode", 0o4755).unwrap();
    new.chown("/owner", Some(1), Some(2)).unwrap();
    let later = Timestamp { sec: 1, nsec: 3 };
    new.set_times("/time", None, Some(TimeSet::At(later)))
        .unwrap();
    new.set_xattr("/xattr", "user.x", b"y", XattrFlags::empty())
        .unwrap();
    new.remove_file("/gone").unwrap();
    new.remove_file("/type").unwrap();
    new.create_dir("/type").unwrap();
    new.write("/type/in", b"").unwrap();
    new.remove_file("/linked").unwrap();
    new.hard_link("/len", "/linked").unwrap();
    new.set_times("/", None, time).unwrap();
    let at = |sec, nsec| Timestamp { sec, nsec };
    let changed = |path: &str, difference: Difference| format!("Changed {path} {:?}", [difference]);
    let expected = [
        changed("/data", Difference::Data),
        "Removed /gone []".to_owned(),
        changed("/len", Difference::Len(3, 6)),
        format!(
            "Changed /linked {:?}",
            [
                Difference::Links(b"data".to_vec(), b"len".to_vec()),
                Difference::Len(3, 6)
            ]
        ),
        changed("/mode", Difference::Permissions(0o644, 0o4755)),
        changed("/owner", Difference::Owner((0, 0), (1, 2))),
        changed("/time", Difference::Modified(at(1, 2), at(1, 3))),
        changed(
            "/type",
            Difference::Kind(FileKind::Regular, FileKind::Directory),
        ),
        "Added /type/in []".to_owned(),
        changed("/xattr", Difference::Xattr(b"user.x".to_vec())),
    ];
    assert_eq!(diff(&old, &new), expected);
}
