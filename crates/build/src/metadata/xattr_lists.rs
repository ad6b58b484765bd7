//! Changing extended attributes of a tree, in which files share lists.

use std::collections::HashMap;

use uext4_ondisk::{XattrIndex, XattrList, XattrOwnedValue};

use crate::tree::{NodeId, Tree};

/// Lists that were added to a tree.
#[derive(Default)]
pub(crate) struct XattrLists(HashMap<XattrList, u32>);

impl XattrLists {
    /// The attributes of a node.
    pub fn of(tree: &Tree, id: NodeId) -> Option<&XattrList> {
        tree.node(id).xattrs.map(|i| &tree.xattrs[i as usize])
    }

    /// Gives a node another list.
    pub fn replace(&mut self, tree: &mut Tree, id: NodeId, list: XattrList) {
        let next = tree.xattrs.len() as u32;
        let i = *self.0.entry(list).or_insert_with_key(|list| {
            tree.xattrs.push(list.clone());
            next
        });
        tree.nodes[id.at()].xattrs = Some(i);
    }

    /// Sets one attribute of a node.
    pub fn set(
        &mut self,
        tree: &mut Tree,
        id: NodeId,
        index: XattrIndex,
        name: &[u8],
        value: Vec<u8>,
    ) {
        let mut list = XattrLists::of(tree, id).cloned().unwrap_or_default();
        list.set(index, name, XattrOwnedValue::Inline(value));
        self.replace(tree, id, list);
    }
}
