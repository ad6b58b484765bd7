//! What messages are sent through, and the sides of it.

use clap::ValueEnum;
use std::sync::Arc;
use uext4_mqueue::{Description, Wait};

/// A message queue that is open; both calls wait.
pub trait Channel: Sync {
    /// Sends a message.
    fn send(&self, bytes: &[u8], priority: u32) -> anyhow::Result<()>;

    /// Receives a message into `buffer`; its length and priority.
    fn receive(&self, buffer: &mut [u8]) -> anyhow::Result<(usize, u32)>;
}

impl Channel for Box<dyn Channel> {
    fn send(&self, bytes: &[u8], priority: u32) -> anyhow::Result<()> {
        (**self).send(bytes, priority)
    }

    fn receive(&self, buffer: &mut [u8]) -> anyhow::Result<(usize, u32)> {
        (**self).receive(buffer)
    }
}

impl Channel for Arc<Description> {
    fn send(&self, bytes: &[u8], priority: u32) -> anyhow::Result<()> {
        Ok(Description::send(self, bytes, priority, &Wait::default())?)
    }

    fn receive(&self, buffer: &mut [u8]) -> anyhow::Result<(usize, u32)> {
        let received = Description::receive(self, buffer, &Wait::default())?;
        Ok((received.len, received.priority))
    }
}

/// A side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The side that sends, or asks.
    Near,
    /// The side that receives, or answers.
    Far,
}

impl Side {
    /// Both, in the order of a pair.
    pub const BOTH: [Side; 2] = [Side::Near, Side::Far];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Side::Near => "near",
            Side::Far => "far",
        }
    }
}
