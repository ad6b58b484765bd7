//! A descriptor block and the copies of blocks that it names.

use uext4_ondisk::{JournalFormat, Pblk, Tid, journal_escape, journal_needs_escape};

/// Copies of blocks, to be written to the log behind the descriptor block that names them.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// The descriptor block, to be filled in, and the copies.
    pub(super) bytes: Vec<u8>,
    /// Where the blocks belong, whether they are escaped, their checksums.
    pub(super) tags: Vec<(Pblk, bool, u32)>,
}

impl Chunk {
    /// How many blocks it takes: what a descriptor block names; few where schedules are explored.
    pub fn capacity(format: &JournalFormat) -> usize {
        match cfg!(shuttle) {
            true => 2,
            false => format.tags_per_block().max(1),
        }
    }

    /// Takes a block of transaction `tid` that belongs at `block` on the device; no more than [`Chunk::capacity`].
    pub fn block(&mut self, format: &JournalFormat, tid: u64, block: u64, data: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.resize(format.block_size as usize, 0);
        }
        let at = self.bytes.len();
        self.bytes.extend_from_slice(data);
        let (_, copy) = self.bytes.split_at_mut(at);
        let escaped = journal_needs_escape(copy);
        if escaped {
            journal_escape(copy);
        }
        let checksum = format.data_checksum(Tid(tid as u32), copy);
        self.tags.push((Pblk(block), escaped, checksum));
    }
}
