//! Names of other crates that most tests use.

pub use anyhow::{Context, Result, anyhow, bail, ensure};
pub use fastrand::Rng;
pub use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ffi::CString,
    fs::{self, File},
    io::{Read, Write},
    ops::Range,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, MetadataExt, PermissionsExt, symlink},
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
pub use tempfile::TempDir;
pub use uext4_block::{
    BlockDevice, DeviceId, FileDevice, MemoryDevice, OpenOptions, forward_device, open_image,
};
pub use uext4_build::{FeatureSet, MkfsOptions, NoProgress};
pub use uext4_ext4::{
    AtimeUpdate, BallocVariant, DataMode, DirLockVariant, Exclusion, Ext4, Ext4Error,
    GenerationVariant, IallocVariant, InodeRef, MountOptions, read_superblock,
};
pub use uext4_ondisk::{Compat, GroupDesc, GroupNo, Incompat, Ino, InodeFlags, Pblk};
pub use uext4_vfs::{
    attr::{FileHandle, FileKind, NewKind, NewNode, RenameFlags, SetAttr, TimeSet, XattrFlags},
    caller::{Caller, Capabilities},
    errno::Errno,
    filesystem::FileSystem,
    icache::IcacheVariant,
    ilock::DioLock,
    io::{Fallocate, IoFlags},
};
