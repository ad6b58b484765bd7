//! How an image is opened.

use crate::{Caller, DeviceOptions, MountOptions};
use std::path::PathBuf;

/// How an image is opened: how it is mounted, in whose name, and whether others are kept out.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// How it is mounted.
    pub mount: MountOptions,
    /// Who the calls by path and by directory act for.
    pub caller: Caller,
    /// Keep others out: one writer, or any number of readers. Without it nothing is locked and
    /// nothing is checked.
    pub exclusive: bool,
    /// The image is read and written past the cache of the host (`O_DIRECT`).
    pub direct: bool,
    /// The file or block device of the journal, for a file system that has it on another device.
    pub journal: Option<PathBuf>,
}

impl OpenOptions {
    /// For reading and writing, as the superuser.
    pub fn read_write() -> OpenOptions {
        OpenOptions {
            mount: MountOptions::default(),
            caller: Caller::root(),
            exclusive: true,
            direct: false,
            journal: None,
        }
    }

    /// For reading, as the superuser. The image is not written, even where its journal needs recovery.
    pub fn read_only() -> OpenOptions {
        let mut options = OpenOptions::read_write();
        options.mount.read_only = true;
        options
    }

    /// The same, past the cache of the host or not.
    pub fn direct(mut self, on: bool) -> OpenOptions {
        self.direct = on;
        self
    }

    /// The same, with the journal on the device at `path`. It is opened as the image is; a journal of
    /// another file system is refused.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> OpenOptions {
        self.journal = Some(path.into());
        self
    }

    /// How the image's device is opened, and the journal's: for who opens them by himself, and mounts what he has
    /// opened ([`Filesystem::open_devices`](crate::Filesystem::open_devices)).
    pub fn device(&self) -> DeviceOptions {
        let access = match self.mount.read_only {
            true => DeviceOptions::read_only(),
            false => DeviceOptions::read_write(),
        };
        DeviceOptions {
            exclusive: self.exclusive,
            direct: self.direct,
            ..access
        }
    }

    /// The same on behalf of `caller`.
    pub fn caller(mut self, caller: Caller) -> OpenOptions {
        self.caller = caller;
        self
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions::read_write()
    }
}
