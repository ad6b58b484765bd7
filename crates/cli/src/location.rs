//! `IMAGE:/path`.

use crate::system::paths;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use uext4::ImageName;

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
        write!(f, "{}:{}", self.image.display(), paths::shown(&self.path))
    }
}

impl InImage {
    /// Reads `IMAGE:/path`, or `IMAGE` for its root.
    ///
    /// `IMAGE/path` stays a path of the host, so that opening it can say what was meant.
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

impl InImage {
    /// Another file of the same image.
    pub fn beside(&self, path: &Path) -> InImage {
        InImage {
            image: self.image.clone(),
            path: path.to_owned(),
        }
    }
}

impl Location {
    /// Parses a path of the host, or `IMAGE:/path`; an argument that exists on the host unchanged is a path. Without its slash, the
    /// path is one in the image if the file before the colon is there.
    pub fn parse(text: OsString) -> Location {
        if std::fs::symlink_metadata(&text).is_ok() {
            return Location::Host(PathBuf::from(text));
        }
        let bytes = text.as_encoded_bytes();
        let file = |i: usize| PathBuf::from(paths::word(bytes[..i].to_vec()));
        let is_file = |i: usize| ImageName::parse(&file(i)).path().is_file();
        let exists = |i: usize| ImageName::parse(&file(i)).path().exists();
        let begin = ImageName::prefix_len(&text).unwrap_or(1);
        let colons =
            (begin..bytes.len()).filter(|&i| bytes[i] == b':' && !paths::is_of_host(&bytes[..i]));
        let (absolute, others): (Vec<usize>, Vec<usize>) =
            colons.partition(|i| matches!(bytes.get(i + 1), None | Some(b'/')));
        let at = absolute.iter().find(|i| exists(**i));
        let at = at.or_else(|| others.iter().find(|i| is_file(**i)));
        let Some(&at) = at.or(absolute.first()) else {
            return Location::Host(PathBuf::from(text));
        };
        let mut path = bytes[at + 1..].to_vec();
        if !path.starts_with(b"/") {
            path.insert(0, b'/');
        }
        Location::Image(InImage {
            image: file(at),
            path: paths::path_buf(path),
        })
    }
}

/// How output names the files of operands: as `IMAGE:/path`, so that another command takes it as an operand; in JSON by their path in
/// the image, unless the operands name several images.
#[derive(Clone, Copy, Debug)]
pub struct Naming {
    with_image: bool,
}

impl Naming {
    /// For these operands.
    pub fn of(operands: &[OsString], as_json: bool) -> Naming {
        let mut images = operands
            .iter()
            .map(|text| InImage::parse(text.clone()).image);
        let first = images.next();
        Naming {
            with_image: !as_json || images.any(|image| Some(image) != first),
        }
    }

    /// The name of a file.
    pub fn name(self, image: &Path, path: &Path) -> Vec<u8> {
        let mut name = Vec::new();
        if self.with_image {
            name.extend_from_slice(image.as_os_str().as_encoded_bytes());
            name.push(b':');
        }
        name.extend_from_slice(&paths::bytes(path));
        name
    }
}

/// `IMAGE:/path` for a path of the host that leads into a file, as if that were a directory.
pub fn meant(path: &Path) -> Option<InImage> {
    let image = path.ancestors().skip(1).find(|above| above.is_file())?;
    let inside = path.strip_prefix(image).ok()?;
    Some(InImage {
        image: image.to_owned(),
        path: Path::new("/").join(inside),
    })
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
        let itself = std::env::current_exe().unwrap();
        let itself = itself.to_str().unwrap();
        assert_eq!(
            Location::parse(format!("{itself}:etc/b:c").into()),
            image(itself, "/etc/b:c")
        );
        let inside = meant(Path::new(&format!("{itself}/etc")));
        assert_eq!(Location::Image(inside.unwrap()), image(itself, "/etc"));
        assert_eq!(meant(Path::new("/")), None);
        assert_eq!(InImage::parse("a.img".into()).path, Path::new("/"));
    }
}
