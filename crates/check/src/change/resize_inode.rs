//! The resize inode of a file system whose size changes.

use super::{Result, context, examine_changed};
use crate::edits::{EditedDevice, Edits};
use crate::passes::Stage;
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::resize;
use crate::report::{CheckOptions, Progress};

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
        let (examined, _) = examine_changed(&edited, Stage::Inodes, options, progress)?;
        let mut ed = Editor::new(context(&examined)?);
        resize::write(&mut ed)?;
        ed.into_patch()
    };
    patch.absorb(made);
    Ok(patch)
}
