//! Damaged images are repaired: our check and `e2fsck -fn` find them clean, a second repair changes nothing, and no
//! name, file or byte is lost that `e2fsck -fy` keeps.
//!
//! `UEXT4_REPAIR_IMAGES` sets how many images, over all shapes, and `UEXT4_SEED` where to start.

use crate::support::{Base, contents::Contents, loss::losses, plan, plan_as, repaired, small};
use crate::verifier::{
    e2fsck, have_tools, run, scratch,
    shapes::{CLUSTERED, SHAPES},
};
use uext4_testkit::prelude::*;

/// What e2fsck makes of an image: its bytes if it can repair it; the flag says that it refuses it.
fn by_e2fsck(path: &Path) -> (Option<Vec<u8>>, bool) {
    let name = path.to_str().expect("path");
    let out = run("timeout", &["60", "e2fsck", "-fy", name]);
    let mut text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&out.stderr));
    let refused = out.status.code() == Some(8) || text.contains("unsupported feature");
    // What the first run has cut may leave more to do.
    run("timeout", &["60", "e2fsck", "-fy", name]);
    let clean = e2fsck(path).0;
    (clean.then(|| fs::read(path).expect("image")), refused)
}

/// Repairs one image and says what is wrong with the result.
fn problems(base: &Base, original: &Contents, bytes: &[u8], path: &Path) -> Vec<String> {
    fs::write(path, bytes).expect("write");
    let (theirs, refused) = match base.has_mmp {
        true => (None, e2fsck(path).1.contains("unsupported feature")),
        false => by_e2fsck(path),
    };
    let plan_of = match plan(bytes) {
        Ok(plan) => plan,
        Err(_) if refused => return Vec::new(),
        Err(e) => return vec![format!("no plan: {e}")],
    };
    if theirs.is_none() && !base.has_mmp && !plan_of.mends_all() {
        // Nor can e2fsck repair it.
        return Vec::new();
    }
    let mut wrong = Vec::new();
    let left = plan_of.after.faults.iter().take(4);
    wrong.extend(left.map(|fault| format!("left: {fault}")));
    if plan_of.after.incomplete {
        wrong.push("the rest can't be checked".to_owned());
    }
    let ours = repaired(bytes, &plan_of);
    match plan(&ours) {
        Ok(second) if second.is_empty() => {}
        Ok(second) => {
            let found = second.decisions.iter().map(|d| d.fault.to_string());
            let found = found.collect::<Vec<_>>().join(" | ");
            let units: Vec<u64> = second.edits.units().map(|(at, _)| at).collect();
            wrong.push(format!("second repair: units {units:?}: {found}"));
        }
        Err(e) => wrong.push(format!("no second plan: {e}")),
    }
    fs::write(path, &ours).expect("write");
    let (clean, text) = e2fsck(path);
    if !clean {
        let told = text
            .lines()
            .filter(|l| !l.starts_with("Pass") && !l.is_empty());
        wrong.push(told.take(3).collect::<Vec<_>>().join(" | "));
    } else if let Some(theirs) = theirs {
        let lost = losses(original, &Contents::read(&theirs), &Contents::read(&ours));
        wrong.extend(lost.into_iter().take(4).map(|l| format!("lost: {l}")));
    }
    wrong
}

#[test]
fn nothing_is_lost_that_e2fsck_keeps() {
    require!(have_tools());
    let images = env_number("UEXT4_REPAIR_IMAGES", 19);
    let seed = env_number("UEXT4_SEED", 1);
    let shares = (0..SHAPES.len()).map(|shape| {
        let share = (images + SHAPES.len() as u64 - 1 - shape as u64) / SHAPES.len() as u64;
        (shape, share)
    });
    all_repaired(shares, seed);
}

#[test]
fn nothing_is_lost_in_clusters() {
    require!(have_tools());
    let images = env_number("UEXT4_REPAIR_IMAGES", 6);
    let shapes = SHAPES.len()..SHAPES.len() + CLUSTERED.len();
    let shares = shapes.map(|shape| (shape, images.div_ceil(CLUSTERED.len() as u64)));
    all_repaired(shares, env_number("UEXT4_SEED", 1));
}

/// Repairs so many images of each shape.
fn all_repaired(shares: impl Iterator<Item = (usize, u64)>, seed: u64) {
    let dir = scratch();
    let path = dir.path().join("damaged.img");
    let (mut tried, mut failed) = (0, Vec::new());
    for (shape, share) in shares {
        let base = Base::make(shape, dir.path());
        let original = Contents::read(base.bytes());
        for (bytes, name) in (0..share).filter_map(|i| base.damaged(seed, i)) {
            tried += 1;
            let wrong = problems(&base, &original, &bytes, &path);
            if !wrong.is_empty() {
                failed.push(format!("{name}\n    {}", wrong.join("\n    ")));
            }
        }
    }
    println!("{} of {tried} images repaired", tried - failed.len());
    assert!(tried > 0 && failed.is_empty(), "{}", failed.join("\n"));
}

/// Repairs without questions leave a damaged map as it is, so its blocks must stay in use.
#[test]
fn blocks_of_a_map_that_stays_damaged_are_not_freed() {
    require!(have_tools());
    let dir = scratch();
    let base = Base::make(0, dir.path());
    // An extent in a leaf that is too long.
    let (bytes, name) = base.damaged(1, 61).expect("damage");
    let plan = plan_as(&bytes, uext4_check::Policy::Safe).expect("plan");
    assert!(!plan.mends_all(), "{name}");
    let ours = repaired(&bytes, &plan);
    let sb = uext4_ondisk::Superblock::parse(&bytes[1024..2048]).expect("superblock");
    let desc = GroupDesc::decode(&bytes[2048..]).expect("descriptor");
    let size = sb.geometry.block_size as usize;
    let at = desc.block_bitmap.0 as usize * size;
    let freed = (at..at + size).filter(|i| bytes[*i] & !ours[*i] != 0);
    assert_eq!(freed.count(), 0, "{name}");
}

/// The comparison notices what it is there for.
#[test]
fn a_lost_name_and_a_lost_byte_are_noticed() {
    require!(have_tools());
    let dir = scratch();
    let bytes = small(dir.path());
    let original = Contents::read(&bytes);
    let file = *original.names.get(&b"/d/file"[..]).expect("file");
    assert_eq!(losses(&original, &original, &original), [""; 0]);
    let mut ours = Contents::read(&bytes);
    ours.names.remove(&b"/d/file"[..]);
    assert_eq!(losses(&original, &original, &ours).len(), 1);
    let mut ours = Contents::read(&bytes);
    let block = ours.files.get_mut(&file).expect("file");
    block.blocks.get_mut(&1).expect("block")[9] ^= 1;
    assert_eq!(losses(&original, &original, &ours).len(), 1);
}
