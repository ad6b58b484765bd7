//! The changes of a tree as a layer of a container image.
//!
//! Source: the image specification of the OCI, "Image Layer Filesystem Changeset".

use super::changes::{Change, ChangeKind, Pair, Pairs};
use super::export::{Archive, Names};
use super::options::{ExportError, ExportOptions, ExportReport};
use super::tree::{Tree, Visited};
use crate::Progress;
use crate::filesystem::Filesystem;
use crate::image_path::ImagePath;
use std::collections::HashSet;
use std::io::Write;
use uext4_vfs::FileKind;

impl Filesystem {
    /// Writes what differs between the tree below `path` and the one below `new_path` of a newer image as a layer of a container image:
    /// files that were added or changed, and whiteouts of those that were removed.
    ///
    /// # Errors
    /// As [`Filesystem::diff`] and [`Filesystem::export`]; [`ExportError::Whiteout`].
    pub fn export_diff(
        &self,
        path: impl ImagePath,
        new: &Filesystem,
        new_path: impl ImagePath,
        to: impl Write,
        options: &ExportOptions,
        progress: &dyn Progress,
    ) -> Result<ExportReport, ExportError> {
        let old = Tree::new(self, path.as_bytes(), true)?;
        let mut pairs = Pairs::new(old, Tree::new(new, new_path.as_bytes(), false)?);
        let mut layer = LayerWriter {
            archive: Archive::new(to, options, Names::OfLayer)?,
            whole: HashSet::new(),
        };
        progress.phase("compare", 0);
        while let Some(pair) = pairs.next()? {
            layer.add(&mut pairs, &pair)?;
            progress.advance(1);
            if progress.is_cancelled() {
                return Err(ExportError::Cancelled);
            }
        }
        layer.archive.finish()
    }
}

/// A layer that is being written.
struct LayerWriter<W: Write> {
    archive: Archive<W>,
    /// Files with several names that the layer has: the names that did not change would lead to the old file, and are in it too.
    whole: HashSet<u64>,
}

impl<W: Write> LayerWriter<W> {
    fn add(&mut self, pairs: &mut Pairs<'_>, pair: &Pair) -> Result<(), ExportError> {
        let change = pairs.change(pair)?;
        match pair {
            Pair::Old(file) => {
                self.archive.add_whiteout(&file.path)?;
                pairs.skip_old_below(&file.path)
            }
            Pair::New(file) => self.add_new(pairs, file),
            Pair::Both(old, new) => {
                // What replaces a directory hides what is below it.
                if old.attr.kind == FileKind::Directory && new.attr.kind != FileKind::Directory {
                    pairs.skip_old_below(&old.path)?;
                }
                let is_changed = |change: &Change| change.kind == ChangeKind::Changed;
                match change.as_ref().is_some_and(is_changed) || self.is_linked(new) {
                    true => self.add_new(pairs, new),
                    false => Ok(()),
                }
            }
        }
    }

    fn is_linked(&self, file: &Visited) -> bool {
        file.attr.kind != FileKind::Directory && self.whole.contains(&file.attr.ino)
    }

    fn add_new(&mut self, pairs: &mut Pairs<'_>, file: &Visited) -> Result<(), ExportError> {
        let first = pairs.new_links.first(file);
        if first != file.path && !self.is_linked(file) {
            // The layers below have it under that name.
            return self.archive.add_link(file, &first);
        }
        if file.attr.nlink > 1 {
            self.whole.insert(file.attr.ino);
        }
        self.archive.add(&pairs.new, file)
    }
}
