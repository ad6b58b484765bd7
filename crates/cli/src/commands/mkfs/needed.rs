//! The size that suffices for an image where one does not.

use uext4::unstable::{BuildOptions, Spare, plan_mkfs};
use uext4::{MkfsError, NoProgress};

/// Each size that is tried is larger than the one before by this fraction of it.
const STEP: u64 = 16;
/// Most sizes that are tried: 1.06 to this power is 10^10.
const ATTEMPTS_MAX: u32 = 380;

/// A size, as an argument, that is planned without the error that `e` is, if it is about space; not far above the
/// least.
pub fn needed(options: &BuildOptions, e: &MkfsError) -> Option<String> {
    let (MkfsError::NoSpace { .. }, Some(asked)) = (e, options.size) else {
        return None;
    };
    // It can be read only once.
    if options.from.iter().any(|from| from.kind.path() == "-") {
        return None;
    }
    let (mut options, block) = (options.clone(), u64::from(options.block_size));
    let mut size = asked.max(of_tree(&options)?);
    for _ in 0..ATTEMPTS_MAX {
        size = size
            .checked_add((size / STEP).max(1))?
            .checked_next_multiple_of(block)?;
        options.size = Some(size);
        match plan_mkfs(&options, &NoProgress) {
            Ok(_) => return Some(format!("{}K", size / 1024)),
            Err(MkfsError::NoSpace { .. }) => {}
            Err(_) => return None,
        }
    }
    None
}

/// The size of the smallest image of the tree; 0 without one. It may hold fewer inodes than an image whose size is asked for.
fn of_tree(options: &BuildOptions) -> Option<u64> {
    if options.from.is_empty() {
        return Some(0);
    }
    let mut options = options.clone();
    (options.size, options.spare) = (None, Spare::Compact);
    let geo = plan_mkfs(&options, &NoProgress).ok()?.geometry;
    geo.blocks_count.checked_mul(geo.block_size.into())
}
