//! What differs between two trees.

use super::options::ExportError;
use super::shared;
use super::tree::{Tree, Visited};
use crate::Progress;
use crate::filesystem::Filesystem;
use crate::image_path::ImagePath;
use std::cmp::Ordering;
use std::collections::HashMap;
use uext4_vfs::{Attr, FileKind, Timestamp};

/// Bytes that are compared at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// Only the new tree has it.
    Added,
    /// Only the old tree has it.
    Removed,
    /// Both have a file of that path, but not the same one.
    Changed,
}

/// In what a file differs, old before new. Times of the last access and of the last change of attributes are not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// What the file is; nothing else is compared then.
    Kind(FileKind, FileKind),
    /// The 12 permission bits.
    Permissions(u16, u16),
    /// Owner and group.
    Owner((u32, u32), (u32, u32)),
    /// Length in bytes.
    Len(u64, u64),
    /// The data, where the lengths are equal.
    Data,
    /// What a symbolic link leads to.
    Target(Vec<u8>, Vec<u8>),
    /// Major and minor number of a device.
    Device((u32, u32), (u32, u32)),
    /// The time of the last change of the data.
    Modified(Timestamp, Timestamp),
    /// An extended attribute, by its name: added, removed or changed.
    Xattr(Vec<u8>),
    /// Which other names of the tree the file has, as the first of them in order.
    Links(Vec<u8>, Vec<u8>),
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Its path below the trees' roots, with a slash before it.
    pub path: Vec<u8>,
    /// What happened to it.
    pub kind: ChangeKind,
    /// What the file is, in the new tree if it is there.
    pub file_kind: FileKind,
    /// In what it differs, if it changed.
    pub differences: Vec<Difference>,
}

impl Filesystem {
    /// Compares the tree below `path` with the one below `new_path` of a newer image: names, attributes, extended attributes and data,
    /// but neither inode numbers nor where data lies. Data that both images have from the same bytes of the host is not read, as in overlays of one
    /// backing file. Calls `found` for each difference, in the order of paths. `progress` has one phase,
    /// `compare`, in entries.
    ///
    /// # Errors
    /// A file of one of the images can't be read; what `found` returns.
    pub fn diff<E: From<ExportError>>(
        &self,
        path: impl ImagePath,
        new: &Filesystem,
        new_path: impl ImagePath,
        progress: &dyn Progress,
        mut found: impl FnMut(Change) -> Result<(), E>,
    ) -> Result<(), E> {
        let old = Tree::new(self, path.as_bytes(), true)?;
        let mut pairs = Pairs::new(old, Tree::new(new, new_path.as_bytes(), false)?);
        progress.phase("compare", 0);
        while let Some(pair) = pairs.next()? {
            progress.advance(1);
            if progress.is_cancelled() {
                return Err(ExportError::Cancelled.into());
            }
            if let Some(change) = pairs.change(&pair)? {
                found(change)?;
            }
        }
        Ok(())
    }
}

/// A path that one of the trees has, or both.
pub(super) enum Pair {
    Old(Visited),
    New(Visited),
    Both(Visited, Visited),
}

/// Two trees, side by side.
pub(super) struct Pairs<'f> {
    pub old: Tree<'f>,
    pub new: Tree<'f>,
    next_old: Option<Visited>,
    next_new: Option<Visited>,
    begun: bool,
    pub old_links: FirstNames,
    pub new_links: FirstNames,
    buffers: [Vec<u8>; 2],
}

/// The first names of files that have several.
#[derive(Default)]
pub(super) struct FirstNames(HashMap<u64, Vec<u8>>);

impl FirstNames {
    /// The first name of a file, which is its own if it was not visited before.
    pub fn first(&mut self, file: &Visited) -> Vec<u8> {
        if file.attr.nlink < 2 || file.attr.kind == FileKind::Directory {
            return file.path.clone();
        }
        let first = self.0.entry(file.attr.ino);
        first.or_insert_with(|| file.path.clone()).clone()
    }
}

