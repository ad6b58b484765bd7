//! Archives that GNU tar and other readers accept, although no current writer makes them.
use uext4_testkit::prelude::*;

use crate::containers::{content, made, oci, options};
use crate::layout::{Pack, layout};
use std::io::{Seek, SeekFrom, Write};
use tar::{Builder, EntryType, Header};

/// A file of one byte in the oldest format, whose header `change` alters before its checksum is made.
fn old(name: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut header = Header::new_old();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(1);
    header.set_entry_type(EntryType::Regular);
    change(header.as_mut_bytes());
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.push(b'1');
    bytes.resize(2048, 0);
    bytes
}

fn image_of(archive: &[u8]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    std::fs::write(&path, archive).unwrap();
    let made = made(&options(vec![path.as_path().into()]));
    made.unwrap_or_else(|e| panic!("{e}")).0
}

#[test]
fn blank_numbers_are_zero() {
    let with = |mode: &[u8; 8], number: &[u8; 8], time: &[u8; 12]| {
        old(b"x", |bytes| {
            bytes[100..108].copy_from_slice(mode);
            bytes[108..116].copy_from_slice(number);
            bytes[116..124].copy_from_slice(number);
            bytes[136..148].copy_from_slice(time);
        })
    };
    let expected = image_of(&with(b"0000000\0", b"0000000\0", b"00000000000\0"));
    assert!(image_of(&with(b"        ", b"       \0", b"           \0")) == expected);
    assert!(image_of(&with(&[0; 8], &[0; 8], &[0; 12])) == expected);
}

#[test]
fn a_checksum_of_signed_bytes_fits() {
    let mut archive = old(b"caf\xe9", |_| ());
    let expected = image_of(&archive);
    archive[148..156].fill(b' ');
    let sum: i32 = archive[..512].iter().map(|b| i32::from(*b as i8)).sum();
    archive[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert!(image_of(&archive) == expected);
    archive[148..156].copy_from_slice(format!("{:06o}\0 ", sum + 1).as_bytes());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    std::fs::write(&path, archive).unwrap();
    made(&options(vec![path.as_path().into()])).unwrap_err();
}

/// Tapes and block devices fill up the last record.
#[test]
fn zeros_follow_a_gzip_stream() {
    let archive = old(b"x", |_| ());
    let expected = image_of(&archive);
    let mut packed = Pack::Gzip.pack(&archive[..600]);
    packed.extend(Pack::Gzip.pack(&archive[600..]));
    packed.extend([0; 3000]);
    assert!(image_of(&packed) == expected);
    packed.push(1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar.gz");
    std::fs::write(&path, packed).unwrap();
    made(&options(vec![path.as_path().into()])).unwrap_err();
}

/// What packs a layout may leave out the holes of its blobs.
#[test]
fn a_layout_is_packed_with_holes() {
    let dir = tempfile::tempdir().unwrap();
    let mut to = Builder::new(Vec::new());
    let mut header = Header::new_ustar();
    header.set_mode(0o644);
    header.set_mtime(1);
    header.set_uid(0);
    header.set_gid(0);
    let mut zeros = vec![0; 3_000_000];
    zeros.extend(b"end");
    for (name, data) in [("first", &b"text"[..]), ("zeros", &zeros)] {
        header.set_size(data.len() as u64);
        to.append_data(&mut header, name, data).unwrap();
    }
    let image = dir.path().join("image");
    layout(&image, &[(to.into_inner().unwrap(), Pack::Plain)]);
    let expected = made(&options(vec![oci(&image)])).unwrap().0;
    // The blob again, with holes.
    for entry in std::fs::read_dir(image.join("blobs/sha256")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let mut file = std::fs::File::create(&path).unwrap();
        for (i, part) in bytes.chunks(4096).enumerate() {
            if part.iter().any(|byte| *byte != 0) {
                file.seek(SeekFrom::Start(i as u64 * 4096)).unwrap();
                file.write_all(part).unwrap();
            }
        }
        file.set_len(bytes.len() as u64).unwrap();
    }
    let archive = dir.path().join("a.tar");
    for form in ["--format=gnu", "--format=posix"] {
        let mut tar = Command::new("tar");
        tar.args(["--sparse", form, "-C"]).arg(&image);
        let packed = tar.arg("-cf").arg(&archive).arg(".").status();
        if !packed.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no tar");
            return;
        }
        let plain = std::fs::read(&archive).unwrap();
        assert!(plain.len() < 1_000_000, "holes are not in it");
        for pack in [Pack::Plain, Pack::Gzip] {
            std::fs::write(&archive, pack.pack(&plain)).unwrap();
            let image = made(&options(vec![archive.as_path().into()]));
            assert!(image.unwrap().0 == expected, "{form} {pack:?}");
        }
    }
    let text = content(&archive.display().to_string(), "first").unwrap();
    assert_eq!(text, "text");
}
