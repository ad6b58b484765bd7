//! Fuzz targets: what an input does, for cargo-fuzz (`make fuzz`).
//!
//! An input is a script, read byte by byte: which image, what of it is damaged, and what is done with it. So every input means something, and
//! what libFuzzer changes in it is one step. Checksums are made right after each damage, but now and then.
//!
//! | target | damages | and then |
//! | --- | --- | --- |
//! | `image` | anything | mounts, walks, reads, writes, unmounts, verifies |
//! | `directories`, `extents`, `attributes`, `inline` | such structures | the same, on an image that has many |
//! | `recovery` | the log, as a crash leaves it | recovers |
//! | `fast_commit` | fast commits | the same |
//! | `fuse` | requests of the kernel | answers them |
//! | `queues` | requests and ioctls of message queues | the same |
//! | `archives` | archives and container images | makes an image of them, verifies |
//!
//! | module | holds |
//! | --- | --- |
//! | `input` | reads a script |
//! | `base` | the images |
//! | `damage` | damage of a kind |
//! | `work` | what is done with a damaged image |
//! | `log` | logs written by a script |
//! | `requests` | requests written by a script |
//! | `archives` | archives written by a script |

mod archives;
mod base;
mod damage;
mod input;
mod log;
mod requests;
mod work;

pub use archives::archives;
pub use log::{fast_commit, recovery};
pub use requests::{fuse, queues};

use damage::Kind;

/// Anything in any image.
pub fn image(data: &[u8]) {
    damage::run(data, &Kind::ALL);
}

/// Directories: linear, hashed, and their inodes.
pub fn directories(data: &[u8]) {
    damage::run(data, &[Kind::Directory]);
}

/// Trees of extents and maps of blocks.
pub fn extents(data: &[u8]) {
    damage::run(data, &[Kind::Mapping]);
}

/// Extended attributes and ACLs, in inodes and in blocks.
pub fn attributes(data: &[u8]) {
    damage::run(data, &[Kind::Attribute]);
}

/// Files and directories in their inodes.
pub fn inline(data: &[u8]) {
    damage::run(data, &[Kind::Inline]);
}
