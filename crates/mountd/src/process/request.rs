//! The messages between the processes of a mount.

use crate::failure::Failure;
use crate::options::{OptionError, Options};
use crate::sandbox::Confinement;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use uext4::unstable::RawKey;
use uext4::unstable::Severity;
use uext4_fuse::Negotiated;

/// A path whose bytes go through JSON as they are, text or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WirePath(pub PathBuf);

impl Serialize for WirePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_os_str().as_bytes().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WirePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WirePath, D::Error> {
        let bytes = Vec::deserialize(deserializer)?;
        Ok(WirePath(PathBuf::from(OsString::from_vec(bytes))))
    }
}

/// What is to be mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// An image, absolute.
    Image(WirePath),
    /// A new namespace of message queues.
    Queues,
}

/// What is to be mounted where, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRequest {
    /// What.
    pub source: Source,
    /// The directory, absolute.
    pub dir: WirePath,
    /// What follows each `-o`.
    pub options: Vec<String>,
    /// Where the journal is, unless an option says so.
    pub journal: Option<WirePath>,
    /// Whether the server confines itself.
    pub sandbox: bool,
    /// Whether locks are counted from the start.
    pub lock_stat: bool,
    /// Where statistics can be fetched over HTTP.
    pub metrics: Option<SocketAddr>,
    /// Keys of encrypted files.
    pub keys: Vec<RawKey>,
    /// Whether it takes the place of an older state of the image.
    pub replaces: bool,
}

impl MountRequest {
    /// What its options say.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn options(&self) -> Result<Options, OptionError> {
        let mut options = match self.source {
            Source::Image(_) => Options::parse(&self.options)?,
            Source::Queues => Options::parse_queues(&self.options)?,
        };
        let open = &mut options.open;
        for key in &self.keys {
            // The command has refused those of another length.
            let _ = open.mount.keys.add_as(key.as_bytes(), key.descriptor());
        }
        open.journal = open
            .journal
            .take()
            .or(self.journal.clone().map(|path| path.0));
        Ok(options)
    }

    /// What is mounted, as lists of mounts show it and messages name it.
    pub fn source(&self) -> &Path {
        match &self.source {
            Source::Image(path) => &path.0,
            Source::Queues => Path::new("mqueue"),
        }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir.0
    }
}

/// From the monitor to the server.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToServer {
    /// The first: open this image.
    Open(MountRequest),
    /// It is mounted; the connection comes with the message.
    Serve(Negotiated),
    /// End, whatever is still open.
    Stop,
}

/// From the server to the monitor.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromServer {
    /// The image is open, and can be mounted.
    Ready(Facts),
    /// It can't be opened.
    Failed(Failure),
    /// Requests are answered from now on.
    Serving,
    /// Something is wrong with the image or its device, or was asked to be reported.
    Wrong {
        /// How bad it is.
        severity: Severity,
        /// What it is.
        message: String,
    },
    /// The server was asked to end by a signal.
    PleaseStop,
    /// Everything is written back, or what kept it from that.
    Closed(Result<(), String>),
}

/// What the monitor must know of an open image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// It can't be written, be it asked for so or by its features.
    pub read_only: bool,
    /// Its device can't be written.
    pub write_protected: bool,
    /// It can be written, and is lost when the machine stops: it lies in the host's memory.
    pub volatile: bool,
    /// Kinds of owners whose usage is counted, by name.
    pub quotas: Vec<String>,
    /// It has rings, so that requests can come over io_uring.
    pub rings: bool,
    /// The rights that the server has dropped; `None` if the request forbids that.
    pub confinement: Option<Confinement>,
}

/// From the monitor to the command that started it in the background.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToParent {
    /// It is mounted and served; things to warn of.
    Serving(Vec<String>),
    /// It is not.
    Failed(Failure),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_need_not_be_text() {
        let path = WirePath(PathBuf::from(OsString::from_vec(vec![b'/', 0xff, b'x'])));
        let text = serde_json::to_string(&path).unwrap();
        assert_eq!(serde_json::from_str::<WirePath>(&text).unwrap(), path);
    }
}
