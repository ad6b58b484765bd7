//! Files that are not ext4 images: each is named for what it is, with the command that helps.

use crate::*;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

/// Commands that open an image, and their exit code when they can't.
fn assert_all_say(workdir: &Workdir, name: &str, what: &str) {
    let at = format!("{name}:/x");
    for (code, args) in [
        (1, &["ls", name][..]),
        (1, &["info", name]),
        (8, &["check", name]),
        (1, &["cat", &at]),
        (1, &["touch", &at]),
        (1, &["df", name]),
        (1, &["trim", name]),
        (1, &["label", name]),
        (1, &["dump", name, "inode", "2"]),
    ] {
        let line = workdir.fails(code, args);
        assert!(line.contains(what), "{args:?}: {line}");
        assert!(!line.contains("mkfs") || line.contains("--from"), "{line}");
    }
}

/// A mark at a place names the format, and one command says what to do.
#[test]
fn formats_are_named_by_their_marks() {
    let workdir = Workdir::new();
    for (name, at, bytes, what) in [
        (
            "a.qcow2",
            0,
            &b"QFI\xfb"[..],
            "is of version 0 of qcow2, which is unknown",
        ),
        ("a.vmdk", 0, b"KDMV", "a VMDK image; `qemu-img"),
        ("a.vdi", 0x40, b"\x7f\x10\xda\xbe", "a VDI image; `qemu-img"),
        ("a.vhdx", 0, b"vhdxfile", "a VHDX image; `qemu-img"),
        ("a.vhd", 0, b"conectix", "a VHD image; `qemu-img"),
        (
            "fixed.vhd",
            (1 << 20) - 512,
            b"conectix",
            "a VHD image; `qemu-img",
        ),
        (
            "sparse",
            0,
            b"\x3a\xff\x26\xed",
            "an Android sparse image; `simg2img",
        ),
        (
            "xfs",
            0,
            b"XFSB",
            "an XFS file system; `mount -o loop xfs DIR`",
        ),
        ("btrfs", 0x10040, b"_BHRfS_M", "a Btrfs file system"),
        ("f2fs", 0x400, b"\x10\x20\xf5\xf2", "an F2FS file system"),
        (
            "squash",
            0,
            b"hsqs",
            "a SquashFS file system; `unsquashfs -d DIR squash`",
        ),
        (
            "erofs",
            0x400,
            b"\xe2\xe1\xf5\xe0",
            "an EROFS file system; `fsck.erofs",
        ),
        (
            "a.iso",
            0x8001,
            b"CD001",
            "an ISO 9660 file system; `mount -o loop",
        ),
        (
            "luks",
            0,
            b"LUKS\xba\xbe",
            "a LUKS volume; `cryptsetup open luks",
        ),
        (
            "disk.img.gz",
            0,
            b"\x1f\x8b\x08",
            "gzip; `gzip -dc disk.img.gz > disk.img`",
        ),
        (
            "disk.img.zst",
            0,
            b"\x28\xb5\x2f\xfd",
            "zstd; `zstd -dc disk.img.zst > disk.img`",
        ),
        ("disk.img.xz", 0, b"\xfd7zXZ\0", "xz; `xz -dc"),
        ("disk.img.bz2", 0, b"BZh9", "bzip2; `bzip2 -dc"),
        (
            "my disk.lz4",
            0,
            b"\x04\x22\x4d\x18",
            "lz4; `lz4 -dc 'my disk.lz4' > 'my disk'`",
        ),
        (
            "a.tar",
            257,
            b"ustar",
            "a tar archive; `tar -xf a.tar -C DIR`",
        ),
        ("a.cpio", 0, b"070701", "a cpio archive; `cpio"),
        ("a.zip", 0, b"PK\x03\x04", "a zip archive; `unzip"),
        ("program", 0, b"\x7fELF", "an ELF program"),
        ("swap", 4086, b"SWAPSPACE2", "swap space"),
        (
            "zeros",
            0,
            b"",
            "only zeros; if an image begins later in it, --offset names where",
        ),
        (
            "odd",
            0,
            b"\x01\x02\x03",
            "not an ext4 image; is it the right file?",
        ),
    ] {
        let file = fs::File::create(workdir.path(name)).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(bytes, at).unwrap();
        let line = workdir.fails(1, &["ls", name]);
        assert!(line.contains(what), "{line}");
    }
    assert_all_say(&workdir, "a.qcow2", "version 0 of qcow2");
    assert_all_say(&workdir, "disk.img.gz", "compressed by gzip");
    fs::write(workdir.path("empty"), "").unwrap();
    assert_all_say(&workdir, "empty", "not an ext4 image: it is empty");
    fs::write(workdir.path("script"), "#!/bin/sh\necho caf\u{e9}\n").unwrap();
    assert_all_say(&workdir, "script", "but text");
}

