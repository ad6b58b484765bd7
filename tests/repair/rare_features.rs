//! Images with features that are rare: whether they are sound is what `e2fsck -fn` says, and a repair makes them so.

use crate::support::{plan, repaired};
use crate::verifier::{e2fsck, have_tools, mke2fs, run, scratch};
use uext4_testkit::prelude::*;

/// A name that is not in the encoding, in place of one that debugfs can be given.
const NAME: (&[u8], &[u8]) = (b"NAME", b"NA\xff\xfe");
/// The start of the attributes of an inode: debugfs has no attributes of encryption.
const CONTEXT: (&[u8], &[u8]) = (b"\0\0\x02\xea\x01\0", b"\0\0\x02\xea\x01\x09");

/// What is done with an image of two equal files, `a` and `b`, by commands of debugfs, and whether it is sound then. BLOCK is the first
/// block of `a`, VALUE a file of 5,000 bytes, and CONTEXT one of a context of encryption.
const IMAGES: [(&str, &[&str], bool); 9] = [
    (
        "shared blocks",
        &["feature shared_blocks", "sif b block[5] BLOCK"],
        true,
    ),
    (
        "shared blocks without the feature",
        &["sif b block[5] BLOCK"],
        false,
    ),
    (
        "a name that is not in the encoding",
        &["mkdir x", "write VALUE x/NAME", "sif x flags 0x40080000"],
        false,
    ),
    (
        "a name that is not in the encoding, where case counts",
        &["mkdir x", "write VALUE x/NAME"],
        true,
    ),
    (
        "an encrypted name that is too short",
        &[
            "mkdir x",
            "write VALUE x/short",
            "ea_set -f CONTEXT x c",
            "sif x flags 0x80800",
        ],
        false,
    ),
    (
        "a file that is not encrypted in a directory that is",
        &[
            "mkdir x",
            "write VALUE x/sixteen_bytes_or_more",
            "ea_set -f CONTEXT x c",
            "sif x flags 0x80800",
        ],
        false,
    ),
    (
        "a device in an encrypted directory",
        &[
            "mkdir x",
            "mknod x/sixteen_bytes_or_more p",
            "ea_set -f CONTEXT x c",
            "sif x flags 0x80800",
        ],
        true,
    ),
    (
        "a name of an attribute's value",
        &["ea_set -f VALUE a user.large", "ln <14> value"],
        true,
    ),
    (
        "a name of an attribute's value, which is counted",
        &[
            "ea_set -f VALUE a user.large",
            "ln <14> value",
            "sif <14> links_count 2",
        ],
        false,
    ),
];

/// The image after commands of debugfs, or none if e2fsck can't make it as sound as they leave it.
fn made(commands: &[&str], is_sound: bool, dir: &Path) -> Vec<u8> {
    let (tree, path) = (dir.join("tree"), dir.join("rare.img"));
    fs::create_dir_all(&tree).expect("mkdir");
    for name in ["a", "b"] {
        fs::write(tree.join(name), [7; 2000]).expect("write");
    }
    let (value, context) = (dir.join("VALUE"), dir.join("CONTEXT"));
    fs::write(&value, [b'x'; 5000]).expect("write");
    fs::write(&context, b"\x01\x01\x04\x02and twenty-four bytes of").expect("write");
    let options = "-t ext4 -b 1024 -N 128 -I 256 -O ea_inode,encrypt,casefold,^metadata_csum,^has_journal \
                   -E encoding=utf8,encoding_flags=strict";
    mke2fs(&path, "8M", options, Some(&tree));
    let name = path.to_str().expect("path");
    let blocks = run("debugfs", &["-R", "blocks a", name]).stdout;
    let blocks = String::from_utf8_lossy(&blocks).into_owned();
    let first = blocks.split_whitespace().next().expect("a block");
    for command in commands {
        let command = command.replace("BLOCK", first);
        let command = command.replace("VALUE", value.to_str().expect("path"));
        debugfs(
            &path,
            &command.replace("CONTEXT", context.to_str().expect("path")),
        );
    }
    let mut bytes = fs::read(&path).expect("image");
    for (from, to) in [NAME, CONTEXT] {
        let places: Vec<usize> = bytes
            .windows(from.len())
            .enumerate()
            .filter(|(_, w)| *w == from)
            .map(|(at, _)| at)
            .collect();
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
    fs::write(&path, &bytes).expect("write");
    if is_sound {
        // What debugfs does not count.
        run("e2fsck", &["-fy", name]);
        bytes = fs::read(&path).expect("image");
    }
    bytes
}

#[test]
fn images_are_sound_that_e2fsck_finds_sound() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("verdict.img");
    for (what, commands, is_sound) in IMAGES {
        let bytes = made(commands, is_sound, dir.path());
        fs::write(&path, &bytes).expect("write");
        let (clean, text) = e2fsck(&path);
        assert_eq!(clean, is_sound, "{what}: e2fsck: {text}");
        let plan_of = plan(&bytes).expect("plan");
        let faults = &plan_of.before.faults;
        assert_eq!(faults.is_empty(), is_sound, "{what}: {faults:#?}");
        assert!(
            plan_of.mends_all(),
            "{what}: left: {:#?}",
            plan_of.after.faults
        );
        fs::write(&path, repaired(&bytes, &plan_of)).expect("write");
        let (clean, text) = e2fsck(&path);
        assert!(clean, "{what}, repaired: {text}");
    }
}
