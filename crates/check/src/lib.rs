//! The verifier behind `uext4 check`: everything of an ext4 image is checked, nothing is changed. [`plan()`] plans repairs,
//! [`plan_tune()`] changes of settings, [`plan_grow()`] and
//! [`plan_shrink()`] of the size.
//!
//! # Data model
//! [`check`] reads through a `View`, the image as journal replay would leave it. Findings are added
//! into a `Context`: a bitmap of claimed clusters, and for each inode a byte of state, its link
//! count on disk and the links found, in chunks that are made where something is in use. There is no
//! heap object per inode, and memory follows from what is in use, not from the size of the image.
//!
//! # Invariants
//! - Nothing is written, whatever the image holds.
//! - Work is bounded by the size of the image: a tree block is descended into only by the inode that
//!   claimed it first, so loops end; counts from the disk are clamped to what fits the device.
//! - No byte from the disk can cause a panic.
//! - Threads do not change the report: what is claimed twice is only noted while claiming, and its
//!   owners are looked up afterwards (`duplicates`). Only what else such a block makes wrong
//!   depends on the order of the claims.
//!
//! # Locking
//! There is no lock: workers own what they collect and hand it over when they end; what they share
//! are atomics in `context`.
//!
//! | module | checks |
//! | --- | --- |
//! | `layout`, `backups` | superblock, descriptors, places of fixed metadata |
//! | `journal`, `view` | the journal, and the image as replay leaves it |
//! | `orphans` | orphan list and orphan file |
//! | `scan`, `inode`, `special`, `resize` | inode tables and inodes |
//! | `mapping`, `filemap` | extent trees and block maps |
//! | `xattrs`, `xattr_blocks` | extended attributes, in inodes, blocks and value inodes |
//! | `duplicates` | owners of blocks claimed more than once |
//! | `dirs`, `dirblock`, `htree`, `names`, `inline_dir` | directories |
//! | `connect` | that every directory hangs off the root, once |
//! | `links` | link counts |
//! | `quota` | quota files |
//! | `bitmaps` | bitmaps and counters against what was found |
//! | `repair`, `edits` | plans of repairs, as changes in memory |
//! | `change` | plans of changes of settings and of the size |
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod backups;
mod bitmap;
mod bitmaps;
mod bytes;
mod change;
mod connect;
mod context;
mod dir_pass;
mod dirblock;
mod dirs;
mod duplicates;
mod edits;
mod error;
mod fault;
mod filemap;
mod htree;
mod inline_dir;
mod inode;
mod inode_table;
mod journal;
mod layout;
mod links;
mod mapping;
mod names;
mod orphans;
mod parallel;
mod passes;
mod prelude;
mod quota;
mod repair;
mod report;
mod resize;
mod scan;
mod special;
mod view;
mod xattr_blocks;
mod xattrs;

pub use change::{
    ChangeError, Reserved, Tuning, plan_grow, plan_rest, plan_shrink, plan_tune, plan_writes,
};
pub use edits::{EDIT_UNIT, EditedDevice, Edits};
pub use error::CheckError;
pub use fault::{Fault, FaultKind, Level};
pub use passes::check;
pub use repair::{Decide, Decision, LogPlace, Plan, Policy, Remedy, plan};
pub use report::{CheckOptions, CheckReport, NoProgress, Progress};
