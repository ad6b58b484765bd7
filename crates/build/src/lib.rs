//! Making ext4 images, empty or filled from a directory tree, fast and reproducibly.
//!
//! # Data model
//! Three steps, each with its own type. [`Scan::read`] reads a tree into memory, all but the files'
//! data. [`Plan::new`] gives everything a place; from then on the size of the image is known
//! ([`Plan::image_bytes`]), before there is a device. [`Plan::write`] fills a device. [`mkfs()`] does all
//! three.
//!
//! # Invariants
//! A plan is immutable and made on one thread in the order of names: the same tree, UUID and time give
//! the same bytes, whatever the number of threads. Inodes are given out without gaps, so that an inode
//! bitmap is a number, and what a tree needs is taken from the front of the free space, so that
//! writing it is sequential.
//!
//! # Locking
//! None: threads take work by counting up an atomic ([`parallel`]), and what they find or write is put
//! together when they are done. Device calls may sleep.
//!
//! | module | holds |
//! | --- | --- |
//! | [`options`], [`features`], [`usage`], [`input`], [`id_range`] | what can be asked |
//! | [`source`] | reading trees, archives and container images, and the data of their files |
//! | [`metadata`] | owners, attributes and labels that options give to files of any source |
//! | [`xattrs`] | attributes in the inode and in a block |
//! | [`tree_source`] | trees that a program provides |
//! | [`tree`] | a tree in memory |
//! | [`layout`], [`space`] | sizes, fixed metadata, free blocks |
//! | [`measure`] | what a tree needs |
//! | [`mapping`], [`extents`], [`blockmap`] | what names the blocks of files |
//! | [`system`], [`place`], [`plan`] | giving places |
//! | [`copy`], [`itable`], [`group`], [`mod@write`] | filling the device |
//! | [`verity`], [`fs_verity`], [`verity_files`] | trees of hashes, of dm-verity and of fs-verity |
//! | [`parallel`] | threads |
//! | [`progress`], [`report`], [`error`] | what the caller learns |
#![forbid(unsafe_code)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the table is for readers of the source"
)]

mod blockmap;
mod copy;
mod error;
mod extents;
mod features;
mod fs_verity;
mod group;
pub mod host_names;
mod id_range;
mod input;
mod itable;
mod layout;
mod mapping;
mod measure;
mod metadata;
mod options;
mod parallel;
mod place;
mod plan;
mod progress;
mod quota;
mod report;
mod source;
mod space;
mod system;
mod tree;
mod tree_source;
mod usage;
mod verity;
mod verity_files;
#[cfg(any(windows, test))]
mod windows_names;
mod write;
mod xattrs;

pub use error::{MkfsError, Result};
pub use features::FeatureSet;
pub use fs_verity::FsVerityFile;
pub use id_range::IdRange;
pub use input::{Input, InputKind};
#[cfg(target_os = "linux")]
pub use metadata::subordinate_ids;
pub use options::{MkfsOptions, Spare};
pub use plan::Plan;
pub use progress::{NoProgress, Progress};
pub use report::MkfsReport;
pub use source::Scan;
pub use tree_source::{NamedTree, SourceFile, SourceKind, TreeSource};
pub use verity::{VerityOptions, VerityReport};
pub use write::mkfs;
