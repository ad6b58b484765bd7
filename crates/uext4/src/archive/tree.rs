//! The files below a directory, in order.

use super::options::ExportError;
use crate::filesystem::Filesystem;
use std::collections::HashSet;
use uext4_block::Origin;
use uext4_ext4::InodeRef;
use uext4_vfs::{Attr, Errno, Error, FiemapExtent, FileKind, FileSystem, WalkFlags};

/// A file of a tree.
#[derive(Clone, Debug)]
pub(super) struct Visited {
    /// Its path below the tree's root, without a slash at its ends; empty for the root.
    pub path: Vec<u8>,
    pub attr: Attr,
    node: InodeRef,
}

/// Names and values of extended attributes, in the order of names.
pub(super) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// A tree of an image.
pub(super) struct Tree<'f> {
    fs: &'f Filesystem,
    /// What stands before a path in messages.
    root: Vec<u8>,
    is_old: bool,
    /// What is left to visit, the next one last.
    left: Vec<Found>,
    directories: HashSet<u64>,
}

struct Found {
    path: Vec<u8>,
    place: Place,
}

enum Place {
    Root(InodeRef),
    In(InodeRef),
}

impl<'f> Tree<'f> {
    /// The tree below a path; a last symbolic link is followed. `is_old`: of the older of two images.
    pub fn new(fs: &'f Filesystem, root: &[u8], is_old: bool) -> Result<Tree<'f>, ExportError> {
        let resolved = fs.session.resolve(root, WalkFlags::FOLLOW_LAST);
        let node = resolved.map_err(|source| ExportError::Image {
            of_old: is_old,
            path: root.to_owned(),
            source,
        })?;
        let root = root.strip_suffix(b"/").unwrap_or(root).to_owned();
        let (path, place) = (Vec::new(), Place::Root(node));
        Ok(Tree {
            fs,
            root,
            is_old,
            left: vec![Found { path, place }],
            directories: HashSet::new(),
        })
    }

    /// The path in the image.
    pub fn full(&self, path: &[u8]) -> Vec<u8> {
        match path {
            [] if self.root.is_empty() => b"/".to_vec(),
            [] => self.root.clone(),
            _ => [&self.root[..], path].join(&b'/'),
        }
    }

    fn failed(&self, path: &[u8]) -> impl Fn(Error) -> ExportError + use<> {
        let (of_old, path) = (self.is_old, self.full(path));
        move |source| ExportError::Image {
            of_old,
            path: path.clone(),
            source,
        }
    }

    /// The next file: the root first, each directory before the files in it, names in the order of their bytes. An empty `lost+found` of
    /// the image's root is left out: every image has one.
    pub fn next(&mut self) -> Result<Option<Visited>, ExportError> {
        while let Some(Found { path, place }) = self.left.pop() {
            let failed = self.failed(&path);
            let node = match place {
                Place::Root(node) => node,
                Place::In(dir) => self.lookup(&dir, &path).map_err(&failed)?,
            };
            let attr = self.fs.vfs().getattr(&node).map_err(&failed)?;
            if attr.kind == FileKind::Directory {
                if !self.directories.insert(attr.ino) {
                    let what = format!("directory {} has two names", attr.ino);
                    return Err(failed(Error::new(Errno::EUCLEAN).context(what)));
                }
                let found = self.descend(&path, &node).map_err(failed)?;
                if !found && path == b"lost+found" && self.root.is_empty() {
                    continue;
                }
            }
            return Ok(Some(Visited { path, attr, node }));
        }
        Ok(None)
    }

    fn lookup(&self, dir: &InodeRef, path: &[u8]) -> uext4_vfs::Result<InodeRef> {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        self.fs.vfs().lookup(self.fs.caller(), dir, name)
    }

    /// Notes the files of a directory; whether there are any.
    fn descend(&mut self, path: &[u8], dir: &InodeRef) -> uext4_vfs::Result<bool> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        self.fs
            .vfs()
            .readdir(self.fs.caller(), dir, 0, &mut |entry| {
                if entry.name != b"." && entry.name != b".." {
                    names.push(entry.name.to_vec());
                }
                true
            })?;
        names.sort_unstable();
        let found = !names.is_empty();
        for name in names.into_iter().rev() {
            if name.is_empty() || name.iter().any(|b| matches!(b, b'/' | 0)) {
                let what = format!("inode {}: directory entry has an illegal name", dir.ino);
                return Err(Error::new(Errno::EUCLEAN).context(what));
            }
            let path = match path {
                [] => name,
                _ => [path, &name].join(&b'/'),
            };
            let place = Place::In(dir.clone());
            self.left.push(Found { path, place });
        }
        Ok(found)
    }

