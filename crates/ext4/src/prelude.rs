//! Names that many modules use, most of them of the crates below.

pub(crate) use crate::error::{Ext4Error, Result};
pub(crate) use arrayvec::ArrayVec;
pub(crate) use std::{
    collections::{BTreeMap, HashSet},
    ops::{ControlFlow, Range},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};
pub(crate) use uext4_block::BlockDevice;
pub(crate) use uext4_jbd2::{
    Handle, Journal, JournalError, LogMap,
    buffer::{Buffer, BufferCache, BufferWrite},
};
pub(crate) use uext4_ondisk::{
    AclEntry, BlockBounds, Compat, Corrupt, CorruptKind, DxKind, ErrorsBehaviour, Extent,
    ExtentNode, ExtentNodeMut, FastCommitRecord, FileType, GOOD_OLD_INODE_SIZE, Generation,
    Geometry, GroupCsum, GroupDesc, GroupFlags, GroupNo, Incompat, Ino, InodeFlags, InodeParams,
    InodeSeed, Lblk, MAP_LEVELS, MapShape, NameHash, Pblk, RoCompat, Superblock, Timestamp,
    XattrArea, XattrIndex, XattrList, XattrOwnedValue, dir_entries, map_pointer,
};
pub(crate) use uext4_sync::{
    CachePadded, Condvar, Mutex, PerCpu, PerUsedCpu,
    atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{self, Relaxed},
    },
    class,
};
pub(crate) use uext4_vfs::{
    attr::{Attr, FileKind, NewNode},
    caller::{Caller, Capabilities},
    errno::Errno,
    ilock::{DioLock, ILockGuard, LockMode, ilock},
    io::{IoFlags, Written},
    permission::{self, Access},
};
