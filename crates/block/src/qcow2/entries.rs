//! Tables as they are in the file: entries of 8 bytes.

use crate::device::BlockDevice;
use crate::error::{BlockError, Result};

/// A table of 8-byte entries.
pub(super) fn read_table(
    file: &dyn BlockDevice,
    what: &str,
    offset: u64,
    entries: usize,
) -> Result<Vec<u64>> {
    let len = 8 * entries as u64;
    if offset.saturating_add(len) > file.len() {
        let end = file.len();
        return Err(damaged(format!(
            "its {what} is at byte {offset}, {len} bytes long, and the file ends at {end}"
        )));
    }
    let mut bytes = vec![0; 8 * entries];
    file.read_at(offset, &mut bytes)?;
    let entries = bytes.chunks_exact(8).map(|entry| {
        let entry = entry.first_chunk().copied().unwrap_or([0; 8]);
        u64::from_be_bytes(entry)
    });
    Ok(entries.collect())
}

/// An image that contradicts itself.
pub(super) fn damaged(why: String) -> BlockError {
    BlockError::Qcow2 { why }
}
