//! Which inode or structure is damaged.

use super::image::DamagedImage;
use super::target::Target;
use fastrand::Rng;
use uext4_ondisk::Ino;

/// Any inode in use, the first ones more often.
pub fn some_inode(rng: &mut Rng, image: &DamagedImage) -> Ino {
    let used = image.used();
    if rng.bool() {
        used[rng.usize(0..used.len().min(24))]
    } else {
        used[rng.usize(0..used.len())]
    }
}

/// A target, each kind as often as the others.
pub fn choose(rng: &mut Rng, targets: &[Target]) -> Target {
    let mut kinds: Vec<u8> = targets.iter().map(Target::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kind = kinds[rng.usize(0..kinds.len())];
    let same: Vec<&Target> = targets.iter().filter(|t| t.kind() == kind).collect();
    // The upper levels of trees are few.
    let i = if rng.u8(0..4) == 0 {
        rng.usize(0..same.len().min(4))
    } else {
        rng.usize(0..same.len())
    };
    same[i].clone()
}
