//! A tree that was read.

use std::path::Path;

use super::data::Data;
use crate::error::Result;
use crate::metadata::{Excluded, Manifest};
use crate::progress::Progress;
use crate::tree::Tree;

/// A tree that was read, to be made into an image by [`crate::Plan::new`].
#[derive(Debug)]
pub struct Scan {
    pub(crate) tree: Tree,
    pub(crate) data: Data,
    /// What its files are given besides.
    pub(crate) manifest: Option<Manifest>,
}

/// What of a directory is left out.
#[derive(Clone, Copy)]
pub(crate) struct Left<'a> {
    pub excluded: &'a Excluded,
    /// The directory of the image that the tree is put into.
    pub below: &'a [u8],
}

impl Left<'_> {
    /// Whether a name in a directory of the tree is left out.
    pub fn out(&self, dir: &[u8], name: &[u8]) -> bool {
        if self.excluded.is_empty() {
            return false;
        }
        let parts = [self.below, dir, name].into_iter();
        let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty()).collect();
        self.excluded.has(&parts.join(&b'/'))
    }
}

impl Scan {
    /// Reads the tree below a directory with `threads` threads (0 means one for each CPU). What is
    /// mounted in it belongs to it.
    ///
    /// # Errors
    /// [`crate::MkfsError::Tree`] for the first file that can't be read, by name.
    pub fn read(root: impl AsRef<Path>, threads: usize, progress: &dyn Progress) -> Result<Scan> {
        let left = Left {
            excluded: &Excluded::default(),
            below: b"",
        };
        Scan::read_some(root.as_ref(), threads, progress, left)
    }
}
