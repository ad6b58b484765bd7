//! What was made.

use crate::fs_verity::FsVerityFile;
use crate::verity::VerityReport;

/// What an image holds and how long it took. The root and `lost+found` count as directories.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct MkfsReport {
    /// Regular files, each once.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, FIFOs and sockets.
    pub others: u64,
    /// Names of a file beyond its first.
    pub hard_links: u64,
    /// Bytes of the files' data, holes not counted.
    pub data_bytes: u64,
    /// Bytes of the image.
    pub image_bytes: u64,
    /// SHA-256 of all bytes of the image, of a hash tree behind it and of a partition table, if it was asked for: what sha256sum(1) prints of a file,
    /// and of a qcow2 image, of what it holds.
    pub digest: Option<[u8; 32]>,
    /// The hash tree behind the image, if one was asked for.
    pub verity: Option<VerityReport>,
    /// Files with fs-verity, in the order of their paths.
    pub fsverity: Vec<FsVerityFile>,
    /// Seconds of wall-clock time, reading the tree included.
    pub seconds: f64,
    /// What is not as in the tree or as asked: files that changed under the copy, attributes without
    /// a place in ext4, a journal that does not fit. Sorted.
    pub warnings: Vec<String>,
}
