//! A directory tree in memory: the content of an image.
//!
//! # Data model
//! A [`Node`] is an inode, an [`Entry`] a name in a directory. Nodes, entries and names are in flat
//! vectors, so that a tree of millions of files is a few allocations. A directory's entries are
//! sorted by name and lie together. Node 0 is the root. `.` and `..` are not entries.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use uext4_ondisk::{DevNo, FileType, InodeFlags, Timestamp, XattrList};

use crate::error::MkfsError;
use crate::host_names;
use crate::options::MkfsOptions;

/// Index of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct NodeId(pub u32);

impl NodeId {
    /// The root directory.
    pub const ROOT: NodeId = NodeId(0);

    /// As an index.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// A slice of [`Tree`]'s bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bytes {
    at: u64,
    len: u16,
}

/// What a node is besides its attributes.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A directory, with its range of entries.
    Directory(Range<u32>),
    /// A regular file, with its range of data segments; `None` means that all of it is data.
    Regular(Option<Range<u32>>),
    /// A symbolic link, with its target.
    Symlink(Bytes),
    /// A character or block device.
    Device(DevNo),
    /// A FIFO or socket.
    Other,
}

/// Attributes as the tree has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    /// Type and permission.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes, of a regular file or symbolic link.
    pub size: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation; `None` means that of the image.
    pub crtime: Option<Timestamp>,
    /// Those that chattr(1) sets.
    pub flags: InodeFlags,
    /// Project.
    pub project: u32,
}

/// An inode.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// What it is.
    pub kind: Kind,
    /// Its attributes.
    pub attributes: Attributes,
    /// Names in the tree; for a directory, directories in it.
    pub links: u32,
    /// The directory of its first name; the root's is the root.
    pub parent: NodeId,
    /// Its first name; empty for the root.
    pub name: Bytes,
    /// Index of its extended attributes.
    pub xattrs: Option<u32>,
}

impl Node {
    /// Kind of the file.
    pub fn file_type(&self) -> FileType {
        FileType::from_mode(self.attributes.mode)
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        matches!(self.kind, Kind::Directory(_))
    }
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The name.
    pub name: Bytes,
    /// What it names.
    pub node: NodeId,
}

/// A range of a file's bytes that is not a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// First byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

/// A directory tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// Where it was read from; empty for a tree that was made up.
    pub root: PathBuf,
    /// Nodes; the first is the root.
    pub nodes: Vec<Node>,
    /// Entries of all directories.
    pub entries: Vec<Entry>,
    /// Data segments of all sparse files.
    pub segments: Vec<Segment>,
    /// Extended attributes, none of them empty.
    pub xattrs: Vec<XattrList>,
    /// Names beyond the first of a node.
    pub hard_links: u64,
    /// What was left out.
    pub warnings: Vec<String>,
    /// Archives and layers that nodes come from.
    pub layers: Vec<String>,
    /// By node, where its header is; fewer than nodes where no archive was read.
    pub headers: Vec<Option<Header>>,
    /// Nodes that no source describes: their owners are those of the image.
    pub made: HashSet<NodeId>,
    /// Regular files that get fs-verity.
    pub fsverity: BTreeMap<NodeId, uext4_ondisk::FsVerity>,
    bytes: Vec<u8>,
}

/// Where an archive describes a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Index of the archive or layer.
    pub layer: u32,
    /// Bytes before the header.
    pub offset: u64,
}

impl Tree {
    /// A tree of nothing yet, read from `root`.
    pub fn at(root: PathBuf) -> Tree {
        Tree {
            root,
            ..Tree::default()
        }
    }

    /// A tree of an empty root directory.
    pub fn empty(time: i64) -> Tree {
        let mut tree = Tree::default();
        tree.nodes.push(directory(0o755, Timestamp::new(time, 0)));
        tree
    }