/// What other programs make is recognised as what they say it is.
#[test]
fn files_of_other_programs_are_recognised() {
    let workdir = Workdir::new();
    fs::write(workdir.path("file"), "x").unwrap();
    for (line, name, what) in [
        ("tar -cf a.tar file", "a.tar", "a tar archive"),
        ("gzip -k file", "file.gz", "gzip"),
        ("xz -k file", "file.xz", "xz"),
        ("bzip2 -k file", "file.bz2", "bzip2"),
        ("zstd -q file", "file.zst", "zstd"),
        ("lz4 -q file file.lz4", "file.lz4", "lz4"),
        (
            "echo file | cpio -o -H newc --quiet > a.cpio",
            "a.cpio",
            "a cpio archive",
        ),
        (
            "qemu-img create -q -f qcow2 a.qcow2 1M",
            "a.qcow2",
            "only zeros",
        ),
        (
            "qemu-img create -q -f vmdk a.vmdk 1M",
            "a.vmdk",
            "a VMDK image",
        ),
        ("qemu-img create -q -f vdi a.vdi 1M", "a.vdi", "a VDI image"),
        (
            "qemu-img create -q -f vhdx a.vhdx 1M",
            "a.vhdx",
            "a VHDX image",
        ),
        ("qemu-img create -q -f vpc a.vhd 1M", "a.vhd", "a VHD image"),
        ("mkfs.xfs -q -d file,name=xfs,size=300m", "xfs", "an XFS"),
        (
            "truncate -s 300M btrfs && mkfs.btrfs -q btrfs",
            "btrfs",
            "a Btrfs",
        ),
        (
            "mkdir t; mksquashfs t squash -quiet -no-progress",
            "squash",
            "a SquashFS",
        ),
    ] {
        let mut sh = Command::new("sh");
        sh.args(["-c", line]).current_dir(workdir.dir());
        match sh.stderr(Stdio::null()).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => workdir.refuses(1, &["ls", name], what),
            _ => eprintln!("SKIPPED: {line}"),
        }
    }
}

/// An entry of an MBR.
fn mbr_entry(kind: u8, first: u32, len: u32) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[4] = kind;
    entry[8..12].copy_from_slice(&first.to_le_bytes());
    entry[12..].copy_from_slice(&len.to_le_bytes());
    entry
}

