//! Images in files and block devices of Linux: direct I/O, io_uring, the locks that keep others out.

mod align;
mod bounce;
mod direct;
mod durable;
mod exclusion;
mod failure;
pub(crate) mod file;
mod host;
mod open;
mod pool;
mod scattered;
mod shared;
mod uring;

pub use file::FileDevice;
pub use host::host_name;
pub(crate) use open::id_of_path;
