//! Blocks larger than a page, of which those of 16 KiB and more hold over 64 inodes: images of mke2fs and ours are read and changed, and e2fsck and
//! debugfs, which have no such limit as the kernel, find what was written.

use std::process::Command;
use uext4_testkit::{mke2fs::run, prelude::*};

const FILES: u32 = 1500;
const SHAPES: [&str; 6] = [
    "-b 16384 -I 128 -O ^inline_data",
    "-b 32768",
    "-b 65536 -I 128",
    "-b 65536 -O inline_data",
    "-b 65536 -O ^extent,^64bit,^metadata_csum",
    "-b 65536 -O ^has_journal,meta_bg,^resize_inode",
];

fn name(i: u32) -> String {
    format!(
        "{i}-a-name-that-is-long-enough-to-split-leaves-of-a-directory-with-large-blocks-into-several-{i}"
    )
}

/// Makes files, removes every third, and makes one of many blocks with a hole.
fn change(path: &TempImage) {
    let fs = path.mount();
    assert!(!fs.volume.is_read_only());
    let top = fs.top();
    let dir = fs.make(&top, b"dir", &DIR);
    for i in 0..FILES {
        let file = fs.make(&dir, &name(i), &FILE);
        if i % 7 == 0 {
            fs.put(&file, 0, name(i).as_bytes());
        }
    }
    for i in (0..FILES).step_by(3) {
        fs.remove(&dir, &name(i));
    }
    let large = fs.make(&top, b"large", &FILE);
    fs.put(&large, 0, &[7; 300_000]);
    fs.put(&large, 40_000_000, b"end");
    path.end(fs);
}

/// Reads what [`change`] wrote, after a mount that has nothing in memory.
fn check(path: &TempImage) {
    let root = Caller::root();
    let fs = path.mount();
    let top = fs.top();
    let dir = fs.namei.lookup(&root, &top, b"dir").expect("dir");
    for i in 0..FILES {
        let found = fs.namei.lookup(&root, &dir, name(i).as_bytes());
        assert_eq!(found.is_ok(), i % 3 != 0, "{i}");
    }
    path.end(fs);
}

#[test]
fn large_blocks_are_read_and_written() {
    for shape in SHAPES {
        let path = image("512M", shape);
        change(&path);
        check(&path);
        let shown = |what| run(Command::new("debugfs").args(["-R", what]).arg(&path));
        let listed = shown("stat large");
        assert!(listed.contains("Size: 40000003"), "{shape}: {listed}");
        let listed = shown("ls -p dir");
        assert_eq!(
            listed.matches("-a-name-").count(),
            (FILES - FILES.div_ceil(3)) as usize,
            "{shape}"
        );
    }
}
