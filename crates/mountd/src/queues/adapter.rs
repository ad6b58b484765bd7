//! A namespace of message queues as a file system over FUSE.

use serde_json::{Value, json};
use uext4::unstable::FileSystem;
use uext4::unstable::mqueue::{IpcNamespace, MqFile, Namespace};
use uext4::{FileHandle, Result};
use uext4_fuse::FuseFileSystem;
use uext4_fuse::abi::ROOT_ID;
use uext4_fuse::filesystem::VALID_SECONDS;

/// A namespace for [`uext4_fuse::Server`].
pub struct QueueAdapter(pub IpcNamespace);

impl FuseFileSystem for QueueAdapter {
    type Fs = Namespace;

    fn fs(&self) -> &Namespace {
        &self.0
    }

    fn node_by_number(&self, ino: u64) -> Result<MqFile> {
        self.0.open_handle(FileHandle { ino, generation: 0 })
    }

    fn root_number(&self) -> u64 {
        ROOT_ID
    }

    /// Not for queues: messages change a queue's times without a request for its attributes.
    fn attributes_valid_s(&self, ino: u64) -> u64 {
        match ino {
            ROOT_ID => VALID_SECONDS,
            _ => 0,
        }
    }

    fn cache_statistics(&self) -> Value {
        json!({ "queues": self.0.queues() })
    }
}
