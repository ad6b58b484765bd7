//! A directory of the host by what `std` has. Extended attributes and holes are not read; on Windows, owners are root, permission is
//! to read and to write, or only to read, and names are as [`crate::windows_names`] has them.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use uext4_ondisk::{DevNo, FileType, InodeFlags, Timestamp};

use super::data::Data;
use super::positioned::read_up_to;
use super::scan::{Left, Scan};
use crate::error::{MkfsError, Result};
use crate::host_names;
use crate::progress::{Progress, go_on};
use crate::tree::{Attributes, Bytes, Entry, Kind, Node, NodeId, Tree};

/// The root of a tree.
#[derive(Debug)]
pub(crate) struct Root;

/// Reads files one after the other.
pub(crate) struct HostFiles<'a> {
    _root: &'a Root,
    /// The file that was opened last.
    file: Option<(NodeId, File)>,
}

impl<'a> HostFiles<'a> {
    pub fn new(root: &'a Root) -> HostFiles<'a> {
        HostFiles {
            _root: root,
            file: None,
        }
    }

    /// Reads from the byte `from` of a file until `bytes` are full or the file ends; the number of bytes that it
    /// has.
    pub fn read(&mut self, tree: &Tree, id: NodeId, from: u64, bytes: &mut [u8]) -> Result<usize> {
        let file = self.open(tree, id)?;
        read_up_to(file, bytes, from).map_err(|e| MkfsError::tree("read", tree.path(id), e))
    }

    /// Whether the file has changed since the tree was read; closes it.
    pub fn has_changed(&mut self, tree: &Tree, id: NodeId) -> Result<bool> {
        let metadata = self.open(tree, id)?.metadata();
        let metadata = metadata.map_err(|e| MkfsError::tree("stat", tree.path(id), e))?;
        self.file = None;
        let planned = tree.node(id).attributes;
        Ok(metadata.len() != planned.size || time(metadata.modified()) != planned.mtime)
    }

    fn open(&mut self, tree: &Tree, id: NodeId) -> Result<&File> {
        let file = match self.file.take() {
            Some((open, file)) if open == id => file,
            _ => {
                File::open(tree.path(id)).map_err(|e| MkfsError::tree("open", tree.path(id), e))?
            }
        };
        Ok(&self.file.insert((id, file)).1)
    }
}

impl Scan {
    /// As [`Scan::read`], without what is left out.
    pub(crate) fn read_some(
        root: &Path,
        _threads: usize,
        progress: &dyn Progress,
        left: Left<'_>,
    ) -> Result<Scan> {
        progress.phase("scan", 0);
        let metadata = fs::metadata(root);
        let metadata = metadata.map_err(|e| MkfsError::tree("open", root.to_owned(), e))?;
        let mut tree = Tree::at(root.to_owned());
        tree.nodes.push(Node {
            kind: Kind::Directory(0..0),
            attributes: attributes(&metadata),
            links: 0,
            parent: NodeId::ROOT,
            name: Bytes::default(),
            xattrs: None,
        });
        let mut builder = Builder {
            tree,
            shared: HashMap::new(),
        };
        let mut level = vec![NodeId::ROOT];
        while !level.is_empty() {
            let mut next = Vec::new();
            for dir in level {
                let found = builder.add_directory(dir, left, &mut next)?;
                go_on(progress, found)?;
            }
            level = next;
        }
        Ok(Scan {
            tree: builder.tree,
            data: Data::Host(Root),
            manifest: None,
        })
    }
}

/// Puts the tree together.
struct Builder {
    tree: Tree,
    /// Files with several names, by device and inode number.
    shared: HashMap<(u64, u64), NodeId>,
}

impl Builder {
    /// Adds what is in a directory; directories in it go to `next`. Returns how many there are.
    fn add_directory(
        &mut self,
        dir: NodeId,
        left: Left<'_>,
        next: &mut Vec<NodeId>,
    ) -> Result<u64> {
        let path = self.tree.path(dir);
        let below = self.tree.relative_path(dir);
        let fail = |e| MkfsError::tree("list", path.clone(), e);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(fail)? {
            let name = host_names::bytes(&entry.map_err(fail)?.file_name()).into_owned();
            if !left.out(&below, &name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        let first = self.tree.entries.len() as u32;
        for name in &names {
            let full = path.join(&*host_names::path(name));
            self.add_file(dir, name, full, next)?;
        }
        let last = u32::try_from(self.tree.entries.len());
        let last = last.map_err(|_| MkfsError::unfit(path, "more than 4294967295 names"))?;
        self.tree.nodes[dir.at()].kind = Kind::Directory(first..last);
        Ok(names.len() as u64)
    }

    fn add_file(
        &mut self,
        dir: NodeId,
        name: &[u8],
        full: PathBuf,
        next: &mut Vec<NodeId>,
    ) -> Result<()> {
        let metadata = match fs::symlink_metadata(&full) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let warning = format!("{}: gone before it was read", full.display());
                self.tree.warnings.push(warning);
                return Ok(());
            }
            Err(e) => return Err(MkfsError::tree("stat", full, e)),
        };
        let name = self.tree.push_bytes(name);
        let shared = shared_by(&metadata);
        if let Some(node) = shared.and_then(|key| self.shared.get(&key).copied()) {
            self.tree.nodes[node.at()].links += 1;
            self.tree.hard_links += 1;
            self.tree.entries.push(Entry { name, node });
            return Ok(());
        }
        let node = NodeId(self.tree.nodes.len() as u32);
        let mut attributes = attributes(&metadata);
        let (kind, links) = match FileType::from_mode(attributes.mode) {
            FileType::Directory => (Kind::Directory(0..0), 0),
            FileType::Symlink => {
                let target = fs::read_link(&full);
                let target = target.map_err(|e| MkfsError::tree("read link", full, e))?;
                let target = host_names::bytes(&target);
                attributes.size = target.len() as u64;
                (Kind::Symlink(self.tree.push_bytes(&target)), 1)
            }
            FileType::Regular => (Kind::Regular(None), 1),
            FileType::CharDevice | FileType::BlockDevice => (Kind::Device(device(&metadata)), 1),
            _ => (Kind::Other, 1),
        };
        let is_dir = matches!(kind, Kind::Directory(_));
        self.tree.nodes.push(Node {
            kind,
            attributes,
            links,
            parent: dir,
            name,
            xattrs: None,
        });
        self.tree.entries.push(Entry { name, node });
        if let Some(key) = shared {
            self.shared.insert(key, node);
        }
        if is_dir {
            self.tree.nodes[dir.at()].links += 1;
            next.push(node);
        }
        Ok(())
    }
}

fn time(time: io::Result<SystemTime>) -> Timestamp {
    let since = time.unwrap_or(UNIX_EPOCH).duration_since(UNIX_EPOCH);
    match since {
        Ok(after) => Timestamp::new(after.as_secs().cast_signed(), after.subsec_nanos()),
        // Nanoseconds count forward.
        Err(e) => {
            let (sec, nsec) = (
                e.duration().as_secs().cast_signed(),
                e.duration().subsec_nanos(),
            );
            match nsec {
                0 => Timestamp::new(-sec, 0),
                _ => Timestamp::new(-sec - 1, 1_000_000_000 - nsec),
            }
        }
    }
}

fn attributes(metadata: &Metadata) -> Attributes {
    let (mode, uid, gid) = permission(metadata);
    let size = match FileType::from_mode(mode) {
        FileType::Regular => metadata.len(),
        _ => 0,
    };
    let mtime = time(metadata.modified());
    Attributes {
        mode,
        uid,
        gid,
        size,
        atime: time(metadata.accessed()),
        mtime,
        ctime: changed(metadata).unwrap_or(mtime),
        crtime: None,
        flags: InodeFlags::empty(),
        project: 0,
    }
}

/// Type and permission, user and group.
#[cfg(unix)]
fn permission(metadata: &Metadata) -> (u16, u32, u32) {
    use std::os::unix::fs::MetadataExt;
    (metadata.mode() as u16, metadata.uid(), metadata.gid())
}

/// Type and permission, user and group.
#[cfg(not(unix))]
fn permission(metadata: &Metadata) -> (u16, u32, u32) {
    let kind = match (metadata.is_dir(), metadata.is_symlink()) {
        (true, _) => return (FileType::Directory.to_mode() | 0o755, 0, 0),
        (_, true) => return (FileType::Symlink.to_mode() | 0o777, 0, 0),
        _ => FileType::Regular.to_mode(),
    };
    let permission = match metadata.permissions().readonly() {
        true => 0o444,
        false => 0o644,
    };
    (kind | permission, 0, 0)
}

/// When the inode was changed, if the host knows.
#[cfg(unix)]
fn changed(metadata: &Metadata) -> Option<Timestamp> {
    use std::os::unix::fs::MetadataExt;
    Some(Timestamp::new(
        metadata.ctime(),
        metadata.ctime_nsec() as u32,
    ))
}

/// When the inode was changed, if the host knows.
#[cfg(not(unix))]
fn changed(_: &Metadata) -> Option<Timestamp> {
    None
}

/// What identifies a file that has other names.
#[cfg(unix)]
fn shared_by(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let is_shared = !metadata.is_dir() && metadata.nlink() > 1;
    is_shared.then(|| (metadata.dev(), metadata.ino()))
}

/// What identifies a file that has other names: `std` does not say, so that each is a file of its own.
#[cfg(not(unix))]
fn shared_by(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// The numbers of a device, as macOS divides them.
#[cfg(unix)]
fn device(metadata: &Metadata) -> DevNo {
    use std::os::unix::fs::MetadataExt;
    let number = metadata.rdev() as u32;
    DevNo {
        major: number >> 24,
        minor: number & 0xff_ffff,
    }
}

/// The numbers of a device; there are none.
#[cfg(not(unix))]
fn device(_: &Metadata) -> DevNo {
    DevNo { major: 0, minor: 0 }
}
