//! A mounted file system, composed of its parts.
//!
//! Each part owns what it guards and knows only the parts below it:
//!
//! ```text
//! Namei  FileIo                  names; data of files
//! Deletion  Directory            the end of an inode; entries
//! Attributes  OrphanList         attributes; inodes to delete after a crash
//! Owners                         entries of quota files
//! Inodes  InlineData             found and made; data in the inode
//! Mapping                        blocks of files
//! InodeTable                     inodes in memory and on disk, lazy timestamps
//! BlockAllocator  InodeAllocator
//! Volume                         superblock, groups, buffer cache, journal, errors
//! ```

use crate::attributes::Attributes;
use crate::block_allocator::BlockAllocator;
use crate::deletion::Deletion;
use crate::directory::Directory;
use crate::file::FileIo;
use crate::inline::InlineData;
use crate::inode::reference::InodeOwner;
use crate::inode_allocator::InodeAllocator;
use crate::inode_table::InodeTable;
use crate::inodes::Inodes;
use crate::mapping::Mapping;
use crate::namei::Namei;
use crate::orphans::OrphanList;
use crate::owners::Owners;
use crate::volume::Volume;
use std::sync::{Arc, OnceLock, Weak};
use uext4_sync::{Mutex, class};
use uext4_vfs::ilock::RenameMutex;

/// A mounted ext4 file system.
pub struct Ext4 {
    /// Superblock, groups, buffer cache and journal.
    pub volume: Arc<Volume>,
    /// Blocks.
    pub blocks: Arc<BlockAllocator>,
    /// Inode numbers.
    pub numbers: Arc<InodeAllocator>,
    /// Inodes in memory and in their table.
    pub table: Arc<InodeTable>,
    /// Owners, whose usage is kept.
    pub owners: Arc<Owners>,
    /// Where the blocks of files are.
    pub mapping: Arc<Mapping>,
    pub(crate) inline: Arc<InlineData>,
    /// Inodes, found and made.
    pub inodes: Arc<Inodes>,
    /// Inodes to delete or truncate after a crash.
    pub orphans: Arc<OrphanList>,
    /// Attributes and permission.
    pub attributes: Arc<Attributes>,
    /// The end of an inode.
    pub deletion: Arc<Deletion>,
    /// Entries of directories.
    pub directories: Arc<Directory>,
    /// Data of files.
    pub files: Arc<FileIo>,
    /// Names.
    pub namei: Namei,
}

impl Ext4 {
    /// The parts of the file system on `volume`.
    pub(crate) fn compose(volume: Arc<Volume>) -> Arc<Ext4> {
        let v = || Arc::clone(&volume);
        let blocks = BlockAllocator::new(v());
        let b = || Arc::clone(&blocks);
        let numbers = Arc::new(InodeAllocator::new(v()));
        let deletion = Self::compose_deletion(&volume, &blocks, &numbers);
        let d = &*deletion;
        let t = || Arc::clone(&d.table);
        let m = || Arc::clone(&d.mapping);
        let i = || Arc::clone(&d.inline);
        let n = || Arc::clone(&d.inodes);
        let o = || Arc::clone(&d.orphans);
        let a = || Arc::clone(&d.attributes);
        let w = || Arc::clone(&d.attributes.owners);
        let directories = Arc::new(Directory {
            volume: v(),
            blocks: b(),
            table: t(),
            mapping: m(),
            inline: i(),
        });
        let files = Arc::new(FileIo {
            volume: v(),
            blocks: b(),
            table: t(),
            mapping: m(),
            inline: i(),
            inodes: n(),
            orphans: o(),
            attributes: a(),
            directories: Arc::clone(&directories),
            owners: w(),
        });
        let namei = Namei {
            volume: v(),
            blocks: b(),
            table: t(),
            inodes: n(),
            orphans: o(),
            attributes: a(),
            owners: w(),
            deletion: Arc::clone(&deletion),
            directories: Arc::clone(&directories),
            files: Arc::clone(&files),
            rename: RenameMutex::new(),
            root: OnceLock::new(),
        };
        Arc::new(Ext4 {
            table: t(),
            mapping: m(),
            inline: i(),
            inodes: n(),
            orphans: o(),
            attributes: a(),
            owners: w(),
            directories,
            files,
            namei,
            deletion,
            numbers,
            blocks,
            volume,
        })
    }

    /// The end of an inode and the parts below it, which call it when an inode loses its last reference.
    fn compose_deletion(
        volume: &Arc<Volume>,
        blocks: &Arc<BlockAllocator>,
        numbers: &Arc<InodeAllocator>,
    ) -> Arc<Deletion> {
        let v = || Arc::clone(volume);
        let b = || Arc::clone(blocks);
        Arc::new_cyclic(|me: &Weak<Deletion>| {
            let owner: Weak<dyn InodeOwner> = Weak::<Deletion>::clone(me);
            let table = Arc::new(InodeTable::new(v(), &owner));
            let t = || Arc::clone(&table);
            let mapping = Arc::new(Mapping::new(v(), b(), t()));
            let m = || Arc::clone(&mapping);
            let inline = Arc::new(InlineData {
                volume: v(),
                blocks: b(),
                table: t(),
                mapping: m(),
            });
            let i = || Arc::clone(&inline);
            let inodes = Inodes::new(v(), Arc::clone(numbers), t(), m(), i());
            let inodes = Arc::new(inodes);
            let n = || Arc::clone(&inodes);
            let orphans = Arc::new(OrphanList::new(v(), t(), m(), n()));
            let o = || Arc::clone(&orphans);
            let owners = Owners::new(v(), b(), t(), m(), n());
            let attributes = Arc::new(Attributes {
                owners: Arc::new(owners),
                volume: v(),
                blocks: b(),
                table: t(),
                mapping: m(),
                inline: i(),
                inodes: n(),
                orphans: o(),
            });
            Deletion {
                volume: v(),
                numbers: Arc::clone(numbers),
                inline: i(),
                orphans: o(),
                inodes: n(),
                mapping: m(),
                table: t(),
                attributes,
                put_off: Mutex::new(&class::FROZEN, Vec::new()),
            }
        })
    }
}

impl std::fmt::Debug for Ext4 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ext4")
            .field("uuid", &self.volume.sb.raw.uuid)
            .field("read_only", &self.volume.is_read_only())
            .finish_non_exhaustive()
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        if self.volume.is_mounted()
            && let Err(why) = self.unmount()
        {
            tracing::error!("not unmounted cleanly: {why}");
        }
        self.table.lazytime.stop();
        self.volume.journal().stop();
    }
}
