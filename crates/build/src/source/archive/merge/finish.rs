//! The tree that results when all layers are applied.

use std::collections::HashMap;
use std::path::PathBuf;

use uext4_ondisk::XattrList;

use super::{Merge, What, joined};
use crate::error::{MkfsError, Result};
use crate::metadata::Excluded;
use crate::source::data::Origin;
use crate::source::{Data, Scan};
use crate::tree::{Bytes, Kind, Node, NodeId, Tree};

impl Merge {
    /// The tree without what is left out, in the order that a directory of the host is read in: level by level, by name.
    pub fn finish(mut self, root: PathBuf, excluded: &Excluded) -> Result<Scan> {
        let mut tree = Tree::at(root);
        tree.warnings = std::mem::take(&mut self.warnings);
        tree.layers = std::mem::take(&mut self.archives);
        let mut ids: HashMap<usize, NodeId> = HashMap::new();
        let mut level = vec![(0, self.place(&mut tree, 0, NodeId::ROOT, Bytes::default()))];
        while !level.is_empty() {
            let mut next = Vec::new();
            for (dir, id) in level {
                let What::Directory(names) =
                    std::mem::replace(&mut self.nodes[dir].what, What::Other)
                else {
                    continue;
                };
                let first = tree.entries.len() as u32;
                let path = match excluded.is_empty() {
                    true => Vec::new(),
                    false => tree.relative_path(id),
                };
                for (name, found) in names {
                    if excluded.has(&joined(&path, &name)) {
                        continue;
                    }
                    let name = tree.push_bytes(&name);
                    let is_dir = matches!(self.nodes[found.node].what, What::Directory(_));
                    let node = match ids.get(&found.node) {
                        Some(node) => {
                            tree.nodes[node.at()].links += 1;
                            tree.hard_links += 1;
                            *node
                        }
                        None => {
                            let node = self.place(&mut tree, found.node, id, name);
                            ids.insert(found.node, node);
                            node
                        }
                    };
                    if is_dir {
                        tree.nodes[id.at()].links += 1;
                        next.push((found.node, node));
                    }
                    tree.entries.push(crate::tree::Entry { name, node });
                }
                let last = u32::try_from(tree.entries.len());
                let last = last.map_err(|_| {
                    MkfsError::unfit(tree.root.clone(), "more than 4294967295 names")
                })?;
                tree.nodes[id.at()].kind = Kind::Directory(first..last);
            }
            level = next;
        }
        Ok(Scan {
            tree,
            data: Data::Merged(self.merged),
            manifest: None,
        })
    }

    /// Makes a node of the tree.
    fn place(&mut self, tree: &mut Tree, at: usize, parent: NodeId, name: Bytes) -> NodeId {
        let id = NodeId(tree.nodes.len() as u32);
        let merging = &mut self.nodes[at];
        let mut from = Origin::Empty;
        let (kind, links) = match &merging.what {
            What::Directory(_) => (Kind::Directory(0..0), 0),
            What::Regular { origin, segments } => {
                from = *origin;
                let range = segments.as_ref().map(|segments| {
                    let first = tree.segments.len() as u32;
                    tree.segments.extend(segments);
                    let mut bytes = 0;
                    for segment in segments {
                        self.merged.before.push(bytes);
                        bytes += segment.end - segment.start;
                    }
                    first..tree.segments.len() as u32
                });
                (Kind::Regular(range), 1)
            }
            What::Symlink(target) => (Kind::Symlink(tree.push_bytes(target)), 1),
            What::Device(device) => (Kind::Device(*device), 1),
            What::Other => (Kind::Other, 1),
        };
        let xattrs = merging.xattrs.take().map(|list| {
            let next = self.shared.len() as u32;
            *self.shared.entry(list).or_insert_with_key(|list| {
                tree.xattrs.push(XattrList::clone(list));
                next
            })
        });
        tree.headers.push(merging.header);
        if let Some(verity) = merging.verity.take() {
            tree.fsverity.insert(id, verity);
        }
        if merging.made {
            tree.made.insert(id);
        }
        tree.nodes.push(Node {
            kind,
            attributes: merging.attributes,
            links,
            parent,
            name,
            xattrs,
        });
        self.merged.origins.push(from);
        id
    }
}
