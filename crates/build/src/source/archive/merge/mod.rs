//! Layers on top of each other, in memory.
//!
//! # Data model
//! Nodes as a file system has them, and directories of names in order. Each name knows the last layer that had it or
//! something below it, so that what hides lower layers leaves names of its own layer alone.
//!
//! Names are looked up as a process with this root would: symbolic links on the way to a name are followed inside the tree,
//! and no `..` in them leads out of it.
//!
//! | module | holds |
//! | --- | --- |
//! | [`finish`] | the tree that results |
//! | [`make`] | files of a manifest |
//! | [`provided`] | trees that a program provides |
//!
//! Source: the image specification of the OCI, "Image Layer Filesystem Changeset".

mod finish;
mod make;
mod provided;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use uext4_ondisk::{DevNo, Timestamp, XattrList};

use crate::error::{MkfsError, Result, shown_name as shown};
use crate::progress::Progress;
use crate::source::archive::layer::{Content, Entry, Layer, NAME_MAX};
use crate::source::data::{Data, Merged, Origin};
use crate::source::scan::Scan;
use crate::tree::{Attributes, Header, Kind, NodeId, Segment, directory};

/// The set-group-id bit.
const SET_GID: u16 = 0o2000;
/// Symbolic links on the way to a name.
const LINKS_MAX: u32 = 40;
/// Directories that no entry describes: so many, and two for each entry. A path of 4 KiB may need 2000.
const IMPLICIT_MAX: u64 = 100_000;
/// Front of names that hide.
const WHITEOUT: &[u8] = b".wh.";
/// The name that hides all of lower layers in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What a node is.
enum What {
    Directory(BTreeMap<Box<[u8]>, Name>),
    Regular {
        origin: Origin,
        segments: Option<Vec<Segment>>,
    },
    Symlink(Box<[u8]>),
    Device(DevNo),
    Other,
}

/// A name in a directory.
#[derive(Clone, Copy)]
struct Name {
    node: usize,
    /// The last layer that had it or something below it.
    layer: u32,
}

struct Merging {
    what: What,
    attributes: Attributes,
    xattrs: Option<Arc<XattrList>>,
    /// The entry of an archive that describes it.
    header: Option<Header>,
    verity: Option<uext4_ondisk::FsVerity>,
    /// No source describes it.
    made: bool,
    /// The last layer of which only names are left below this directory.
    cleared: u32,
}

/// What describes a node.
struct Described {
    attributes: Attributes,
    xattrs: Option<Arc<XattrList>>,
    header: Option<Header>,
}

/// A tree that layers are applied to.
pub(crate) struct Merge {
    nodes: Vec<Merging>,
    /// Number of the layer that is applied.
    layer: u32,
    merged: Merged,
    /// Names of the archives that were applied.
    archives: Vec<String>,
    /// Entries that were applied, and directories that none of them describes.
    entries: u64,
    implicit: u64,
    /// Attributes of the tree, by what they are.
    shared: HashMap<Arc<XattrList>, u32>,
    warnings: Vec<String>,
    /// Of directories that no layer describes.
    time: Timestamp,
}

/// A directory that was reached: it and those above it.
type Above = Vec<usize>;

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}

impl Merging {
    fn describe(&mut self, described: Described) {
        self.attributes = described.attributes;
        self.xattrs = described.xattrs;
        self.header = described.header;
        self.made = false;
    }
}

impl Merge {
    /// An empty tree; `time` is that of directories that no layer describes.
    pub fn new(time: i64) -> Merge {
        let time = Timestamp::new(time, 0);
        let mut merge = Merge {
            nodes: Vec::new(),
            layer: 0,
            merged: Merged::default(),
            archives: Vec::new(),
            entries: 0,
            implicit: 0,
            shared: HashMap::new(),
            warnings: Vec::new(),
            time,
        };
        merge.push_directory(None);
        merge
    }

