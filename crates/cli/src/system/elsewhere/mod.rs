//! What only Linux has, where there is none of it.

pub mod confinement;
pub mod host_extents;
pub mod inode_flags;
pub mod mounts;
pub mod users;
