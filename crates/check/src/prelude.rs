//! Names that many modules use, most of them of the crates below.

pub(crate) use crate::{
    bytes::{le16, le32, put16, put32},
    error::{CheckError, Result},
    fault::{Fault, FaultKind, Faults},
};
pub(crate) use std::collections::BTreeMap;
pub(crate) use uext4_block::BlockDevice;
pub(crate) use uext4_ondisk::{
    Compat, CorruptKind, FileType, GOOD_OLD_INODE_SIZE, Geometry, GroupDesc, GroupNo, HashVersion,
    Incompat, Ino, InodeFlags, InodeSeed, Lblk, Pblk, RoCompat, Superblock, XattrArea,
};
pub(crate) use uext4_sync::atomic::{AtomicU64, Ordering};
