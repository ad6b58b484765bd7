//! Features that files need which the superblock does not name.

use super::editor::Editor;
use crate::prelude::*;

/// Adds an incompatible feature.
///
/// # Errors
/// The device's.
pub(crate) fn set_incompat(ed: &mut Editor<'_, '_>, feature: Incompat) -> Result<()> {
    ed.change_super(|raw| raw.feature_incompat = (raw.incompat() | feature).bits().into())
}

/// Adds a feature that allows reading.
///
/// # Errors
/// The device's.
pub(crate) fn set_ro_compat(ed: &mut Editor<'_, '_>, feature: RoCompat) -> Result<()> {
    ed.change_super(|raw| raw.feature_ro_compat = (raw.ro_compat() | feature).bits().into())
}

/// Adds a compatible feature.
///
/// # Errors
/// The device's.
pub(crate) fn set_compat(ed: &mut Editor<'_, '_>, feature: Compat) -> Result<()> {
    ed.change_super(|raw| raw.feature_compat = (raw.compat() | feature).bits().into())
}
