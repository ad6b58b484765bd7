//! Copies of the superblock and of blocks of descriptors, in the groups that have them.

use crate::fs::Ext4;
use crate::mount::grow::plan::Plan;
use crate::prelude::*;
use crate::superblock::with_superblock;
use uext4_ondisk::RawSuperblock;

impl Ext4 {
    /// Writes the backups in new groups.
    pub(super) fn write_new_backups(&self, plan: &Plan) -> Result<()> {
        let (old, new) = (&plan.old, &plan.sb.geometry);
        self.write_superblocks(plan, &plan.sb.raw, old.groups_count..new.groups_count)?;
        for nr in 0..new.desc_blocks {
            let mut places = new.desc_backups(nr);
            places.retain(|place| *place >= plan.first_new_block());
            if !places.is_empty() {
                self.write_copies(&places, &self.descs_with_new_groups(plan, nr)?)?;
            }
        }
        Ok(())
    }

    /// Writes what changed to the backups in old groups, once the growth is durable.
    pub(super) fn write_old_backups(&self, plan: &Plan) -> Result<()> {
        let now = self.superblock_now()?;
        self.write_superblocks(plan, &now, 1..plan.old.groups_count)?;
        for (nr, buffer) in &plan.descs {
            let mut places = plan.sb.geometry.desc_backups(*nr);
            places.retain(|place| *place < plan.first_new_block());
            let bytes = buffer.read().data().to_vec();
            self.write_copies(&places, &bytes)?;
        }
        Ok(())
    }

    fn write_superblocks(
        &self,
        plan: &Plan,
        raw: &RawSuperblock,
        groups: Range<u32>,
    ) -> Result<()> {
        let geometry = &plan.sb.geometry;
        let with_backup = groups.map(GroupNo).filter(|g| geometry.has_super(*g));
        for group in with_backup {
            let mut block = vec![0; geometry.block_size as usize];
            with_superblock(&mut block, 0, |copy| *copy = raw.backup_in(group));
            self.write_copies(&[geometry.group_first_block(group)], &block)?;
        }
        Ok(())
    }

    fn write_copies(&self, places: &[Pblk], block: &[u8]) -> Result<()> {
        for place in places {
            let at = self.volume.geometry().block_offset(*place);
            self.volume.device().write_at(at, block)?;
        }
        Ok(())
    }
}
