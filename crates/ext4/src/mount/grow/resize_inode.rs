//! What a growth changes of the resize inode: reserved blocks become blocks of descriptors, and groups with backups have reserved blocks, too.

use crate::fs::Ext4;
use crate::inode::InodePlace;
use crate::prelude::*;
use uext4_ondisk::{RESIZE_DOUBLE_AT, ResizeMap};

/// Blocks with their new content, and how many sectors the inode counts.
#[derive(Debug)]
pub(super) struct ResizeChange {
    blocks: Vec<(Arc<Buffer>, Vec<u8>)>,
    place: InodePlace,
    sectors: u64,
}

impl ResizeChange {
    /// What changes for the file system `sb`.
    ///
    /// # Errors
    /// Damage: the inode has no doubly indirect block. The device's.
    pub fn of(fs: &Ext4, sb: &Superblock) -> Result<ResizeChange> {
        let volume = &*fs.volume;
        let place = fs.table.inode_place(Ino::RESIZE, false)?;
        let end = place.offset + usize::from(volume.params.inode_size);
        let disk = match place.buffer.read().data().get(place.offset..end) {
            Some(raw) => {
                if let Some(seed) = volume.seed() {
                    uext4_ondisk::inode_checksum_verify(raw, seed, Ino::RESIZE)?;
                }
                uext4_ondisk::Inode::decode(raw, &volume.params)?
            }
            None => return Err(CorruptKind::InodeShort.into()),
        };
        let pointer = disk.i_block[RESIZE_DOUBLE_AT..].first_chunk().copied();
        let double = Pblk(u32::from_le_bytes(pointer.unwrap_or_default()).into());
        if !volume.geometry().contains_blocks(double, 1) || volume.fixed().overlaps(double, 1) {
            let why = Corrupt::new(CorruptKind::MapPointer);
            return Err(why.ino(Ino::RESIZE).pblk(double).into());
        }
        let map = ResizeMap::of(&sb.geometry);
        let mut blocks = Vec::new();
        for (at, content) in map.reserved().chain([(double, map.double())]) {
            let buffer = volume.cache().get(at.0)?;
            let differs = buffer.read().data() != content;
            if differs {
                blocks.push((buffer, content));
            }
        }
        Ok(ResizeChange {
            blocks,
            place,
            sectors: map.sectors(),
        })
    }

    /// How many blocks change, that of the inode included.
    pub fn credits(&self) -> u32 {
        self.blocks.len() as u32 + 1
    }

    pub fn apply(&self, handle: &Handle<'_>, params: &InodeParams) -> Result<()> {
        for (buffer, bytes) in &self.blocks {
            handle.modify(buffer)?.data_mut().copy_from_slice(bytes);
        }
        let mut content = handle.modify(&self.place.buffer)?;
        let raw = self.place.raw_mut(&mut content, params);
        let mut disk = uext4_ondisk::Inode::decode(raw, params)?;
        disk.blocks = self.sectors;
        disk.encode_into(raw, params);
        self.place.buffer.mark_dirty(self.place.slot);
        Ok(())
    }
}
