//! Reading a directory tree on Linux, with several threads, in an order that does not depend on them.
//!
//! Level by level: the directories of one depth are shared out to the threads, and what they found is
//! put together in order. A directory is opened once by its path; everything in it is reached from
//! there.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use uext4_ondisk::{DevNo, FileType, InodeFlags, Timestamp, XattrList};

use super::data::Data;
use super::files::Root;
use super::open::{open_at, open_dir};
use super::scan::{Left, Scan};
use super::xattrs;
use crate::error::{MkfsError, Result};
use crate::parallel;
use crate::progress::{Progress, go_on};
use crate::tree::{Attributes, Bytes, Entry, Kind, Node, NodeId, Segment, Tree};

impl Scan {
    /// As [`Scan::read`], without what is left out.
    pub(crate) fn read_some(
        root: &Path,
        threads: usize,
        progress: &dyn Progress,
        left: Left<'_>,
    ) -> Result<Scan> {
        let threads = crate::MkfsOptions {
            threads,
            ..crate::MkfsOptions::default()
        }
        .thread_count();
        progress.phase("scan", 0);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let fd = rustix::fs::open(root, flags, Mode::empty())
            .map_err(|e| MkfsError::tree("open", root.to_owned(), e))?;
        let mut builder = Builder::new(root, &fd)?;
        let mut level = vec![NodeId::ROOT];
        while !level.is_empty() {
            let tree = &builder.tree;
            let found = parallel::run(threads, level.len(), Reader::new, |reader, i| {
                let dir = tree.relative_path(level[i]);
                let found = reader.read_dir(root, fd.as_fd(), &dir, left)?;
                go_on(progress, found.files.len() as u64)?;
                Ok(found)
            })?;
            let mut next = Vec::new();
            for (dir, found) in level.iter().zip(found) {
                builder.add_directory(*dir, found, &mut next)?;
            }
            level = next;
        }
        Ok(Scan {
            tree: builder.tree,
            data: Data::Host(Root(fd)),
            manifest: None,
        })
    }
}

/// A file that a thread found.
#[derive(Debug)]
struct Found {
    /// Where its name is.
    name: (usize, usize),
    stat: Stat,
    /// Target of a symbolic link.
    target: Vec<u8>,
    /// Data segments, if there are holes.
    segments: Option<Vec<Segment>>,
    xattrs: Option<XattrList>,
}

/// What a thread found in a directory.
#[derive(Debug, Default)]
struct FoundDir {
    files: Vec<Found>,
    names: Vec<u8>,
    warnings: Vec<String>,
}

impl FoundDir {
    fn name(&self, f: &Found) -> &[u8] {
        &self.names[f.name.0..f.name.1]
    }
}

/// A thread's buffers.
struct Reader {
    listing: Vec<MaybeUninit<u8>>,
    path: Vec<u8>,
    xattrs: xattrs::Reader,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            listing: vec![MaybeUninit::uninit(); 32 << 10],
            path: Vec::new(),
            xattrs: xattrs::Reader::new(),
        }
    }

    /// Reads a directory and all there is to know of what is in it.
    fn read_dir(
        &mut self,
        root: &Path,
        root_fd: BorrowedFd<'_>,
        dir: &[u8],
        left: Left<'_>,
    ) -> Result<FoundDir> {
        let dir_path = || root.join(OsStr::from_bytes(dir));
        let fd = open_dir(root_fd, dir).map_err(|e| MkfsError::tree("open", dir_path(), e))?;
        let mut found = FoundDir::default();
        let mut listing = RawDir::new(&fd, &mut self.listing);
        while let Some(entry) = listing.next() {
            let entry = entry.map_err(|e| MkfsError::tree("list", dir_path(), e))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || left.out(dir, name.to_bytes()) {
                continue;
            }
            let full = || dir_path().join(OsStr::from_bytes(name.to_bytes()));
            let stat = match rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => {
                    let warning = format!("{}: gone before it was read", full().display());
                    found.warnings.push(warning);
                    continue;
                }
                Err(e) => return Err(MkfsError::tree("stat", full(), e)),
            };
            let start = found.names.len();
            found.names.extend_from_slice(name.to_bytes());
            found.files.push(Found {
                name: (start, found.names.len()),
                stat,
                target: Vec::new(),
                segments: None,
                xattrs: None,
            });
        }
        let mut files = std::mem::take(&mut found.files);
        let names = &found.names;
        files.sort_unstable_by(|a, b| names[a.name.0..a.name.1].cmp(&names[b.name.0..b.name.1]));
        for file in &mut files {
            let name = &found.names[file.name.0..file.name.1];
            let full = || dir_path().join(OsStr::from_bytes(name));
            read_content(&fd, name, file).map_err(|(op, e)| MkfsError::tree(op, full(), e))?;
            self.set_path(root, dir, &fd, name);
            file.xattrs = self.xattrs.read(&self.path, &full, &mut found.warnings)?;
        }
        found.files = files;
        Ok(found)
    }

    /// A path for calls that know no directory descriptors.
    fn set_path(&mut self, root: &Path, dir: &[u8], fd: &OwnedFd, name: &[u8]) {
        self.path.clear();
        if root.as_os_str().len() + dir.len() + name.len() + 3 < 4096 {
            self.path.extend_from_slice(root.as_os_str().as_bytes());
            self.path.push(b'/');
            self.path.extend_from_slice(dir);
        } else {
            let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
            self.path.extend_from_slice(link.as_bytes());
        }
        self.path.push(b'/');
        self.path.extend_from_slice(name);
    }
}

