//! What an image of an image keeps beyond what archives have: flags, projects, fs-verity.
use uext4_testkit::prelude::*;

use crate::containers::{device, options};
use crate::export::open;
use crate::images::{Files, regular, tree};
use sha2::{Digest, Sha256};
use uext4::{Filesystem, FsVerityFile, InodeFlags, NewKind, SourceFile};
use uext4_build::Input;

/// The image of sources, which a check finds sound, the digests of its files, and warnings.
fn image(from: Vec<Input>, features: &str) -> (Filesystem, Vec<FsVerityFile>, Vec<String>) {
    let mut options = options(from);
    options.features = options.features.changed(features).unwrap();
    made(&options)
}

fn made(options: &MkfsOptions) -> (Filesystem, Vec<FsVerityFile>, Vec<String>) {
    let (device, report) = device(options).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), device.snapshot()).unwrap();
    uext4_testkit::mke2fs::fsck(file.path());
    let checked = uext4::check_on(
        &device,
        &uext4::CheckOptions::new(),
        &uext4::NoCheckProgress,
    );
    assert_eq!(checked.unwrap().faults, []);
    (open(device), report.fsverity, report.warnings)
}

/// Flags that an image does not take from another, but sets by itself.
const OWN: InodeFlags = InodeFlags::EXTENTS.union(InodeFlags::INDEX);

/// Sets flags, and leaves how data is kept.
fn set(fs: &Filesystem, path: &str, flags: InodeFlags) {
    let own = fs.flags(path).unwrap() & OWN;
    fs.set_flags(path, flags | own).unwrap();
}

#[test]
fn flags_and_projects_are_kept() {
    let (fs, _, _) = image(vec![], "project");
    let settable = InodeFlags::USER_MODIFIABLE - InodeFlags::EXTENTS - InodeFlags::CASEFOLD;
    let of_directories = InodeFlags::DIRSYNC | InodeFlags::TOPDIR | InodeFlags::PROJINHERIT;
    let late = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
    let mut files = Vec::new();
    for (i, flag) in settable.iter().enumerate() {
        let dir = format!("/dir {i}");
        fs.create_dir(&dir).unwrap();
        fs.write(format!("{dir}/file"), b"data").unwrap();
        if !of_directories.contains(flag) {
            set(&fs, &format!("{dir}/file"), flag);
            files.push(format!("{dir}/file"));
        }
        fs.set_project(&dir, i as u32).unwrap();
        set(&fs, &dir, flag);
        files.push(dir);
    }
    fs.create_dir("/dir").unwrap();
    set(&fs, "/dir", InodeFlags::NODUMP | InodeFlags::SYNC);
    fs.mknod("/dir/fifo", 0o600, NewKind::Fifo).unwrap();
    fs.symlink("target", "/dir/link").unwrap();
    fs.set_project("/dir", 1 << 31).unwrap();
    set(&fs, "/", InodeFlags::NOATIME);
    files.extend(["/", "/dir", "/dir/fifo", "/dir/link"].map(String::from));
    let (again, _, warnings) = image(vec![tree("", fs.clone())], "");
    assert_eq!(warnings, [""; 0]);
    let kept = |fs: &Filesystem, file: &String| {
        let flags = fs.flags(file).unwrap() - OWN;
        (flags, fs.project(file).unwrap())
    };
    let mut seen = InodeFlags::empty();
    for file in &files {
        let want = kept(&fs, file);
        assert_eq!(want, kept(&again, file), "{file}");
        seen |= want.0;
    }
    assert!(seen.contains(settable) && seen.contains(late), "{seen:?}");
    assert_eq!(kept(&again, &"/dir/fifo".into()).0, InodeFlags::NODUMP);
    // Without a project, the image does not have the feature.
    fs.set_project("/dir", 0).unwrap();
    let (again, _, _) = image(vec![tree("", fs.clone()), tree("/b", again)], "");
    assert_eq!(kept(&again, &"/b/dir".into()).1, 1 << 31);
    let (plain, _, _) = image(vec![tree("", Files(vec![]))], "");
    plain.write("/file", b"").unwrap();
    plain.set_project("/file", 1).unwrap_err();
}

#[test]
fn directories_that_ignore_case_are_kept() {
    let (fs, _, _) = image(vec![], "casefold");
    fs.create_dir("/d").unwrap();
    set(&fs, "/d", InodeFlags::CASEFOLD);
    for i in 0..600 {
        fs.write(format!("/d/Größe {i}"), b"data").unwrap();
    }
    fs.create_dir("/d/Below").unwrap();
    let (again, _, warnings) = image(vec![tree("", fs.clone())], "");
    assert_eq!(warnings, [""; 0]);
    for i in 0..600 {
        assert_eq!(again.read(format!("/D/../d/GRÖSSE {i}")).ok(), None);
        assert_eq!(again.read(format!("/d/GRÖSSE {i}")).unwrap(), b"data");
    }
    assert!(
        again
            .flags("/d/BELOW")
            .unwrap()
            .contains(InodeFlags::CASEFOLD)
    );
    again.write("/d/GRÖSSE 7", b"other").unwrap();
    assert_eq!(
        fs.read_dir("/d").unwrap().count(),
        again.read_dir("/d").unwrap().count()
    );

    // Names that are one there, of another source.
    let file = SourceFile::new("grösse 8", 1, regular(None));
    let from = vec![tree("", fs.clone()), tree("/d", Files(vec![file]))];
    let why = device(&options(from)).unwrap_err().to_string();
    assert!(
        why.contains("`grösse 8`") && why.contains("`Größe 8`"),
        "{why}"
    );
    // Of which a strict encoding has no other.
    fs.write(Path::new(std::ffi::OsStr::from_bytes(b"/d/\xff")), b"")
        .unwrap();
    let strict = MkfsOptions {
        strict_names: true,
        ..options(vec![tree("", fs)])
    };
    let why = device(&strict).unwrap_err().to_string();
    assert!(why.contains("is not UTF-8"), "{why}");
}

