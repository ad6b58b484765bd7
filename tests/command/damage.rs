//! Damage does not end a command: what it concerns is reported, the rest is done, and the exit code is 1.

use crate::*;
use serde_json::Value;
use std::os::unix::fs::FileExt;

const BLOCK: u64 = 1024;
const MANY: usize = 400;

/// An image of files and a directory of many blocks.
fn image() -> Workdir {
    let workdir = Workdir::new();
    let tree = workdir.path("tree");
    fs::create_dir_all(tree.join("many")).unwrap();
    fs::create_dir(tree.join("sub")).unwrap();
    for i in 0..MANY {
        fs::write(tree.join(format!("many/a-name-that-takes-room-{i}")), "").unwrap();
    }
    for (name, content) in [("bad", "x"), ("good", "good content\n"), ("sub/in", "z")] {
        fs::write(tree.join(name), content).unwrap();
    }
    workdir.ok(&[
        "mkfs", "a.img", "--from", "tree", "--size", "16M", "-b", "1K",
    ]);
    workdir
}

fn dump(workdir: &Workdir, what: &str, path: &str) -> Value {
    serde_json::from_str(&workdir.ok(&["dump", "--json", "a.img", what, path])).unwrap()
}

fn write(workdir: &Workdir, offset: u64, bytes: &[u8]) {
    let image = fs::OpenOptions::new()
        .write(true)
        .open(workdir.path("a.img"));
    image.unwrap().write_all_at(bytes, offset).unwrap();
}

/// Where an inode lies.
fn inode_offset(workdir: &Workdir, path: &str) -> u64 {
    let inode = dump(workdir, "inode", path);
    inode["block"].as_u64().unwrap() * BLOCK + inode["offset"].as_u64().unwrap()
}

/// Where the first block of this kind of a directory lies, and the names in it.
fn dir_block(workdir: &Workdir, path: &str, kind: &str) -> (u64, usize) {
    let dir = dump(workdir, "dir", path);
    let blocks = dir["blocks"].as_array().unwrap();
    let block = blocks.iter().find(|block| block["kind"] == kind).unwrap();
    let names = block["entries"].as_array().map_or(0, Vec::len);
    (block["pblk"].as_u64().unwrap() * BLOCK, names)
}

/// Runs a command that finds damage; what it prints and what it reports.
fn survives(workdir: &Workdir, args: &[&str]) -> (String, String) {
    let out = workdir.run(args);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
    assert!(
        said.lines().all(|line| line.starts_with("uext4: ")),
        "{said}"
    );
    (String::from_utf8(out.stdout).unwrap(), said)
}

#[test]
fn an_inode_with_a_wrong_checksum_is_left_out() {
    let workdir = image();
    let at = inode_offset(&workdir, "/bad");
    write(&workdir, at + 4, &[0x77]);
    for command in [
        "ls",
        "ls -l",
        "ls -R",
        "tree",
        "find",
        "du",
        "lsattr",
        "getfacl -R",
        "ls --json",
    ] {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.push("a.img:/");
        let (printed, said) = survives(&workdir, &args);
        assert!(
            said.contains("a.img:/bad: inode checksum is wrong"),
            "{command}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{command}: {said}");
        let expected = if command == "du" { "/sub" } else { "good" };
        assert!(printed.contains(expected), "{command}: {printed}");
    }
    let (long, _) = survives(&workdir, &["ls", "-l", "a.img:/"]);
    let line = long.lines().find(|line| line.ends_with(" bad")).unwrap();
    assert!(line.starts_with("?????????? ? ? ?"), "{long}");
    let (content, _) = survives(&workdir, &["cat", "a.img:/bad", "a.img:/good"]);
    assert_eq!(content, "good content\n");
    survives(&workdir, &["cp", "-a", "a.img:/", "out"]);
    assert!(workdir.path("out/good").exists() && workdir.path("out/sub/in").exists());
    workdir.prints(&["dump", "a.img", "inode", "/bad"], "checksum WRONG");
    workdir.prints(&["dump", "a.img", "inode", "/bad"], "size 119");
    for (quiet, lines) in [(&["check", "a.img"][..], 2), (&["check", "-q", "a.img"], 1)] {
        let out = workdir.run(quiet);
        let text = String::from_utf8(out.stdout).unwrap();
        assert_eq!(out.status.code(), Some(4), "{text}");
        assert!(
            text.starts_with("a.img:/bad: inode checksum is wrong"),
            "{text}"
        );
        assert!(text.lines().count() >= lines, "{text}");
        assert_eq!(text.contains(" inodes ("), lines == 2, "{text}");
    }
}