/// Reads the target of a symbolic link, or finds the holes of a file.
fn read_content(
    dir: &OwnedFd,
    name: &[u8],
    file: &mut Found,
) -> std::result::Result<(), (&'static str, Errno)> {
    let mode = file.stat.st_mode as u16;
    match FileType::from_mode(mode) {
        FileType::Symlink => {
            let target =
                rustix::fs::readlinkat(dir, name, Vec::new()).map_err(|e| ("read link", e))?;
            file.target = target.into_bytes();
        }
        FileType::Regular if (file.stat.st_blocks as u64) * 512 < file.stat.st_size as u64 => {
            let fd = open_at(dir, name, OFlags::NONBLOCK).map_err(|e| ("open", e))?;
            file.segments = find_segments(&fd, file.stat.st_size as u64);
        }
        _ => {}
    }
    Ok(())
}

/// The data of a file between its holes; `None` if the host cannot report it.
fn find_segments(fd: &OwnedFd, size: u64) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(fd, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(_) => return None,
        };
        let end = rustix::fs::seek(fd, SeekFrom::Hole(start)).ok()?.min(size);
        if start >= end {
            break;
        }
        segments.push(Segment { start, end });
        at = end;
    }
    Some(segments)
}

/// Puts the tree together, on one thread.
struct Builder {
    tree: Tree,
    /// Files with several names, by device and inode number.
    shared: HashMap<(u64, u64), NodeId>,
}

impl Builder {
    fn new(root: &Path, fd: &OwnedFd) -> Result<Builder> {
        let stat =
            rustix::fs::fstat(fd).map_err(|e| MkfsError::tree("stat", root.to_owned(), e))?;
        let mut tree = Tree::at(root.to_owned());
        let full = || root.to_owned();
        // With the slash, the attributes are those of the directory even by a symbolic link.
        let path = root.join("").into_os_string().into_encoded_bytes();
        let list = xattrs::Reader::new().read(&path, &full, &mut tree.warnings)?;
        let xattrs = list.map(|l| {
            tree.xattrs.push(l);
            0
        });
        tree.nodes.push(Node {
            kind: Kind::Directory(0..0),
            attributes: attributes(&stat),
            links: 0,
            parent: NodeId::ROOT,
            name: Bytes::default(),
            xattrs,
        });
        Ok(Builder {
            tree,
            shared: HashMap::new(),
        })
    }

    /// Adds what was found in a directory; directories in it go to `next`.
    fn add_directory(
        &mut self,
        dir: NodeId,
        mut found: FoundDir,
        next: &mut Vec<NodeId>,
    ) -> Result<()> {
        let first = self.tree.entries.len() as u32;
        self.tree.warnings.append(&mut found.warnings);
        let files = std::mem::take(&mut found.files);
        for file in files {
            let name = self.tree.push_bytes(found.name(&file));
            let key = (file.stat.st_dev, file.stat.st_ino);
            let is_dir = FileType::from_mode(file.stat.st_mode as u16) == FileType::Directory;
            let many = !is_dir && file.stat.st_nlink > 1;
            if many && let Some(node) = self.shared.get(&key) {
                self.tree.nodes[node.at()].links += 1;
                self.tree.hard_links += 1;
                self.tree.entries.push(Entry { name, node: *node });
                continue;
            }
            let node = self.add_node(dir, name, file);
            if many {
                self.shared.insert(key, node);
            }
            if is_dir {
                self.tree.nodes[dir.at()].links += 1;
                next.push(node);
            }
            self.tree.entries.push(Entry { name, node });
        }
        let last = u32::try_from(self.tree.entries.len());
        let last = last.map_err(|_| self.too_many())?;
        self.tree.nodes[dir.at()].kind = Kind::Directory(first..last);
        Ok(())
    }

