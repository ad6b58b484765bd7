//! What an image is filled from.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::tree_source::NamedTree;

/// What an image is filled from; several are put on top of each other, in order.
///
/// # Examples
/// ```
/// use uext4_build::Input;
/// let plain: Input = "tree".into();
/// assert_eq!(plain.below, b"");
/// let part = Input::parse("/opt/app=app.tar.zst".as_ref());
/// assert_eq!(part.below, b"opt/app");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// The directory of the image that it is put into: names with slashes between, none of them `.` or `..`; empty for the root.
    pub below: Vec<u8>,
    /// What it is.
    pub kind: InputKind,
}

/// What a source is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InputKind {
    /// A directory of the host; or a file or pipe that holds a tar archive, plain or compressed, or one of a container image: an
    /// OCI layout, or what `docker save` wrote. `-` is standard input.
    Path(PathBuf),
    /// A tar archive, even if it has the names of a container image.
    Tar(PathBuf),
    /// A container image: an OCI layout, a directory or a tar archive of one, or an archive that `docker save` wrote.
    Container {
        /// The directory or archive.
        path: PathBuf,
        /// The tag, if there are several images.
        tag: Option<String>,
        /// The digest of the manifest, if there are several images.
        digest: Option<String>,
    },
    /// A tree that the program provides.
    Tree(NamedTree),
}

impl Input {
    /// Reads `SOURCE` or `/PATH=SOURCE`. `SOURCE` is a path, `-`, `tar:FILE` or `oci:PATH[:TAG][@DIGEST]`.
    pub fn parse(text: &OsStr) -> Input {
        let bytes = text.as_encoded_bytes();
        if bytes.starts_with(b"/")
            && let Some(equals) = bytes.iter().position(|byte| *byte == b'=')
            && !Path::new(text).exists()
        {
            return Input::at(&bytes[..equals], InputKind::parse(&bytes[equals + 1..]));
        }
        Input::at(b"", InputKind::parse(bytes))
    }

    /// A source that is put below a path of the image.
    pub fn at(path: &[u8], kind: InputKind) -> Input {
        let names = path.split(|byte| *byte == b'/');
        let names: Vec<&[u8]> = names.filter(|n| !matches!(*n, b"" | b".")).collect();
        Input {
            below: names.join(&b'/'),
            kind,
        }
    }
}

impl InputKind {
    fn parse(bytes: &[u8]) -> InputKind {
        if let Some(path) = bytes.strip_prefix(b"tar:") {
            return InputKind::Tar(path_of(path));
        }
        match bytes.strip_prefix(b"oci:") {
            Some(name) => InputKind::container(name),
            None => InputKind::Path(path_of(bytes)),
        }
    }

    fn container(name: &[u8]) -> InputKind {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let at = name
            .windows(5)
            .rposition(|five| matches!(five, b"@sha2" | b"@sha5"));
        let (name, digest) = match at {
            Some(at) => (&name[..at], Some(text(&name[at + 1..]))),
            None => (name, None),
        };
        let colon = name.iter().rposition(|byte| *byte == b':');
        let (path, tag) = match colon {
            // A tag has no slash, and a path that is there is none with a tag.
            Some(at) if !name[at..].contains(&b'/') && !path_of(name).exists() => {
                (&name[..at], Some(text(&name[at + 1..])))
            }
            _ => (name, None),
        };
        InputKind::Container {
            path: path_of(path),
            tag,
            digest,
        }
    }

    /// The path of the host, or the name of a tree.
    pub fn path(&self) -> &Path {
        match self {
            InputKind::Path(path) | InputKind::Tar(path) | InputKind::Container { path, .. } => {
                path
            }
            InputKind::Tree(tree) => tree.name(),
        }
    }
}

#[cfg(unix)]
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes).into()
}

#[cfg(not(unix))]
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

impl<P: Into<PathBuf>> From<P> for Input {
    fn from(path: P) -> Input {
        Input {
            below: Vec::new(),
            kind: InputKind::Path(path.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(path: &str, tag: Option<&str>, digest: Option<&str>) -> InputKind {
        InputKind::Container {
            path: path.into(),
            tag: tag.map(Into::into),
            digest: digest.map(Into::into),
        }
    }

    #[test]
    fn sources_are_told_apart() {
        let kind = |text: &str| Input::parse(text.as_ref()).kind;
        assert_eq!(kind("a.tar"), InputKind::Path("a.tar".into()));
        assert_eq!(kind("-"), InputKind::Path("-".into()));
        assert_eq!(kind("tar:a:b"), InputKind::Tar("a:b".into()));
        assert_eq!(kind("oci:d"), container("d", None, None));
        assert_eq!(kind("oci:d:1.2"), container("d", Some("1.2"), None));
        assert_eq!(kind("oci:a:b/d"), container("a:b/d", None, None));
        let digest = Some("sha256:00");
        assert_eq!(kind("oci:d:t@sha256:00"), container("d", Some("t"), digest));
        assert_eq!(kind("oci:d@sha256:00"), container("d", None, digest));
    }

    #[test]
    fn a_path_in_front_says_where_it_goes() {
        let input = Input::parse("/opt//a/=oci:d:t".as_ref());
        assert_eq!(
            (&input.below[..], input.kind),
            (&b"opt/a"[..], container("d", Some("t"), None))
        );
        // A path of the host with the sign is one.
        assert_eq!(Input::parse("a=b".as_ref()), "a=b".into());
    }
}
