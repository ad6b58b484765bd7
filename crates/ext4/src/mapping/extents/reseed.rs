//! Nodes that become another inode's, or another generation's: their checksums get another seed.

use crate::inode::Inode;
use crate::kinds;
use crate::mapping::Mapping;
use crate::mapping::extents::Loader;
use crate::prelude::*;
use uext4_ondisk::ExtentCheck;

impl Mapping {
    /// The nodes of the inode's tree below the root, parents before children.
    ///
    /// # Locks
    /// Takes the inode's `map` lock, shared; may read from the device.
    ///
    /// # Errors
    /// [`Ext4Error::TooLarge`] for more than `max` nodes, damage, or the device's.
    pub(crate) fn tree_nodes(&self, inode: &Inode, max: usize) -> Result<Vec<Arc<Buffer>>> {
        let _map = inode.map.read();
        let (root, flags) = {
            let state = inode.state();
            (state.i_block, state.flags)
        };
        let mut nodes = Vec::new();
        if flags.contains(InodeFlags::EXTENTS) {
            let loader = self.loader(inode);
            let check = ExtentCheck::root(loader.bounds);
            let node = ExtentNode::validate(&root, &check).map_err(|e| e.ino(inode.ino))?;
            collect(&loader, node, &check, max, &mut nodes)?;
        }
        Ok(nodes)
    }

    /// Makes the checksums of nodes those of the owner with `seed`.
    ///
    /// # Locks
    /// The caller holds the `map` lock alone of the inode that has the nodes, and of the one that
    /// gets them.
    ///
    /// # Journal
    /// A credit for each.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) fn reseed_nodes(
        &self,
        handle: &Handle<'_>,
        nodes: &[Arc<Buffer>],
        seed: InodeSeed,
    ) -> Result<()> {
        for node in nodes {
            // Access first: what an earlier transaction has of it gets its checksum there, with the
            // old seed.
            let _content = handle.modify(node)?;
            node.set_kind(kinds::EXTENT_NODE, seed.0);
        }
        Ok(())
    }
}

fn collect(
    loader: &Loader<'_>,
    node: ExtentNode<'_>,
    check: &ExtentCheck,
    max: usize,
    nodes: &mut Vec<Arc<Buffer>>,
) -> Result<()> {
    if node.depth() == 0 {
        return Ok(());
    }
    for (i, idx) in node.indexes().enumerate() {
        let Some(child_check) = node.child_check(i, check) else {
            break;
        };
        if nodes.len() >= max {
            return Err(Ext4Error::TooLarge);
        }
        let buffer = loader.load(idx.child, &child_check)?;
        nodes.push(Arc::clone(&buffer));
        let content = buffer.read();
        let child = ExtentNode::new(content.data());
        collect(loader, child, &child_check, max, nodes)?;
    }
    Ok(())
}
