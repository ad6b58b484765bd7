//! Directories that ignore case: names that differ in case only are found as e2fsck finds them, and trees are made again in the order of folds.

use crate::support::changes::carried_out;
use crate::support::{plan, repaired};
use crate::verifier::{e2fsck, have_tools, run, scratch};
use uext4_check::{CheckOptions, FaultKind, NoProgress, plan_rest};
use uext4_ondisk::InodeFlags;
use uext4_testkit::folding_names::{Pair, make_folding, spellings};
use uext4_testkit::prelude::*;

/// An image with a directory `/d` that has the names, and ignores case from then on if it did not before.
fn filled(names: &[Vec<u8>], shape: &str, folds: bool) -> TempImage {
    let path = image("16M", shape);
    let fs = path.mount();
    let top = fs.top();
    let dir = match folds {
        true => make_folding(&fs, &top, b"d"),
        false => fs.make(&top, b"d", &DIR),
    };
    for name in names {
        fs.make(&dir, name, &FILE);
    }
    let flags = fs.files.flags(&dir) | InodeFlags::CASEFOLD;
    drop((top, dir));
    path.end(fs);
    debugfs(
        &path,
        &format!("set_inode_field d flags {:#x}", flags.bits()),
    );
    path
}

fn made(names: &[Pair]) -> Vec<Vec<u8>> {
    names.iter().map(|pair| pair.made.clone()).collect()
}

fn assert_found_otherwise(path: &Path, names: &[Pair]) {
    let fs = uext4_testkit::mke2fs::mount(path, MountOptions::default());
    let dir = fs.get(&fs.top(), b"d");
    for pair in names {
        assert_eq!(fs.get(&dir, &pair.sought).ino, fs.get(&dir, &pair.made).ino);
    }
    drop(dir);
    fs.unmount().expect("unmount");
}

/// Repairs an image in which the check finds a fault of this kind.
fn repair(image: &Path, kind: FaultKind, dir: &Path) -> PathBuf {
    let bytes = fs::read(image).expect("image");
    let plan = plan(&bytes).expect("plan");
    let kinds: Vec<FaultKind> = plan.before.faults.iter().map(|f| f.kind).collect();
    assert!(kinds.contains(&kind), "{kinds:?}");
    assert!(plan.mends_all(), "{:#?}", plan.after.faults);
    let repaired = repaired(&bytes, &plan);
    let device = MemoryDevice::from_bytes(&bytes);
    let options = CheckOptions::default();
    let rest = plan_rest(&device, &plan, &options, &NoProgress).expect("a check");
    let path = dir.join("repaired.img");
    fs::write(&path, carried_out(&repaired, &rest, &dir.join("undo"))).expect("write");
    let (clean, text) = e2fsck(&path);
    assert!(clean, "{text}");
    path
}

#[test]
fn names_that_differ_in_case_only_are_twice_there() {
    require!(have_tools());
    let dir = scratch();
    for (count, shape) in [
        (6, "-b 1024 -N 2048 -O casefold"),
        (6, "-b 1024 -N 2048 -O casefold,^metadata_csum"),
        (200, "-b 1024 -N 2048 -O casefold,^dir_index"),
        (2, "-b 1024 -N 2048 -I 1024 -O casefold,inline_data"),
    ] {
        let names = spellings(3, count);
        let mut all = made(&names);
        all.extend(["Straße-1", "STRASSE-1"].map(Vec::from));
        let image = filled(&all, shape, false);
        // e2fsck finds them when it writes directories anew, which those in inodes are not.
        if !shape.contains("inline_data") {
            let copy = dir.path().join("copy.img");
            fs::copy(&image, &copy).expect("copy");
            let said = run("e2fsck", &["-fyD", copy.to_str().expect("path")]).stdout;
            let said = String::from_utf8_lossy(&said);
            assert!(
                said.contains("has a non-unique filename"),
                "{shape}: {said}"
            );
        }
        let path = repair(&image, FaultKind::EntryDuplicate, dir.path());
        assert_found_otherwise(&path, &names);
    }
}

#[test]
fn a_tree_in_the_order_of_names_becomes_one_of_folds() {
    require!(have_tools());
    let dir = scratch();
    let names = spellings(4, 800);
    let shape = "-b 1024 -N 2048 -O casefold";
    let image = filled(&made(&names), shape, true);
    let (clean, text) = e2fsck(&image);
    assert!(clean, "{text}");
    assert!(
        plan(&fs::read(&image).expect("image"))
            .expect("plan")
            .before
            .faults
            .is_empty()
    );
    let image = filled(&made(&names), shape, false);
    let (clean, text) = e2fsck(&image);
    assert!(!clean, "{text}");
    let path = repair(&image, FaultKind::HtreeRange, dir.path());
    assert_found_otherwise(&path, &names);
    let fs = uext4_testkit::mke2fs::mount(&path, MountOptions::default());
    let folder = fs.get(&fs.top(), b"d");
    assert!(fs.files.flags(&folder).contains(InodeFlags::INDEX));
    drop(folder);
    fs.unmount().expect("unmount");
}
