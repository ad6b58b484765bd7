//! What handles of the running transaction changed, as far as a fast commit can say it: regular files, their blocks, their first names.
//!
//! # Journal
//! An operation notes here what it changed, and with that says that its handle is described. What is not noted is committed as ever:
//! so an operation that does not know of fast commits is right.
//!
//! # Locking
//! `fast_changes`, for a moment, within a handle. The commit thread takes what is noted while no handle runs.

use crate::inode::{Inode, InodePlace};
use crate::prelude::*;
use crate::run::Run;
use uext4_ondisk::FastCommitName;

/// More records than that are not kept but committed: they would have no place.
const RECORDS_MAX: usize = 1024;
/// The most blocks of an extent that is written.
const EXTENT_BLOCKS_MAX: u16 = 1 << 15;
/// Where an inode says how many bytes its fields take past the first 128.
const EXTRA_SIZE_AT: usize = GOOD_OLD_INODE_SIZE;

/// What changed in the running transaction; see the module.
#[derive(Debug)]
pub(crate) struct FastChanges {
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    tid: u64,
    inodes: BTreeMap<Ino, Changed>,
    /// Files and extents.
    records: usize,
}

/// A file that changed.
#[derive(Debug)]
struct Changed {
    place: InodePlace,
    extents: Vec<Extent>,
    /// The name it was made with, and where.
    made: Option<FastCommitName>,
}

impl FastChanges {
    pub fn new() -> FastChanges {
        FastChanges {
            running: Mutex::new(&class::FAST_CHANGES, Running::default()),
        }
    }

    /// Notes that fields of an inode changed, and nothing else.
    pub fn note(&self, handle: &Handle<'_>, inode: &Inode) {
        self.note_with(handle, inode, |_| {});
    }

    /// Notes that timestamps changed. A sync of a directory commits the transaction.
    pub fn note_times(&self, handle: &Handle<'_>, inode: &Inode) {
        match inode.is_dir() {
            true => handle.describe(),
            false => self.note(handle, inode),
        }
    }

    /// Notes that a file has these blocks, which are written.
    pub fn note_blocks(&self, handle: &Handle<'_>, inode: &Inode, lblk: Lblk, run: Run) {
        self.note_with(handle, inode, |changed| {
            let mut done = 0;
            while done < run.len {
                let len = (run.len - done).min(u32::from(EXTENT_BLOCKS_MAX));
                changed.add(Extent {
                    lblk: Lblk(lblk.0 + done),
                    len: len as u16,
                    unwritten: false,
                    pblk: Pblk(run.pblk.0 + u64::from(done)),
                });
                done += len;
            }
        });
    }

    /// Notes that a file was made.
    pub fn note_made(&self, handle: &Handle<'_>, inode: &Inode, parent: Ino, name: &[u8]) {
        self.note_with(handle, inode, |changed| {
            changed.made = Some(FastCommitName {
                parent,
                ino: inode.ino,
                name: name.into(),
            });
        });
    }

    fn note_with(&self, handle: &Handle<'_>, inode: &Inode, more: impl FnOnce(&mut Changed)) {
        if !handle.journal().can_fast_commit(handle.tid()) || !can_be_described(inode) {
            return;
        }
        let mut running = self.running.lock();
        if running.tid != handle.tid() {
            *running = Running {
                tid: handle.tid(),
                ..Running::default()
            };
        }
        if running.records >= RECORDS_MAX {
            running.inodes.clear();
            drop(running);
            return handle.never_describe();
        }
        let files = running.inodes.len();
        let changed = running.inodes.entry(inode.ino).or_insert_with(|| Changed {
            place: inode.place(),
            extents: Vec::new(),
            made: None,
        });
        let extents = changed.extents.len();
        more(changed);
        let added = changed.extents.len() - extents;
        running.records += added + running.inodes.len() - files;
        drop(running);
        handle.describe();
    }