#[test]
fn an_inode_that_cannot_be_decoded_is_dumped_as_bytes() {
    let workdir = image();
    let at = inode_offset(&workdir, "/bad");
    write(&workdir, at + 128, &[0xff, 0xff]);
    let dumped = workdir.ok(&["dump", "a.img", "inode", "/bad"]);
    assert!(
        dumped.contains("FAULT: ") && dumped.contains("080  ff ff"),
        "{dumped}"
    );
    assert!(dump(&workdir, "inode", "/bad")["fault"].is_string());
}

#[test]
fn a_damaged_block_of_a_directory_costs_its_own_names_only() {
    let workdir = image();
    let (at, names) = dir_block(&workdir, "/many", "entries");
    write(&workdir, at + 10, b"Z");
    for command in ["ls", "find", "tree"] {
        let (printed, said) = survives(&workdir, &[command, "a.img:/many"]);
        let listed = printed
            .lines()
            .filter(|line| line.contains("a-name"))
            .count();
        assert_eq!(listed, MANY - names, "{command}");
        assert!(
            said.contains("a.img:/many: directory block checksum is wrong"),
            "{said}"
        );
    }
    survives(&workdir, &["cp", "-a", "a.img:/many", "out"]);
    assert_eq!(
        fs::read_dir(workdir.path("out")).unwrap().count(),
        MANY - names
    );
    workdir.prints(
        &["dump", "a.img", "dir", "/many"],
        "entries, checksum WRONG",
    );
}

#[test]
fn a_damaged_tree_of_hashes_costs_no_names() {
    let workdir = image();
    let (at, _) = dir_block(&workdir, "/many", "root");
    write(&workdir, at + 32, b"Z");
    let (printed, said) = survives(&workdir, &["ls", "-l", "a.img:/many"]);
    assert_eq!(
        printed
            .lines()
            .filter(|line| line.starts_with("-rw"))
            .count(),
        MANY
    );
    assert!(
        said.contains("a.img:/many: hash tree block checksum is wrong"),
        "{said}"
    );
    workdir.prints(
        &["dump", "a.img", "dir", "/many"],
        "root, halfmd4, checksum WRONG",
    );
    // Nothing is changed by a name that was found past damage.
    workdir.fails(1, &["rm", "a.img:/many/a-name-that-takes-room-1"]);
}

#[test]
fn names_that_are_not_text_survive_in_json() {
    use std::os::unix::ffi::OsStrExt;
    let workdir = Workdir::new();
    let tree = workdir.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join(std::ffi::OsStr::from_bytes(b"latin-\xe9")), "").unwrap();
    fs::write(tree.join("text"), "").unwrap();
    workdir.ok(&["mkfs", "a.img", "--from", "tree"]);
    for (command, key, bytes) in [
        ("ls", "name_bytes", "6c6174696e2de9"),
        ("find", "name_bytes", "2f6c6174696e2de9"),
        ("lsattr", "name_bytes", "2f6c6174696e2de9"),
        ("tree", "path_bytes", "2f6c6174696e2de9"),
        ("du -a", "path_bytes", "2f6c6174696e2de9"),
    ] {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.extend(["--json", "a.img:/"]);
        let document: Value = serde_json::from_str(&workdir.ok(&args)).unwrap();
        let files = document.as_array().unwrap();
        let named: Vec<&Value> = files.iter().filter_map(|file| file.get(key)).collect();
        assert_eq!(named, [bytes], "{command}: {document}");
    }
}
