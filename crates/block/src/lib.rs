//! Block devices: what a file system reads and writes.
//!
//! A [`BlockDevice`] is a range of bytes with positioned reads and writes and a flush. Some hold
//! bytes, the others wrap a device and forward to it.
//!
//! | module | holds |
//! | --- | --- |
//! | [`device`] | the [`BlockDevice`] trait |
//! | [`batch`] | which ranges of a batch are one request |
//! | [`error`] | [`BlockError`] |
//! | [`mod@file`] | [`FileDevice`]: an image file or a block device of the host |
//! | [`open`] | [`OpenOptions`]: how it is opened |
//! | `host`, `direct` | the host's positioned I/O; direct I/O of any alignment |
//! | `durable`, `failure` | flushes that every caller hears of; what a device fails of for good |
//! | [`engine`], `uring`, `scattered` | [`IoEngine`]; many requests in flight on io_uring; batches on a file |
//! | `align`, `bounce`, `pool` | what direct I/O needs, aligned memory, and what calls check out |
//! | [`memory`] | [`MemoryDevice`]: sparse, in memory, cheap to clone |
//! | [`overlay`] | [`OverlayDevice`]: keeps changes in memory, over a device that it only reads |
//! | [`latency`] | [`LatencyDevice`]: models a device's latency and parallelism |
//! | [`stats`] | [`CountDevice`]: counts calls and bytes |
//!
//! # Locking
//! Device I/O may sleep: a device that holds bytes calls [`uext4_sync::assert_may_block`] first. The
//! locks in here are leaves (class `device`), and none is held over a call to a wrapped device. Only
//! `device_edges`, of an image opened for direct I/O, is held over the host's I/O.

mod align;
pub mod batch;
mod bounce;
pub mod device;
mod device_id;
mod direct;
mod durable;
pub mod engine;
pub mod error;
mod exclusion;
mod failure;
pub mod file;
mod host;
pub mod latency;
pub mod memory;
pub mod open;
pub mod overlay;
mod pool;
mod scattered;
pub mod stats;
mod uring;

pub use device::BlockDevice;
pub use device_id::DeviceId;
pub use engine::IoEngine;
pub use error::{BlockError, BlockOp, Failure, Result};
pub use file::FileDevice;
pub use latency::{LatencyDevice, LatencyReport};
pub use memory::MemoryDevice;
pub use open::OpenOptions;
pub use overlay::OverlayDevice;
pub use stats::{CountDevice, DeviceCounts};
