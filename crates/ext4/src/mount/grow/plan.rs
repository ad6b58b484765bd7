//! What a growth changes.

use crate::fs::Ext4;
use crate::group::Group;
use crate::kinds;
use crate::mount::grow::resize_inode::ResizeChange;
use crate::mount::grow::size::grown;
use crate::prelude::*;
use crate::superblock::{superblock_place, with_superblock};
use uext4_jbd2::buffer::BufferError;
use uext4_ondisk::RawSuperblock;

/// A growth, planned: everything that can fail is read.
#[derive(Debug)]
pub(super) struct Plan {
    /// The geometry before.
    pub old: Geometry,
    /// The superblock with the new size.
    pub sb: Superblock,
    /// The last group before.
    pub last: Arc<Group>,
    /// All groups, the new ones once their metadata is written.
    pub groups: Vec<Arc<Group>>,
    /// The blocks of descriptors of new groups, by their number.
    pub descs: BTreeMap<u32, Arc<Buffer>>,
    /// What changes of the resize inode, if there is one.
    pub resize: Option<ResizeChange>,
}

impl Ext4 {
    /// The superblock as it is now.
    pub(super) fn superblock_now(&self) -> Result<RawSuperblock> {
        let (_, at) = superblock_place(self.volume.geometry().block_size);
        let mut data = self.volume.super_buffer.read().data().to_vec();
        let mut now = None;
        with_superblock(&mut data, at, |raw| now = Some(raw.clone()));
        now.ok_or_else(|| CorruptKind::BlockRange.into())
    }
}

impl Plan {
    /// A plan to have `blocks` blocks, or as many of them as make groups; `None` if there are as many.
    pub fn of(fs: &Ext4, blocks: u64) -> Result<Option<Plan>> {
        let volume = &*fs.volume;
        let old = *volume.geometry();
        let Some(sb) = grown(&fs.superblock_now()?, &old, blocks)? else {
            return Ok(None);
        };
        let groups = volume.groups().to_vec();
        let Some(last) = groups.last().map(Arc::clone) else {
            return Ok(None);
        };
        // Its bitmap must be right, or what is behind the old end would be given out twice.
        fs.blocks.block_bits(&last)?;
        if last.damaged.load(Relaxed) {
            return Err(Ext4Error::DamageRecorded);
        }
        let resize = match sb.compat.contains(Compat::RESIZE_INODE) {
            true => Some(ResizeChange::of(fs, &sb)?),
            false => None,
        };
        let mut plan = Plan {
            old,
            sb,
            last,
            groups,
            descs: BTreeMap::new(),
            resize,
        };
        plan.find_descs(volume.cache())?;
        let (wanted, limit) = (plan.credits(), volume.journal().credits_max());
        if wanted > limit {
            return Err(JournalError::TooLarge { wanted, limit }.into());
        }
        Ok(Some(plan))
    }

    fn find_descs(&mut self, cache: &BufferCache) -> Result<()> {
        let (old, new) = (&self.old, &self.sb.geometry);
        if new.groups_count == old.groups_count {
            return Ok(());
        }
        for nr in old.groups_count / old.desc_per_block..new.desc_blocks {
            let block = new.desc_block(nr).0;
            let buffer = match nr < old.desc_blocks {
                true => cache.get(block)?,
                false => cache.get_unread(block),
            };
            self.descs.insert(nr, buffer);
        }
        Ok(())
    }

    /// The first block of the first new group.
    pub fn first_new_block(&self) -> Pblk {
        self.old.group_first_block(GroupNo(self.old.groups_count))
    }

    /// The new groups, once their metadata is written.
    pub fn new_groups(&self) -> &[Arc<Group>] {
        self.groups
            .get(self.old.groups_count as usize..)
            .unwrap_or(&[])
    }

    /// The blocks that the last group gets.
    pub fn added_to_last(&self) -> Range<u32> {
        let no = self.last.no;
        self.old.blocks_in_group(no)..self.sb.geometry.blocks_in_group(no)
    }

    /// How many more blocks are free.
    pub fn new_free(&self) -> u64 {
        let free = |group: &Arc<Group>| u64::from(group.free_blocks.load(Relaxed));
        self.added_to_last().len() as u64 + self.new_groups().iter().map(free).sum::<u64>()
    }

    /// Blocks of descriptors that nothing names before the superblock does: they lie in new groups.
    pub fn is_behind_end(&self, nr: u32) -> bool {
        self.sb.geometry.desc_block(nr) >= self.first_new_block()
    }

    /// Superblock, descriptors and bitmap of the last group, blocks of descriptors, resize inode.
    pub fn credits(&self) -> u32 {
        let resize = self.resize.as_ref().map_or(0, ResizeChange::credits);
        let descs = self.descs.keys().filter(|nr| !self.is_behind_end(**nr));
        3 + descs.count() as u32 + resize
    }

    /// Gets journal access to the blocks of descriptors that change. Those in the place of reserved blocks begin as zeros.
    pub fn access_descs(&self, handle: &Handle<'_>) -> Result<()> {
        for (nr, buffer) in &self.descs {
            if *nr < self.old.desc_blocks {
                handle.access_native(buffer)?;
            } else if !self.is_behind_end(*nr) {
                let mut content = handle.create(buffer)?;
                let first = nr * self.old.desc_per_block;
                if !buffer.take_role(&mut content, kinds::DESCRIPTORS, first) {
                    let block = buffer.block();
                    return Err(BufferError::TwoRoles { block }.into());
                }
            }
        }
        Ok(())
    }
}
