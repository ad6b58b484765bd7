//! A public operation on an image: its span, and the count of its failures.

use std::sync::LazyLock;
use tracing::field::Empty;
use uext4_ext4::InodeRef;
use uext4_sync::PerUsedCpu;
use uext4_vfs::{Errno, Failures, Result, in_span};

/// The failures of operations of this process, by CPU.
static FAILURES: LazyLock<PerUsedCpu<Failures>> = LazyLock::new(PerUsedCpu::new);

/// Runs a public operation: on an inode if it is of an open file or directory, and on a path or name if it takes one.
///
/// An operation that consists of others runs their inner parts, so that a failure is counted once.
#[inline(always)]
pub(crate) fn run<T>(
    operation: &'static str,
    node: Option<&InodeRef>,
    path: &[u8],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let span = move || {
        let inode = node.map(|node| node.ino.0);
        let path = (!path.is_empty()).then(|| tracing::field::display(path.escape_ascii()));
        tracing::debug_span!("library", operation, inode, path, errno = Empty)
    };
    in_span(span, work).inspect_err(|e| count_failure(e.errno()))
}

/// Apart from what calls it, which succeeds nearly always and fits into its caller.
#[cold]
fn count_failure(errno: Errno) {
    FAILURES.get_or_init(|_| Failures::new()).count(errno);
}

/// How many operations on images failed in this process, by error number: those of [`Filesystem`], [`Dir`],
/// [`File`] and [`ReadDir`].
///
/// [`Filesystem`]: crate::Filesystem
/// [`Dir`]: crate::Dir
/// [`File`]: crate::File
/// [`ReadDir`]: crate::ReadDir
pub fn failures() -> Vec<(Errno, u64)> {
    let mut sums = std::collections::BTreeMap::new();
    for (errno, count) in FAILURES.iter().flat_map(Failures::iter) {
        *sums.entry(errno).or_insert(0) += count;
    }
    sums.into_iter().collect()
}