#[test]
fn partitions_are_listed() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "4M"]);
    let image = fs::read(workdir.path("a.img")).unwrap();
    let disk = fs::File::create(workdir.path("disk")).unwrap();
    disk.set_len(8 << 20).unwrap();
    disk.write_all_at(&image, 1 << 20).unwrap();
    disk.write_all_at(&mbr_entry(0x83, 2048, 8192), 446)
        .unwrap();
    disk.write_all_at(&mbr_entry(0x82, 10240, 2048), 462)
        .unwrap();
    disk.write_all_at(b"\x55\xaa", 510).unwrap();
    let line = workdir.fails(1, &["ls", "disk"]);
    for what in [
        "(MBR)",
        "1 (4.00 MiB from 1.00 MiB on, Linux, an ext2, ext3 or ext4 file system)",
        "2 (1.00 MiB from 5.00 MiB on, Linux swap)",
        "`uext4 ls 'disk?partition=1'` lists number 1",
    ] {
        assert!(line.contains(what), "{line}");
    }
    let out = workdir.run(&["info", "disk"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && out.stderr.is_empty());
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("1048576"), "{text}");
    assert!(text.contains("'disk?partition=2'"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&workdir.ok(&["info", "--json", "disk"])).unwrap();
    let first = &json["partitions"][0];
    assert_eq!(
        (&first["number"], &first["image"], &first["bytes"]),
        (&1.into(), &"disk?partition=1".into(), &(4 << 20).into())
    );
    assert!(json["partitions"][1]["holds"].is_null());
    workdir.prints(
        &["info", "disk", "disk?partition=1"],
        "\ndisk?partition=1:\n",
    );
    assert!(text.lines().all(|line| line == line.trim()), "{text}");
    workdir.prints(&["ls", "disk?partition=1"], "lost+found");
    // Its files are read and changed there, and nothing else of the disk.
    workdir.ok(&["--offset", "1M", "cp", "/etc/passwd", "disk:/new"]);
    workdir.prints(&["ls", "--offset=1048576", "disk:/"], "new");
    workdir.prints(&["ls", "--offset", "2048s", "disk:/"], "new");
    workdir.ok(&["trim", "--offset", "1M", "disk"]);
    workdir.prints(&["check", "--offset", "1M", "disk"], "clean");
    let none = "no ext4 image begins at byte 2097152";
    workdir.refuses(1, &["ls", "--offset", "2M", "disk:/"], none);
    let refused = workdir.run(&["mkfs", "--offset", "1M", "disk", "1M"]);
    assert_eq!(refused.status.code(), Some(2));
    let mut after = fs::read(workdir.path("disk")).unwrap();
    let part = after.drain(1 << 20..(1 << 20) + image.len());
    fs::write(workdir.path("part"), part.collect::<Vec<u8>>()).unwrap();
    workdir.assert_clean("part");
    let zeros = after.split_off(512);
    assert!(zeros.iter().all(|byte| *byte == 0));
    // What boots a file system may look like a table; a disc that is a disk too has one.
    for (mark, at, listed) in [("EXFAT   ", 3, false), ("CD001", 0x8001, true)] {
        disk.write_all_at(mark.as_bytes(), at).unwrap();
        assert_eq!(workdir.run(&["info", "disk"]).status.success(), listed);
    }
}

#[test]
fn a_truncated_image_says_how_much_is_missing() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "128M"]);
    let file = fs::File::options().write(true).open(workdir.path("a.img"));
    file.unwrap().set_len(20 << 20).unwrap();
    let what = "is truncated: its file system needs 128.00 MiB, and it has 20.00 MiB";
    for args in [
        &["ls", "a.img"][..],
        &["touch", "a.img:/x"],
        &["df", "a.img"],
    ] {
        workdir.refuses(1, args, what);
    }
    let out = workdir.run(&["info", "a.img"]);
    assert!(out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains(what));
    assert_eq!(workdir.run(&["check", "a.img"]).status.code(), Some(4));
}

/// An image with multi-mount protection says which host has it open; of one that was left behind, a command says that it waits.
#[test]
fn the_host_that_has_an_image() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "32M", "-O", "mmp"]);
    let open_on = || -> serde_json::Value {
        let info: serde_json::Value =
            serde_json::from_str(&workdir.ok(&["info", "--json", "a.img"])).unwrap();
        info["open_on"].clone()
    };
    assert!(open_on().is_null());
    let options = uext4::ImageOptions::read_write();
    let fs = uext4::Filesystem::open(workdir.path("a.img"), &options).unwrap();
    assert_eq!(open_on()["device"], "uext4");
    assert!(workdir.ok(&["info", "a.img"]).contains("open on: "));
    std::fs::copy(workdir.path("a.img"), workdir.path("left.img")).unwrap();
    fs.unmount().unwrap();
    assert!(open_on().is_null());
    // It is said before the wait, which is not waited for here.
    let mut command = Command::new(uext4());
    command
        .arg("mkdir")
        .arg(format!("{}:/made", workdir.path("left.img").display()));
    let mut waits = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let stderr = waits.stderr.take().unwrap();
    BufReader::new(stderr).read_line(&mut said).unwrap();
    waits.kill().unwrap();
    waits.wait().unwrap();
    assert!(
        said.contains("waits 22 s to see whether it still has it open"),
        "{said}"
    );
}
