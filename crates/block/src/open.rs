//! How an image is opened.

use crate::engine::IoEngine;

/// How a file or block device is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Refuse writes. Default false.
    pub(crate) read_only: bool,
    /// Keep others out: one writer, or any number of readers. Default true; without it nothing is
    /// locked and nothing is checked.
    pub(crate) exclusive: bool,
    /// Make the file if there is none. Default false.
    pub(crate) create: bool,
    /// The length to give to the file, in bytes; a block device must be at least as large. Default:
    /// as it is.
    pub(crate) size: Option<u64>,
    /// Bypass the host's cache (`O_DIRECT`). Default false.
    pub(crate) direct: bool,
    /// How batches reach the host. Default: chosen for the device, see [`FileDevice::engine`].
    ///
    /// [`FileDevice::engine`]: crate::FileDevice::engine
    pub(crate) engine: Option<IoEngine>,
}

impl OpenOptions {
    /// An existing image, to write to.
    pub fn read_write() -> OpenOptions {
        OpenOptions {
            read_only: false,
            exclusive: true,
            create: false,
            size: None,
            direct: false,
            engine: None,
        }
    }

    /// An existing image, to read from.
    pub fn read_only() -> OpenOptions {
        OpenOptions {
            read_only: true,
            ..OpenOptions::read_write()
        }
    }

    /// Bypasses the host's cache (`O_DIRECT`). Default false.
    pub fn direct(mut self, on: bool) -> OpenOptions {
        self.direct = on;
        self
    }

    /// Keeps other processes out: one writer, or any number of readers. Default true; with false nothing is
    /// locked and nothing is checked.
    pub fn exclusive(mut self, on: bool) -> OpenOptions {
        self.exclusive = on;
        self
    }

    /// How batches reach the host. Default: chosen for the device, see [`FileDevice::engine`].
    ///
    /// [`FileDevice::engine`]: crate::FileDevice::engine
    pub fn engine(mut self, engine: IoEngine) -> OpenOptions {
        self.engine = Some(engine);
        self
    }

    /// The same for a backing file: to read from.
    pub(crate) fn for_backing(&self) -> OpenOptions {
        OpenOptions {
            read_only: true,
            create: false,
            size: None,
            ..self.clone()
        }
    }

    /// A new image of `size` bytes, or an existing file made that long; what it held stays.
    pub fn create(size: u64) -> OpenOptions {
        OpenOptions {
            create: true,
            size: Some(size),
            ..OpenOptions::read_write()
        }
    }
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::read_write()
    }
}
