//! Images whose superblock is damaged: they are read with a backup of it, and nothing writes to them.

use crate::*;
use std::os::unix::fs::FileExt;

/// An image of 300 MiB with a file, made with these options.
fn image(workdir: &Workdir, options: &[&str]) -> fs::File {
    let _ = fs::remove_file(workdir.path("a.img"));
    let args = [&["mkfs", "-q", "a.img", "300M"], options].concat();
    workdir.ok(&args);
    fs::write(workdir.path("file"), "content\n").unwrap();
    workdir.ok(&["cp", "file", "a.img:/file"]);
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(workdir.path("a.img"));
    file.unwrap()
}

/// What a command prints; it warns of the backup in `block`.
fn warned(workdir: &Workdir, args: &[&str], code: i32, block: u64) -> String {
    let out = workdir.run(args);
    let err = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{args:?}: {err}");
    assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
    assert!(
        err.contains(&format!("backup in block {block};")),
        "{args:?}: {err}"
    );
    assert!(err.contains("`uext4 check -y "), "{args:?}: {err}");
    String::from_utf8(out.stdout).unwrap()
}

fn assert_reads(workdir: &Workdir, block: u64) {
    let before = fs::read(workdir.path("a.img")).unwrap();
    assert_eq!(
        warned(workdir, &["cat", "a.img:/file"], 0, block),
        "content\n"
    );
    assert!(warned(workdir, &["ls", "a.img"], 0, block).contains("file"));
    assert!(warned(workdir, &["info", "a.img"], 0, block).contains("300.00 MiB"));
    warned(workdir, &["dump", "a.img", "inode", "/file"], 0, block);
    let _ = fs::remove_file(workdir.path("out"));
    warned(workdir, &["cp", "a.img:/file", "out"], 0, block);
    assert_eq!(fs::read(workdir.path("out")).unwrap(), b"content\n");
    warned(workdir, &["check", "a.img"], 4, block);
    fs::create_dir_all(workdir.path("dir")).unwrap();
    for args in [
        &["mount", "a.img", "dir"][..],
        &["touch", "a.img:/x"],
        &["rm", "a.img:/file"],
        &["trim", "a.img"],
    ] {
        let line = workdir.fails(1, args);
        assert!(line.contains("superblock is damaged"), "{line}");
        assert!(
            line.contains(&format!("backup in block {block}; `uext4 check -y ")),
            "{line}"
        );
    }
    let report = warned(workdir, &["check", "--json", "a.img"], 4, block);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (&report["clean"], &report["superblock_is_damaged"]),
        (&false.into(), &true.into())
    );
    assert!(fs::read(workdir.path("a.img")).unwrap() == before);
}

#[test]
fn a_backup_is_used_where_the_superblock_is_damaged() {
    let workdir = Workdir::new();
    for (options, block) in [
        (&["-b", "4096"][..], 32768),
        (&["-b", "1024"], 8193),
        (&["-b", "2048"], 16384),
        (&["-O", "^metadata_csum,^64bit"], 32768),
    ] {
        let file = image(&workdir, options);
        // All of it.
        file.write_all_at(&[0; 1024], 1024).unwrap();
        let line = workdir.fails(8, &["check", "-p", "a.img"]);
        let remedy = "`uext4 check -y a.img` repairs it with its backup";
        assert!(line.contains(remedy), "{line}");
        assert_reads(&workdir, block);
    }
    // A bit of it, which only a checksum notices; and groups of another size.
    let file = image(&workdir, &["-g", "8192"]);
    file.write_all_at(b"x", 1024 + 0x78).unwrap();
    assert_reads(&workdir, 8192);
    // The descriptors too.
    let file = image(&workdir, &[]);
    file.write_all_at(&[0xee; 8192], 0).unwrap();
    assert_reads(&workdir, 32768);
    let out = workdir.run(&["check", "-y", "a.img"]);
    assert_eq!(
        out.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    workdir.prints(&["cat", "a.img:/file"], "content");
    workdir.assert_clean("a.img");
}

#[test]
fn a_backup_can_be_asked_for() {
    let workdir = Workdir::new();
    image(&workdir, &[]);
    let line = workdir.run(&["ls", "--superblock", "32768", "a.img"]);
    assert!(line.status.success());
    let said = String::from_utf8(line.stderr).unwrap();
    assert_eq!(
        said,
        "uext4: a.img: read with its superblock in block 32768\n"
    );
    let out = workdir.run(&["check", "-b", "32768", "-B", "4096", "a.img"]);
    assert_eq!(String::from_utf8_lossy(&out.stderr), said);
    workdir.refuses(
        1,
        &["info", "--superblock", "5", "a.img"],
        "block 5 holds no backup",
    );
    workdir.refuses(
        1,
        &["touch", "--superblock", "32768", "a.img:/x"],
        "can only be read",
    );
    let out = workdir.run(&["mkfs", "--superblock", "5", "b.img", "4M"]);
    assert_eq!(out.status.code(), Some(2));
    workdir.assert_clean("a.img");
}

#[test]
fn lost_descriptors_are_read_from_a_backup_that_is_named() {
    let workdir = Workdir::new();
    let file = image(&workdir, &[]);
    file.write_all_at(&[0; 4096], 4096).unwrap();
    for args in [&["ls", "a.img"][..], &["cat", "a.img:/file"]] {
        let line = workdir.fails(1, args);
        for what in ["`uext4 check a.img` reports", ", and --superblock 32768 "] {
            assert!(line.contains(what), "{line}");
        }
    }
    workdir.prints(&["cat", "--superblock", "32768", "a.img:/file"], "content");
}

#[test]
fn without_a_backup_the_image_is_refused() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "-q", "a.img", "16M"]);
    let file = fs::File::options().write(true).open(workdir.path("a.img"));
    file.unwrap().write_all_at(b"x", 1024 + 0x78).unwrap();
    workdir.refuses(1, &["ls", "a.img"], "checksum");
    workdir.fails(1, &["touch", "a.img:/x"]);
    // An image of one group has none, whatever overwrote its first blocks.
    let overwritten =
        "f it was an image, its superblock was overwritten, and no backup of it was found";
    for byte in [0, 0xee] {
        let file = fs::File::options().write(true).open(workdir.path("a.img"));
        file.unwrap().write_all_at(&[byte; 1 << 20], 0).unwrap();
        for (code, args) in [
            (1, &["ls", "a.img"][..]),
            (8, &["check", "a.img"]),
            (1, &["touch", "a.img:/x"]),
        ] {
            workdir.refuses(code, args, overwritten);
        }
    }
}