    /// What a symbolic link leads to.
    pub fn target(&self, file: &Visited) -> Result<Vec<u8>, ExportError> {
        let target = self.fs.vfs().readlink(self.fs.caller(), &file.node);
        target.map_err(self.failed(&file.path))
    }

    /// The extended attributes, sorted by name.
    pub fn xattrs(&self, file: &Visited) -> Result<Xattrs, ExportError> {
        let (vfs, caller) = (self.fs.vfs(), self.fs.caller());
        let read = || {
            let mut names = vfs.listxattr(caller, &file.node)?;
            names.sort_unstable();
            let value = |name: Vec<u8>| {
                let value = vfs.getxattr(caller, &file.node, &name)?;
                Ok((name, value))
            };
            names
                .into_iter()
                .map(value)
                .collect::<uext4_vfs::Result<_>>()
        };
        read().map_err(self.failed(&file.path))
    }

    /// Where the data of a regular file is on the image's device, where it is there as it is read.
    pub fn extents(&self, file: &Visited) -> Result<Vec<FiemapExtent>, ExportError> {
        let mount = &self.fs.session.mount;
        let found = mount.files.extents_in_place(&file.node);
        mount.volume.report(found).map_err(self.failed(&file.path))
    }

    /// Where on the host bytes of the image's device are.
    pub fn origin(&self, at: u64, len: u64) -> Origin {
        self.fs.session.mount.volume.device().origin(at, len)
    }

    /// The project.
    pub fn project(&self, file: &Visited) -> u32 {
        self.fs.session.mount.files.project(&file.node)
    }

    /// The descriptor of fs-verity, if the file has it.
    pub fn verity_descriptor(&self, file: &Visited) -> Result<Option<Vec<u8>>, ExportError> {
        let mount = &self.fs.session.mount;
        let read = mount.files.verity_descriptor(&file.node);
        let read = mount.volume.report(read);
        read.map_err(self.failed(&file.path))
    }

    /// Reads data; the end of the file ends it early.
    pub fn read(&self, file: &Visited, at: u64, data: &mut [u8]) -> Result<usize, ExportError> {
        let mut done = 0;
        while done < data.len() {
            let read = self
                .fs
                .vfs()
                .read(&file.node, at + done as u64, &mut data[done..]);
            match read.map_err(self.failed(&file.path))? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    /// The parts of a file that have data, as offset and length: the rest reads as zeros.
    pub fn segments(&self, file: &Visited) -> Result<Vec<(u64, u64)>, ExportError> {
        let (vfs, failed) = (self.fs.vfs(), self.failed(&file.path));
        let (mut segments, mut at) = (Vec::new(), 0);
        while at < file.attr.size {
            let begin = match vfs.seek_data(&file.node, at) {
                Ok(begin) => begin,
                Err(e) if e == Errno::ENXIO => break,
                Err(e) => return Err(failed(e)),
            };
            let end = vfs.seek_hole(&file.node, begin).map_err(&failed)?;
            let end = end.min(file.attr.size);
            segments.push((begin, end.saturating_sub(begin)));
            at = end.max(begin + 1);
        }
        Ok(segments)
    }
}
