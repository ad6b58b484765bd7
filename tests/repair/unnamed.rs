//! Inodes without a name get one in lost+found, whatever shape the directories on the way have.

use crate::support::{changes::superblock, contents::Contents, plan, repaired};
use crate::verifier::{e2fsck, have_tools, mke2fs, run, scratch};
use uext4_testkit::prelude::*;
use uext4_vfs::io::Fallocate;

/// Options of mke2fs, files in the directory of many, which one that is ("" is the root), and whether lost+found is removed.
const IMAGES: [(&str, u32, &str, bool); 6] = [
    ("-O ^metadata_csum", 3, "", true),
    ("-O metadata_csum", 400, "", true),
    ("-O ^metadata_csum", 400, "", true),
    ("-O metadata_csum", 400, "lost+found", false),
    ("-O inline_data -I 256", 1, "lost+found", false),
    (
        "-O inline_data,^metadata_csum -I 512",
        3,
        "lost+found",
        false,
    ),
];

/// An image with a file whose name was removed, and its inode's number.
fn made(options: &str, many: u32, dir_of_many: &str, without: bool, dir: &Path) -> (Vec<u8>, Ino) {
    let (tree, path) = (dir.join("tree"), dir.join("unnamed.img"));
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir_all(&tree).expect("mkdir");
    let options = format!("-t ext4 -b 1024 -N 1024 {options}");
    fs::write(tree.join("lost"), [7; 3000]).expect("write");
    mke2fs(&path, "16M", &options, Some(&tree));
    if without || !dir_of_many.is_empty() {
        debugfs(&path, "rmdir lost+found");
    }
    let fs = uext4_testkit::mke2fs::mount(&path, MountOptions::default());
    let mut top = fs.top();
    if !dir_of_many.is_empty() {
        top = fs.make(&top, dir_of_many, &DIR);
    }
    for i in 0..many {
        fs.make(&top, &format!("a file of many, number {i}"), &FILE);
    }
    drop(top);
    fs.unmount().expect("unmount");
    let name = path.to_str().expect("path");
    let out = run("debugfs", &["-R", "stat lost", name]).stdout;
    let text = String::from_utf8_lossy(&out).into_owned();
    let ino = text
        .split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok());
    debugfs(&path, "unlink lost");
    (fs::read(&path).expect("image"), Ino(ino.expect("a number")))
}

#[test]
fn every_shape_of_directory_takes_a_name() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("repaired.img");
    for (options, many, dir_of_many, without) in IMAGES {
        let what = format!("{options}, {many} files in /{dir_of_many}");
        let (bytes, ino) = made(options, many, dir_of_many, without, dir.path());
        let before = Contents::read(&bytes);
        let plan_of = plan(&bytes).expect("plan");
        assert!(!plan_of.before.is_clean(), "{what}");
        assert!(
            plan_of.mends_all(),
            "{what}: left: {:#?}",
            plan_of.after.faults
        );
        let ours = repaired(&bytes, &plan_of);
        fs::write(&path, &ours).expect("write");
        let (clean, text) = e2fsck(&path);
        assert!(clean, "{what}: {text}");
        let after = Contents::read(&ours);
        let name = format!("/lost+found/#{ino}").into_bytes();
        assert_eq!(after.names.get(&name), Some(&ino), "{what}");
        let gone = before
            .names
            .keys()
            .find(|name| !after.names.contains_key(*name));
        assert_eq!(
            gone.map(|name| String::from_utf8_lossy(name)),
            None,
            "{what}"
        );
    }
}

/// Without a free block the directory in an inode stays there, with what it has.
#[test]
fn a_directory_in_an_inode_keeps_its_names_on_a_full_image() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("full.img");
    let (bytes, _) = made("-O inline_data -I 512", 3, "lost+found", false, dir.path());
    fs::write(&path, bytes).expect("write");
    let fs = uext4_testkit::mke2fs::mount(&path, MountOptions::default());
    let fill = fs.make(&fs.top(), "fill", &FILE);
    let (mut at, mut len) = (0, 1 << 20);
    while len >= 1024 {
        match fs.fallocate(&fill, Fallocate::Allocate, at, len) {
            Ok(()) => at += len,
            Err(_) => len /= 2,
        }
    }
    drop(fill);
    fs.unmount().expect("unmount");
    let bytes = fs::read(&path).expect("image");
    assert_eq!(superblock(&bytes).raw.free_blocks_count(), 0);
    let before = Contents::read(&bytes);
    let plan_of = plan(&bytes).expect("plan");
    let after = Contents::read(&repaired(&bytes, &plan_of));
    let gone = before
        .names
        .keys()
        .find(|name| !after.names.contains_key(*name));
    assert_eq!(gone.map(|name| String::from_utf8_lossy(name)), None);
}
