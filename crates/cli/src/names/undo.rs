//! Changes that need an undo file, which e2fsprogs make without one: it is kept beside the image until the change is complete.
//!
//! A program that is run again after a crash finds the file, and first puts back what was begun.

use crate::system::files;
use anyhow::{Context, Result};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use uext4::ImageName;
use uext4::unstable::RepairError;

/// Does `work`, with the undo file that `asked` names, else without one, and only if that is refused with one beside the image.
///
/// # Errors
/// Those of `work`; the file can't be removed.
pub fn with_undo<T>(
    image: &Path,
    asked: Option<&OsStr>,
    mut work: impl FnMut(Option<&Path>) -> Result<T>,
) -> Result<T> {
    if let Some(asked) = asked {
        return work(Some(Path::new(asked)));
    }
    let beside = place(image);
    if !beside.exists() {
        match work(None) {
            Err(e) if needs_undo(&e) => {}
            done => return done,
        }
    }
    let mut done = work(Some(&beside));
    if done.as_ref().err().is_some_and(is_complete) {
        // Only its removal was interrupted.
        remove(&beside)?;
        done = work(Some(&beside));
    }
    let done = done?;
    if beside.exists() {
        remove(&beside)?;
    }
    Ok(done)
}

fn remove(file: &Path) -> Result<()> {
    fs::remove_file(file).with_context(|| file.display().to_string())
}

fn needs_undo(e: &anyhow::Error) -> bool {
    matches!(e.downcast_ref(), Some(RepairError::NeedsUndo { .. }))
}

fn is_complete(e: &anyhow::Error) -> bool {
    matches!(e.downcast_ref(), Some(RepairError::Complete { .. }))
}

/// The undo file of an image, by the name of that.
fn place(image: &Path) -> PathBuf {
    let name = ImageName::parse(image);
    let path = name
        .path()
        .canonicalize()
        .unwrap_or_else(|_| name.path().to_owned());
    let is_device =
        fs::metadata(&path).is_ok_and(|there| files::is_block_device(there.file_type()));
    let mut file = OsString::from(".");
    file.push(path.file_name().unwrap_or(OsStr::new("image")));
    if let Some(partition) = name.partition() {
        file.push(format!("-{partition}"));
    }
    file.push(".uext4-undo");
    match is_device || name.is_remote() {
        // The directory of a device is in memory.
        true => files::lasting_dir().join(file),
        false => path.with_file_name(file),
    }
}

/// How a change that kept an undo file is undone.
pub fn hint(image: &Path, undo: &Path) -> String {
    let (image, undo) = (crate::quoted::path(image), crate::quoted::path(undo));
    format!("This can be undone using the command:\n    uext4 undo {undo} {image}\n")
}
