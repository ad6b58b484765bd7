//! Compressed clusters: raw deflate.

use flate2::{Decompress, FlushDecompress, Status};

/// The cluster of `len` bytes that `data` begins with; `None` if it is damaged.
pub(super) fn expand(data: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut cluster = vec![0; len];
    let mut inflate = Decompress::new(false);
    let status = inflate.decompress(data, &mut cluster, FlushDecompress::Finish);
    // The end of `data` may belong to another cluster.
    let is_whole = inflate.total_out() == len as u64;
    match status {
        Ok(Status::Ok | Status::StreamEnd | Status::BufError) if is_whole => Some(cluster),
        _ => None,
    }
}
