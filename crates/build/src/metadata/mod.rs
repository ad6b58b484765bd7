//! What options say of files of any source: which are left out, their owners, attributes and labels, and files that no
//! source has.
//!
//! What is left out and what is made is decided while sources are read ([`crate::source`]); [`describe`] changes the tree that
//! came of it, in this order: owners are mapped, or are one for all; the manifest; labels.
//!
//! | module | holds |
//! | --- | --- |
//! | [`globs`] | patterns of paths and names |
//! | [`id_map`], `subordinate_ids` | owners of the host and of the image |
//! | [`rule`] | what a line of a manifest says |
//! | [`manifest`], [`mtree`] | lines, in the two formats of a manifest |
//! | [`contexts`] | labels of SELinux |
//! | [`xattr_lists`] | changing extended attributes of a tree |

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::{MkfsError, Result};

mod apply;
mod contexts;
mod globs;
mod id_map;
mod manifest;
mod mtree;
mod rule;
#[cfg(target_os = "linux")]
mod subordinate_ids;
mod xattr_lists;

pub(crate) use apply::describe;
pub(crate) use globs::Excluded;
pub(crate) use manifest::Manifest;
pub(crate) use rule::{Made, Rule, Target};
#[cfg(target_os = "linux")]
pub use subordinate_ids::subordinate_ids;

/// All of a file or pipe of the host that an option names.
///
/// # Errors
/// [`MkfsError::Tree`]: it can't be read, or has more than `bytes_max` bytes.
fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let fail = |e| MkfsError::tree("read", path.to_owned(), e);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fail)?;
    let n = file.take(bytes_max).read_to_end(&mut bytes).map_err(fail)?;
    match (n as u64) < bytes_max {
        true => Ok(bytes),
        false => Err(fail(io::Error::other(format!(
            "more than {bytes_max} bytes"
        )))),
    }
}