    fn too_many(&self) -> MkfsError {
        MkfsError::unfit(self.tree.root.clone(), "more than 4294967295 names")
    }

    fn add_node(&mut self, dir: NodeId, name: Bytes, file: Found) -> NodeId {
        let tree = &mut self.tree;
        let id = NodeId(tree.nodes.len() as u32);
        let attributes = attributes(&file.stat);
        let (kind, links) = match FileType::from_mode(attributes.mode) {
            FileType::Directory => (Kind::Directory(0..0), 0),
            FileType::Symlink => (Kind::Symlink(tree.push_bytes(&file.target)), 1),
            FileType::Regular => {
                let range = file.segments.map(|s| {
                    let first = tree.segments.len() as u32;
                    tree.segments.extend(s);
                    first..tree.segments.len() as u32
                });
                (Kind::Regular(range), 1)
            }
            FileType::CharDevice | FileType::BlockDevice => (Kind::Device(device(&file.stat)), 1),
            _ => (Kind::Other, 1),
        };
        let xattrs = file.xattrs.map(|list| {
            tree.xattrs.push(list);
            tree.xattrs.len() as u32 - 1
        });
        let mut node = Node {
            kind,
            attributes,
            links,
            parent: dir,
            name,
            xattrs,
        };
        if let Kind::Symlink(_) = node.kind {
            // The length of what was read counts, not the size in stat(2): links in /proc have none.
            node.attributes.size = file.target.len() as u64;
        }
        tree.nodes.push(node);
        id
    }
}

fn device(stat: &Stat) -> DevNo {
    DevNo {
        major: rustix::fs::major(stat.st_rdev),
        minor: rustix::fs::minor(stat.st_rdev),
    }
}

fn attributes(stat: &Stat) -> Attributes {
    let mode = stat.st_mode as u16;
    let size = match FileType::from_mode(mode) {
        FileType::Regular => stat.st_size as u64,
        _ => 0,
    };
    Attributes {
        mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size,
        atime: Timestamp::new(stat.st_atime, stat.st_atime_nsec as u32),
        mtime: Timestamp::new(stat.st_mtime, stat.st_mtime_nsec as u32),
        ctime: Timestamp::new(stat.st_ctime, stat.st_ctime_nsec as u32),
        crtime: None,
        flags: InodeFlags::empty(),
        project: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::NoProgress;

    #[test]
    fn finds_links_holes_and_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name| dir.path().join(name);
        std::fs::write(path("b"), "text").unwrap();
        std::fs::hard_link(path("b"), path("a")).unwrap();
        std::os::unix::fs::symlink("b", path("c")).unwrap();
        std::fs::create_dir(path("d")).unwrap();
        let file = std::fs::File::create(path("e")).unwrap();
        std::os::unix::fs::FileExt::write_at(&file, b"end", 1 << 20).unwrap();
        let scan = |threads| Scan::read(dir.path(), threads, &NoProgress).unwrap().tree;
        // The first reading of a link changes its access time.
        scan(1);
        let tree = scan(2);
        let names: Vec<_> = tree.entries_of(NodeId::ROOT).iter().collect();
        let list: Vec<&[u8]> = names.iter().map(|e| tree.bytes(e.name)).collect();
        assert_eq!(list, [b"a", b"b", b"c", b"d", b"e"]);
        assert_eq!(names[0].node, names[1].node);
        assert_eq!((tree.hard_links, tree.node(names[0].node).links), (1, 2));
        let segments: Vec<_> = tree.segments_of(names[4].node).collect();
        assert!(segments[0].start > 0 && segments[0].end == (1 << 20) + 3);
        assert_eq!(format!("{tree:?}"), format!("{:?}", scan(1)));
    }

    #[test]
    fn an_error_names_the_path() {
        let error = Scan::read("/nonexistent/tree", 1, &NoProgress).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("can't open /nonexistent/tree: ")
        );
    }
}
