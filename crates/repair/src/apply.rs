//! Writes of a plan, and their way back.

use crate::error::RepairError;
use crate::log::Transaction;
use crate::undo_file::{Progress, RUN_BYTES_MAX, UndoFile, UndoPlace};
use crate::write;
use std::path::Path;
use std::sync::Arc;
use uext4_block::BlockDevice;
use uext4_check::Plan;

/// Writes what the plan says, and makes it durable: as one transaction of the image's journal, if it has a sound one that is large enough.
/// With `undo`, in place, once the old bytes are durable in that file.
///
/// # Errors
/// The device's, the journal's or the undo file's.
///
/// # Crash
/// Through the journal, all is written or nothing; what recovers the journal completes it. With an undo file, [`resume`] or [`undo`] put
/// the old bytes back. With neither, any part of the writes was done, those to blocks that were not in use first and that of the
/// superblock last, and a repair that is run again starts from there.
pub fn apply(
    device: &Arc<dyn BlockDevice>,
    plan: &Plan,
    undo: Option<&UndoPlace>,
) -> Result<(), RepairError> {
    if plan.edits.is_empty() {
        return Ok(());
    }
    if undo.is_none() && plan.needs_undo() {
        return Err(RepairError::needs_undo(plan));
    }
    copy(&**device, &plan.copies)?;
    if let Some(place) = undo {
        let edits = plan.edits.with_units_of_zeros(&**device)?;
        let runs = edits.runs(RUN_BYTES_MAX).collect::<Vec<_>>();
        let mut file = UndoFile::create(place, &**device, &runs)?;
        for (offset, bytes) in &runs {
            device.write_at(*offset, bytes)?;
        }
        device.flush()?;
        return file.complete();
    }
    for (offset, len) in plan.edits.zeros() {
        device.zero(offset, len)?;
    }
    write::edits(&**device, &plan.first)?;
    if let Some(transaction) = Transaction::of(plan)
        && transaction.run(device, plan)?
    {
        return Ok(());
    }
    if plan.is_whole {
        return Err(RepairError::needs_undo(plan));
    }
    device.flush()?;
    write::ordered(&**device, &plan.edits, plan.log.as_ref())
}

/// Copies bytes within a device. A flush makes the copies durable.
fn copy(device: &dyn BlockDevice, copies: &[(u64, u64, u64)]) -> Result<(), RepairError> {
    let mut buf = vec![0; RUN_BYTES_MAX];
    for (from, to, bytes) in copies {
        for at in (0..*bytes).step_by(RUN_BYTES_MAX) {
            let len = (bytes - at).min(RUN_BYTES_MAX as u64) as usize;
            let part = buf.get_mut(..len).unwrap_or(&mut []);
            device.read_at(from + at, part)?;
            device.write_at(to + at, part)?;
        }
    }
    Ok(())
}

/// Undoes the part of a repair that was interrupted, before it is planned again. True if there was such a part.
///
/// # Errors
/// The device's or the undo file's; the file is of a repair that is complete.
pub fn resume(device: &dyn BlockDevice, undo: &UndoPlace) -> Result<bool, RepairError> {
    let Some(mut file) = UndoFile::open(undo)? else {
        return Ok(false);
    };
    if file.progress == Progress::Complete {
        return Err(RepairError::Complete {
            path: undo.path().to_owned(),
        });
    }
    file.put_back(device)?;
    Ok(true)
}

/// Puts the bytes back that the device had before the repair.
///
/// # Errors
/// The device's or the undo file's.
///
/// # Crash
/// Running it again completes it.
pub fn undo(device: &dyn BlockDevice, undo: &Path) -> Result<(), RepairError> {
    match UndoFile::open(&UndoPlace::new(undo))? {
        Some(mut file) => file.put_back(device),
        None => Err(RepairError::BadUndoFile {
            path: undo.to_owned(),
            why: "it is missing or not whole, so that nothing was repaired with it",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_block::MemoryDevice;

    fn runs() -> Vec<(u64, Vec<u8>)> {
        vec![(1024, vec![1; 2048]), (8192, vec![2; 1024])]
    }

    fn bytes(device: &MemoryDevice) -> Vec<u8> {
        let mut bytes = vec![0; device.len() as usize];
        device.read_at(0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn an_interrupted_repair_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("undo");
        let device = MemoryDevice::from_bytes(&[9; 16384]);
        let before = bytes(&device);
        drop(UndoFile::create(&UndoPlace::new(&path), &device, &runs()).unwrap());
        device.write_at(1024, &[1; 2048]).unwrap();
        assert!(resume(&device, &UndoPlace::new(&path)).unwrap());
        assert_eq!(bytes(&device), before);
    }

    #[test]
    fn nothing_is_put_back_on_another_image_or_one_that_was_written_since() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("undo");
        let device = MemoryDevice::from_bytes(&[9; 16384]);
        let place = UndoPlace::new(&path);
        let mut file = UndoFile::create(&place, &device, &runs()).unwrap();
        let other = MemoryDevice::from_bytes(&[8; 16384]);
        assert!(resume(&other, &UndoPlace::new(&path)).is_err());
        assert_eq!(bytes(&other), [8; 16384]);
        for (offset, new) in runs() {
            device.write_at(offset, &new).unwrap();
        }
        file.complete().unwrap();
        device.write_at(8200, &[7]).unwrap();
        let before = bytes(&device);
        assert!(matches!(
            undo(&device, &path),
            Err(RepairError::BadUndoFile { .. })
        ));
        assert_eq!(bytes(&device), before);
    }

    #[test]
    fn every_part_of_an_undo_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("undo");
        let device = MemoryDevice::from_bytes(&[9; 16384]);
        drop(UndoFile::create(&UndoPlace::new(&path), &device, &runs()).unwrap());
        let whole = std::fs::read(&path).unwrap();
        for len in (0..whole.len()).step_by(7) {
            std::fs::write(&path, &whole[..len]).unwrap();
            assert!(!resume(&device, &UndoPlace::new(&path)).unwrap(), "{len}");
        }
    }

    #[test]
    fn a_complete_repair_is_undone_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("undo");
        let device = MemoryDevice::from_bytes(&[9; 16384]);
        let before = bytes(&device);
        let place = UndoPlace::new(&path);
        let mut file = UndoFile::create(&place, &device, &runs()).unwrap();
        device.write_at(1024, &[1; 2048]).unwrap();
        file.complete().unwrap();
        let refused = resume(&device, &UndoPlace::new(&path));
        assert!(matches!(refused, Err(RepairError::Complete { .. })));
        undo(&device, &path).unwrap();
        assert_eq!(bytes(&device), before);
        let other = MemoryDevice::from_bytes(&[9; 8192]);
        assert!(undo(&other, &path).is_err());
        std::fs::write(&path, b"something else").unwrap();
        assert!(matches!(
            undo(&device, &path),
            Err(RepairError::BadUndoFile { .. })
        ));
    }
}
