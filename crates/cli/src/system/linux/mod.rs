//! What only Linux has.

pub mod confinement;
pub mod host_extents;
pub mod inode_flags;
mod mounted;
pub mod mounts;
pub mod nodes;
pub mod users;
