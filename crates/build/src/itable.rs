//! Inodes of a tree as they are on disk.

use uext4_ondisk::{Ino, Inode, InodeFlags, InodeParams, Timestamp, inode_checksum_set};

use crate::layout::Layout;
use crate::mapping::Mapping;
use crate::measure;
use crate::place::{Places, generation};
use crate::plan::Plan;
use crate::tree::{Attributes, Kind, NodeId};

/// Encodes inodes into blocks of an inode table.
#[derive(Clone, Copy)]
pub(crate) struct InodeEncoder<'a> {
    plan: &'a Plan,
    params: InodeParams,
    csum: bool,
}

impl<'a> InodeEncoder<'a> {
    /// An encoder for the inodes of a plan.
    pub fn new(plan: &'a Plan) -> Self {
        InodeEncoder {
            plan,
            params: InodeParams::of(&plan.layout.sb),
            csum: plan.layout.features.has_metadata_csum(),
        }
    }

    fn layout(&self) -> &'a Layout {
        &self.plan.layout
    }

    /// Encodes an inode into its zeroed bytes; a free one gets only a checksum.
    pub fn encode(&self, ino: Ino, raw: &mut [u8]) {
        match self.plan.node_of(ino) {
            Some(id) => self.encode_node(id, ino, raw),
            None => {
                let system = &self.plan.system.inodes;
                if let Ok(i) = system.binary_search_by_key(&ino, |(n, _)| *n) {
                    system[i].1.encode_into(raw, &self.params);
                }
            }
        }
        if self.csum {
            inode_checksum_set(raw, self.layout().sb.csum_seed, ino);
        }
    }

    fn encode_node(&self, id: NodeId, ino: Ino, raw: &mut [u8]) {
        let (plan, places): (&Plan, &Places) = (self.plan, &self.plan.places);
        let (node, place) = (plan.tree.node(id), &places.places[id.at()]);
        let a = &node.attributes;
        let (atime, ctime, mtime) = self.times(a);
        let made = Timestamp::new(plan.id.time, 0);
        let mut inode = Inode {
            mode: a.mode,
            uid: a.uid,
            gid: a.gid,
            size: a.size,
            links: node.links,
            blocks: place.blocks * u64::from(self.params.block_size / 512),
            atime,
            ctime,
            mtime,
            crtime: a.crtime.filter(|_| !plan.reproducible).unwrap_or(made),
            generation: generation(&self.layout().sb.raw.uuid, ino),
            file_acl: place.xattr_block,
            extra_isize: self.layout().geo().want_extra_isize,
            flags: a.flags,
            projid: a.project,
            ..Inode::default()
        };
        match &node.kind {
            Kind::Directory(_) => {
                let dir = plan.needs.dirs.get(&id);
                let blocks = dir.map_or(1, |d| u64::from(d.blocks()));
                inode.size = blocks * u64::from(self.params.block_size);
                inode.links = measure::dir_links(node.links);
                self.map(&mut inode, id);
                if dir.is_some_and(|d| d.is_hashed()) {
                    inode.flags |= InodeFlags::INDEX;
                }
            }
            Kind::Regular(_) => {
                self.map(&mut inode, id);
                if plan.tree.fsverity.contains_key(&id) {
                    inode.flags |= InodeFlags::VERITY;
                }
            }
            Kind::Symlink(target) if measure::is_fast_symlink(a.size) => {
                let target = plan.tree.bytes(*target);
                inode.i_block[..target.len()].copy_from_slice(target);
            }
            Kind::Symlink(_) => self.map(&mut inode, id),
            Kind::Device(dev) => inode.set_dev_no(*dev),
            Kind::Other => {}
        }
        inode.encode_into(raw, &self.params);
        if let Some(i) = node.xattrs {
            // They were divided so that these fit.
            let _ = plan.needs.xattrs[i as usize].inode.encode_in_inode(raw);
        }
    }

    /// Access, change of the inode, change of the data.
    fn times(&self, a: &Attributes) -> (Timestamp, Timestamp, Timestamp) {
        if !self.plan.reproducible {
            return (a.atime, a.ctime, a.mtime);
        }
        let latest = Timestamp::new(self.plan.id.time, 0);
        let mtime = a.mtime.min(latest);
        // A ctime cannot be set, so two copies of a tree differ in it.
        (mtime, mtime, mtime)
    }

    /// Stores the root of what names the blocks.
    fn map(&self, inode: &mut Inode, id: NodeId) {
        let (places, block_size) = (&self.plan.places, self.params.block_size);
        let place = &places.places[id.at()];
        let mapping = Mapping::of(&self.layout().features);
        inode.flags |= mapping.flags();
        let root = match mapping.may_have_tree(place.extents) {
            true => places.roots.get(&id).copied(),
            false => None,
        };
        inode.i_block = root.unwrap_or_else(|| {
            let first = place.first_extent as usize;
            let list = &places.extents[first..first + place.extents as usize];
            mapping.build(list, block_size, None, &[]).root
        });
    }
}
