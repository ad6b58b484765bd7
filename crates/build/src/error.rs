//! The error of everything here.

use std::io;
use std::path::PathBuf;

use uext4_block::BlockError;
use uext4_ondisk::FormatError;

/// Bytes of a name that messages have.
const SHOWN_MAX: usize = 200;

/// The result of everything here.
pub type Result<T> = std::result::Result<T, MkfsError>;

/// Why an image can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MkfsError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] BlockError),
    /// The sizes asked for contradict each other.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// No such feature.
    #[error("feature {0:?} is unknown")]
    UnknownFeature(String),
    /// A feature that cannot be enabled.
    #[error("feature {0} is not supported")]
    UnsupportedFeature(String),
    /// Two features of which an image can have one.
    #[error("features {0} and {1} can't go together")]
    Conflict(&'static str, &'static str),
    /// An option out of its range.
    #[error("{name} can't be {value}: {why}")]
    Option {
        /// The option.
        name: &'static str,
        /// What was asked.
        value: String,
        /// What is allowed.
        why: &'static str,
    },
    /// The image has no room for its own metadata, or for the tree.
    #[error("size of {blocks} blocks is too small: {what} does not fit")]
    NoSpace {
        /// Blocks of the image.
        blocks: u64,
        /// What has no room.
        what: &'static str,
    },
    /// The image is larger than the format can describe with these options.
    #[error("size can't be {size} bytes: it is at most {most}: {why}")]
    TooLarge {
        /// Bytes that were asked for.
        size: u64,
        /// Bytes of the largest image.
        most: u64,
        /// What limits it, and which option raises that.
        why: &'static str,
    },
    /// The image has too few inodes for the tree.
    #[error("a number of {inodes} inodes is too small: {needed} are needed")]
    NoInodes {
        /// Inodes of the image.
        inodes: u64,
        /// Inodes that tree and file system need.
        needed: u64,
    },
    /// The device is smaller than the image.
    #[error("device has {have} bytes, the image needs {need}")]
    DeviceTooSmall {
        /// Bytes of the device.
        have: u64,
        /// Bytes of the image.
        need: u64,
    },
    /// The file system that is there is open on another host, or may be.
    #[error("{0}")]
    InUse(String),
    /// The host's file system has no files of that size.
    #[error("the image needs {need} bytes, and files of its host have at most {most}")]
    HostLimit {
        /// Bytes of the image.
        need: u64,
        /// Bytes of the largest file.
        most: u64,
    },
    /// [`Progress::is_cancelled`](crate::Progress::is_cancelled) said so.
    #[error("given up")]
    Cancelled,
    /// Neither a size nor a tree to take it from.
    #[error("size is missing, and there is no tree to take it from")]
    NoSize,
    /// The tree can't be read.
    #[error("can't {op} {}: {source}", path.display())]
    Tree {
        /// What was tried.
        op: &'static str,
        /// Which file.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// An archive can't be read, or holds what no tree can.
    #[error("{layer}: {}at byte {offset}: {source}", in_entry(entry))]
    Archive {
        /// The archive, or the layer of a container image.
        layer: String,
        /// The name of the entry; `None` if it is not known.
        entry: Option<Vec<u8>>,
        /// Where the entry's header begins in what the archive is uncompressed.
        offset: u64,
        /// What is the matter.
        source: io::Error,
    },
    /// Data of an archive can't be kept until it is written to the image.
    #[error(
        "can't keep the data of archives in {}: {source}; make room there, make the image elsewhere, or unpack the archive: one that is a file and not compressed is read where it is",
        dir.display()
    )]
    Spool {
        /// The directory of the host.
        dir: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// The image is too small, and a larger size is known that suffices.
    #[error("{source}")]
    TooSmall {
        /// [`MkfsError::NoSpace`].
        source: Box<MkfsError>,
        /// Bytes of an image that is large enough, not far above the least.
        suffices: u64,
    },
    /// A line of a file that an option names can't be.
    #[error("{}: line {line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is the matter.
        what: String,
    },
    /// A file of the tree that the format has no place for.
    #[error("{}: {what}", path.display())]
    Unfit {
        /// Which file.
        path: PathBuf,
        /// What is the matter.
        what: String,
    },
}

impl MkfsError {
    pub(crate) fn tree(op: &'static str, path: PathBuf, source: impl Into<io::Error>) -> MkfsError {
        MkfsError::Tree {
            op,
            path,
            source: source.into(),
        }
    }

    pub(crate) fn archive(
        layer: &str,
        entry: Option<&[u8]>,
        offset: u64,
        source: io::Error,
    ) -> MkfsError {
        MkfsError::Archive {
            layer: layer.to_owned(),
            entry: entry.map(<[u8]>::to_vec),
            offset,
            source,
        }
    }

    pub(crate) fn line(path: &std::path::Path, line: usize, what: impl Into<String>) -> MkfsError {
        MkfsError::Line {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }

    pub(crate) fn unfit(path: PathBuf, what: impl Into<String>) -> MkfsError {
        MkfsError::Unfit {
            path,
            what: what.into(),
        }
    }

    pub(crate) fn option(name: &'static str, value: impl ToString, why: &'static str) -> MkfsError {
        MkfsError::Option {
            name,
            value: value.to_string(),
            why,
        }
    }
}

fn in_entry(entry: &Option<Vec<u8>>) -> String {
    let shown = |name: &Vec<u8>| format!("entry {} ", shown_name(name));
    entry.as_ref().map(shown).unwrap_or_default()
}

/// A name or path of an archive for a message, where a longer one is cut. That of the root is a slash.
pub(crate) fn shown_name(name: &[u8]) -> String {
    if matches!(name, b"" | b"." | b"./") {
        return "/".to_owned();
    }
    let start = name.get(..SHOWN_MAX).unwrap_or(name);
    let text = String::from_utf8_lossy(start).escape_debug().to_string();
    match start.len() == name.len() {
        true => text,
        false => format!("{text}... ({} bytes)", name.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_in_short() {
        assert_eq!(shown_name(b""), "/");
        assert_eq!(shown_name(b"a\x1bb"), "a\\u{1b}b");
        let long = shown_name(&[b'a'; 5000]);
        assert!(
            long.ends_with("a... (5000 bytes)") && long.len() < 300,
            "{long}"
        );
    }
}
