//! The image of one round of a repair: what the check saw, with the changes of the round over it.

use crate::context::Context;
use crate::edits::Edits;
use crate::prelude::*;
use std::cell::{Ref, RefCell};
use std::collections::HashSet;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};
use uext4_ondisk::{GroupCsum, Inode, SUPERBLOCK_SIZE, inode_checksum_set};

/// Reads through the changes, and collects them.
pub(crate) struct Editor<'c, 'd> {
    pub(crate) cx: &'c Context<'d>,
    patch: Edits,
    /// Clusters that were claimed more than once, as far as that is known.
    shared: HashSet<u64>,
    /// The cluster at which the search for a free one starts.
    free_from: u64,
    /// Runs of clusters that were taken: the first, and how many.
    taken: Vec<(u64, u64)>,
    /// The block of an inode table that was read last, with the changes so far.
    table: RefCell<(Pblk, Vec<u8>)>,
}

/// Seconds since 1970 by the clock of the host.
pub(crate) fn now() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| u32::try_from(d.as_secs()).unwrap_or(u32::MAX))
}

impl<'c, 'd> Editor<'c, 'd> {
    /// Nothing changed yet.
    pub(crate) fn new(cx: &'c Context<'d>) -> Self {
        Editor {
            cx,
            patch: Edits::default(),
            shared: HashSet::new(),
            free_from: 0,
            taken: Vec::new(),
            table: RefCell::default(),
        }
    }

    /// No block is known to be free.
    pub(crate) fn forbid_allocation(&mut self) {
        self.free_from = u64::MAX;
    }

    /// Notes which clusters were claimed more than once.
    pub(crate) fn set_shared(&mut self, clusters: &[u64]) {
        self.shared = clusters.iter().copied().collect();
    }

    /// True if a block was claimed more than once.
    pub(crate) fn is_shared(&self, at: Pblk) -> bool {
        self.shared.contains(&self.cx.cluster(at))
    }

    /// Makes bytes zeros that nothing used before.
    pub(crate) fn zero(&mut self, offset: u64, bytes: u64) {
        self.patch.zero(offset, bytes);
    }

    /// The changes so far.
    pub(crate) fn patch(&self) -> &Edits {
        &self.patch
    }

    /// The changes.
    pub(crate) fn into_patch(self) -> Edits {
        self.patch
    }

    /// Makes the blocks that were taken free again, for another attempt: of several, one is carried out.
    pub(crate) fn give_back(&self) {
        for (first, count) in &self.taken {
            self.cx.claimed.release(*first, *count);
        }
    }