impl<'f> Pairs<'f> {
    pub fn new(old: Tree<'f>, new: Tree<'f>) -> Pairs<'f> {
        Pairs {
            old,
            new,
            next_old: None,
            next_new: None,
            begun: false,
            old_links: FirstNames::default(),
            new_links: FirstNames::default(),
            buffers: Default::default(),
        }
    }

    pub fn next(&mut self) -> Result<Option<Pair>, ExportError> {
        if !self.begun {
            self.begun = true;
            self.next_old = self.old.next()?;
            self.next_new = self.new.next()?;
        }
        let order = match (&self.next_old, &self.next_new) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => in_order(&old.path, &new.path),
        };
        let (mut old, mut new) = (None, None);
        if order != Ordering::Greater {
            old = std::mem::replace(&mut self.next_old, self.old.next()?);
        }
        if order != Ordering::Less {
            new = std::mem::replace(&mut self.next_new, self.new.next()?);
        }
        Ok(match (old, new) {
            (Some(old), Some(new)) => Some(Pair::Both(old, new)),
            (Some(old), None) => Some(Pair::Old(old)),
            (None, Some(new)) => Some(Pair::New(new)),
            (None, None) => None,
        })
    }

    /// Leaves out what the old tree has below a directory that was visited last.
    pub fn skip_old_below(&mut self, dir: &[u8]) -> Result<(), ExportError> {
        let is_below = |file: &Visited| {
            file.path
                .strip_prefix(dir)
                .is_some_and(|p| p.starts_with(b"/"))
        };
        while self.next_old.as_ref().is_some_and(is_below) {
            self.next_old = self.old.next()?;
        }
        Ok(())
    }

    /// What differs; `None` if nothing does.
    pub fn change(&mut self, pair: &Pair) -> Result<Option<Change>, ExportError> {
        let (kind, file, differences) = match pair {
            Pair::Old(file) => (ChangeKind::Removed, file, Vec::new()),
            Pair::New(file) => (ChangeKind::Added, file, Vec::new()),
            Pair::Both(old, new) => (ChangeKind::Changed, new, self.compare(old, new)?),
        };
        if kind == ChangeKind::Changed && differences.is_empty() {
            return Ok(None);
        }
        Ok(Some(Change {
            path: [b"/", &file.path[..]].concat(),
            kind,
            file_kind: file.attr.kind,
            differences,
        }))
    }

    fn compare(&mut self, old: &Visited, new: &Visited) -> Result<Vec<Difference>, ExportError> {
        let mut differences = Vec::new();
        let firsts = (self.old_links.first(old), self.new_links.first(new));
        let (a, b) = (&old.attr, &new.attr);
        if a.kind != b.kind {
            return Ok(vec![Difference::Kind(a.kind, b.kind)]);
        }
        if firsts.0 != firsts.1 {
            differences.push(Difference::Links(firsts.0, firsts.1));
        } else if firsts.0 != old.path {
            // Compared at its first name.
            return Ok(differences);
        }
        compare_attributes(a, b, &mut differences);
        match a.kind {
            FileKind::Symlink => {
                let (a, b) = (self.old.target(old)?, self.new.target(new)?);
                if a != b {
                    differences.push(Difference::Target(a, b));
                }
            }
            FileKind::Regular if a.size != b.size => {
                differences.push(Difference::Len(a.size, b.size));
            }
            FileKind::Regular if self.differ_in_data(old, new)? => {
                differences.push(Difference::Data);
            }
            FileKind::CharDevice | FileKind::BlockDevice => {
                let numbers = |attr: &Attr| (attr.rdev_major, attr.rdev_minor);
                if numbers(a) != numbers(b) {
                    differences.push(Difference::Device(numbers(a), numbers(b)));
                }
            }
            _ => {}
        }
        let xattrs = (self.old.xattrs(old)?, self.new.xattrs(new)?);
        compare_xattrs(&xattrs.0, &xattrs.1, &mut differences);
        Ok(differences)
    }

    /// Compares data, reading only where one of the files has any, and not what is the same bytes of the host in both.
    fn differ_in_data(&mut self, old: &Visited, new: &Visited) -> Result<bool, ExportError> {
        let mut parts = self.old.segments(old)?;
        parts.extend(self.new.segments(new)?);
        parts.sort_unstable();
        let shared = shared::ranges((&self.old, old), (&self.new, new))?;
        let [a, b] = &mut self.buffers;
        a.resize(CHUNK_BYTES, 0);
        b.resize(CHUNK_BYTES, 0);
        let mut at = 0;
        for (begin, len) in parts {
            at = at.max(begin);
            while at < begin + len {
                let apart = shared::next_apart(&shared, at, begin + len);
                at = apart.start;
                let left = usize::try_from(apart.end - at).unwrap_or(usize::MAX);
                let most = left.min(CHUNK_BYTES);
                let n = self.old.read(old, at, &mut a[..most])?;
                let m = self.new.read(new, at, &mut b[..most])?;
                if a[..n] != b[..m] {
                    return Ok(true);
                }
                at += most as u64;
            }
        }
        Ok(false)
    }
}

/// The order in which trees are visited: a slash before all other bytes.
fn in_order(a: &[u8], b: &[u8]) -> Ordering {
    let rank = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    a.iter().map(rank).cmp(b.iter().map(rank))
}

fn compare_attributes(a: &Attr, b: &Attr, differences: &mut Vec<Difference>) {
    if a.mode != b.mode && a.kind != FileKind::Symlink {
        differences.push(Difference::Permissions(a.mode, b.mode));
    }
    if (a.uid, a.gid) != (b.uid, b.gid) {
        differences.push(Difference::Owner((a.uid, a.gid), (b.uid, b.gid)));
    }
    if a.mtime != b.mtime {
        differences.push(Difference::Modified(a.mtime, b.mtime));
    }
}

fn compare_xattrs(
    a: &[(Vec<u8>, Vec<u8>)],
    b: &[(Vec<u8>, Vec<u8>)],
    differences: &mut Vec<Difference>,
) {
    let mut names: Vec<&Vec<u8>> = a.iter().chain(b).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let find = |list: &[(Vec<u8>, Vec<u8>)], name: &Vec<u8>| {
        let at = list.binary_search_by(|(other, _)| other.cmp(name)).ok();
        at.map(|at| list[at].1.clone())
    };
    for name in names {
        if find(a, name) != find(b, name) {
            differences.push(Difference::Xattr(name.clone()));
        }
    }
}
