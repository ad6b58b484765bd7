//! Archives that are damaged or lie: an error that names the place, and nothing but the image is written.
use crate::containers::{device, made, oci, options};
use crate::generator::Generator;
use crate::layout::{self, Pack};
use tar::{Builder, EntryType, Header};
use uext4_build::Input;
use uext4_testkit::prelude::*;

pub fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}

/// An archive of one entry whose name no check of the writer sees.
fn named(name: &[u8], kind: EntryType, target: &str) -> Vec<u8> {
    let mut to = Builder::new(Vec::new());
    let mut header = header(kind, 0);
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    if !target.is_empty() {
        header.set_link_name_literal(target).unwrap();
    }
    header.set_cksum();
    to.append(&header, &b""[..]).unwrap();
    to.into_inner().unwrap()
}

fn fails(archive: &[u8], said: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    std::fs::write(&path, archive).unwrap();
    let mut options = options(vec![path.as_path().into()]);
    options.spool = Some(dir.path().to_owned());
    let error = made(&options).expect_err(said).to_string();
    assert!(error.contains(said), "{error}");
    assert!(error.contains("at byte "), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn names_that_lead_out_are_refused() {
    for kind in [EntryType::Regular, EntryType::Directory] {
        fails(
            &named(b"../x", kind, ""),
            "entry ../x at byte 0: the name leads upward",
        );
        fails(&named(b"a/../../x", kind, ""), "leads upward");
        fails(&named(b"/etc/x", kind, ""), "the name is absolute");
    }
    fails(
        &named(b"x", EntryType::Link, "../../etc/passwd"),
        "leads upward",
    );
    fails(&named(b"x", EntryType::Link, "y"), "which is not there");
    fails(&named(b"x", EntryType::Link, "x"), "which is not there");
    fails(
        &named(b".", EntryType::Regular, ""),
        "the root must be a directory",
    );
}

#[test]
fn sources_are_put_into_directories_only() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("a.tar");
    std::fs::write(&archive, named(b"./", EntryType::Directory, "")).unwrap();
    let links = dir.path().join("links.tar");
    std::fs::write(&links, named(b"lib", EntryType::Symlink, "usr/lib")).unwrap();
    let archive = archive.display().to_string();
    for below in ["..", "a/..", &"a".repeat(256)] {
        let input = Input::parse(format!("/{below}={archive}").as_ref());
        let error = made(&options(vec![input])).unwrap_err().to_string();
        assert!(error.contains("names in front of a source"), "{error}");
    }
    // A link in the way is followed.
    let input = Input::parse(format!("/lib={archive}").as_ref());
    let from = vec![links.as_path().into(), input];
    let report = made(&options(from)).unwrap().1;
    // The root, lost+found, usr, lib.
    assert_eq!((report.symlinks, report.directories), (1, 4));
    let error = made(&options(vec!["-".into(), "-".into()]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("only once"), "{error}");
    std::fs::write(&links, "").unwrap();
    fails(b"", "it is empty");
}

/// What is found wrong after layers were merged names layer, entry and offset as well.
#[test]
fn what_can_not_be_placed_is_named() {
    let big = |size: &str| {
        let mut to = Builder::new(Vec::new());
        let mut first = header(EntryType::Regular, 0);
        first.set_path("first").unwrap();
        first.set_cksum();
        to.append(&first, &b""[..]).unwrap();
        let records = [("GNU.sparse.size", size), ("GNU.sparse.map", "0,0")];
        let records = records.map(|(key, value)| (key, value.as_bytes()));
        to.append_pax_extensions(records).unwrap();
        let mut big = header(EntryType::Regular, 0);
        big.set_path("dir/big").unwrap();
        big.set_cksum();
        to.append(&big, &b""[..]).unwrap();
        to.into_inner().unwrap()
    };
    fails(
        &big("70000000000000"),
        "archive: entry dir/big at byte 512: file is too large",
    );
    let mut to = Builder::new(Vec::new());
    let value = vec![b'v'; 6000];
    to.append_pax_extensions([("SCHILY.xattr.user.a", &value[..])])
        .unwrap();
    let mut root = header(EntryType::Directory, 0);
    root.set_path("./").unwrap();
    root.set_cksum();
    to.append(&root, &b""[..]).unwrap();
    fails(
        &to.into_inner().unwrap(),
        "entry / at byte 0: extended attributes do not fit",
    );
    let mut links = named(b"first", EntryType::Regular, "");
    links.truncate(512);
    for i in 0..65_001 {
        links.extend(&named(format!("{i}").as_bytes(), EntryType::Link, "first")[..512]);
    }
    fails(&links, "at byte 0: 65002 links are more than 65000");
}

#[test]
fn the_root_is_shown_as_a_slash() {
    let mut archive = named(b"./", EntryType::Symlink, "x");
    fails(&archive, "entry / at byte 0: the root must be");
    archive[..512].copy_from_slice(&named(b"./", EntryType::Directory, "")[..512]);
    let file = named(b"file", EntryType::Regular, "");
    let dir = tempfile::tempdir().unwrap();
    let paths = ["file.tar", "root.tar"].map(|name| dir.path().join(name));
    std::fs::write(&paths[0], file).unwrap();
    std::fs::write(&paths[1], archive).unwrap();
    let below = Input::parse(format!("/file={}", paths[1].display()).as_ref());
    let from = vec![paths[0].as_path().into(), below];
    let error = made(&options(from)).unwrap_err().to_string();
    assert!(
        error.contains("entry / at byte 0: file is not a"),
        "{error}"
    );
}

#[test]
fn paths_longer_than_the_host_takes_are_refused() {
    let of = |len: usize| {
        let path = "a/".repeat(len / 2);
        let mut to = Builder::new(Vec::new());
        to.append_pax_extensions([("path", path.as_bytes())])
            .unwrap();
        let mut dir = header(EntryType::Directory, 0);
        dir.set_path("q").unwrap();
        dir.set_cksum();
        to.append(&dir, &b""[..]).unwrap();
        to.into_inner().unwrap()
    };
    fails(&of(5000), "has more than 4095 bytes");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    std::fs::write(&path, of(4000)).unwrap();
    let report = made(&options(vec![path.as_path().into()])).unwrap().1;
    assert_eq!(report.directories, 2002);
}

/// The time for a whiteout does not grow with the number of names beside it.
#[test]
fn a_directory_is_opaque_many_times() {
    let dir = tempfile::tempdir().unwrap();
    let mut layer = Vec::new();
    for i in 0..20_000 {
        layer.extend(&named(format!("d/{i}").as_bytes(), EntryType::Regular, "")[..512]);
    }
    for i in 0..20_000 {
        let name = match i % 2 {
            0 => "d/.wh..wh..opq",
            _ => ".wh.d",
        };
        layer.extend(&named(name.as_bytes(), EntryType::Regular, "")[..512]);
    }
    layer.extend([0; 1024]);
    let below = named(b"d/lower", EntryType::Regular, "");
    layout::layout(dir.path(), &[(below, Pack::Plain), (layer, Pack::Plain)]);
    let mut options = options(vec![oci(dir.path())]);
    options.size = Some(64 << 20);
    let report = made(&options).unwrap().1;
    assert_eq!(report.files, 20_000);
}

#[test]
fn platforms_are_of_container_images() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("a.tar");
    std::fs::write(&archive, named(b"x", EntryType::Regular, "")).unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let image = dir.path().join("image");
    layout::layout(&image, &[(Generator::new(1).layer(), Pack::Gzip)]);
    let platform = |from| {
        let mut options = options(from);
        options.platform = Some("linux/amd64".into());
        made(&options).map(drop)
    };
    for path in [&archive, &tree] {
        let error = platform(vec![path.as_path().into()]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("no source is a container image"), "{error}");
    }
    platform(vec![tree.as_path().into(), oci(&image)]).unwrap();
}

/// A link may lead out of the tree for the host, but not for what is unpacked through it.
#[test]
fn links_are_followed_inside_the_tree_only() {
    let dir = tempfile::tempdir().unwrap();
    let archive = [
        &named(b"up", EntryType::Symlink, "../../../../../out")[..1024],
        &named(b"up/x", EntryType::Regular, ""),
    ]
    .concat();
    // The first ends with its own header.
    let archive = [&archive[..512], &archive[1024..]].concat();
    let path = dir.path().join("archive");
    std::fs::write(&path, archive).unwrap();
    let (image, report) = device(&options(vec![path.as_path().into()])).unwrap();
    assert_eq!((report.files, report.symlinks), (1, 1));
    let options = uext4::ImageOptions::read_only();
    let fs = uext4::Filesystem::open_device(std::sync::Arc::new(image), &options).unwrap();
    fs.metadata("/out/x").unwrap();
    let loops = [
        &named(b"a", EntryType::Symlink, "b")[..512],
        &named(b"b", EntryType::Symlink, "a")[..512],
        &named(b"a/x", EntryType::Regular, ""),
    ];
    fails(&loops.concat(), "too many symbolic links");
}

/// The target of a link has a name that no directory holds.
#[test]
fn regression_a_link_to_a_name_that_is_too_long() {
    let target = "x".repeat(300);
    let mut to = Builder::new(Vec::new());
    let mut link = header(EntryType::Symlink, 0);
    to.append_link(&mut link, "a", &target).unwrap();
    to.append_data(&mut header(EntryType::Regular, 0), "a/b", &b""[..])
        .unwrap();
    let archive = to.into_inner().unwrap();
    fails(&archive, "a name has more than 255 bytes: xxx");
}

#[test]
fn what_ends_early_or_is_no_archive() {
    let whole = Generator::new(1).layer();
    fails(&whole[..700], "ends early");
    fails(&vec![b'x'; 2000], "no header of an archive");
    for pack in [Pack::Gzip, Pack::Zstd] {
        let packed = pack.pack(&whole);
        fails(&packed[..packed.len() - 9], "");
    }
    let mut lies = named(b"big", EntryType::Regular, "");
    let mut big = header(EntryType::Regular, 1 << 40);
    big.set_path("big").unwrap();
    big.set_cksum();
    lies[..512].copy_from_slice(big.as_bytes());
    fails(
        &Pack::Zstd.pack(&lies),
        "entry big at byte 0: the archive ends early",
    );
}

#[test]
fn expansion_ends_at_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut to = Builder::new(Vec::new());
    let mut big = header(EntryType::Regular, 8 << 20);
    big.set_path("zeros").unwrap();
    big.set_cksum();
    to.append(&big, &vec![0; 8 << 20][..]).unwrap();
    let path = dir.path().join("archive");
    std::fs::write(&path, Pack::Zstd.pack(&to.into_inner().unwrap())).unwrap();
    let mut options = options(vec![path.as_path().into()]);
    made(&options).unwrap();
    options.limit = 1 << 20;
    let error = made(&options).unwrap_err().to_string();
    assert!(
        error.contains("beyond the limit of 1048576 bytes"),
        "{error}"
    );
    // Headers without end, one after the other and in one.
    let mut to = Builder::new(Vec::new());
    to.append(&extended(20 << 20), &vec![b'a'; 20 << 20][..])
        .unwrap();
    std::fs::write(&path, Pack::Zstd.pack(&to.into_inner().unwrap())).unwrap();
    options.limit = 1 << 40;
    let error = made(&options).unwrap_err().to_string();
    assert!(error.contains("the headers of one entry"), "{error}");
}

