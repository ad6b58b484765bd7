//! What a caller asks for, what it receives, and errors.

use std::io;
use uext4_vfs::Error;

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip, on one thread.
    Gzip,
    /// Zstandard.
    Zstd,
    /// xz.
    Xz,
    /// bzip2, on one thread.
    Bzip2,
}

impl Compression {
    /// The compression that the end of a file's name stands for: `.tar`, `.tar.gz`, `.tgz`, `.tar.zst`, `.tar.xz`, `.tar.bz2` and
    /// their short forms; `None` for another name.
    pub fn of_name(name: impl AsRef<[u8]>) -> Option<Compression> {
        let name = name.as_ref().to_ascii_lowercase();
        let all: [(Compression, &[&str]); 5] = [
            (Compression::None, &[".tar"]),
            (Compression::Gzip, &[".tar.gz", ".tgz"]),
            (Compression::Zstd, &[".tar.zst", ".tar.zstd", ".tzst"]),
            (Compression::Xz, &[".tar.xz", ".txz"]),
            (Compression::Bzip2, &[".tar.bz2", ".tbz2", ".tbz"]),
        ];
        let fits = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end.as_bytes()));
        let found = all.into_iter().find(|(_, ends)| fits(ends));
        found.map(|(compression, _)| compression)
    }
}

/// How a tree is exported.
///
/// ```
/// use uext4::{Compression, ExportOptions};
///
/// let options = ExportOptions::new().compression(Compression::Zstd).level(9);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    pub(super) compression: Compression,
    pub(super) level: Option<u32>,
    pub(super) threads: usize,
    pub(super) digests: bool,
}

impl ExportOptions {
    /// No compression.
    pub fn new() -> ExportOptions {
        ExportOptions::default()
    }

    /// Compresses the archive. Default: not.
    pub fn compression(mut self, compression: Compression) -> ExportOptions {
        self.compression = compression;
        self
    }

    /// The level of the compression: 1 to 9, for Zstandard to 22. Default: that of its program.
    pub fn level(mut self, level: u32) -> ExportOptions {
        self.level = Some(level);
        self
    }

    /// Threads that compress; 0, the default, means one for each CPU. The bytes of the archive do not depend on it.
    pub fn threads(mut self, threads: usize) -> ExportOptions {
        self.threads = threads;
        self
    }

    /// Computes the digests of the report. Default: not.
    pub fn digests(mut self, on: bool) -> ExportOptions {
        self.digests = on;
        self
    }
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportReport {
    /// Regular files, each counted once.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices and FIFOs.
    pub others: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Names that the layer removes.
    pub whiteouts: u64,
    /// Bytes of the archive before it was compressed.
    pub archive_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// SHA-256 of what was written, as `sha256:` and hexadecimal digits, with [`ExportOptions::digests`].
    pub digest: Option<String>,
    /// SHA-256 of the archive before it was compressed: the `diff_id` of a layer.
    pub diff_id: Option<String>,
    /// What an archive has no place for.
    pub warnings: Vec<String>,
}

/// Why a tree can't be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A file of the image can't be read.
    #[error("{}: {source}", path.escape_ascii())]
    #[non_exhaustive]
    Image {
        /// Whether it is of the older of two images.
        of_old: bool,
        /// Its path in the image.
        path: Vec<u8>,
        /// Why.
        source: Error,
    },
    /// The archive can't be written.
    #[error("can't write the archive: {0}")]
    Output(io::Error),
    /// The level is outside of the range of the compression.
    #[error("level {0} is out of range: 1 to 9, for zstd to 22")]
    Level(u32),
    /// In a layer, such a name removes another one.
    #[error("{}: a layer can't have a name that begins with .wh.", path.escape_ascii())]
    Whiteout {
        /// Its path in the image.
        path: Vec<u8>,
    },
    /// The directory is not an OCI layout, or can't be changed.
    #[error("{0}")]
    Layout(String),
    /// [`Progress::is_cancelled`](crate::Progress::is_cancelled) returned true.
    #[error("given up")]
    Cancelled,
}
