//! Groups as they are written: inode tables, bitmaps, descriptors.

use uext4_block::BlockDevice;
use uext4_ondisk::{GroupCsum, GroupDesc, GroupFlags, GroupNo, Pblk};

use crate::error::Result;
use crate::itable::InodeEncoder;
use crate::plan::Plan;
use crate::space::Run;

/// A thread's state.
pub(crate) struct GroupWriter<'a> {
    plan: &'a Plan,
    device: &'a dyn BlockDevice,
    encoder: InodeEncoder<'a>,
    table: Vec<u8>,
    bitmap: Vec<u8>,
}

/// What a group was written as.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The descriptor.
    pub desc: GroupDesc,
    /// What of its inode table must read as zeros, if anything.
    pub zeros: Option<Run>,
}

impl<'a> GroupWriter<'a> {
    /// A writer with empty buffers.
    pub fn new(plan: &'a Plan, device: &'a dyn BlockDevice) -> Self {
        GroupWriter {
            plan,
            device,
            encoder: InodeEncoder::new(plan),
            table: Vec::new(),
            bitmap: vec![0; plan.layout.geo().block_size as usize],
        }
    }

    fn write_block(&self, at: Pblk, bytes: &[u8]) -> Result<()> {
        let offset = self.plan.layout.geo().block_offset(at);
        Ok(self.device.write_at(offset, bytes)?)
    }

    /// Writes a group's used inodes and its bitmaps.
    ///
    /// # Errors
    /// [`crate::MkfsError::Device`].
    pub fn write(&mut self, g: GroupNo) -> Result<Written> {
        let (plan, geo) = (self.plan, self.plan.layout.geo());
        let place = plan.layout.groups[g.0 as usize];
        let used = plan.inodes_used(g);
        let lazy = plan.layout.features.has_group_csum();
        let mut desc = GroupDesc {
            block_bitmap: place.block_bitmap,
            inode_bitmap: place.inode_bitmap,
            inode_table: place.inode_table,
            free_inodes: geo.inodes_per_group - used,
            used_dirs: plan.directories_in(g),
            ..GroupDesc::default()
        };
        if lazy {
            desc.itable_unused = desc.free_inodes;
            desc.flags |= GroupFlags::ITABLE_ZEROED;
        }
        if lazy && used == 0 {
            desc.flags |= GroupFlags::INODE_UNINIT;
        } else {
            self.inode_bitmap(&mut desc, used)?;
        }
        self.block_bitmap(&mut desc, g, lazy)?;
        let written = u64::from(used.div_ceil(geo.inodes_per_block));
        self.inodes(g, used, written as usize)?;
        let len = u64::from(geo.itable_blocks_per_group) - written;
        Ok(Written {
            desc,
            zeros: (len > 0).then_some(Run {
                start: place.inode_table.0 + written,
                len,
            }),
        })
    }

    fn inodes(&mut self, g: GroupNo, used: u32, blocks: usize) -> Result<()> {
        let geo = self.plan.layout.geo();
        if used == 0 {
            return Ok(());
        }
        let mut table = std::mem::take(&mut self.table);
        table.clear();
        table.resize(blocks * geo.block_size as usize, 0);
        let slots = table.chunks_exact_mut(usize::from(geo.inode_size));
        for (i, raw) in slots.take(used as usize).enumerate() {
            self.encoder.encode(geo.ino_in_group(g, i as u32), raw);
        }
        let result = self.write_block(self.plan.layout.groups[g.0 as usize].inode_table, &table);
        self.table = table;
        result
    }

    fn inode_bitmap(&mut self, desc: &mut GroupDesc, used: u32) -> Result<()> {
        let geo = self.plan.layout.geo();
        self.bitmap.fill(0);
        set_bits(&mut self.bitmap, 0, u64::from(used));
        let bits = u64::from(geo.block_size) * 8;
        set_bits(&mut self.bitmap, u64::from(geo.inodes_per_group), bits);
        if self.plan.layout.features.has_metadata_csum() {
            desc.set_inode_bitmap_csum(self.plan.layout.sb.csum_seed, geo, &self.bitmap);
        }
        self.write_block(desc.inode_bitmap, &self.bitmap)
    }

