//! What of the data of two files is the same because it is the same bytes of the host.

use super::options::ExportError;
use super::tree::{Tree, Visited};
use std::ops::Range;
use uext4_vfs::FiemapExtent;

/// A file of a tree.
pub(super) type InTree<'a, 'f> = (&'a Tree<'f>, &'a Visited);

/// Ranges of bytes that both files have from the same place of the host, in order: two overlays of one backing file share all clusters
/// that neither has written.
pub(super) fn ranges(old: InTree, new: InTree) -> Result<Vec<Range<u64>>, ExportError> {
    let (a, b) = (old.0.extents(old.1)?, new.0.extents(new.1)?);
    let (mut i, mut j) = (0, 0);
    let mut shared: Vec<Range<u64>> = Vec::new();
    while let (Some(of_old), Some(of_new)) = (a.get(i), b.get(j)) {
        let (end_old, end_new) = (end_of(of_old), end_of(of_new));
        let end = end_old.min(end_new);
        let mut at = of_old.logical.max(of_new.logical);
        while at < end {
            let origin = |tree: &Tree<'_>, extent: &FiemapExtent| {
                tree.origin(extent.physical + (at - extent.logical), end - at)
            };
            let (old, new) = (origin(old.0, of_old), origin(new.0, of_new));
            let len = old.bytes().min(new.bytes()).clamp(1, end - at);
            if old.is_same_as(&new) {
                match shared.last_mut().filter(|last| last.end == at) {
                    Some(last) => last.end += len,
                    None => shared.push(at..at + len),
                }
            }
            at += len;
        }
        i += usize::from(end_old == end);
        j += usize::from(end_new == end);
    }
    Ok(shared)
}

fn end_of(extent: &FiemapExtent) -> u64 {
    extent.logical + extent.len
}

/// The part of a range before and after what is shared of it: the rest of `range` from `at` on that has to be read next.
pub(super) fn next_apart(shared: &[Range<u64>], at: u64, end: u64) -> Range<u64> {
    let i = shared.partition_point(|range| range.end <= at);
    let start = match shared.get(i) {
        Some(range) if range.start <= at => range.end,
        _ => at,
    };
    let i = shared.partition_point(|range| range.end <= start);
    let until = shared.get(i).map_or(end, |range| range.start);
    start.min(end)..until.min(end).max(start.min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_apart_is_found_in_order() {
        let shared = [10..20, 30..40];
        assert_eq!(next_apart(&shared, 0, 100), 0..10);
        assert_eq!(next_apart(&shared, 10, 100), 20..30);
        assert_eq!(next_apart(&shared, 25, 28), 25..28);
        assert_eq!(next_apart(&shared, 35, 100), 40..100);
        assert!(next_apart(&shared, 32, 38).is_empty());
        assert_eq!(next_apart(&[], 5, 9), 5..9);
    }
}
