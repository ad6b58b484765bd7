//! A smaller file system, in plans that are carried out one after the other: what lies behind the new end moves in front of it, then
//! the groups there go.
//!
//! | module | holds |
//! | --- | --- |
//! | `space` | the fewest blocks that an image may have |
//! | `journal` | moves of the journal |
//! | `vacate` | moves of inodes, of what they map, and of the metadata of groups |
//! | `renumber` | new numbers of inodes |
//! | `cut` | the new size |
//!
//! # Crash
//! The journal moves first, as that can't be a part of a transaction in it; then the image is sound, with the old size. Data is copied to
//! free blocks before one transaction makes files map them and cuts the groups behind the new end.

mod cut;
mod journal;
mod renumber;
mod space;
mod vacate;

use super::{Change, ChangeError, Result, Step, chain, context, examine_sound};
use crate::context::Context;
use crate::passes::Stage;
use crate::prelude::*;
use crate::repair::plan::Plan;
use crate::report::{CheckOptions, Progress};
use std::ops::Range;

/// Plans to make an image smaller, to so many blocks, or to as few as it may have. There is no plan if it has no more.
///
/// # Errors
/// As of [`super::plan_tune`]; what is in use needs more blocks or inodes.
pub fn plan_shrink(
    device: &dyn BlockDevice,
    blocks: Option<u64>,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>> {
    let examined = examine_sound(device, Stage::Groups, options, progress)?;
    let cx = context(&examined)?;
    refuse(&cx.sb)?;
    let least = space::least(cx)?;
    let blocks = blocks.map(|blocks| space::with_whole_groups(cx, blocks));
    match blocks {
        Some(blocks) if blocks >= cx.geo.blocks_count => return Ok(Vec::new()),
        Some(blocks) if blocks < least => return Err(ChangeError::TooSmall { least }),
        _ => {}
    }
    let mut cuts = false;
    let mut cut = |cx: &Context<'_>| {
        let change = cut_to(cx, blocks, least)?;
        cuts = change.is_some();
        Ok(change)
    };
    let mut journal = |cx: &Context<'_>| journal::change(cx, blocks.unwrap_or(least));
    let steps: &mut [Step<'_>] = &mut [&mut journal, &mut cut];
    let plans = chain(device, &examined, steps, options, progress)?;
    Ok(if cuts { plans } else { Vec::new() })
}

fn refuse(sb: &Superblock) -> Result<()> {
    let refused = [
        (sb.ro_compat.contains(RoCompat::BIGALLOC), "bigalloc"),
        (
            sb.ro_compat.contains(RoCompat::SHARED_BLOCKS),
            "shared_blocks",
        ),
    ];
    match refused.iter().find(|(is_set, _)| *is_set) {
        Some((_, name)) => Err(ChangeError::refused(format!(
            "a file system with {name} can't be made smaller"
        ))),
        None => Ok(()),
    }
}

/// Sizes that are tried because of what is free in a larger one, before sizes in the middle are.
const GUESSES_MAX: u32 = 16;

/// The cut to a size, or to the smallest from `least` on that has room for what moves: trees of extents may get more blocks. `None` if only
/// the size that it has is enough.
fn cut_to(cx: &Context<'_>, blocks: Option<u64>, least: u64) -> Result<Option<Change>> {
    if let Some(blocks) = blocks {
        return Ok(Some(cut::change(cx, blocks)?.0));
    }
    let attempt = |blocks| match cut::change(cx, blocks) {
        Ok(change) => Ok(Some(change)),
        Err(ChangeError::TooSmall { .. }) => Ok(None),
        Err(e) => Err(e),
    };
    let whole = |blocks| space::with_whole_groups(cx, blocks);
    smallest(least..cx.geo.blocks_count, whole, attempt)
}

/// What `attempt` makes of the smallest of `sizes` that is enough, which it also gives the number of blocks that are free then; `whole` rounds
/// a size down to one that may be.
fn smallest<T>(
    sizes: Range<u64>,
    whole: impl Fn(u64) -> u64,
    attempt: impl Fn(u64) -> Result<Option<(T, u64)>>,
) -> Result<Option<T>> {
    let (mut below, mut end) = (sizes.start.saturating_sub(1), sizes.end);
    let (mut found, mut tried, mut step, mut guess) = (None, 0, 1u64, Some(sizes.start));
    while end.saturating_sub(below) > 1 {
        let middle = below + (end - below) / 2;
        let at = guess.take().filter(|_| tried < GUESSES_MAX);
        let at = at.unwrap_or(middle).clamp(below + 1, end - 1);
        let at = match whole(at) {
            whole if whole > below => whole,
            _ => at,
        };
        match attempt(at)? {
            Some((change, free)) => {
                (end, found) = (at, Some(change));
                guess = Some(end.saturating_sub(free.max(1)));
            }
            None => {
                below = at;
                if found.is_none() {
                    step = step.saturating_mul(64);
                    guess = Some(below.saturating_add(step));
                }
            }
        }
        tried += 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever an attempt says of free blocks, which is a hint.
    #[test]
    fn the_smallest_size_is_found() {
        for enough in [0, 1, 7, 100, 4097, 999_998, 999_999, 1_000_000] {
            for least in [1, 7, 100, 4000]
                .into_iter()
                .filter(|least| *least <= enough.max(1))
            {
                for hint in [0, 1, 50, u64::MAX] {
                    let attempt = |at: u64| Ok((at >= enough).then(|| (at, hint.min(at - enough))));
                    let found = smallest(least..1_000_000, |at| at, attempt).unwrap();
                    let expected = (enough < 1_000_000).then_some(enough.max(least));
                    assert_eq!(found, expected, "{enough} from {least}, {hint}");
                }
            }
        }
    }
}
