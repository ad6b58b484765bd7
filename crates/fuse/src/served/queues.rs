//! A namespace of message queues, served: its files. What else queues can do is [`crate::queues`]'s.

use super::Served;
use crate::abi::ROOT_ID;
use crate::server::VALID_SECONDS;
use serde_json::{Value, json};
use uext4::mqueue::{MqFile, Namespace};
use uext4::{FileHandle, FileSystem, Result};

impl Served for Namespace {
    fn node_by_number(&self, ino: u64) -> Result<MqFile> {
        self.open_handle(FileHandle { ino, generation: 0 })
    }

    fn root_number(&self) -> u64 {
        ROOT_ID
    }

    /// Messages change the times of a queue without the kernel's doing.
    fn attributes_hold_s(&self, ino: u64) -> u64 {
        match ino {
            ROOT_ID => VALID_SECONDS,
            _ => 0,
        }
    }

    fn describe(&self) -> Value {
        json!({ "queues": self.queues() })
    }
}
