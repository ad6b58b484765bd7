//! Reads of files with fs-verity: each block of data is hashed, and the hash compared with that in the tree, up to the root.

use crate::file::verity::damaged;
use crate::file::{FileIo, ReadKind};
use crate::inode::Inode;
use crate::inode::checked_file::CheckedFile;
use crate::prelude::*;
use uext4_ondisk::{BlockHash, FsVerity};
use uext4_vfs::errno::Error;

/// Bytes that are read and checked at a time.
const CHUNK_BYTES: u64 = 256 << 10;

/// The blocks of the tree that one read has checked: the last of each level, the lowest first.
#[derive(Debug, Default)]
struct CheckedBlocks(Vec<Option<(u64, Vec<u8>)>>);

impl FileIo {
    /// Reads all of `data`, which ends at the size at the latest, and checks it.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock`.
    ///
    /// # Errors
    /// `EIO`: the data is not what was hashed, or the tree is not. `EUCLEAN`: the descriptor is missing or damaged.
    pub(in crate::file) fn read_checked(
        &self,
        inode: &Inode,
        offset: u64,
        data: &mut [u8],
    ) -> Result<()> {
        let file = inode.checked_file(|| self.checked_file(inode))?;
        let mut checked = CheckedBlocks::default();
        let mut buffer = Vec::new();
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let begin = at - at % file.block;
            let end = (at + rest.len() as u64).min(begin + CHUNK_BYTES.max(file.block));
            let (part, after) = rest.split_at_mut((end - at) as usize);
            let whole = end.next_multiple_of(file.block) - begin;
            buffer.clear();
            buffer.resize(whole as usize, 0);
            // What lies past the size was hashed as zeros.
            let known = whole.min(file.data_bytes.saturating_sub(begin)) as usize;
            self.read_mapped(inode, begin, &mut buffer[..known], ReadKind::default())?;
            let blocks = buffer.chunks_exact(file.block as usize);
            for (block, index) in blocks.zip(begin / file.block..) {
                let hash = file.hasher.hash(block);
                self.check(inode, file, &mut checked, (0, index), hash)?;
            }
            let within = (at - begin) as usize;
            part.copy_from_slice(&buffer[within..within + part.len()]);
            (at, rest) = (end, after);
        }
        Ok(())
    }

    fn checked_file(&self, inode: &Inode) -> Result<CheckedFile> {
        let descriptor = self.decoded_descriptor(inode)?;
        let verity = &descriptor.verity;
        if u64::from(verity.block_bytes) > self.volume.block_size() {
            return Err(damaged(
                inode,
                "fs-verity has blocks larger than those of the file system",
            ));
        }
        Ok(CheckedFile {
            hasher: verity.hasher(),
            tree: verity.tree(descriptor.data_bytes),
            root: descriptor.root,
            block: u64::from(verity.block_bytes),
            tree_at: FsVerity::tree_at(descriptor.data_bytes),
            data_bytes: descriptor.data_bytes,
        })
    }

    /// Compares the hash of block `index` below a level with that in the level, whose block is checked first.
    fn check(
        &self,
        inode: &Inode,
        file: &CheckedFile,
        checked: &mut CheckedBlocks,
        (level, index): (usize, u64),
        hash: BlockHash,
    ) -> Result<()> {
        let expected = match file.tree.place(level, index) {
            None => file.root,
            Some(place) => {
                let known = checked.0.get(level).and_then(Option::as_ref);
                if known.is_none_or(|(block, _)| *block != place.block) {
                    let mut block = vec![0; file.block as usize];
                    let at = file.tree_at + place.block * file.block;
                    self.read_mapped(inode, at, &mut block, ReadKind::default())?;
                    let hash = file.hasher.hash(&block);
                    self.check(inode, file, checked, (level + 1, place.index), hash)?;
                    checked.put(level, (place.block, block));
                }
                let known = checked.0.get(level).and_then(Option::as_ref);
                let bytes = known.and_then(|(_, block)| {
                    block.get(place.offset..place.offset + hash.as_bytes().len())
                });
                bytes
                    .and_then(BlockHash::new)
                    .ok_or_else(|| damaged(inode, "a hash of fs-verity is missing"))?
            }
        };
        if hash == expected {
            return Ok(());
        }
        let what = match level {
            0 => format!("block {index} of the data"),
            level => format!("block {index} of level {level} of the hash tree"),
        };
        let what = format!(
            "inode {}: {what} does not have the hash that fs-verity has of it; fsverity=ignore reads it all the same",
            inode.ino
        );
        Err(Error::new(Errno::EIO).context(what).into())
    }
}

impl CheckedBlocks {
    fn put(&mut self, level: usize, block: (u64, Vec<u8>)) {
        if self.0.len() <= level {
            self.0.resize(level + 1, None);
        }
        self.0[level] = Some(block);
    }
}
