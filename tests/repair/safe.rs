//! Repairs without questions lose nothing: what repairs everything afterwards keeps all that it keeps without them.
//!
//! `UEXT4_REPAIR_IMAGES` sets how many images, over all shapes, and `UEXT4_SEED` where to start.

use crate::support::{Base, contents::Contents, loss::losses, plan, plan_as, repaired};
use crate::verifier::{have_tools, scratch, shapes::SHAPES};
use uext4_check::Policy;
use uext4_testkit::prelude::*;

#[test]
fn safe_repairs_lose_nothing() {
    require!(have_tools());
    let images = env_number("UEXT4_REPAIR_IMAGES", 19);
    let seed = env_number("UEXT4_SEED", 2);
    let dir = scratch();
    let (mut tried, mut failed) = (0, Vec::new());
    for shape in 0..SHAPES.len() {
        let share = (images + SHAPES.len() as u64 - 1 - shape as u64) / SHAPES.len() as u64;
        let base = Base::make(shape, dir.path());
        let original = Contents::read(base.bytes());
        for (bytes, name) in (0..share).filter_map(|i| base.damaged(seed, i)) {
            let Ok(whole) = plan(&bytes) else { continue };
            let Ok(safe) = plan_as(&bytes, Policy::Safe) else {
                continue;
            };
            if !whole.mends_all() || safe.is_empty() {
                continue;
            }
            tried += 1;
            let after_safe = repaired(&bytes, &safe);
            let then = match plan(&after_safe) {
                Ok(then) if then.mends_all() => repaired(&after_safe, &then),
                Ok(then) => {
                    failed.push(format!("{name}: left: {:?}", then.after.faults.first()));
                    continue;
                }
                Err(e) => {
                    failed.push(format!("{name}: {e}"));
                    continue;
                }
            };
            let kept = Contents::read(&repaired(&bytes, &whole));
            let lost = losses(&original, &kept, &Contents::read(&then));
            failed.extend(lost.iter().take(3).map(|lost| format!("{name}: {lost}")));
        }
    }
    println!("{tried} images");
    assert!(tried > 0 && failed.is_empty(), "{}", failed.join("\n"));
}
