//! More links, attributes and bytes than most programs see.
use crate::containers::{device, options};
use crate::hostile::header;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tar::{Builder, EntryType};
use uext4::{Filesystem, ImageOptions};
use uext4_build::Input;
use uext4_testkit::prelude::*;

/// What makes an image of an archive, which ends with the process.
fn of_archive(write: impl FnOnce(&mut Builder<std::fs::File>)) -> (MkfsOptions, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    let mut to = Builder::new(std::fs::File::create(&path).unwrap());
    write(&mut to);
    to.into_inner().unwrap();
    (options(vec![Input::parse(path.as_os_str())]), dir)
}

fn links(count: u32) -> (MkfsOptions, tempfile::TempDir) {
    of_archive(|to| {
        let mut first = header(EntryType::Regular, 0);
        to.append_data(&mut first, "d/first", &b""[..]).unwrap();
        for i in 1..count {
            let mut link = header(EntryType::Link, 0);
            to.append_link(&mut link, format!("d/{i}"), "d/first")
                .unwrap();
        }
    })
}

#[test]
fn a_file_with_too_many_links_is_named() {
    let (options, _dir) = links(70_000);
    let error = device(&options).unwrap_err().to_string();
    assert!(error.contains("d/first") || error.contains("d/"), "{error}");
    assert!(error.contains("more than 65000"), "{error}");
    let (options, _dir) = links(65_000);
    let (device, _) = device(&options).unwrap();
    oracle::check(&device).unwrap();
    let fs = Filesystem::open_device(Arc::new(device), &ImageOptions::read_only()).unwrap();
    assert_eq!(fs.metadata("/d/first").unwrap().nlink(), 65_000);
}

#[test]
fn more_attributes_than_a_block_holds_are_refused() {
    for (count, fits) in [(100, true), (1000, false)] {
        let (options, _dir) = of_archive(|to| {
            let names: Vec<String> = (0..count)
                .map(|i| format!("SCHILY.xattr.user.{i}"))
                .collect();
            let records = names.iter().map(|name| (name.as_str(), &b"value"[..]));
            to.append_pax_extensions(records).unwrap();
            to.append_data(&mut header(EntryType::Regular, 0), "many", &b""[..])
                .unwrap();
        });
        match device(&options) {
            Ok((device, _)) if fits => {
                oracle::check(&device).unwrap();
                let options = ImageOptions::read_only();
                let fs = Filesystem::open_device(Arc::new(device), &options).unwrap();
                assert_eq!(fs.list_xattrs("/many").unwrap().len(), 100);
                assert_eq!(fs.get_xattr("/many", "user.99").unwrap(), b"value");
            }
            Err(error) if !fits => {
                let error = error.to_string();
                assert!(error.contains("entry many at byte"), "{error}");
            }
            other => panic!("{count}: {other:?}"),
        }
    }
}

#[test]
fn a_file_of_three_gibibytes_is_whole() {
    const SIZE: u64 = (3 << 30) + 5;
    // Most of it are holes of the host, and the data of one file for a reader of archives.
    let places = [0, (2 << 30) - 1, 2 << 30, (3 << 30) - 1, SIZE - 1];
    let dir = tempfile::tempdir().unwrap();
    let (path, image) = (dir.path().join("archive"), dir.path().join("image"));
    let archive = std::fs::File::create(&path).unwrap();
    let mut head = header(EntryType::Regular, SIZE);
    head.set_path("large").unwrap();
    head.set_cksum();
    archive.write_all_at(head.as_bytes(), 0).unwrap();
    for (value, at) in (1..).zip(places) {
        archive.write_all_at(&[value], 512 + at).unwrap();
    }
    archive
        .set_len(512 + SIZE.next_multiple_of(512) + 1024)
        .unwrap();
    let options = options(vec![Input::parse(path.as_os_str())]);
    let size = options.size.map(|_| 4 << 30);
    let options = uext4_build::MkfsOptions { size, ..options };
    let file = std::fs::File::create_new(&image).unwrap();
    file.set_len(4 << 30).unwrap();
    let host = FileDevice::open(&image, &OpenOptions::read_write()).unwrap();
    uext4_build::mkfs(&host, &options, &NoProgress).unwrap();
    drop(host);
    let fs = Filesystem::open(&image, &ImageOptions::read_only()).unwrap();
    let file = fs.open_file("/large").unwrap();
    assert_eq!(file.metadata().unwrap().len(), SIZE);
    for (value, at) in (1..).zip(places) {
        let mut found = [0];
        file.read_at(&mut found, at).unwrap();
        assert_eq!(found, [value], "{at}");
    }
    drop((file, fs));
    uext4_testkit::mke2fs::fsck(&image);
}
