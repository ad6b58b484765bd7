//! Fast commits: what changed in the running transaction, as records in blocks of their own, instead of a commit of its blocks.
//!
//! # Data model
//! Handles say whether the client can describe all that they changed ([`Handle::describe`](crate::Handle::describe)). A transaction in which one
//! cannot is committed as ever. The client gives the records; what one fast commit says the next does not repeat.
//!
//! # Crash
//! Fast commits are of the transaction that follows the last one in the log, which must not be empty: an empty log is not
//! recovered. So while the running transaction has some, the log is not marked empty. An ordinary commit of the transaction replaces them, and marks
//! their area unused. Data that records point to is durable before the fast commit is complete.
//!
//! Linux 6.18 refuses to mount if the first fast commit in the area is torn, and e2fsck 1.47 gives the log up then, and if the first is of an
//! older transaction. So what the first begins with is written last, within a sector, and goes as soon as the transaction is committed.

use super::Log;
use crate::error::Result;
use uext4_ondisk::{FastCommitBuilder, FastCommitRecord, Tid};

/// What a device writes whole.
const SECTOR: usize = 512;

/// The block of a fast commit that makes it complete.
pub(crate) struct LastBlock {
    /// Its place in the log.
    at: u32,
    bytes: Vec<u8>,
}

/// Where the next fast commit goes.
#[derive(Debug, Default)]
pub(crate) struct FastCommits {
    /// The transaction that those in the area are of.
    tid: u64,
    /// Blocks of the area that they take.
    used: u32,
    /// The area does not begin with one, not even of an older transaction.
    is_clear: bool,
}

impl FastCommits {
    /// The area is full of those of transaction `tid`.
    pub fn full(tid: u64) -> FastCommits {
        FastCommits {
            tid,
            used: u32::MAX,
            ..FastCommits::default()
        }
    }

    /// Whether transaction `tid` has some.
    pub fn are_of(&self, tid: u64) -> bool {
        self.tid == tid && self.used > 0
    }
}

impl Log {
    /// Whether there are blocks for fast commits, and as many others as Linux asks for beside them.
    pub(crate) fn has_fast_commits(&self) -> bool {
        !self.sb.fast_commit_area().is_empty() && self.sb.has_room_for_fast_commits()
    }

    /// The blocks of a fast commit; none if there is no place for it.
    pub(crate) fn encode_fast_commit(
        &self,
        tid: u64,
        records: &[FastCommitRecord],
    ) -> Option<Vec<u8>> {
        if self.used == 0 {
            return None;
        }
        let used = self.fast_used(tid);
        let size = self.map.block_size();
        let mut commit = FastCommitBuilder::new(size, Tid(tid as u32), used == 0);
        if !records.iter().all(|record| commit.push(record)) {
            return None;
        }
        let blocks = commit.finish();
        let left = self
            .sb
            .fast_commit_area()
            .len()
            .checked_sub(used as usize)?;
        // The last stays unused: Linux 6.18 and e2fsck 1.47 do not find the end of a full area.
        (blocks.len() / size < left).then_some(blocks)
    }

    fn fast_used(&self, tid: u64) -> u32 {
        match self.fast.tid == tid {
            true => self.fast.used,
            false => 0,
        }
    }

    /// Writes a fast commit but for the block that makes it complete, which is given to [`Log::end_fast_commit`] when the rest, and the
    /// data that its records point to, is durable.
    pub(crate) fn begin_fast_commit(&mut self, tid: u64, mut blocks: Vec<u8>) -> Result<LastBlock> {
        let size = self.map.block_size();
        let used = self.fast_used(tid);
        let at = self.sb.fast_commit_area().start + used;
        let count = (blocks.len() / size) as u32;
        self.fast = FastCommits {
            tid,
            used: used + count,
            is_clear: false,
        };
        if used == 0 {
            let bytes = blocks.split_at(size).0.to_vec();
            blocks.iter_mut().take(SECTOR).for_each(|b| *b = 0);
            self.map.write(at, &blocks)?;
            return Ok(LastBlock { at, bytes });
        }
        let bytes = blocks.split_off(blocks.len() - size);
        self.map.write(at, &blocks)?;
        let at = at + count - 1;
        Ok(LastBlock { at, bytes })
    }

    /// Completes a fast commit, durably if `durable`.
    pub(crate) fn end_fast_commit(&self, last: &LastBlock, durable: bool) -> Result<()> {
        match durable {
            true => self.map.write_fua(last.at, &last.bytes),
            false => self.map.write(last.at, &last.bytes),
        }
    }

    /// Marks the area unused, unless it is, once the transaction that it is of is committed.
    pub(crate) fn clear_fast_commits(&mut self, barrier: bool) -> Result<()> {
        if self.fast.is_clear || !self.has_fast_commits() {
            return Ok(());
        }
        self.fast = FastCommits {
            is_clear: true,
            ..FastCommits::default()
        };
        let at = self.sb.fast_commit_area().start;
        let unused = vec![0; self.map.block_size()];
        match barrier {
            true => self.map.write_fua(at, &unused),
            false => self.map.write(at, &unused),
        }
    }
}
