//! Where the data of a tree's files is.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::part::{Store, Stored};
use super::{HostFiles, Root};
use crate::error::{MkfsError, Result, shown_name};
use crate::tree::{Kind, NodeId, Segment, Tree};
use crate::tree_source::NamedTree;

/// Where the data of a node is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// It has none.
    Empty,
    /// In a store, all segments one after the other.
    Store { store: u32, at: u64 },
    /// In a file of a directory of the host, that of a node in its tree.
    Host { host: u32, node: NodeId },
    /// In a tree that the program provides, by its id there.
    Tree { source: u32, id: u64 },
}

/// What several sources were merged from.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// By node of the merged tree.
    pub origins: Vec<Origin>,
    /// By segment of the merged tree: bytes of its file's data before it.
    pub before: Vec<u64>,
    /// Files that hold the data of archives.
    stores: Vec<Store>,
    /// Directories of the host.
    pub hosts: Vec<(Tree, Root)>,
    /// Trees that the program provides.
    trees: Vec<NamedTree>,
}

impl Merged {
    /// Adds a store; its number.
    pub fn add_store(&mut self, store: Store) -> u32 {
        self.stores.push(store);
        self.stores.len() as u32 - 1
    }

    /// Adds a tree that the program provides; its number.
    pub fn add_tree(&mut self, tree: NamedTree) -> u32 {
        self.trees.push(tree);
        self.trees.len() as u32 - 1
    }
}

/// The data of a tree.
#[derive(Debug)]
pub(crate) enum Data {
    /// The files of one directory, with its tree.
    Host(Root),
    Merged(Merged),
}

/// Reads files one after the other.
pub(crate) struct Files<'a> {
    data: Option<&'a Data>,
    hosts: Vec<HostFiles<'a>>,
    /// The store that was read last.
    store: Option<(u32, Arc<File>)>,
}

impl<'a> Files<'a> {
    pub fn new(data: Option<&'a Data>) -> Files<'a> {
        let hosts = match data {
            None => Vec::new(),
            Some(Data::Host(root)) => vec![HostFiles::new(root)],
            Some(Data::Merged(merged)) => {
                let roots = merged.hosts.iter();
                roots.map(|(_, root)| HostFiles::new(root)).collect()
            }
        };
        Files {
            data,
            hosts,
            store: None,
        }
    }

    /// Reads from the byte `from` of a file until `bytes` are full or the file ends; the number of bytes that it
    /// has.
    pub fn read(&mut self, tree: &Tree, id: NodeId, from: u64, bytes: &mut [u8]) -> Result<usize> {
        let merged = match self.data {
            // Only a tree that was read has files with data.
            None => return Err(MkfsError::NoSize),
            Some(Data::Host(_)) => return self.hosts[0].read(tree, id, from, bytes),
            Some(Data::Merged(merged)) => merged,
        };
        match merged.origins.get(id.at()).copied() {
            None | Some(Origin::Empty) => Ok(0),
            Some(Origin::Host { host, node }) => {
                let tree = &merged.hosts[host as usize].0;
                self.hosts[host as usize].read(tree, node, from, bytes)
            }
            Some(Origin::Tree { source, id: file }) => {
                let named = &merged.trees[source as usize];
                named.tree().read(file, from, bytes).map_err(|e| {
                    let path = shown_name(&tree.relative_path(id));
                    named.failed(io::Error::other(format!("/{path}: {e}")))
                })
            }
            Some(Origin::Store { store, at }) => {
                let size = tree.node(id).attributes.size;
                let whole = [Segment {
                    start: 0,
                    end: size,
                }];
                let (segments, before) = match &tree.node(id).kind {
                    Kind::Regular(Some(range)) => {
                        let range = range.start as usize..range.end as usize;
                        (&tree.segments[range.clone()], &merged.before[range])
                    }
                    _ => (&whole[..], &[0][..]),
                };
                let fail = |e| tree.failed("read", id, e);
                let file = match self.store.take() {
                    Some((open, file)) if open == store => file,
                    _ => merged.stores[store as usize].file().map_err(fail)?,
                };
                let file = &self.store.insert((store, file)).1;
                let stored = Stored {
                    file,
                    at,
                    size,
                    segments,
                    before,
                };
                stored.read(from, bytes).map_err(fail)
            }
        }
    }

    /// Whether the file has changed since the tree was read; closes it.
    pub fn has_changed(&mut self, tree: &Tree, id: NodeId) -> Result<bool> {
        match self.data {
            Some(Data::Host(_)) => self.hosts[0].has_changed(tree, id),
            Some(Data::Merged(merged)) => match merged.origins.get(id.at()) {
                Some(Origin::Host { host, node }) => {
                    let tree = &merged.hosts[*host as usize].0;
                    self.hosts[*host as usize].has_changed(tree, *node)
                }
                _ => Ok(false),
            },
            None => Ok(false),
        }
    }
}
