//! Images that are made smaller: every shape stays sound, keeps its files, and gets no larger than resize2fs makes it; a crash at any
//! write leaves every file.

use crate::grow::by_resize2fs;
use crate::support::changes::{Crashes, carried_out, problems, superblock};
use crate::support::{Base, contents::Contents, plan, repaired};
use crate::verifier::{e2fsck, have_tools, mke2fs, run, scratch, shapes::SHAPES};
use uext4_check::{ChangeError, CheckOptions, NoProgress, Plan, plan_shrink};
use uext4_ondisk::{Compat, FileType};
use uext4_testkit::prelude::*;

/// Files of the largest directory of each image.
const FILES: [usize; 3] = [300, 30, 600];

fn plans(bytes: &[u8], blocks: Option<u64>) -> Result<Vec<Plan>, ChangeError> {
    let device = MemoryDevice::from_bytes(bytes);
    let options = CheckOptions {
        threads: 1,
        faults_max: 1000,
    };
    plan_shrink(&device, blocks, &options, &NoProgress)
}

#[test]
fn every_shape_shrinks() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("smaller.img");
    let undo = dir.path().join("undo");
    let share = env_number("UEXT4_TUNE_SHARE", 15) as usize;
    let (mut failed, mut smaller) = (Vec::new(), 0);
    let images = FILES
        .iter()
        .flat_map(|files| (0..SHAPES.len()).map(move |shape| (*files, shape)));
    for (files, shape) in images.step_by(share) {
        let base = Base::with_files(shape, files, dir.path());
        let before = Contents::read(base.bytes());
        let old = superblock(base.bytes()).geometry;
        for blocks in [None, Some(old.blocks_count * 3 / 4)] {
            let name = format!("[{}] {files} to {blocks:?}", base.options);
            let plans = match plans(base.bytes(), blocks) {
                Ok(plans) => plans,
                Err(ChangeError::TooSmall { .. } | ChangeError::Refused(_)) => continue,
                Err(e) => panic!("{name}: {e}"),
            };
            let mut after = carried_out(base.bytes(), &plans, &undo);
            let new = superblock(&after).geometry;
            smaller += u64::from(new.blocks_count < old.blocks_count);
            after.truncate((new.blocks_count * u64::from(new.block_size)) as usize);
            let wrong = problems(&before, &after, &path);
            failed.extend(wrong.iter().map(|wrong| format!("{name}: {wrong}")));
            if blocks.is_none() && !base.has_mmp {
                let theirs = by_resize2fs(base.bytes(), base.bytes().len(), true, &path);
                println!("{name}: {} blocks, resize2fs {theirs:?}", new.blocks_count);
                if theirs.is_some_and(|theirs| theirs < new.blocks_count) {
                    failed.push(format!("{name}: {}, not {theirs:?}", new.blocks_count));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(smaller > 0);
}

#[test]
fn a_crash_loses_no_file() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("smaller.img");
    let share = env_number("UEXT4_TUNE_SHARE", 6);
    let mut crashes = Crashes::new(&path, share);
    let all = (0..SHAPES.len()).filter(|shape| share == 1 || [0, 6, 16].contains(shape));
    for shape in all {
        let base = Base::make(shape, dir.path());
        // Without a journal it takes an undo file, and with multi-mount protection e2fsck waits.
        let has_journal = superblock(base.bytes())
            .compat
            .contains(Compat::HAS_JOURNAL);
        if !has_journal || base.has_mmp {
            continue;
        }
        let before = Contents::read(base.bytes());
        let mut bytes = base.bytes().to_vec();
        for planned in plans(&bytes, None).expect("plans") {
            bytes = crashes.of(base.options, &before, &bytes, &planned, &|_| true);
        }
        assert_eq!(problems(&before, &bytes, &path), [""; 0]);
    }
    crashes.end();
}

/// Inodes of groups that go get other numbers, and so does what names them: entries, `..`, trees of hashes and extents.
#[test]
fn inodes_get_other_numbers() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("many.img");
    let tree = dir.path().join("many");
    for d in 0..20 {
        fs::create_dir_all(tree.join(format!("d{d}/sub"))).expect("mkdir");
        for f in 0..20 {
            let name = tree.join(format!("d{d}/{f}{}", "n".repeat(80)));
            fs::write(name, vec![f + 1; 3000]).expect("write");
        }
        std::os::unix::fs::symlink("n".repeat(100), tree.join(format!("d{d}/link"))).expect("link");
    }
    for options in [
        "-t ext4 -b 1024 -N 768 -g 1024 -O ^resize_inode",
        "-t ext4 -b 1024 -N 768 -g 1024 -O inline_data -I 256",
        "-t ext4 -b 1024 -N 768 -g 2048 -O quota,orphan_file",
        "-t ext3 -b 1024 -N 768 -g 1024 -I 128",
    ] {
        mke2fs(&path, "24M", options, Some(&tree));
        let name = path.to_str().expect("path");
        // The first inodes become free.
        let removed: Vec<String> = (0..20)
            .flat_map(|f| (0..12).map(move |d| format!("rm /d{d}/{f}{}\n", "n".repeat(80))))
            .collect();
        let script = dir.path().join("script");
        fs::write(&script, removed.concat()).expect("write");
        run(
            "debugfs",
            &["-w", "-f", script.to_str().expect("path"), name],
        );
        run("e2fsck", &["-fyD", name]);
        // The first run counts usage before it rebuilds directories.
        run("e2fsck", &["-fy", name]);
        let bytes = fs::read(&path).expect("image");
        let sound = plan(&bytes).expect("check");
        assert!(sound.is_empty(), "{options}: {:?}", sound.decisions.first());
        let before = Contents::read(&bytes);
        let numbered = before.files.keys().max().expect("files").0;
        let mut after = bytes.clone();
        for plan in plans(&bytes, None).unwrap_or_else(|e| panic!("{options}: {e}")) {
            after = repaired(&after, &plan);
        }
        let new = superblock(&after).geometry;
        assert!(new.inodes_count < numbered, "{options}: nothing moved");
        after.truncate((new.blocks_count * u64::from(new.block_size)) as usize);
        let now = Contents::read(&after);
        let content = |of: &Contents| -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
            let files = of.names.iter().filter(|(path, _)| **path != b"/");
            let files = files.map(|(path, ino)| {
                let file = &of.files[ino];
                let blocks = match file.file_type {
                    FileType::Directory => Vec::new(),
                    _ => file.blocks.values().cloned().collect(),
                };
                (path.clone(), blocks)
            });
            files.collect()
        };
        assert!(content(&now) == content(&before), "{options}: files differ");
        fs::write(&path, &after).expect("write");
        let (clean, said) = e2fsck(&path);
        assert!(clean, "{options}: {said}");
        assert!(plan(&after).expect("check").is_empty(), "{options}");
        let theirs = by_resize2fs(&bytes, bytes.len(), true, &path);
        assert!(theirs.is_none_or(|theirs| theirs >= new.blocks_count));
    }
}