    /// Applies an archive, below a path. With `hides`, names that start with `.wh.` hide those of the layers before.
    ///
    /// # Errors
    /// [`MkfsError::Archive`]; [`MkfsError::Cancelled`].
    pub fn apply(
        &mut self,
        layer: Layer,
        below: &[u8],
        hides: bool,
        progress: &dyn Progress,
    ) -> Result<()> {
        self.layer += 1;
        let store = layer.store.map(|file| self.merged.add_store(file));
        self.warnings.extend(layer.warnings);
        let archive = self.archives.len() as u32;
        self.archives.push(layer.name.clone());
        for entry in layer.entries {
            if progress.is_cancelled() {
                return Err(MkfsError::Cancelled);
            }
            let path = joined(below, &entry.path);
            let (offset, shown_path) = (entry.offset, entry.path.clone());
            let source = (archive, store);
            self.entries += 1;
            self.add(entry, below, &path, source, hides)
                .map_err(|e| MkfsError::archive(&layer.name, Some(&shown_path), offset, e))?;
        }
        Ok(())
    }

    /// Applies a tree that was read, below a path.
    ///
    /// # Errors
    /// [`MkfsError::Tree`]: a name on the way is not a directory.
    pub fn apply_scan(&mut self, scan: Scan, below: &[u8]) -> Result<()> {
        self.layer += 1;
        let Data::Host(root) = scan.data else {
            return Err(MkfsError::NoSize);
        };
        let tree = scan.tree;
        self.warnings.extend(tree.warnings.iter().cloned());
        let host = self.merged.hosts.len() as u32;
        let mut made: HashMap<NodeId, usize> = HashMap::new();
        let mut level = vec![(NodeId::ROOT, below.to_vec())];
        let mut paths = vec![(NodeId::ROOT, below.to_vec())];
        while let Some((dir, path)) = level.pop() {
            for entry in tree.entries_of(dir) {
                let path = joined(&path, tree.bytes(entry.name));
                paths.push((entry.node, path.clone()));
                if tree.node(entry.node).is_dir() {
                    level.push((entry.node, path));
                }
            }
        }
        for (id, path) in paths {
            let fail = |e| MkfsError::tree("put in place", tree.path(id), e);
            let node = tree.node(id);
            if let Some(first) = made.get(&id) {
                self.link(&path, *first).map_err(fail)?;
                continue;
            }
            let what = match &node.kind {
                Kind::Directory(_) => What::Directory(BTreeMap::new()),
                Kind::Regular(range) => What::Regular {
                    origin: Origin::Host { host, node: id },
                    segments: range.as_ref().map(|_| tree.segments_of(id).collect()),
                },
                Kind::Symlink(target) => What::Symlink(tree.bytes(*target).into()),
                Kind::Device(device) => What::Device(*device),
                Kind::Other => What::Other,
            };
            let xattrs = node.xattrs.map(|i| tree.xattrs[i as usize].clone());
            let described = Described {
                attributes: node.attributes,
                xattrs: xattrs.map(Arc::new),
                header: None,
            };
            if id == NodeId::ROOT {
                self.describe(&path, described).map_err(fail)?;
                continue;
            }
            let at = self.put(&path, what, described).map_err(fail)?;
            made.insert(id, at);
        }
        self.merged.hosts.push((tree, root));
        Ok(())
    }