    /// Keeps a name or target.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Bytes {
        let at = self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        Bytes {
            at,
            len: bytes.len() as u16,
        }
    }

    /// A name or target.
    pub fn bytes(&self, b: Bytes) -> &[u8] {
        &self.bytes[b.at as usize..][..usize::from(b.len)]
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.at()]
    }

    /// Every node, with its index.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The entries of a directory; of anything else, none.
    pub fn entries_of(&self, id: NodeId) -> &[Entry] {
        match &self.node(id).kind {
            Kind::Directory(r) => &self.entries[r.start as usize..r.end as usize],
            _ => &[],
        }
    }

    /// The data segments of a regular file.
    pub fn segments_of(&self, id: NodeId) -> Segments<'_> {
        let node = self.node(id);
        match &node.kind {
            Kind::Regular(Some(r)) => {
                Segments::Some(&self.segments[r.start as usize..r.end as usize])
            }
            Kind::Regular(None) => Segments::All(node.attributes.size),
            _ => Segments::Some(&[]),
        }
    }

    /// The path of a node's first name, below the root, without a slash in front.
    pub fn relative_path(&self, id: NodeId) -> Vec<u8> {
        let mut parts = Vec::new();
        let mut at = id;
        while at != NodeId::ROOT {
            parts.push(self.bytes(self.node(at).name));
            at = self.node(at).parent;
        }
        parts.reverse();
        parts.join(&b'/')
    }

    /// The path of a node's first name, for messages.
    pub fn path(&self, id: NodeId) -> PathBuf {
        if id == NodeId::ROOT {
            return self.root.clone();
        }
        self.root.join(&*host_names::path(&self.relative_path(id)))
    }

    /// Gives all nodes, and then the root, the owners that options name.
    pub fn set_owners(&mut self, options: &MkfsOptions) {
        if let Some(owner) = options.owner {
            for node in &mut self.nodes {
                (node.attributes.uid, node.attributes.gid) = owner;
            }
        }
        if let Some(owner) = options.root_owner {
            let root = &mut self.nodes[NodeId::ROOT.at()].attributes;
            (root.uid, root.gid) = owner;
        }
    }

    /// An error about a node, which names layer, entry and offset if it is one of an archive.
    pub fn failed(&self, op: &'static str, id: NodeId, e: impl Into<io::Error>) -> MkfsError {
        match self.headers.get(id.at()).copied().flatten() {
            Some(header) => {
                let layer = &self.layers[header.layer as usize];
                let entry = self.relative_path(id);
                MkfsError::archive(layer, Some(&entry), header.offset, e.into())
            }
            None => MkfsError::tree(op, self.path(id), e),
        }
    }

    /// As [`Tree::failed`], where the format has no place for the node.
    pub fn unfit(&self, id: NodeId, what: impl Into<String>) -> MkfsError {
        match self.headers.get(id.at()).copied().flatten() {
            Some(_) => self.failed("", id, io::Error::other(what.into())),
            None => MkfsError::unfit(self.path(id), what),
        }
    }

    /// The `lost+found` of the root, made if there is none.
    ///
    /// # Errors
    /// What has the name instead.
    pub fn lost_and_found(&mut self, time: i64) -> Result<NodeId, NodeId> {
        const NAME: &[u8] = b"lost+found";
        let entries = self.entries_of(NodeId::ROOT).to_vec();
        match entries.binary_search_by(|e| self.bytes(e.name).cmp(NAME)) {
            Ok(i) if self.node(entries[i].node).is_dir() => Ok(entries[i].node),
            Ok(i) => Err(entries[i].node),
            Err(i) => {
                let (id, name) = (NodeId(self.nodes.len() as u32), self.push_bytes(NAME));
                let mut node = directory(0o700, Timestamp::new(time, 0));
                node.name = name;
                self.nodes.push(node);
                self.made.insert(id);
                let start = self.entries.len() as u32;
                self.entries.extend_from_slice(&entries);
                self.entries
                    .insert(start as usize + i, Entry { name, node: id });
                let root = &mut self.nodes[0];
                root.kind = Kind::Directory(start..self.entries.len() as u32);
                root.links += 1;
                Ok(id)
            }
        }
    }
}

/// A directory without a name, of root.
pub(crate) fn directory(permission: u16, time: Timestamp) -> Node {
    Node {
        kind: Kind::Directory(0..0),
        attributes: Attributes {
            mode: FileType::Directory.to_mode() | permission,
            uid: 0,
            gid: 0,
            size: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: None,
            flags: InodeFlags::empty(),
            project: 0,
        },
        links: 0,
        parent: NodeId::ROOT,
        name: Bytes::default(),
        xattrs: None,
    }
}

/// Iterator over data segments.
#[derive(Clone, Debug)]
pub(crate) enum Segments<'a> {
    /// The whole file of so many bytes, or what is left: nothing.
    All(u64),
    /// These.
    Some(&'a [Segment]),
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        match self {
            Segments::All(0) => None,
            Segments::All(size) => {
                let all = Segment {
                    start: 0,
                    end: *size,
                };
                *size = 0;
                Some(all)
            }
            Segments::Some(rest) => {
                let (first, others) = rest.split_first()?;
                *rest = others;
                Some(*first)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_found_is_made_once() {
        let mut tree = Tree::empty(1);
        let id = tree.lost_and_found(1).unwrap();
        assert_eq!(tree.lost_and_found(1), Ok(id));
        assert_eq!(tree.relative_path(id), b"lost+found");
        assert_eq!(tree.entries_of(NodeId::ROOT).len(), 1);
        assert_eq!(tree.node(NodeId::ROOT).links, 1);
    }
}
