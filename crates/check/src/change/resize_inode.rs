//! The resize inode of a file system whose size changes.

use super::{ChangeError, Result};
use crate::edits::{EditedDevice, Edits};
use crate::passes::{self, Stage};
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::resize;
use crate::report::{CheckOptions, CheckReport, Progress};

/// Adds the resize inode of the changed image to the changes.
///
/// # Errors
/// The device's.
pub(super) fn write(
    device: &dyn BlockDevice,
    mut patch: Edits,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Edits> {
    let made = {
        let edited = EditedDevice::new(device, &patch);
        let mut report = CheckReport::default();
        let mut faults = Faults::new(options.faults_max);
        let mut stop = |stage, _: &Faults, _: &CheckReport| stage == Stage::Inodes;
        let examined = passes::examine(
            &edited,
            options,
            progress,
            &mut report,
            &mut faults,
            &mut stop,
        )?;
        let Some(cx) = &examined.cx else {
            return Err(ChangeError::Faulty);
        };
        let mut ed = Editor::new(cx);
        resize::write(&mut ed)?;
        ed.into_patch()
    };
    patch.absorb(made);
    Ok(patch)
}
