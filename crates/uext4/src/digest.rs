//! The digest of an image that was made.

use sha2::{Digest, Sha256};
use uext4_block::BlockDevice;
use uext4_build::{MkfsError, MkfsReport, Progress};

/// Bytes that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// SHA-256 of the first `len` bytes of a device.
///
/// # Errors
/// The device can't be read; [`MkfsError::Cancelled`].
pub(crate) fn of_device(
    device: &dyn BlockDevice,
    len: u64,
    progress: &dyn Progress,
) -> Result<[u8; 32], MkfsError> {
    progress.phase("digest", len);
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES.min(len) as usize];
    let mut at = 0;
    while at < len {
        let part = &mut chunk[..CHUNK_BYTES.min(len - at) as usize];
        device.read_at(at, part)?;
        hasher.update(&*part);
        at += part.len() as u64;
        progress.advance(part.len() as u64);
        if progress.is_cancelled() {
            return Err(MkfsError::Cancelled);
        }
    }
    Ok(hasher.finalize().into())
}

/// Bytes of an image and of a hash tree behind it.
pub(crate) fn len_of(report: &MkfsReport) -> u64 {
    let with_tree = report
        .verity
        .as_ref()
        .map(|tree| tree.hash_offset + tree.bytes);
    with_tree.unwrap_or(report.image_bytes)
}
