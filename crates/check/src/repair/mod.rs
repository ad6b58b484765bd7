//! Plans of repairs: what to write so that an image passes every check. Nothing is written here.
//!
//! A plan is made in rounds. A round runs the checks, in their order, over the device with the changes so far, and
//! ends after the first stage with faults; then their repairs are added to the changes. The plan is complete when a
//! round finds nothing more, so its result has passed the verifier before a byte of it is written, and a second plan
//! is empty.
//!
//! | module | repairs |
//! | --- | --- |
//! | `plan`, `stages`, `chosen` | rounds, decisions, the order of repairs |
//! | `remedy` | what is done about each kind of fault, and what is lost |
//! | `editor` | changes of a round; free blocks |
//! | `superblock`, `restore`, `descs`, `bitmap_places` | superblock and descriptors, from backups where need be |
//! | `journal`, `orphans` | replay; orphan list and orphan file |
//! | `inode`, `kind`, `inline`, `xattrs`, `values`, `features` | inodes, their types, data in them, attributes |
//! | `map`, `runs`, `extents`, `block_map` | what inodes map |
//! | `clones` | blocks that are claimed twice |
//! | `dir`, `records`, `inline_dir`, `dir_map`, `reveal` | directories: entries, blocks, holes; inodes that are hidden |
//! | `pack` | directories written anew |
//! | `trees` | hash trees, made again |
//! | `connect`, `lost_found`, `links` | names for what has none; link counts |
//! | `groups`, `quota`, `resize` | bitmaps and counters; quota files; the resize inode |

mod bitmap_places;
mod block_map;
mod chosen;
mod clones;
mod connect;
pub(crate) mod descs;
mod dir;
mod dir_map;
pub(crate) mod editor;
mod extents;
mod features;
pub(crate) mod groups;
mod inline;
mod inline_dir;
mod inode;
mod journal;
pub(crate) mod kind;
mod links;
pub(crate) mod lost_found;
pub(crate) mod map;
mod orphans;
pub(crate) mod pack;
pub(crate) mod plan;
mod quota;
pub(crate) mod records;
mod remedy;
pub(crate) mod resize;
mod restore;
mod reveal;
mod runs;
mod stages;
pub(crate) mod superblock;
pub(crate) mod trees;
mod values;
mod xattrs;

pub use plan::{Decide, Decision, LogPlace, Plan, Policy, plan};
pub use remedy::Remedy;
