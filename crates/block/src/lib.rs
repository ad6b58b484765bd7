//! Block devices: what a file system reads and writes.
//!
//! A [`BlockDevice`] is a range of bytes with positioned reads and writes and a flush. Two hold
//! bytes, the others wrap a device and forward to it.
//!
//! | module | holds |
//! | --- | --- |
//! | [`device`] | the [`BlockDevice`] trait |
//! | `batch` | which ranges of a batch are one request |
//! | [`error`] | [`BlockError`] |
//! | [`mod@file`] | [`FileDevice`]: an image file or a block device of the host |
//! | [`open`] | [`OpenOptions`]: how it is opened |
//! | `host`, `direct` | the host's positioned I/O; direct I/O of any alignment |
//! | [`engine`], `uring`, `scattered` | [`IoEngine`]; many requests in flight on io_uring; batches on a file |
//! | `align`, `bounce`, `pool` | what direct I/O needs, aligned memory, and what calls check out |
//! | [`memory`] | [`MemoryDevice`]: sparse, in memory, cheap to clone |
//! | [`record`] | [`RecordDevice`]: logs every change, for crash tests |
//! | [`replay`] | [`Replayer`]: the image after a power loss at a chosen point of such a log |
//! | [`fault`] | [`FaultDevice`]: fails chosen calls |
//! | [`latency`] | [`LatencyDevice`]: models a device's latency and parallelism |
//! | [`stats`] | [`CountDevice`]: counts calls and bytes |
//!
//! # Locking
//! Device I/O may sleep: a device that holds bytes calls [`uext4_sync::assert_may_block`] first. The
//! locks in here are leaves (class `device`), and none is held over a call to a wrapped device.

mod align;
mod batch;
mod bounce;
pub mod device;
mod direct;
pub mod engine;
pub mod error;
mod exclusion;
pub mod fault;
pub mod file;
mod host;
pub mod latency;
pub mod memory;
#[cfg(test)]
mod model;
pub mod open;
mod pool;
pub mod record;
pub mod replay;
mod scattered;
pub mod stats;
mod uring;

pub use device::{BlockDevice, DeviceId};
pub use engine::IoEngine;
pub use error::{BlockError, BlockOp, Result};
pub use fault::{FaultCall, FaultDevice, FaultErrno, FaultPlan, FaultRule};
pub use file::FileDevice;
pub use latency::{LatencyDevice, LatencyReport};
pub use memory::MemoryDevice;
pub use open::OpenOptions;
pub use record::{Mark, RecordDevice, RecordLog, RecordOp};
pub use replay::{Cut, Replayer};
pub use stats::{CountDevice, DeviceCounts};
