//! The hook that completes a block before it is copied.

use super::Buffer;

/// Encodes what a file system keeps natively, and computes checksums, once per transaction.
///
/// Called with the buffer's content locked, by the thread that commits, or by the first one that
/// is about to change the block in the next transaction.
///
/// # Locks
/// Must take no lock of rank `group` or below, do no I/O and never wait.
pub trait FreezeHook: Send + Sync {
    /// Makes `data`, the content of `buffer`, what the device shall have.
    fn freeze(&self, buffer: &Buffer, data: &mut [u8]);
}
