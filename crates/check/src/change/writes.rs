//! Plans of bytes that a caller has chosen: nothing of them is checked.

use super::{Result, examine};
use crate::edits::Edits;
use crate::passes::Stage;
use crate::prelude::BlockDevice;
use crate::repair::plan::{LogPlace, Plan};
use crate::report::{CheckOptions, NoProgress};

/// Plans to write runs of units of [`EDIT_UNIT`](crate::EDIT_UNIT) bytes, each with its offset. They may damage the file system. They are one
/// transaction of its journal, if that is sound and nothing in it is pending.
///
/// # Errors
/// None now; a file system that can't be examined has no journal to use.
pub fn plan_writes(device: &dyn BlockDevice, runs: &[(u64, Vec<u8>)]) -> Result<Plan> {
    let mut edits = Edits::default();
    for (offset, bytes) in runs {
        edits.write(*offset, bytes);
    }
    let options = CheckOptions::default();
    let stop = |stage, _: &_, _: &_| stage == Stage::Superblock;
    let log = match examine(device, &options, &NoProgress, stop) {
        Ok((examined, report)) if !report.needs_recovery => LogPlace::of(&examined),
        _ => None,
    };
    Ok(Plan {
        edits,
        log_stays: log.is_some(),
        log,
        ..Plan::default()
    })
}