fn extended(size: u64) -> Header {
    let mut header = header(EntryType::XHeader, size);
    header.set_path("x").unwrap();
    header.set_cksum();
    header
}

#[test]
fn blobs_are_what_their_digests_say() {
    let dir = tempfile::tempdir().unwrap();
    layout::layout(dir.path(), &[(Generator::new(2).layer(), Pack::Gzip)]);
    made(&options(vec![oci(dir.path())])).unwrap();
    let blobs = dir.path().join("blobs/sha256");
    for entry in std::fs::read_dir(&blobs).unwrap() {
        let path = entry.unwrap().path();
        let good = std::fs::read(&path).unwrap();
        // The configuration of a layout is not needed.
        if good.starts_with(b"{\"architecture") {
            continue;
        }
        let mut bad = good.clone();
        *bad.last_mut().unwrap() ^= 0x20;
        for content in [&bad[..], &good[..good.len() - 1]] {
            std::fs::write(&path, content).unwrap();
            made(&options(vec![oci(dir.path())])).unwrap_err();
        }
        std::fs::write(&path, &good).unwrap();
    }
    let name = std::fs::read_dir(&blobs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    std::fs::remove_file(name).unwrap();
    std::fs::write(dir.path().join("index.json"), "{}").unwrap();
    let error = made(&options(vec![oci(dir.path())]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("index.json"), "{error}");
}

/// Archives that are changed at random, half of them with checksums that fit: an error, or an image that e2fsck takes.
#[test]
fn fuzz_changed_archives() {
    let count =
        std::env::var("UEXT4_CHANGED_ARCHIVES").map_or(12, |text| text.parse().expect("a number"));
    let dir = tempfile::tempdir().unwrap();
    let (mut rng, mut made_some) = (fastrand::Rng::with_seed(7), 0);
    for seed in 0..count {
        let mut archive = Generator::new(seed).layer();
        for _ in 0..rng.usize(1..6) {
            let at = rng.usize(..archive.len());
            archive[at] = match rng.u8(..3) {
                0 => rng.u8(..),
                1 => b"0123456789/.LKxgSV\0\xff"[rng.usize(..20)],
                _ => archive[at] ^ 1 << rng.u8(..8),
            };
        }
        if rng.bool() {
            mend(&mut archive);
        }
        if rng.u8(..4) == 0 {
            archive.truncate(rng.usize(..archive.len()));
        }
        let pack = [Pack::Plain, Pack::Gzip, Pack::Zstd][rng.usize(..3)];
        let mut bytes = pack.pack(&archive);
        if rng.u8(..4) == 0 {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        let path = dir.path().join("archive");
        std::fs::write(&path, bytes).unwrap();
        let mut options = options(vec![Input::from(path.as_path())]);
        (options.spool, options.limit) = (Some(dir.path().to_owned()), 64 << 20);
        let made = device(&options);
        let code = code_of_limited_command(dir.path());
        assert_eq!(code, if made.is_ok() { 0 } else { 1 }, "seed {seed}");
        if let Ok((device, _)) = made {
            made_some += 1;
            let report = uext4_check::check(&device, &Default::default(), &uext4_check::NoProgress);
            let report = report.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert!(report.is_clean(), "seed {seed}: {report:?}");
        }
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            1,
            "seed {seed}"
        );
    }
    assert!(made_some * 10 > count, "too few are read: {made_some}");
}

/// The exit code of the command that makes an image of `archive` in a directory, with 256 MiB of memory of its own. The image is removed.
fn code_of_limited_command(dir: &Path) -> i32 {
    let mut command = Command::new("prlimit");
    command
        .arg("--data=268435456")
        .arg(built::command().unwrap());
    command.args(["mkfs", "-q", "--limit", "64M", "image", "--from", "archive"]);
    let out = command.current_dir(dir).output().unwrap();
    let _ = std::fs::remove_file(dir.join("image"));
    let said = String::from_utf8_lossy(&out.stderr);
    out.status.code().unwrap_or_else(|| panic!("{said}"))
}

/// Gives each header that is found a checksum that fits.
fn mend(archive: &mut [u8]) {
    for block in archive.as_chunks_mut::<512>().0 {
        if &block[257..262] == b"ustar" {
            let mut header = Header::new_old();
            header.as_mut_bytes().copy_from_slice(block);
            header.set_cksum();
            block.copy_from_slice(header.as_bytes());
        }
    }
}