/// A damaged journal keeps an image from being opened; without the journal it can be read, which the message names.
#[test]
fn an_image_with_a_damaged_journal_is_read_without_it() {
    let workdir = Workdir::new();
    let file = image(&workdir, &[]);
    let mut debugfs = Command::new("debugfs");
    debugfs
        .args(["-R", "bmap <8> 0"])
        .arg(workdir.path("a.img"));
    let block = String::from_utf8(debugfs.output().unwrap().stdout).unwrap();
    let block: u64 = block.trim().parse().unwrap();
    file.write_all_at(&[0; 12], block * 4096).unwrap();
    fs::create_dir(workdir.path("dir")).unwrap();
    for args in [&["mount", "a.img", "dir"][..], &["ls", "a.img"]] {
        let hint = "a.img DIR` reads it without its journal";
        workdir.refuses(1, args, hint);
    }
    if can_mount() {
        workdir.ok(&["mount", "-o", "ro,noload", "a.img", "dir"]);
        let file = fs::read(workdir.path("dir/file")).unwrap();
        workdir.ok(&["umount", "dir"]);
        assert_eq!(file, b"content\n");
    }
    // What is damaged elsewhere gets no such hint.
    let file = image(&workdir, &[]);
    file.write_all_at(&[0xff; 64], 4096).unwrap();
    let said = workdir.fails(1, &["ls", "a.img"]);
    assert!(!said.contains("noload"), "{said}");
}

/// What only the journal has is read too: backups do not record that it has something.
#[test]
fn the_journal_is_read_as_well() {
    let workdir = Workdir::new();
    image(&workdir, &[]);
    let fs = uext4::Filesystem::open(workdir.path("a.img"), &uext4::ImageOptions::read_write());
    let fs = fs.unwrap();
    fs.write("/late", b"in the journal\n").unwrap();
    fs.sync().unwrap();
    // As after a crash.
    for copy in ["b.img", "c.img"] {
        fs::copy(workdir.path("a.img"), workdir.path(copy)).unwrap();
    }
    fs.unmount().unwrap();
    let file = fs::File::options().write(true).open(workdir.path("b.img"));
    file.unwrap().write_all_at(&[0; 1024], 1024).unwrap();
    let text = warned(&workdir, &["cat", "b.img:/late"], 0, 32768);
    assert_eq!(text, "in the journal\n");
    warned(&workdir, &["check", "b.img"], 4, 32768);
    assert_eq!(
        workdir.run(&["check", "-y", "b.img"]).status.code(),
        Some(1)
    );
    workdir.prints(&["cat", "b.img:/late"], "in the journal");
    workdir.assert_clean("b.img");
    // Nor is it lost where only the descriptors are, with which its inode is found.
    fs::copy(workdir.path("c.img"), workdir.path("b.img")).unwrap();
    let file = fs::File::options().write(true).open(workdir.path("b.img"));
    file.unwrap().write_all_at(&[0; 4096], 4096).unwrap();
    let out = workdir.run(&["check", "-y", "b.img"]);
    let said = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        !said.contains("lost") && !said.contains("not repaired"),
        "{said}"
    );
    workdir.prints(&["cat", "b.img:/late"], "in the journal");
    workdir.assert_clean("b.img");
}

/// A process that is killed while it mounts may have begun the log, and not yet said so in the superblock: nothing is in it.
#[test]
fn a_log_that_is_not_needed_is_not_in_the_way() {
    const START: u64 = 28;
    let workdir = Workdir::new();
    // Without a checksum of the log.
    let file = image(&workdir, &["-O", "^metadata_csum"]);
    let journal = workdir.ok(&["dump", "--json", "a.img", "inode", "8"]);
    let journal: serde_json::Value = serde_json::from_str(&journal).unwrap();
    let block = journal["mapping"]["runs"][0]["pblk"].as_u64().unwrap();
    let start = block * 4096 + START;
    file.write_all_at(&1_u32.to_be_bytes(), start).unwrap();
    let before = fs::read(workdir.path("a.img")).unwrap();
    assert_eq!(workdir.ok(&["cat", "a.img:/file"]), "content\n");
    workdir.prints(&["check", "a.img"], "clean");
    assert!(fs::read(workdir.path("a.img")).unwrap() == before);
    // A writer empties it, as Linux does.
    workdir.ok(&["touch", "a.img:/new"]);
    assert_eq!(workdir.ok(&["cat", "a.img:/file"]), "content\n");
    workdir.assert_clean("a.img");
}