    /// What was noted of transaction `tid` and not taken yet. No handle runs.
    pub fn take(&self, tid: u64, params: &InodeParams) -> Vec<FastCommitRecord> {
        let inodes = {
            let mut running = self.running.lock();
            if running.tid != tid {
                return Vec::new();
            }
            running.records = 0;
            std::mem::take(&mut running.inodes)
        };
        let mut records = Vec::new();
        for (ino, changed) in inodes {
            let raw = changed.place.fields(params);
            let inode = FastCommitRecord::Inode { ino, raw };
            let is_whole = changed.made.is_some() && changed.extents.is_empty();
            if let Some(name) = changed.made {
                records.extend([inode.clone(), FastCommitRecord::Create(name)]);
            }
            let blocks = changed.extents.into_iter();
            records.extend(blocks.map(|extent| FastCommitRecord::AddRange { ino, extent }));
            // Last: Linux 6.18 counts blocks wrongly where it adds them.
            records.extend((!is_whole).then_some(inode));
        }
        records
    }
}

impl Changed {
    /// Adds an extent, to the last one if it continues that.
    fn add(&mut self, extent: Extent) {
        if let Some(last) = self.extents.last_mut()
            && last.end() == u64::from(extent.lblk.0)
            && last.pblk.0 + u64::from(last.len) == extent.pblk.0
            && extent.len <= EXTENT_BLOCKS_MAX - last.len
        {
            last.len += extent.len;
            return;
        }
        self.extents.push(extent);
    }
}

impl InodePlace {
    /// The bytes of an inode as far as its fields go: e2fsck 1.47 writes no more.
    fn fields(&self, params: &InodeParams) -> Box<[u8]> {
        let content = self.buffer.read();
        let end = self.offset + usize::from(params.inode_size);
        let raw = content.data().get(self.offset..end).unwrap_or(&[]);
        let extra = raw.get(EXTRA_SIZE_AT..EXTRA_SIZE_AT + 2);
        let extra = extra.map_or(0, |extra| u16::from_le_bytes([extra[0], extra[1]]));
        let len = GOOD_OLD_INODE_SIZE + usize::from(extra);
        raw.get(..len).unwrap_or(raw).into()
    }
}

/// Whether records can say what becomes of an inode.
fn can_be_described(inode: &Inode) -> bool {
    inode.file_type == FileType::Regular
        && inode.has_extents()
        && !inode.is_inline()
        && !inode.is_unlinked()
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;
    use crate::fixture::*;
    use crate::{Ext4, InodeRef};

    /// What a sync of a file added to the fast commits and to the commits.
    fn synced(fs: &Ext4, node: &InodeRef) -> (u64, u64) {
        let before = fs.volume.journal().stats();
        fs.files.fsync(node, false).expect("durable");
        let after = fs.volume.journal().stats();
        (
            after.fast_commits - before.fast_commits,
            after.commits - before.commits,
        )
    }

    #[test]
    fn what_can_be_described_is_not_committed() {
        let device = image(64 << 20, "fast_commit");
        let fs = mount(&device);
        let first = file(&fs, "first");
        assert_eq!(synced(&fs, &first), (1, 0));
        let other = file(&fs, "other");
        fs.files.write(&other, 0, &[1; 5000], true).expect("writes");
        assert_eq!(synced(&fs, &first), (1, 0), "all that was noted");
        assert_eq!(synced(&fs, &other), (0, 0), "nothing is left to write");
        fs.files.write(&first, 9, &[2; 9], true).expect("writes");
        assert_eq!(synced(&fs, &first), (1, 0));
        fs.files.truncate(&other, 100).expect("cuts");
        assert_eq!(synced(&fs, &other), (0, 1), "what is cut is not described");
        assert_eq!(synced(&fs, &first), (0, 0), "it was committed with it");
        let many: Vec<_> = (0..=RECORDS_MAX)
            .map(|i| file(&fs, &format!("f{i}")))
            .collect();
        assert_eq!(synced(&fs, &many[0]), (0, 1));
        for i in 0..RECORDS_MAX as u64 {
            fs.files
                .write(&first, (2 * i + 9) * 1024, &[3], true)
                .expect("writes");
        }
        assert_eq!(synced(&fs, &first), (0, 1), "too many extents");
        drop((first, other, many));
        fs.unmount().expect("unmounts");
    }
}