#[test]
fn projects_without_room_are_a_warning() {
    let mut file = SourceFile::new("file", 1, regular(None));
    file.project = 7;
    let mut other = SourceFile::new("other", 2, regular(None));
    other.project = 8;
    let options = MkfsOptions {
        inode_size: 128,
        ..options(vec![tree("", Files(vec![file, other]))])
    };
    let (_, _, warnings) = made(&options);
    let what =
        "projects of files are not kept, 2 in number: inodes of 128 bytes have no room for them";
    assert_eq!(warnings, [what]);
}

/// A descriptor of fs-verity.
fn descriptor(algorithm: u8, salt: &[u8], signature: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    bytes[..4].copy_from_slice(&[1, algorithm, 12, salt.len() as u8]);
    bytes[4..8].copy_from_slice(&(signature.len() as u32).to_le_bytes());
    bytes[80..80 + salt.len()].copy_from_slice(salt);
    [&bytes, signature].concat()
}

/// Files of a program with fs-verity, and one without.
fn with_verity() -> Vec<SourceFile> {
    let file = |name: &str, id, verity| {
        let mut file = SourceFile::new(name, id, regular(None));
        file.fsverity = verity;
        file
    };
    vec![
        file("plain", 1, None),
        file("salted", 2, Some(descriptor(1, b"salt", b""))),
        file("signed", 3, Some(descriptor(1, &[9; 32], &[5; 5000]))),
        file("unsalted", 4, Some(descriptor(1, b"", b""))),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn fs_verity_is_kept() {
    let (fs, digests, warnings) = image(vec![tree("", Files(with_verity()))], "");
    assert_eq!(warnings, [""; 0]);
    let (again, digests_again, warnings) = image(vec![tree("", fs.clone())], "");
    assert_eq!(warnings, [""; 0]);
    assert_eq!(digests, digests_again);
    let paths: Vec<&[u8]> = digests.iter().map(|file| &file.path[..]).collect();
    assert_eq!(paths, [&b"/salted"[..], b"/signed", b"/unsalted"]);
    assert!(again.flags("/signed").unwrap().contains(InodeFlags::VERITY));
    assert!(!again.flags("/plain").unwrap().contains(InodeFlags::VERITY));
    // The signature is there as it was.
    let of = |fs: &Filesystem| {
        let source: &dyn uext4::TreeSource = fs;
        let files = source.files().map(|file| file.unwrap().fsverity);
        files.flatten().collect::<Vec<_>>()
    };
    let kept = of(&again);
    assert_eq!(kept, of(&fs));
    assert_eq!(kept[1].len(), 256 + 5000);
    assert_eq!(kept[1][256..], [5; 5000]);
    for (file, descriptor) in digests.iter().zip(&kept) {
        let mut unsigned = descriptor[..256].to_vec();
        unsigned[4..8].fill(0);
        assert_eq!(file.digest, <[u8; 32]>::from(Sha256::digest(unsigned)));
    }
    let data = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(data.path(), again.read("/salted").unwrap()).unwrap();
    let mut fsverity = Command::new("fsverity");
    fsverity.args(["digest", "--compact", "--salt=73616c74"]);
    let out = require!(some fsverity.arg(data.path()).output().ok());
    let said = String::from_utf8(out.stdout).unwrap();
    assert_eq!(said.trim(), hex(&digests[0].digest));
}

#[test]
fn a_pattern_adds_to_what_has_fs_verity() {
    let mut options = options(vec![tree("", Files(with_verity()))]);
    options.fsverity = vec!["*l*".into()];
    let (_, both, _) = made(&options);
    options.fsverity.clear();
    let (_, kept, _) = made(&options);
    assert_eq!((both.len(), kept.len()), (4, 3));
    assert!(kept.iter().all(|file| both.contains(file)));
}

#[test]
fn fs_verity_that_cannot_be_kept_is_a_warning() {
    let mut files = with_verity();
    files[2].fsverity = Some(descriptor(2, b"", b""));
    files[3].fsverity = Some(vec![1; 7]);
    let (fs, digests, warnings) = image(vec![tree("", Files(files))], "");
    let what = "source: fs-verity of files is not kept, 2 in number: it is not of SHA-256 over blocks of 4096 bytes";
    assert_eq!(warnings, [what]);
    assert_eq!(digests.len(), 1);
    let options = MkfsOptions {
        block_size: 1024,
        ..options(vec![tree("", fs)])
    };
    let (again, digests, warnings) = made(&options);
    let what = "fs-verity of files is not kept, 1 in number: it needs blocks of 4096 bytes and the feature extent";
    assert_eq!((digests.len(), warnings), (0, vec![what.to_owned()]));
    again.write("/salted", b"new").unwrap();
}
