//! Images that are made larger: every shape stays sound, keeps its files and has the size that resize2fs gives it; a crash at any write
//! leaves the old size or the new one.
//!
//! `UEXT4_TUNE_SHARE` sets that each size is tried on every so many shapes, and of what a crash can leave every so many states: 1 for all.

use crate::support::changes::{Crashes, problems, superblock};
use crate::support::{Base, contents::Contents, repaired};
use crate::verifier::{have_tools, run, scratch, shapes::SHAPES};
use uext4_check::{ChangeError, CheckOptions, NoProgress, Plan, plan_grow};
use uext4_ondisk::{Incompat, Superblock};
use uext4_testkit::prelude::*;

/// The plans that make an image larger, whose device has the new size already.
fn plans(bytes: &[u8]) -> Result<Vec<Plan>, ChangeError> {
    let device = MemoryDevice::from_bytes(bytes);
    let options = CheckOptions {
        threads: 1,
        faults_max: 1000,
    };
    let blocks = bytes.len() as u64 / u64::from(superblock(bytes).geometry.block_size);
    plan_grow(&device, blocks, &options, &NoProgress)
}

fn grown(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    // What a device holds behind the file system is not zeros.
    bytes.resize(len, 0xa5);
    let features = superblock(&bytes).compat.describe();
    for plan in plans(&bytes).unwrap_or_else(|e| panic!("[{features}] to {len}: {e}")) {
        bytes = repaired(&bytes, &plan);
    }
    bytes
}

/// The blocks that resize2fs makes of an image: as many as the device has, or as few as there can be.
pub fn by_resize2fs(bytes: &[u8], len: usize, least: bool, path: &Path) -> Option<u64> {
    let mut bytes = bytes.to_vec();
    bytes.resize(len, 0);
    fs::write(path, &bytes).expect("write");
    let name = path.to_str().expect("path");
    run("e2fsck", &["-fy", name]);
    let args: &[&str] = if least { &["-M", name] } else { &[name] };
    let done = run("resize2fs", args).status.success();
    done.then(|| {
        superblock(&fs::read(path).expect("image"))
            .geometry
            .blocks_count
    })
}

#[test]
fn every_shape_grows() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("grown.img");
    let (mut failed, mut descs, mut meta) = (Vec::new(), 0, 0);
    let share = env_number("UEXT4_TUNE_SHARE", 8) as usize;
    for shape in 0..SHAPES.len() {
        let base = Base::make(shape, dir.path());
        let before = Contents::read(base.bytes());
        let (len, old) = (base.bytes().len(), superblock(base.bytes()));
        let small = old.geometry.block_size as usize;
        // A block, part of a group, several groups, and more groups than there are blocks of descriptors for.
        let sizes = [len + small, len + (3 << 20), 4 * len, 24 * len];
        for (_, len) in (0..).zip(sizes).filter(|(i, _)| (shape + i) % share == 0) {
            let name = format!("[{}] to {len}", base.options);
            let after = grown(base.bytes(), len);
            let new = superblock(&after);
            descs += u64::from(new.geometry.desc_blocks > old.geometry.desc_blocks);
            let meta_bg = |sb: &Superblock| sb.incompat.contains(Incompat::META_BG);
            meta += u64::from(meta_bg(&new) && !meta_bg(&old));
            let wrong = problems(&before, &after, &path);
            failed.extend(wrong.iter().map(|wrong| format!("{name}: {wrong}")));
            if base.has_mmp {
                continue;
            }
            let theirs = by_resize2fs(base.bytes(), len, false, &path);
            if theirs.is_some_and(|blocks| blocks > new.geometry.blocks_count) {
                failed.push(format!("{name}: {new:?} blocks, resize2fs {theirs:?}"));
            }
        }
    }
    println!("{descs} with more blocks of descriptors, {meta} with meta_bg");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(descs > 0 && (meta > 0 || share > 1), "{descs} {meta}");
}

/// What counts free blocks follows from the files, and becomes right; all else that is wrong stays for a repair.
#[test]
fn what_is_not_sound_stays_as_it_is() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("grown.img");
    let name = path.to_str().expect("path");
    let base = Base::make(0, dir.path());
    let damaged = |command: &str| {
        fs::write(&path, base.bytes()).expect("write");
        assert!(
            run("debugfs", &["-w", "-R", command, name])
                .status
                .success()
        );
        let mut bytes = fs::read(&path).expect("image");
        bytes.resize(3 * bytes.len(), 0xa5);
        bytes
    };
    let last = superblock(base.bytes()).geometry.blocks_count - 1;
    let leaks = format!("setb {last}");
    for command in ["sif <2> links_count 9", "sif <12> block[0] 1", &leaks] {
        let planned = plans(&damaged(command));
        assert!(matches!(planned, Err(ChangeError::Faulty)), "{command}");
    }
    for command in ["ssv free_blocks_count 7", "freeb 1000 3"] {
        let mut bytes = damaged(command);
        for plan in plans(&bytes).expect(command) {
            bytes = repaired(&bytes, &plan);
        }
        let wrong = problems(&Contents::read(base.bytes()), &bytes, &path);
        assert!(wrong.is_empty(), "{command}: {wrong:?}");
    }
}

#[test]
fn a_crash_leaves_the_old_size_or_the_new() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("grown.img");
    let share = env_number("UEXT4_TUNE_SHARE", 4);
    let mut crashes = Crashes::new(&path, share);
    // With a journal and a resize inode, with meta_bg, without a journal, with orphan_file.
    let share = env_number("UEXT4_TUNE_SHARE", 2) as usize;
    for shape in [0, 6, 1, 16].into_iter().step_by(share) {
        let base = Base::make(shape, dir.path());
        let before = Contents::read(base.bytes());
        let mut bytes = base.bytes().to_vec();
        bytes.resize(3 * bytes.len(), 0xa5);
        let blocks = |bytes: &[u8]| superblock(bytes).geometry.blocks_count;
        let sizes = [blocks(&bytes), blocks(&grown(base.bytes(), bytes.len()))];
        for planned in plans(&bytes).expect("plans") {
            bytes = crashes.of(base.options, &before, &bytes, &planned, &|sb| {
                sizes.contains(&sb.geometry.blocks_count)
            });
        }
    }
    crashes.end();
}
