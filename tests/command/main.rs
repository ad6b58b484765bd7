//! The command: what it prints, its exit codes, what it refuses, and what it leaves on disk.

mod apply;
mod archives;
mod batch;
mod clusters;
mod command_line;
mod completions;
mod damage;
mod damaged_superblock;
mod dump;
mod examples;
mod export;
mod guards;
mod guides;
mod huge_images;
mod image_names;
mod install;
mod interrupted;
mod mkfs_metadata;
mod mkfs_options;
mod mqueue;
mod nbd;
mod questions;
mod quota;
mod several_images;
mod tune;
mod what_is_it;
mod workdir;

use rustix::process::Signal;
use uext4_testkit::built::{uext4, uext4_in_foreground};
use uext4_testkit::prelude::*;
use workdir::Workdir;