    /// True if the image would differ by now.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn has_changes(&mut self) -> Result<bool> {
        let device = self.cx.view.device();
        self.patch.drop_unchanged(device, &Edits::default())?;
        Ok(!self.patch.is_empty())
    }

    /// Reads a block.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn block(&self, at: Pblk) -> Result<Vec<u8>> {
        let mut block = vec![0; self.cx.block_size()];
        self.cx.view.read(at, &mut block)?;
        self.patch.apply(at.0 << self.cx.geo.block_bits, &mut block);
        Ok(block)
    }

    /// Changes a block.
    pub(crate) fn put_block(&mut self, at: Pblk, block: &[u8]) {
        self.patch.write(at.0 << self.cx.geo.block_bits, block);
        let (last, bytes) = self.table.get_mut();
        if *last == at && !bytes.is_empty() {
            bytes.clear();
            bytes.extend_from_slice(block);
        }
    }

    /// A block of an inode table: inodes that follow each other are in the same one.
    fn table_block(&self, at: Pblk) -> Result<Ref<'_, Vec<u8>>> {
        if self.table.borrow().0 != at || self.table.borrow().1.is_empty() {
            let block = self.block(at)?;
            *self.table.borrow_mut() = (at, block);
        }
        Ok(Ref::map(self.table.borrow(), |table| &table.1))
    }

    /// Where an inode is: its block, and the byte in it.
    fn place(&self, ino: Ino) -> Option<(Pblk, usize)> {
        let (group, index) = self.cx.geo.group_of_ino(ino).ok()?;
        let (block, at) = self.cx.geo.itable_position(index);
        let table = self.cx.desc(group)?.inode_table;
        Some((Pblk(table.0.saturating_add(u64::from(block))), at))
    }

    /// The bytes of an inode; `None` if its group's descriptor is unusable.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn inode(&self, ino: Ino) -> Result<Option<Vec<u8>>> {
        let Some((block, at)) = self.place(ino) else {
            return Ok(None);
        };
        let block = self.table_block(block)?;
        let end = at.saturating_add(usize::from(self.cx.geo.inode_size));
        Ok(block.get(at..end).map(<[u8]>::to_vec))
    }

    /// An inode, decoded; without its extra fields if those do not fit.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn decoded(&self, ino: Ino) -> Result<Option<Inode>> {
        Ok(self.inode(ino)?.map(|raw| self.decode(&raw)))
    }

    /// Bytes of an inode, decoded; without its extra fields if those do not fit.
    pub(crate) fn decode(&self, raw: &[u8]) -> Inode {
        let params = &self.cx.params;
        Inode::decode(raw, params).unwrap_or_else(|_| {
            let short = raw.get(..GOOD_OLD_INODE_SIZE).unwrap_or(raw);
            Inode::decode(short, params).unwrap_or_default()
        })
    }

    /// Changes an inode, with its checksum.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn put_inode(&mut self, ino: Ino, raw: &[u8]) -> Result<()> {
        let Some((block_at, at)) = self.place(ino) else {
            return Ok(());
        };
        let mut block = self.table_block(block_at)?.clone();
        let end = at.saturating_add(raw.len());
        if let Some(to) = block.get_mut(at..end) {
            to.copy_from_slice(raw);
            if let Some(seed) = self.cx.seed {
                inode_checksum_set(to, seed, ino);
            }
            self.put_block(block_at, &block);
        }
        Ok(())
    }

    /// Changes an inode's known fields.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn put_decoded(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        if let Some(mut raw) = self.inode(ino)? {
            inode.encode_into(&mut raw, &self.cx.params);
            self.put_inode(ino, &raw)?;
        }
        Ok(())
    }

    /// Changes the bytes of a group descriptor, with its checksum.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn put_desc(&mut self, group: GroupNo, desc: &GroupDesc) -> Result<()> {
        let (at, from) = self.cx.geo.group_desc_location(group);
        let mut block = self.block(at)?;
        let end = from.saturating_add(usize::from(self.cx.geo.desc_size));
        if let Some(bytes) = block.get_mut(from..end) {
            desc.encode_into(bytes);
            GroupCsum::of(&self.cx.sb).set_desc_checksum(group, bytes);
            self.put_block(at, &block);
        }
        Ok(())
    }

    /// The block that holds the primary superblock, and the byte in it.
    pub(crate) fn super_place(&self) -> (Pblk, usize) {
        match self.cx.geo.block_size {
            1024 => (Pblk(1), 0),
            _ => (Pblk(0), 1024),
        }
    }

    /// Changes fields of the primary superblock, with its checksum.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn change_super(
        &mut self,
        change: impl FnOnce(&mut uext4_ondisk::RawSuperblock),
    ) -> Result<()> {
        let (at, from) = self.super_place();
        let mut block = self.block(at)?;
        let bytes = block.get_mut(from..from.saturating_add(SUPERBLOCK_SIZE));
        if let Some(raw) = bytes.and_then(uext4_ondisk::RawSuperblock::mut_from) {
            change(raw);
            raw.update_checksum();
            self.put_block(at, &block);
        }
        Ok(())
    }

    /// A group's descriptor, as changed.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn desc(&self, group: GroupNo) -> Result<Option<GroupDesc>> {
        let (at, from) = self.cx.geo.group_desc_location(group);
        let block = self.block(at)?;
        let bytes = block.get(from..from.saturating_add(usize::from(self.cx.geo.desc_size)));
        Ok(bytes.and_then(|bytes| GroupDesc::decode(bytes).ok()))
    }

    /// Takes the first run of so many blocks in a range of clusters that are in use by nothing; a cluster is a block.
    pub(crate) fn allocate_run(&mut self, blocks: u32, clusters: Range<u64>) -> Option<Pblk> {
        let (mut start, mut have) = (clusters.start, 0);
        let geo = &self.cx.geo;
        let all = geo.blocks_count - u64::from(geo.first_data_block);
        let end = clusters.end.min(all);
        while have < u64::from(blocks) && start + have < end {
            match self.cx.claimed.is_set(start + have) {
                true => (start, have) = (start + have + 1, 0),
                false => have += 1,
            }
        }
        if have < u64::from(blocks) || !self.may_allocate() {
            return None;
        }
        self.cx.claimed.claim(start, have, |_| {});
        self.taken.push((start, have));
        let at = self.cx.cluster_block(start);
        let bytes = have << self.cx.geo.block_bits;
        self.patch.mark_fresh(at.0 << self.cx.geo.block_bits, bytes);
        Some(at)
    }

    /// Whether it is known which blocks are free.
    pub(crate) fn may_allocate(&self) -> bool {
        self.free_from != u64::MAX && self.cx.usable.iter().all(|usable| *usable)
    }

    /// Takes the first block of a cluster that is in use by nothing; `None` if all are in use, or some groups
    /// could not be read, so that what is in use is not known.
    pub(crate) fn allocate(&mut self) -> Option<Pblk> {
        if !self.may_allocate() {
            return None;
        }
        let cluster = self.cx.claimed.claim_clear(self.free_from)?;
        let at = self.cx.cluster_block(cluster);
        self.free_from = cluster.saturating_add(1);
        self.taken.push((cluster, 1));
        let end = at.0.saturating_add(u64::from(self.cx.geo.cluster_ratio));
        if end > self.cx.geo.blocks_count {
            return None;
        }
        let bytes = u64::from(self.cx.geo.cluster_ratio) << self.cx.geo.block_bits;
        self.patch.mark_fresh(at.0 << self.cx.geo.block_bits, bytes);
        Some(at)
    }
}
