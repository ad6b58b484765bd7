//! Directories that lose their hash trees by a repair get new ones, and an image another journal.
//!
//! `UEXT4_TUNE_SHARE` sets that every so many shapes are tried: 1 for all.

use crate::support::changes::{carried_out, problems, superblock};
use crate::support::{Base, contents::Contents, plan, repaired};
use crate::verifier::{have_tools, mke2fs, scratch, shapes::SHAPES};
use uext4_check::{CheckOptions, NoProgress, Plan, plan_rest};
use uext4_testkit::prelude::*;

/// Damaged images of each shape.
const DAMAGED: u64 = 80;

fn rest(bytes: &[u8], repair: &Plan) -> Vec<Plan> {
    let device = MemoryDevice::from_bytes(bytes);
    let options = CheckOptions {
        threads: 1,
        faults_max: 1000,
    };
    plan_rest(&device, repair, &options, &NoProgress).expect("a check")
}

#[test]
fn what_is_lost_is_made_again() {
    require!(have_tools());
    let dir = scratch();
    let (path, undo) = (dir.path().join("trees.img"), dir.path().join("undo"));
    let (mut made, mut failed) = (0, Vec::new());
    let share = env_number("UEXT4_TUNE_SHARE", 6) as usize;
    for shape in (0..SHAPES.len()).step_by(share) {
        let base = Base::make(shape, dir.path());
        for i in 0..DAMAGED {
            let Some((bytes, name)) = base.damaged(3, i) else {
                continue;
            };
            let Ok(repair) = plan(&bytes) else {
                continue;
            };
            let rest = rest(&bytes, &repair);
            if rest.is_empty() {
                continue;
            }
            let linear = repaired(&bytes, &repair);
            let before = Contents::read(&linear);
            let after = carried_out(&linear, &rest, &undo);
            made += 1;
            let wrong = problems(&before, &after, &path);
            failed.extend(wrong.iter().map(|wrong| format!("{name}: {wrong}")));
        }
    }
    println!("{made} images with new trees or a new journal");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(made > 0);
}

/// A journal whose inode is damaged.
#[test]
fn a_journal_that_is_removed_is_made_again() {
    require!(have_tools());
    let dir = scratch();
    let (path, undo) = (dir.path().join("journal.img"), dir.path().join("undo"));
    let tree = dir.path().join("tree");
    fs::create_dir_all(&tree).expect("mkdir");
    fs::write(tree.join("file"), [7; 3000]).expect("write");
    mke2fs(&path, "16M", "-t ext4 -b 1024", Some(&tree));
    debugfs(&path, "clri <8>");
    let bytes = fs::read(&path).expect("image");
    let repair = plan(&bytes).expect("plan");
    let without = repaired(&bytes, &repair);
    let has_journal = |bytes: &[u8]| superblock(bytes).journal_ino().is_some();
    assert!(!has_journal(&without));
    let after = carried_out(&without, &rest(&bytes, &repair), &undo);
    assert!(has_journal(&after));
    assert_eq!(problems(&Contents::read(&without), &after, &path), [""; 0]);
}