    fn block_bitmap(&mut self, desc: &mut GroupDesc, g: GroupNo, lazy: bool) -> Result<()> {
        let (layout, geo) = (&self.plan.layout, self.plan.layout.geo());
        let cluster = u64::from(geo.cluster_ratio);
        let (first, count) = (
            geo.group_first_block(g).0,
            u64::from(geo.blocks_in_group(g)),
        );
        self.bitmap.fill(0xff);
        let mut free = 0;
        for run in self.plan.space.runs_within(first, first + count) {
            clear_bits(
                &mut self.bitmap,
                (run.start - first) / cluster,
                (run.start - first + run.len) / cluster,
            );
            free += run.len / cluster;
        }
        desc.free_blocks = free as u32;
        let mut own = [
            (Pblk(first), u64::from(geo.base_meta_blocks(g))),
            (desc.block_bitmap, 1),
            (desc.inode_bitmap, 1),
            (desc.inode_table, u64::from(geo.itable_blocks_per_group)),
        ];
        own.sort_unstable();
        // The clusters of the group that they are in, which some may share.
        let mut done = 0;
        let mut inside = |(at, len): &(Pblk, u64)| {
            let (from, to) = (at.0.max(first), (at.0 + len).min(first + count));
            let (from, to) = (from.saturating_sub(first), to.saturating_sub(first));
            let from = (from / cluster).max(done);
            done = done.max(to.div_ceil(cluster));
            done.saturating_sub(from)
        };
        let fixed: u64 = own
            .iter()
            .filter(|(_, len)| *len > 0)
            .map(&mut inside)
            .sum();
        let clusters = u64::from(geo.clusters_in_group(g));
        if lazy && free + fixed == clusters && g.0 + 1 < geo.groups_count {
            desc.flags |= GroupFlags::BLOCK_UNINIT;
            return Ok(());
        }
        if layout.features.has_metadata_csum() {
            desc.set_block_bitmap_csum(layout.sb.csum_seed, geo, &self.bitmap);
        }
        self.write_block(desc.block_bitmap, &self.bitmap)
    }
}

/// Encodes descriptors, in order, to whole blocks.
pub(crate) fn encode_descs(plan: &Plan, descs: &[GroupDesc]) -> Vec<u8> {
    let geo = plan.layout.geo();
    let csum = GroupCsum::of(&plan.layout.sb);
    let mut bytes = vec![0; geo.desc_blocks as usize * geo.block_size as usize];
    let slots = bytes.chunks_exact_mut(usize::from(geo.desc_size));
    for (g, (slot, desc)) in slots.zip(descs).enumerate() {
        desc.encode_into(slot);
        csum.set_desc_checksum(GroupNo(g as u32), slot);
    }
    bytes
}

fn set_bits(bitmap: &mut [u8], from: u64, to: u64) {
    change_bits(bitmap, from, to, |byte, mask| *byte |= mask);
}

fn clear_bits(bitmap: &mut [u8], from: u64, to: u64) {
    change_bits(bitmap, from, to, |byte, mask| *byte &= !mask);
}

/// Calls `change` with every byte that has one of the bits, and their mask.
fn change_bits(bitmap: &mut [u8], from: u64, to: u64, change: impl Fn(&mut u8, u8)) {
    let mut at = from;
    while at < to {
        let bit = at % 8;
        let n = (8 - bit).min(to - at);
        let mask = (0xffu16 >> (8 - n) << bit) as u8;
        if let Some(byte) = bitmap.get_mut((at / 8) as usize) {
            change(byte, mask);
        }
        at += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_across_bytes() {
        let mut bitmap = [0; 4];
        set_bits(&mut bitmap, 3, 21);
        assert_eq!(bitmap, [0xf8, 0xff, 0x1f, 0]);
        clear_bits(&mut bitmap, 4, 6);
        clear_bits(&mut bitmap, 8, 9);
        assert_eq!(bitmap, [0xc8, 0xfe, 0x1f, 0]);
    }
}
