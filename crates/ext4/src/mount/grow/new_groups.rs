//! What a growth writes behind the old end, in place, before anything names it.

use crate::fs::Ext4;
use crate::group::Group;
use crate::kinds;
use crate::mount::grow::plan::Plan;
use crate::prelude::*;
use crate::volume::freeze_hook::DescForm;
use std::io::IoSlice;
use uext4_jbd2::buffer::BufferError;
use uext4_ondisk::NewGroup;

impl Ext4 {
    /// Writes the new groups, and flushes the device.
    pub(super) fn write_new_part(&self, plan: &mut Plan) -> Result<()> {
        for no in plan.old.groups_count..plan.sb.geometry.groups_count {
            let group = self.write_group(plan, GroupNo(no))?;
            plan.groups.push(Arc::new(group));
        }
        self.write_new_descs(plan)?;
        self.write_new_backups(plan)?;
        Ok(self.volume.journal().flush_device()?)
    }

    /// Bitmaps and inode table of a new group.
    fn write_group(&self, plan: &Plan, no: GroupNo) -> Result<Group> {
        let (device, geometry) = (self.volume.device(), &plan.sb.geometry);
        let made = NewGroup::of(&plan.sb, no);
        let bitmaps = [&made.block_bitmap, &made.inode_bitmap].map(|bytes| IoSlice::new(bytes));
        device.write_vectored_at(geometry.block_offset(made.desc.block_bitmap), &bitmaps)?;
        let table = u64::from(geometry.itable_blocks_per_group) << geometry.block_bits;
        device.zero(geometry.block_offset(made.desc.inode_table), table)?;
        let buffer = plan.descs.get(&(no.0 / geometry.desc_per_block));
        let buffer = buffer.ok_or(CorruptKind::BlockRange)?;
        Ok(Group::new(no, made.desc, Arc::clone(buffer)))
    }

    /// Blocks of descriptors that lie in the new groups.
    fn write_new_descs(&self, plan: &Plan) -> Result<()> {
        let (volume, geometry) = (&self.volume, &plan.sb.geometry);
        let blocks = plan.descs.iter();
        for (nr, buffer) in blocks.filter(|(nr, _)| plan.is_behind_end(**nr)) {
            let bytes = self.descs_with_new_groups(plan, *nr)?;
            let at = geometry.block_offset(Pblk(buffer.block()));
            volume.device().write_at(at, &bytes)?;
            let mut content = buffer.write();
            content.data_mut().copy_from_slice(&bytes);
            buffer.set_uptodate(&mut content);
            buffer.set_verified(&mut content);
            let first = nr * geometry.desc_per_block;
            if !buffer.take_role(&mut content, kinds::DESCRIPTORS, first) {
                let block = buffer.block();
                return Err(BufferError::TwoRoles { block }.into());
            }
        }
        Ok(())
    }

    /// A block of descriptors: those of old groups as they were written last, those of new ones.
    pub(super) fn descs_with_new_groups(&self, plan: &Plan, nr: u32) -> Result<Vec<u8>> {
        let geometry = &plan.sb.geometry;
        let mut bytes = match nr < plan.old.desc_blocks {
            true => {
                let buffer = self.volume.cache().get(geometry.desc_block(nr).0)?;
                buffer.read().data().to_vec()
            }
            false => vec![0; geometry.block_size as usize],
        };
        let first = nr.saturating_mul(geometry.desc_per_block);
        let old_here = plan.old.groups_count.saturating_sub(first);
        let new = plan.groups.iter().skip((first + old_here) as usize);
        let at = old_here as usize * usize::from(geometry.desc_size);
        if let Some(rest) = bytes.get_mut(at..) {
            DescForm::of(&plan.sb).encode(new, rest);
        }
        Ok(bytes)
    }
}
