//! Fast commits in the journal, ours or another system's: replayed at mount, after the log, before
//! orphans.
//!
//! # Data model
//! The records say what an inode looks like, which blocks of a file are where, and what names came and
//! went; bitmaps, directories and extent trees are to be made to agree. Names and inodes are dealt with
//! one record after the other. Mappings are changed in memory ([`maps`]) and brought to disk at the end,
//! so that a block which moves from one file to another is freed and claimed once, and the bitmaps
//! follow from what the files have then ([`finish`]).
//!
//! # Invariants
//! - Every block that a record gives to a file is claimed before anything else may be allocated.
//! - A block that is in use by something no record speaks of is never given to a file: that is damage.
//! - A directory that a record makes has a parent that has a name when it gets its first block.
//!
//! # Crash
//! All of it is one transaction, in the log's place of the one that the fast commits stand for. Until it
//! is durable, the log says what it said and recovery finds the same fast commits on the same blocks;
//! then the log has a newer transaction than they are of, and they mean nothing.
//!
//! # Locking
//! The file system has no other user: no inode is locked.
//!
//! | module | holds |
//! | --- | --- |
//! | [`runs`] | a set of blocks |
//! | [`maps`] | mappings of files, changed in memory |
//! | [`apply`] | inodes and names |
//! | [`finish`] | mappings and bitmaps |

mod apply;
mod finish;
pub(crate) mod maps;
mod runs;
#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

use crate::fs::Ext4;
use crate::inode::reference::InodeRef;
use crate::mount::features::check_features;
use crate::options::MountOptions;
use crate::prelude::*;
use maps::FileMap;
use runs::Runs;
use std::collections::BTreeSet;
use uext4_jbd2::Opened;
use uext4_ondisk::FastCommitName;

/// Credits to begin with; more are added when needed, since the log is empty.
const CREDITS: u32 = 64;

/// Replays `records` of the log at `map`, which was recovered, in a mount of its own that ends with it.
///
/// # Journal
/// One handle, in the first transaction; all of it is in place at the end.
///
/// # Errors
/// Records that contradict the file system (naming inode and block), features that are only read, or the
/// device's; then nothing changed.
pub(crate) fn replay(
    device: &Arc<dyn BlockDevice>,
    sb: &Superblock,
    map: &LogMap,
    options: &MountOptions,
    records: &[FastCommitRecord],
) -> Result<()> {
    let mut writing = MountOptions {
        read_only: false,
        lazytime: false,
        ..options.clone()
    };
    check_features(sb, &mut writing)?;
    // What the system that wrote them did to usage is in no fast commit.
    writing.read_only |= sb.ro_compat.contains(RoCompat::QUOTA);
    if writing.read_only {
        return Err(Ext4Error::Unsupported(
            "replaying fast commits, with features that are only read,",
        ));
    }
    let (device, map) = (Arc::clone(device), Some(map.clone()));
    let fs = Ext4::assemble(device, sb.clone(), map, writing, Opened::WithFastCommits)?;
    let handle = fs.volume.journal().start(CREDITS)?;
    let done = Replay::new(&fs, &handle).and_then(|mut replay| replay.run(records));
    if let Err(why) = done {
        // Before the handle goes: nothing of this may be committed.
        let text = format!("fast commits cannot be replayed: {why}");
        fs.volume
            .journal()
            .abort(JournalError::Aborted(text.into()));
        drop(handle);
        fs.crash();
        return Err(why);
    }
    handle.finish();
    fs.volume.journal().flush_log()?;
    fs.volume.journal().stop();
    Ok(())
}

/// A replay on its way.
struct Replay<'r> {
    fs: &'r Ext4,
    handle: &'r Handle<'r>,
    /// On record on disk as orphans: the list links them, and the mount deals with them after.
    orphans: HashSet<Ino>,
    /// Inodes that records speak of and that are in use.
    touched: BTreeSet<Ino>,
    /// Files whose mappings records change.
    maps: BTreeMap<Ino, FileMap>,
    /// Mappings of inodes that are still to be made: the blocks may precede them.
    early: BTreeMap<Ino, FileMap>,
    /// Names of inodes that have none: what inode that is, its own record says that follows.
    early_names: BTreeMap<(Ino, Box<[u8]>), Ino>,
    /// The same by inode, with names that are to be something else by now.
    early_links: BTreeMap<Ino, Vec<FastCommitName>>,
    /// Blocks of touched inodes as they were before.
    before: Runs,
    /// Blocks that were free and are claimed for what records give to files.
    claimed: Runs,
}

impl<'r> Replay<'r> {
    fn new(fs: &'r Ext4, handle: &'r Handle<'r>) -> Result<Replay<'r>> {
        Ok(Replay {
            fs,
            handle,
            orphans: fs.orphans.orphans_on_record()?,
            touched: BTreeSet::new(),
            maps: BTreeMap::new(),
            early: BTreeMap::new(),
            early_names: BTreeMap::new(),
            early_links: BTreeMap::new(),
            before: Runs::default(),
            claimed: Runs::default(),
        })
    }

    fn run(&mut self, records: &[FastCommitRecord]) -> Result<()> {
        self.look_at_all(records)?;
        self.claim_all(records)?;
        for record in records {
            // Whether there is room for more in the transaction is the log's to say.
            let _ = self.handle.extend(CREDITS);
            self.apply(record)?;
        }
        self.finish()
    }

    /// Notes the blocks of all inodes that records speak of.
    fn look_at_all(&mut self, records: &[FastCommitRecord]) -> Result<()> {
        for record in records {
            let ino = match record {
                FastCommitRecord::AddRange { ino, .. }
                | FastCommitRecord::DelRange { ino, .. }
                | FastCommitRecord::Inode { ino, .. } => *ino,
                FastCommitRecord::Create(name)
                | FastCommitRecord::Link(name)
                | FastCommitRecord::Unlink(name) => name.ino,
            };
            if self.touched.contains(&ino) {
                continue;
            }
            if let Some(inode) = self.inode(ino)? {
                self.touched.insert(ino);
                for extent in self.extents(&inode)? {
                    let (from, to) = self.whole_clusters(&extent);
                    self.before.insert(from, to);
                }
            }
        }
        Ok(())
    }

    /// The inode, if it is in use. It stays when the reference goes, even without links.
    ///
    /// # Errors
    /// A number that no name may have, damage, or the device's.
    fn inode(&self, ino: Ino) -> Result<Option<InodeRef>> {
        if ino != Ino::ROOT && ino < self.fs.volume.geometry().first_ino {
            return Err(damage(ino, "a fast commit of a reserved inode"));
        }
        if !self.fs.numbers.is_ino_used(ino)? {
            return Ok(None);
        }
        match self.fs.inodes.get_orphan(ino) {
            Ok(inode) => {
                inode.set_unlinked(false);
                Ok(Some(inode))
            }
            Err(Ext4Error::Stale) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// What the inode maps: nothing, if that is not by extents.
    fn extents(&self, inode: &InodeRef) -> Result<Vec<Extent>> {
        let mapped = matches!(
            inode.file_type,
            FileType::Regular | FileType::Directory | FileType::Symlink
        );
        if mapped && inode.flags().contains(InodeFlags::EXTENTS) {
            self.fs.mapping.extents(inode)
        } else {
            Ok(Vec::new())
        }
    }
}

#[cold]
fn damage(ino: Ino, what: &str) -> Ext4Error {
    Corrupt::new(CorruptKind::FastCommit)
        .ino(ino)
        .detail(what)
        .into()
}
