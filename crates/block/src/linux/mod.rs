//! Images in files and block devices of Linux: direct I/O, io_uring, the locks that keep others out.

mod align;
mod bounce;
mod direct;
mod durable;
mod exclusion;
mod failure;
pub(crate) mod file;
mod host;
mod host_extents;
mod open;
mod pool;
mod scattered;
mod shared;
mod uring;

pub use file::FileDevice;
pub use host::host_name;
pub use host_extents::{HostExtent, HostExtentsOf, host_extents};
pub(crate) use open::id_of_path;
