//! Directories that lose their hash trees by a repair get new ones.
//!
//! `UEXT4_TUNE_SHARE` sets that every so many shapes are tried: 1 for all.

use crate::support::changes::{carried_out, problems};
use crate::support::{Base, contents::Contents, plan, repaired};
use crate::verifier::{have_tools, scratch, shapes::SHAPES};
use uext4_check::{CheckOptions, NoProgress, Plan, plan_trees};
use uext4_testkit::prelude::*;

/// Damaged images of each shape.
const DAMAGED: u64 = 80;

fn trees(bytes: &[u8], repair: &Plan) -> Option<Plan> {
    let device = MemoryDevice::from_bytes(bytes);
    let options = CheckOptions {
        threads: 1,
        faults_max: 1000,
    };
    plan_trees(&device, repair, &options, &NoProgress).expect("a check")
}

#[test]
fn lost_trees_are_made_again() {
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
            let Some(trees) = trees(&bytes, &repair) else {
                continue;
            };
            let linear = repaired(&bytes, &repair);
            let before = Contents::read(&linear);
            let after = carried_out(&linear, &[trees], &undo);
            made += 1;
            let wrong = problems(&before, &after, &path);
            failed.extend(wrong.iter().map(|wrong| format!("{name}: {wrong}")));
        }
    }
    println!("{made} images with new trees");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(made > 0);
}
