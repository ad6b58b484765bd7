//! `uext4 dump`: what it says of an image is what lies there.

use serde_json::Value;
use uext4_testkit::prelude::*;

const FILE_BYTES: usize = 700_000;

fn uext4(dir: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(built::uext4());
    let out = command.current_dir(dir).args(args).output().unwrap();
    match out.status.success() {
        true => Ok(String::from_utf8(out.stdout).unwrap()),
        false => Err(String::from_utf8(out.stderr).unwrap()),
    }
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let all = [&["dump", "image", "--json"], args].concat();
    serde_json::from_str(&uext4(dir, &all).unwrap()).unwrap()
}

/// An image of a file and a directory of many names.
fn image(options: &[&str]) -> (TempDir, Vec<u8>) {
    let dir = TempDir::new().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("names")).unwrap();
    let content: Vec<u8> = (0..FILE_BYTES).map(|i| (i / 7 % 251) as u8).collect();
    fs::write(tree.join("file"), &content).unwrap();
    for i in 0..500 {
        fs::write(tree.join(format!("names/a-name-that-takes-room-{i}")), "").unwrap();
    }
    let mkfs = [
        &["mkfs", "image", "--from", "tree", "--size", "16M"],
        options,
    ]
    .concat();
    uext4(dir.path(), &mkfs).unwrap();
    (dir, content)
}

/// The runs of a node and all below it.
fn runs(node: &Value) -> Vec<(u64, u64, u64)> {
    let list = |key: &str| node[key].as_array().cloned().unwrap_or_default();
    let number = |run: &Value, key: &str| run[key].as_u64().unwrap();
    let mut all: Vec<_> = list("runs")
        .iter()
        .map(|run| (number(run, "lblk"), number(run, "len"), number(run, "pblk")))
        .collect();
    all.extend(list("below").iter().flat_map(runs));
    all
}

/// The number of a name of a directory.
fn inode_of(dir: &Value, name: &str) -> u64 {
    let blocks = dir["blocks"].as_array().unwrap();
    let mut entries = blocks
        .iter()
        .filter_map(|b| b["entries"].as_array())
        .flatten();
    let entry = entries.find(|e| e["name"] == name).unwrap();
    entry["inode"].as_u64().unwrap()
}

#[test]
fn the_mapping_leads_to_the_data() {
    for options in [
        &["-b", "1K"][..],
        &["-b", "1K", "-t", "ext3"],
        &["-t", "ext2"],
    ] {
        let (dir, content) = image(options);
        let root = json(dir.path(), &["dir", "2"]);
        let file = inode_of(&root, "file").to_string();
        let inode = json(dir.path(), &["inode", &file]);
        assert_eq!(inode["size"], FILE_BYTES, "{options:?}");
        assert_ne!(inode["checksum_ok"], false);
        let block_size = if options.contains(&"1K") { 1024 } else { 4096 };
        let bytes = fs::read(dir.path().join("image")).unwrap();
        let mut found = vec![0; FILE_BYTES.next_multiple_of(block_size)];
        for (lblk, len, pblk) in runs(&inode["mapping"]) {
            let at = |block: u64| block as usize * block_size;
            found[at(lblk)..at(lblk + len)].copy_from_slice(&bytes[at(pblk)..at(pblk + len)]);
        }
        assert!(found[..FILE_BYTES] == content, "{options:?}");
    }
}

#[test]
fn every_name_of_a_hash_tree_is_shown() {
    let (dir, _) = image(&["-b", "1K"]);
    let root = json(dir.path(), &["dir", "/"]);
    let names = inode_of(&root, "names");
    let by_path = json(dir.path(), &["dir", "/names"]);
    assert_eq!(
        (&by_path["inode"], &by_path["hashed"]),
        (&names.into(), &true.into())
    );
    for i in 0..500 {
        inode_of(&by_path, &format!("a-name-that-takes-room-{i}"));
    }
    let blocks = by_path["blocks"].as_array().unwrap();
    assert!(
        blocks
            .iter()
            .all(|b| b["checksum_ok"] == true && b["fault"].is_null())
    );
    let index = blocks[0]["index"].as_array().unwrap();
    assert_eq!(index.len(), blocks.len() - 1, "a leaf for each entry");
}

#[test]
fn the_journal_is_read_block_by_block() {
    let (dir, _) = image(&[]);
    uext4(dir.path(), &["touch", "image:/new"]).unwrap();
    let journal = json(dir.path(), &["journal"]);
    assert_eq!(
        (&journal["inode"], &journal["start"]),
        (&8.into(), &0.into())
    );
    let log = journal["log"].as_array().unwrap();
    let of = |kind: &str| log.iter().filter(|b| b["kind"] == kind).count();
    assert!(
        of("commit") > 1 && of("descriptor") == of("commit"),
        "{log:?}"
    );
    assert!(log.iter().all(|b| b["fault"].is_null()));
    let text = uext4(dir.path(), &["dump", "image", "journal"]).unwrap();
    assert!(text.contains("nothing to recover"), "{text}");
}

#[test]
fn damage_is_shown_and_followed_once() {
    let (dir, _) = image(&["-b", "1K", "-t", "ext3"]);
    let path = dir.path().join("image");
    let root = json(dir.path(), &["dir", "2"]);
    let file = inode_of(&root, "file").to_string();
    let inode = json(dir.path(), &["inode", &file]);
    // Every number of the double-indirect block names itself.
    let below = inode["mapping"]["below"].as_array().unwrap();
    let double = below[1]["block"].as_u64().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = double as usize * 1024;
    for word in bytes[at..at + 1024].chunks_mut(4) {
        word.copy_from_slice(&(double as u32).to_le_bytes());
    }
    fs::write(&path, &bytes).unwrap();
    let text = uext4(dir.path(), &["dump", "image", "inode", &file]).unwrap();
    assert_eq!(text.matches("FAULT: is named more than once").count(), 256);
}

#[test]
fn what_is_not_there_is_an_error() {
    let (dir, _) = image(&[]);
    for (args, wanted) in [
        (&["inode", "0"][..], "inode 0"),
        (&["inode", "99999999"], "inode 99999999"),
        (&["inode", "name"], "neither a number nor a path"),
        (&["inode", "/none"], "no such file or directory"),
        (&["dir", "8"], "is not a directory"),
        (&["block", "4096"], "block 4096"),
    ] {
        let all = [&["dump", "image"], args].concat();
        let error = uext4(dir.path(), &all).unwrap_err();
        assert!(
            error.contains(wanted) && error.lines().count() == 1,
            "{error}"
        );
    }
    let block = uext4(dir.path(), &["dump", "image", "block", "0"]).unwrap();
    assert!(
        block.contains("53 ef") && block.contains("in use"),
        "{block}"
    );
}
