//! What only Linux has.

pub mod confinement;
pub mod host_extents;
pub mod inode_flags;
pub mod mounts;
pub mod nodes;
pub mod users;
