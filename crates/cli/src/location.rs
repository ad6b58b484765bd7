//! `IMAGE:/path`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A file of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InImage {
    /// The image.
    pub image: PathBuf,
    /// The path in it, absolute.
    pub path: PathBuf,
}

/// A file, of the host or of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A file of the host.
    Host(PathBuf),
    /// A file of an image.
    Image(InImage),
}

impl fmt::Display for InImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.image.display(), self.path.display())
    }
}

impl InImage {
    /// Reads `IMAGE:/path`, or `IMAGE` for its root.
    pub fn parse(text: OsString) -> InImage {
        match Location::parse(text) {
            Location::Image(at) => at,
            Location::Host(image) => InImage {
                image,
                path: PathBuf::from("/"),
            },
        }
    }
}

impl Location {
    /// Parses a path of the host, or `IMAGE:/path`; an argument that exists on the host unchanged is a path.
    pub fn parse(text: OsString) -> Location {
        if std::fs::symlink_metadata(&text).is_ok() {
            return Location::Host(PathBuf::from(text));
        }
        let bytes = text.as_bytes();
        let colons: Vec<usize> = (1..bytes.len())
            .filter(|&i| bytes[i] == b':' && matches!(bytes.get(i + 1), None | Some(b'/')))
            .collect();
        let exists = |i: &&usize| Path::new(OsStr::from_bytes(&bytes[..**i])).exists();
        let Some(&at) = colons.iter().find(exists).or(colons.first()) else {
            return Location::Host(PathBuf::from(text));
        };
        let path = match &bytes[at + 1..] {
            b"" => b"/".to_vec(),
            path => path.to_vec(),
        };
        Location::Image(InImage {
            image: PathBuf::from(OsStr::from_bytes(&bytes[..at])),
            path: PathBuf::from(OsString::from_vec(path)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(image: &str, path: &str) -> Location {
        Location::Image(InImage {
            image: image.into(),
            path: path.into(),
        })
    }

    #[test]
    fn forms() {
        assert_eq!(Location::parse("a.img:/x/y".into()), image("a.img", "/x/y"));
        assert_eq!(Location::parse("a.img:".into()), image("a.img", "/"));
        assert_eq!(Location::parse("a:/b:/c".into()), image("a", "/b:/c"));
        assert_eq!(
            Location::parse("/tmp".into()),
            Location::Host("/tmp".into())
        );
        assert_eq!(Location::parse("a:b".into()), Location::Host("a:b".into()));
        assert_eq!(InImage::parse("a.img".into()).path, Path::new("/"));
    }
}
