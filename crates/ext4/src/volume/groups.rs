//! The block groups: loaded, found, and left alone when damaged.

use crate::group::Group;
use crate::kinds;
use crate::prelude::*;
use crate::volume::Volume;

pub(crate) fn load_groups(
    sb: &Superblock,
    cache: &BufferCache,
    csum: GroupCsum,
) -> Result<Box<[Arc<Group>]>> {
    let geometry = &sb.geometry;
    let mut groups = Vec::new();
    for no in (0..geometry.groups_count).map(GroupNo) {
        let (block, at) = geometry.group_desc_location(no);
        let buffer = cache.get(block.0)?;
        if at == 0 {
            kinds::take(&buffer, kinds::DESCRIPTORS, no.0)?;
        }
        let content = buffer.read();
        let raw = &content.data()[at..at + usize::from(geometry.desc_size)];
        csum.verify_desc(no, raw).map_err(|e| e.pblk(block))?;
        let desc = GroupDesc::decode(raw)?;
        desc.validate(geometry, no).map_err(|e| e.pblk(block))?;
        drop(content);
        groups.push(Arc::new(Group::new(no, desc, buffer)));
    }
    Ok(groups.into())
}

impl Volume {
    pub(crate) fn group(&self, no: GroupNo) -> Result<&Group> {
        let group = self.groups().get(no.0 as usize);
        group.map(|group| &**group).ok_or_else(|| {
            Corrupt::new(CorruptKind::BlockRange)
                .detail(format_args!("group {no}"))
                .into()
        })
    }

    /// Journal access to what every change of a group changes: its descriptor block.
    #[inline]
    pub(crate) fn access_group(&self, handle: &Handle<'_>, group: &Group) -> Result<()> {
        handle.access_native(&group.desc_buffer)?;
        Ok(())
    }

    /// A bitmap as it was loaded, to allocate from; `None` if it is damaged, and then nothing is allocated from the
    /// group any more, or if it could not be read.
    pub(crate) fn or_leave<B>(&self, group: &Group, loaded: Result<B>) -> Option<B> {
        match loaded {
            Ok(bits) => Some(bits),
            Err(Ext4Error::Corrupt(why)) => {
                self.leave_group(group, &why);
                None
            }
            Err(why) => {
                tracing::warn!("group {}: nothing is allocated there: {why}", group.no);
                None
            }
        }
    }

    /// Why nothing was found to allocate: `none`, unless a group in which there may be room cannot be read.
    #[cold]
    pub(crate) fn none_found<'g, B: 'g>(
        &'g self,
        none: Ext4Error,
        has_room: impl Fn(&Group) -> bool,
        load: impl Fn(&'g Group) -> Result<&'g B>,
    ) -> Ext4Error {
        let groups = self.groups().iter();
        let mut unread = groups
            .filter(|group| !group.damaged.load(Relaxed) && has_room(group))
            .filter_map(|group| load(group).err());
        unread.next().unwrap_or(none)
    }

    /// Leaves a group with a damaged bitmap alone from now on.
    pub(crate) fn leave_group(&self, group: &Group, why: &Corrupt) {
        if !group.damaged.swap(true, Relaxed) {
            tracing::error!("group {} is left alone: {why}", group.no);
            self.note_error(why);
        }
    }
}
