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
//! | [`engine`], [`open`] | [`IoEngine`]; [`OpenOptions`]: how an image is opened |
//! | `linux` | [`FileDevice`]: an image file or a block device, with direct I/O and io_uring |
//! | [`portable`] | the [`FileDevice`] of other hosts |
//! | `origin` | [`Origin`]: where on the host bytes of a device are kept |
//! | [`memory`] | [`MemoryDevice`]: sparse, in memory, cheap to clone |
//! | [`overlay`] | [`OverlayDevice`]: keeps changes in memory, over a device that it only reads |
//! | [`range`] | [`RangeDevice`]: a part of a device, such as a partition |
//! | `nbd` | `NbdDevice`: the export of an NBD server (feature `nbd`) |
//! | `objects` | `ObjectDevice`: an image in a store of objects (feature `objects`) |
//! | `rbd` | `RbdDevice`: an image of Ceph, by the librbd of the host (feature `rbd`) |
//! | [`qcow2`] | [`Qcow2Device`]: a qcow2 image, with backing files |
//! | [`partitions`] | the tables of GPT and MBR |
//! | [`image`] | [`open_image`]: from the name of an image to its device |
//! | `remote` | the addresses of images that a server has, by the clients of this build |
//! | `remote_info` | [`RemoteInfo`]: what a server knows of an image |
//! | `remote_stats` | [`RemoteStats`]: what a client of a server did |
//! | `scheme` | what the names of images begin with that a server has |
//! | [`latency`] | [`LatencyDevice`]: models a device's latency and parallelism |
//! | [`stats`] | [`CountDevice`]: counts calls and bytes |
//!
//! # Locking
//! Device I/O may sleep: a device that holds bytes calls [`uext4_sync::assert_may_block`] first. The
//! locks in here are leaves (class `device`), and none is held over a call to a wrapped device. Only
//! `device_edges`, of an image opened for direct I/O, is held over the host's I/O.

pub mod batch;
pub mod device;
mod device_id;
pub mod engine;
mod errno;
pub mod error;
pub mod image;
#[cfg(target_os = "linux")]
pub mod latency;
#[cfg(target_os = "linux")]
mod linux;
pub mod memory;
#[cfg(feature = "nbd")]
pub mod nbd;
#[cfg(feature = "objects")]
pub mod objects;
pub mod open;
mod origin;
pub mod overlay;
pub mod partitions;
pub mod portable;
pub mod qcow2;
pub mod range;
#[cfg(feature = "rbd")]
pub mod rbd;
mod remote;
mod remote_info;
mod remote_stats;
mod scheme;
pub mod stats;

#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(not(target_os = "linux"))]
use portable as platform;

pub use device::BlockDevice;
pub use device_id::DeviceId;
pub use engine::IoEngine;
pub use errno::errno_of;
pub use error::{BlockError, BlockOp, Failure, LeaseLoss, Result};
pub use image::{ImageFiles, ImageName, open_image};
#[cfg(target_os = "linux")]
pub use latency::{LatencyDevice, LatencyReport};
#[cfg(target_os = "linux")]
pub use linux::{FileDevice, HostExtent, HostExtentsOf, host_extents};
pub use memory::MemoryDevice;
#[cfg(feature = "nbd")]
pub use nbd::{NbdAddress, NbdDevice};
#[cfg(feature = "objects")]
pub use objects::{ObjectDevice, ObjectStore};
pub use open::OpenOptions;
pub use origin::Origin;
pub use overlay::OverlayDevice;
pub use platform::host_name;
#[cfg(not(target_os = "linux"))]
pub use portable::PortableFile as FileDevice;
pub use qcow2::Qcow2Device;
pub use range::RangeDevice;
#[cfg(feature = "rbd")]
pub use rbd::{RbdAddress, RbdDevice};
pub use remote::{RemoteAddress, images_of};
pub use remote_info::RemoteInfo;
pub use remote_stats::{CacheCounts, Lease, RemoteStats};
pub use stats::{CountDevice, DeviceCounts};