    fn add(
        &mut self,
        entry: Entry,
        below: &[u8],
        path: &[u8],
        (archive, store): (u32, Option<u32>),
        hides: bool,
    ) -> io::Result<()> {
        let described = Described {
            attributes: entry.attributes,
            xattrs: entry.xattrs,
            header: Some(Header {
                layer: archive,
                offset: entry.offset,
            }),
        };
        if entry.path.is_empty() {
            return match entry.content {
                Content::Directory => self.describe(below, described),
                _ => Err(wrong("the root must be a directory")),
            };
        }
        let name = last_name(path);
        if hides && name.starts_with(WHITEOUT) {
            return self.hide(path);
        }
        let what = match entry.content {
            Content::Directory => What::Directory(BTreeMap::new()),
            Content::Regular { at, segments } => What::Regular {
                origin: match at.zip(store) {
                    Some((at, store)) => Origin::Store { store, at },
                    None => Origin::Empty,
                },
                segments,
            },
            Content::HardLink(target) => {
                let whole = joined(below, &target);
                if whole
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.starts_with(b"/"))
                {
                    return Err(wrong(
                        "hard link to a file below it, which it would replace",
                    ));
                }
                let first = self.link_target(&whole)?;
                return self.link(path, first);
            }
            Content::Symlink(target) => What::Symlink(target.into()),
            Content::Device(device) => What::Device(device),
            Content::Fifo => What::Other,
        };
        self.put(path, what, described)?;
        Ok(())
    }

    /// Gives the directory that a source is put into its attributes.
    fn describe(&mut self, below: &[u8], described: Described) -> io::Result<()> {
        let dir = self.walk(below, true)?;
        let dir = dir.ok_or_else(|| wrong("the directory is missing"))?;
        self.nodes[dir].describe(described);
        Ok(())
    }

    /// The file that a hard link names.
    fn link_target(&mut self, target: &[u8]) -> io::Result<usize> {
        let names = target.split(|byte| *byte == b'/');
        if names.clone().any(|name| name == b"..") {
            return Err(wrong("the target of a hard link leads upward by `..`"));
        }
        let names: Vec<&[u8]> = names.filter(|n| !matches!(*n, b"" | b".")).collect();
        let missing = || {
            wrong(format!(
                "hard link to {}, which is not there",
                shown(target)
            ))
        };
        let Some((name, above)) = names.split_last() else {
            return Err(wrong("hard link to the root directory"));
        };
        let dir = self.walk(&above.join(&b'/'), false)?.ok_or_else(missing)?;
        let found = self.names(dir).and_then(|names| names.get(*name));
        let node = found.ok_or_else(missing)?.node;
        match self.nodes[node].what {
            What::Directory(_) => Err(wrong(format!(
                "hard link to {}, a directory",
                shown(target)
            ))),
            _ => Ok(node),
        }
    }

    /// Gives a file another name.
    fn link(&mut self, path: &[u8], node: usize) -> io::Result<()> {
        let dir = self.parent(path)?;
        self.insert(dir, last_name(path), node)
    }

    /// Puts a node in place of what has its name; a directory keeps what is in it.
    fn put(&mut self, path: &[u8], what: What, described: Described) -> io::Result<usize> {
        let is_dir = matches!(what, What::Directory(_));
        let dir = self.parent(path)?;
        let name = last_name(path);
        let there = match name {
            b"" => Some(0),
            _ => self
                .names(dir)
                .and_then(|names| names.get(name))
                .map(|n| n.node),
        };
        if let Some(there) = there
            && is_dir
            && matches!(self.nodes[there].what, What::Directory(_))
        {
            self.nodes[there].describe(described);
            if there != 0 {
                self.insert(dir, name, there)?;
            }
            return Ok(there);
        }
        if name.is_empty() {
            return Err(wrong("the root must be a directory"));
        }
        self.nodes.push(Merging {
            what,
            attributes: described.attributes,
            xattrs: described.xattrs,
            header: described.header,
            verity: None,
            made: false,
            cleared: 0,
        });
        let node = self.nodes.len() - 1;
        self.insert(dir, name, node)?;
        Ok(node)
    }

    fn insert(&mut self, dir: usize, name: &[u8], node: usize) -> io::Result<()> {
        if name.len() > NAME_MAX {
            // Of the target of a symbolic link: those of an archive's own names were checked when it was read.
            return Err(wrong(format!(
                "a name has more than {NAME_MAX} bytes: {}",
                shown(name)
            )));
        }
        let layer = self.layer;
        match &mut self.nodes[dir].what {
            What::Directory(names) => {
                names.insert(name.into(), Name { node, layer });
                Ok(())
            }
            _ => Err(wrong("what is above the name is not a directory")),
        }
    }

    fn names(&self, dir: usize) -> Option<&BTreeMap<Box<[u8]>, Name>> {
        match &self.nodes[dir].what {
            What::Directory(names) => Some(names),
            _ => None,
        }
    }

    /// Removes what lower layers have at a name, or of a directory that is opaque in it.
    fn hide(&mut self, path: &[u8]) -> io::Result<()> {
        let above = &path[..path.len() - last_name(path).len()];
        let Some(dir) = self.walk(above, false)? else {
            return Ok(());
        };
        match last_name(path) {
            OPAQUE => self.remove_lower(dir),
            name => {
                let name = &name[WHITEOUT.len()..];
                let Some(found) = self.names(dir).and_then(|n| n.get(name)).copied() else {
                    return Ok(());
                };
                if found.layer == self.layer {
                    self.remove_lower(found.node);
                } else if let What::Directory(names) = &mut self.nodes[dir].what {
                    names.remove(name);
                }
            }
        }
        Ok(())
    }

    /// Removes names of lower layers below a directory: once for each layer, as this one adds no more of them there.
    fn remove_lower(&mut self, dir: usize) {
        let layer = self.layer;
        let mut dirs = vec![dir];
        while let Some(dir) = dirs.pop() {
            let node = &mut self.nodes[dir];
            if std::mem::replace(&mut node.cleared, layer) == layer {
                continue;
            }
            if let What::Directory(names) = &mut node.what {
                names.retain(|_, name| name.layer == layer);
                dirs.extend(names.values().map(|name| name.node));
            }
        }
    }

    /// The directory of a name, made if it is missing.
    fn parent(&mut self, path: &[u8]) -> io::Result<usize> {
        let above = &path[..path.len() - last_name(path).len()];
        let dir = self.walk(above, true)?;
        dir.ok_or_else(|| wrong("the directory is missing"))
    }

    /// Walks a path to a directory, which is made, and with it all names on the way are of this layer, or nothing.
    fn walk(&mut self, path: &[u8], make: bool) -> io::Result<Option<usize>> {
        let mut above: Above = vec![0];
        let mut left: Vec<Box<[u8]>> = reversed(path);
        let mut links = 0;
        while let Some(name) = left.pop() {
            let dir = above[above.len() - 1];
            if *name == *b".." {
                if above.len() > 1 {
                    above.pop();
                }
                continue;
            }
            let layer = self.layer;
            let names = match &mut self.nodes[dir].what {
                What::Directory(names) => names,
                _ => return Err(wrong("what is above the name is not a directory")),
            };
            let node = match names.get_mut(&name) {
                Some(found) => {
                    if make {
                        found.layer = layer;
                    }
                    found.node
                }
                None if !make => return Ok(None),
                None => {
                    let node = self.add_implicit(dir)?;
                    self.insert(dir, &name, node)?;
                    node
                }
            };
            match &self.nodes[node].what {
                What::Directory(_) => above.push(node),
                What::Symlink(target) => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(wrong(format!(
                            "too many symbolic links, at {}",
                            shown(&name)
                        )));
                    }
                    if target.starts_with(b"/") {
                        above.truncate(1);
                    }
                    left.extend(reversed(target));
                }
                _ if !make => return Ok(None),
                _ => return Err(wrong(format!("{} is not a directory", shown(&name)))),
            }
        }
        Ok(above.last().copied())
    }

    /// A directory that no layer describes.
    ///
    /// # Errors
    /// There are too many.
    fn add_implicit(&mut self, above: usize) -> io::Result<usize> {
        self.implicit += 1;
        if self.implicit > IMPLICIT_MAX + 2 * self.entries {
            let what = "paths lead through more directories without an entry than are allowed";
            return Err(wrong(format!("{what}: {}", self.implicit - 1)));
        }
        Ok(self.push_directory(Some(above)))
    }

    /// A directory as mkdir(2) by root makes it: it takes the group of one with the set-group-id bit, and the bit.
    fn push_directory(&mut self, above: Option<usize>) -> usize {
        let mut attributes = directory(0o755, self.time).attributes;
        if let Some(above) = above.map(|above| self.nodes[above].attributes)
            && above.mode & SET_GID != 0
        {
            attributes.mode |= SET_GID;
            attributes.gid = above.gid;
        }
        self.nodes.push(Merging {
            what: What::Directory(BTreeMap::new()),
            attributes,
            xattrs: None,
            header: None,
            verity: None,
            made: true,
            cleared: 0,
        });
        self.nodes.len() - 1
    }
}

fn joined(above: &[u8], path: &[u8]) -> Vec<u8> {
    match (above, path) {
        (b"", path) | (path, b"") => path.to_vec(),
        _ => [above, path].join(&b'/'),
    }
}

/// The name after the last slash.
fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// The names of a path, last to first.
fn reversed(path: &[u8]) -> Vec<Box<[u8]>> {
    let names = path.split(|byte| *byte == b'/');
    names
        .filter(|name| !matches!(*name, b"" | b"."))
        .rev()
        .map(Into::into)
        .collect()
}
