//! Orphans: inodes without links that are still open, and files whose truncation may be interrupted.
//! They are on record on disk, so that the next mount finishes what a crash cut short.
//!
//! # Data model
//! With the feature `orphan_file` an orphan has a slot in a file made for that, which its inode remembers; each CPU
//! claims them in a block of the file of its own, as far as there are blocks. Without, orphans form a list through
//! `i_dtime` that starts in the superblock; its order in memory is the order on disk.
//!
//! # Locking
//! The list's lock (rank `orphan_list`) is held while superblock or inode-table blocks change; slots
//! are claimed without a lock.

use crate::group::{Words, bitmap};
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::inode_table::InodeTable;
use crate::inodes::Inodes;
use crate::kinds;
use crate::mapping::Mapping;
use crate::prelude::*;
use crate::superblock::{superblock_place, with_superblock};
use crate::volume::Volume;
use std::collections::HashMap;
use uext4_ondisk::orphan_slots;
use uext4_sync::atomic::AtomicUsize;

/// The orphans of a file system.
pub struct OrphanList {
    volume: Arc<Volume>,
    table: Arc<InodeTable>,
    mapping: Arc<Mapping>,
    inodes: Arc<Inodes>,
    /// The list through `i_dtime`, and the slots that were taken before this mount.
    list: Mutex<List>,
    /// How many those slots are.
    found: CachePadded<AtomicUsize>,
    /// The orphan file, once it was read.
    file: OnceLock<Option<OrphanFile>>,
    has_file: bool,
}

#[derive(Debug, Default)]
struct List {
    /// The first of the list, which the superblock names.
    head: Ino,
    listed: HashMap<Ino, Listed>,
    /// Slots of inodes that are on record from before the mount.
    slots: HashMap<Ino, Slot>,
}

/// A member of the list, and those beside it; [`Ino::NONE`] at the ends.
#[derive(Debug)]
struct Listed {
    /// Stays in the inode cache while it is here: one that leaves the list changes its predecessor.
    inode: Arc<Inode>,
    previous: Ino,
    next: Ino,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    block: usize,
    index: usize,
}

#[derive(Debug)]
struct OrphanFile {
    blocks: Vec<OrphanBlock>,
}

#[derive(Debug)]
struct OrphanBlock {
    buffer: Arc<Buffer>,
    slots: usize,
    /// A bit for each slot in use.
    used: Words,
}

impl OrphanList {
    /// None yet; mounting reads what is on disk.
    pub(crate) fn new(
        volume: Arc<Volume>,
        table: Arc<InodeTable>,
        mapping: Arc<Mapping>,
        inodes: Arc<Inodes>,
    ) -> OrphanList {
        OrphanList {
            table,
            mapping,
            inodes,
            list: Mutex::new(&class::ORPHAN_LIST, List::default()),
            found: CachePadded::new(AtomicUsize::new(0)),
            file: OnceLock::new(),
            has_file: volume.sb.compat.contains(Compat::ORPHAN_FILE),
            volume,
        }
    }

    /// Whether some could not be dealt with and are still on record.
    pub fn any_left(&self) -> bool {
        let in_file = self.file.get().and_then(Option::as_ref);
        in_file.is_some_and(OrphanFile::holds_any) || !self.list.lock().listed.is_empty()
    }
}

impl List {
    fn push(&mut self, inode: Arc<Inode>) {
        let (ino, next) = (inode.ino, self.head);
        if let Some(second) = self.listed.get_mut(&next) {
            second.previous = ino;
        }
        let previous = Ino::NONE;
        let first = Listed {
            inode,
            previous,
            next,
        };
        self.listed.insert(ino, first);
        self.head = ino;
    }

    fn remove(&mut self, ino: Ino) {
        let Some(gone) = self.listed.remove(&ino) else {
            return;
        };
        if let Some(next) = self.listed.get_mut(&gone.next) {
            next.previous = gone.previous;
        }
        match self.listed.get_mut(&gone.previous) {
            Some(previous) => previous.next = gone.next,
            None => self.head = gone.next,
        }
    }
}

impl OrphanFile {
    /// Claims a slot: in the block of this CPU, from the cache line of this CPU on, then in the others.
    fn claim(&self) -> Option<Slot> {
        const LINE: usize = 8;
        let (cpu, count) = (uext4_sync::percpu::cpu(), self.blocks.len());
        for i in 0..count {
            let block = (cpu + i) % count;
            let used = &self.blocks.get(block)?.used;
            let first = cpu / count * LINE % used.len().max(1);
            for w in (0..used.len()).map(|w| (first + w) % used.len()) {
                let word = used.get(w)?;
                let mut seen = word.load(Ordering::Relaxed);
                while seen != u64::MAX {
                    let bit = 1u64 << (!seen).trailing_zeros();
                    let before = word.fetch_or(bit, Ordering::Relaxed);
                    if before & bit == 0 {
                        let index = w * 64 + bit.trailing_zeros() as usize;
                        return Some(Slot { block, index });
                    }
                    seen = before;
                }
            }
        }
        None
    }

    fn holds_any(&self) -> bool {
        self.blocks.iter().any(|block| {
            let slots = block.slots as u32;
            bitmap::find_set(&block.used, 0, slots) != slots
        })
    }

    /// The number of a slot in the whole file.
    fn number_of(&self, slot: Slot) -> u32 {
        (slot.block * self.slots() + slot.index) as u32
    }

    /// The slot of that number.
    fn slot_of(&self, number: u32) -> Slot {
        Slot {
            block: number as usize / self.slots(),
            index: number as usize % self.slots(),
        }
    }

    /// The slots of a block: all have as many.
    fn slots(&self) -> usize {
        self.blocks.first().map_or(1, |block| block.slots.max(1))
    }

    fn release(&self, slot: Slot) {
        if let Some(word) = self
            .blocks
            .get(slot.block)
            .and_then(|b| b.used.get(slot.index / 64))
        {
            word.fetch_and(!(1 << (slot.index % 64)), Ordering::Relaxed);
        }
    }
}

impl OrphanList {
    /// Puts an inode on record as an orphan; nothing happens if it is.
    ///
    /// # Journal
    /// Two credits.
    pub(crate) fn add_orphan(&self, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        if inode.orphan_slot.load(Ordering::Relaxed) != 0 || self.slot_found(inode.ino).is_some() {
            return Ok(());
        }
        if let Some(file) = self.orphan_file()?
            && let Some(slot) = file.claim()
        {
            let number = file.number_of(slot);
            inode.orphan_slot.store(number + 1, Ordering::Relaxed);
            return self.write_slot(handle, file, slot, inode.ino);
        }
        let mut list = self.list.lock();
        if list.listed.contains_key(&inode.ino) {
            return Ok(());
        }
        let next = list.head;
        self.table
            .update_inode(inode, handle, |disk| disk.dtime = next.0)?;
        self.set_orphan_head(handle, inode.ino)?;
        list.push(Arc::clone(inode));
        Ok(())
    }

    /// The slot that an inode has from before the mount.
    fn slot_found(&self, ino: Ino) -> Option<Slot> {
        if self.found.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.list.lock().slots.get(&ino).copied()
    }

    /// Forgets the slot that an inode has from before the mount.
    fn take_slot_found(&self, ino: Ino) -> Option<Slot> {
        if self.found.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let slot = self.list.lock().slots.remove(&ino)?;
        self.found.fetch_sub(1, Ordering::Relaxed);
        Some(slot)
    }

    fn free_slot(&self, handle: &Handle<'_>, slot: Slot) -> Result<()> {
        if let Some(file) = self.orphan_file()? {
            self.write_slot(handle, file, slot, Ino(0))?;
            file.release(slot);
        }
        Ok(())
    }

    /// Takes an inode off the record; nothing happens if it is not there.
    ///
    /// # Journal
    /// Two credits.
    pub(crate) fn remove_orphan(&self, handle: &Handle<'_>, inode: &Inode) -> Result<()> {
        let number = inode.orphan_slot.load(Ordering::Relaxed);
        let own = match self.orphan_file()? {
            Some(file) if number != 0 => Some(file.slot_of(number - 1)),
            _ => None,
        };
        if let Some(slot) = own.or_else(|| self.take_slot_found(inode.ino)) {
            self.free_slot(handle, slot)?;
            inode.orphan_slot.store(0, Ordering::Relaxed);
            return Ok(());
        }
        // An inode of the list has no slot, and one with a slot is not in the list.
        let mut list = self.list.lock();
        let Some(listed) = list.listed.get(&inode.ino) else {
            return Ok(());
        };
        let next = listed.next;
        match list.listed.get(&listed.previous) {
            None => self.set_orphan_head(handle, next)?,
            Some(previous) => self
                .table
                .update_inode(&previous.inode, handle, |disk| disk.dtime = next.0)?,
        }
        list.remove(inode.ino);
        self.table
            .update_inode(inode, handle, |disk| disk.dtime = 0)
    }

    fn set_orphan_head(&self, handle: &Handle<'_>, ino: Ino) -> Result<()> {
        let (_, at) = superblock_place(self.volume.geometry().block_size);
        let mut content = handle.modify(&self.volume.super_buffer)?;
        with_superblock(content.data_mut(), at, |raw| raw.last_orphan = ino.0.into());
        Ok(())
    }

    fn write_slot(
        &self,
        handle: &Handle<'_>,
        file: &OrphanFile,
        slot: Slot,
        ino: Ino,
    ) -> Result<()> {
        let Some(block) = file.blocks.get(slot.block) else {
            return Ok(());
        };
        let mut content = handle.modify(&block.buffer)?;
        uext4_ondisk::orphan_slot_set(content.data_mut(), slot.index, ino);
        Ok(())
    }

    /// The orphan file, if the file system has one.
    fn orphan_file(&self) -> Result<Option<&OrphanFile>> {
        if !self.has_file {
            return Ok(None);
        }
        if let Some(file) = self.file.get() {
            return Ok(file.as_ref());
        }
        let file = self.load_orphan_file()?;
        Ok(self.file.get_or_init(|| Some(file)).as_ref())
    }

    fn load_orphan_file(&self) -> Result<OrphanFile> {
        let ino = Ino(self.volume.sb.raw.orphan_file_inum.get());
        let inode = self.inodes.get_inode(ino)?;
        let mut places = Vec::new();
        let seed = self.volume.seed().map(|_| inode.seed());
        for e in self.mapping.extents(&inode)? {
            places.extend((0..u64::from(e.len)).map(|i| uext4_ondisk::Pblk(e.pblk.0 + i)));
        }
        let mut blocks = Vec::new();
        for pblk in places {
            let role = (kinds::ORPHAN_FILE, inode.seed().0);
            let buffer = self
                .volume
                .cache()
                .get_verified(pblk.0, role, |data| -> Result<()> {
                    uext4_ondisk::orphan_block_verify(data, seed, pblk)?;
                    Ok(())
                })
                .map_err(|e| e.of_inode(ino))?;
            let slots = orphan_slots(self.volume.cache().block_size());
            let used = Words::of(&vec![0; slots.div_ceil(64) * 8]);
            let past = (used.len() * 64 - slots) as u32;
            bitmap::assign_run(&used, slots as u32, past, true);
            for (index, _) in uext4_ondisk::orphan_entries(buffer.read().data()) {
                bitmap::set(&used, index as u32);
            }
            blocks.push(OrphanBlock {
                buffer,
                slots,
                used,
            });
        }
        Ok(OrphanFile { blocks })
    }

    /// Fills the slots from the orphan file; returns the inodes in them.
    pub(crate) fn load_file(&self) -> Result<Vec<Ino>> {
        let mut found = Vec::new();
        if let Some(file) = self.orphan_file()? {
            let mut list = self.list.lock();
            for (block, b) in file.blocks.iter().enumerate() {
                for (index, ino) in uext4_ondisk::orphan_entries(b.buffer.read().data()) {
                    // Two slots of one inode are one orphan; the other stays taken.
                    if list.slots.insert(ino, Slot { block, index }).is_none() {
                        self.found.fetch_add(1, Ordering::Relaxed);
                    }
                    found.push(ino);
                }
            }
        }
        Ok(found)
    }

    /// The list that starts in the superblock. The references are dropped only when the list is known:
    /// a deletion takes the inode off it.
    pub(crate) fn read_orphan_list(&self) -> Result<Vec<InodeRef>> {
        let mut listed: Vec<InodeRef> = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Ino(self.volume.sb.raw.last_orphan.get());
        let read = loop {
            if next == Ino(0) {
                break Ok(());
            }
            if !seen.insert(next) {
                break Err(Corrupt::new(CorruptKind::InoRange)
                    .ino(next)
                    .detail("orphan list has a loop")
                    .into());
            }
            match self.inodes.get_orphan(next) {
                Ok(inode) => {
                    next = Ino(inode.state().dtime);
                    listed.push(inode);
                }
                Err(why) => break Err(why),
            }
        };
        if let Err(why) = read {
            // Nothing is deleted by a list that is damaged.
            for inode in &listed {
                inode.set_unlinked(false);
            }
            return Err(why);
        }
        let mut list = self.list.lock();
        for inode in listed.iter().rev() {
            list.push(Arc::clone(inode.inode()));
        }
        drop(list);
        Ok(listed)
    }

    /// The numbers on record on disk, for changes of inodes before they are dealt with.
    pub(crate) fn orphans_on_record(&self) -> Result<HashSet<Ino>> {
        let mut found = HashSet::new();
        if let Some(file) = self.orphan_file()? {
            for block in &file.blocks {
                found.extend(uext4_ondisk::orphan_entries(block.buffer.read().data()).map(|e| e.1));
            }
        }
        let mut next = Ino(self.volume.sb.raw.last_orphan.get());
        while next != Ino(0) && found.insert(next) {
            let inode = self.inodes.get_orphan(next)?;
            inode.set_unlinked(false);
            next = Ino(inode.state().dtime);
        }
        Ok(found)
    }

    /// A slot that names an inode that is not in use.
    pub(crate) fn forget_orphan(&self, ino: Ino) -> Result<()> {
        self.volume
            .with_handle(4, |handle| match self.take_slot_found(ino) {
                Some(slot) => self.free_slot(handle, slot),
                None => Ok(()),
            })
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::fs::Ext4;
    use crate::options::MountOptions;
    use uext4_block::MemoryDevice;
    use uext4_build::{FeatureSet, MkfsOptions, NoProgress};
    use uext4_vfs::attr::NewKind;

    /// One that leaves the list while the one before it is idle and the inode cache is emptied.
    #[test]
    fn the_predecessor_in_the_list_stays_in_memory() {
        let device = Arc::new(MemoryDevice::new(8 << 20));
        let options = MkfsOptions {
            size: Some(8 << 20),
            features: FeatureSet::parse("^orphan_file").expect("features"),
            ..MkfsOptions::default()
        };
        uext4_build::mkfs(&*device, &options, &NoProgress).expect("mkfs");
        let fs = Ext4::mount(device, MountOptions::default()).expect("mount");
        let root = fs.namei.root().expect("root").clone();
        let new = NewNode {
            mode: 0o644,
            kind: NewKind::Regular,
        };
        let [first, second] = [b"a", b"b"].map(|name| {
            let made = fs.namei.create(&Caller::root(), &root, name, &new);
            let made = made.expect("create");
            fs.volume
                .with_handle(4, |handle| fs.orphans.add_orphan(handle, made.inode()))
                .expect("an orphan");
            made
        });
        let head = second.ino;
        drop(second);
        fs.table.icache.shrink(0, 256, |_| {}, |_| {});
        fs.volume
            .with_handle(4, |handle| fs.orphans.remove_orphan(handle, &first))
            .expect("leaves the list");
        let second = fs.inodes.get_inode(head).expect("in use");
        assert_eq!(second.state().dtime, 0, "the end of the list");
        fs.volume
            .with_handle(4, |handle| fs.orphans.remove_orphan(handle, &second))
            .expect("leaves the list");
        fs.unmount().expect("unmount");
    }

    fn fs_with(features: &str) -> Arc<Ext4> {
        let device = fixture::image_as(8 << 20, features, |options| options.inodes = Some(1024));
        fixture::mount(&device)
    }

    fn add(fs: &Ext4, inode: &InodeRef) {
        fs.volume
            .with_handle(4, |handle| fs.orphans.add_orphan(handle, inode.inode()))
            .expect("an orphan");
    }

    fn remove(fs: &Ext4, inode: &InodeRef) {
        fs.volume
            .with_handle(4, |handle| fs.orphans.remove_orphan(handle, inode))
            .expect("no orphan any more");
    }

    /// How many slots are taken.
    fn in_file(fs: &Ext4) -> usize {
        let file = fs.orphans.orphan_file().expect("read").expect("a file");
        let entries =
            |block: &OrphanBlock| uext4_ondisk::orphan_entries(block.buffer.read().data()).count();
        file.blocks.iter().map(entries).sum()
    }

    #[test]
    fn orphans_have_a_slot_each_while_there_are_some() {
        let fs = fs_with("");
        let orphans: Vec<_> = (0..300)
            .map(|i| fixture::file(&fs, &i.to_string()))
            .collect();
        for orphan in &orphans {
            add(&fs, orphan);
            add(&fs, orphan);
        }
        assert_eq!(in_file(&fs), 300);
        assert!(fs.orphans.list.lock().listed.is_empty());
        for orphan in &orphans {
            remove(&fs, orphan);
        }
        assert_eq!(in_file(&fs), 0);
        assert!(!fs.orphans.any_left());
    }

    #[test]
    fn a_slot_from_before_the_mount_is_the_only_one() {
        let fs = fs_with("");
        let orphan = fixture::file(&fs, "f");
        add(&fs, &orphan);
        // As another mount finds it.
        orphan.orphan_slot.store(0, Ordering::Relaxed);
        assert_eq!(fs.orphans.load_file().expect("read"), [orphan.ino]);
        add(&fs, &orphan);
        assert_eq!(in_file(&fs), 1);
        remove(&fs, &orphan);
        assert!(!fs.orphans.any_left());
    }

    #[test]
    fn a_damaged_orphan_file_is_found_when_mounting() {
        let device = fixture::image(8 << 20, "");
        let fs = fixture::mount(&device);
        let file = fs.orphans.orphan_file().expect("read").expect("a file");
        let place = file.blocks[0].buffer.block() << 10;
        fs.unmount().expect("unmount");
        device.change(place, 1024, |bytes| bytes[500] ^= 1);
        let mounted = fixture::try_mount(&device, |_| {}).map(drop);
        assert!(matches!(mounted, Err(Ext4Error::Corrupt(_))), "{mounted:?}");
    }

    #[test]
    fn a_change_of_the_list_without_write_access_fails() {
        let with = |orphans: usize, work: fn(&OrphanList, &Handle<'_>, &InodeRef) -> Result<()>| {
            // The block of the superblock, or that of the one before in the list.
            for has_super in [true, false] {
                let fs = fs_with("^orphan_file");
                let all: Vec<_> = (0..9).map(|i| fixture::file(&fs, &i.to_string())).collect();
                let (first, last) = (&all[0], &all[8]);
                assert_ne!(first.itable.block(), last.itable.block());
                [first, last][..orphans]
                    .iter()
                    .for_each(|orphan| add(&fs, orphan));
                let attached = if has_super {
                    &fs.volume.super_buffer
                } else {
                    &first.itable
                };
                let done = fixture::on_aborted_journal(&fs, &[attached], |handle| {
                    work(&fs.orphans, handle, first)
                });
                assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
            }
        };
        with(0, |orphans, handle, first| {
            orphans.add_orphan(handle, first.inode())
        });
        with(1, |orphans, handle, first| {
            orphans.remove_orphan(handle, first)
        });
        // The last one of the list, which a later one precedes.
        with(2, |orphans, handle, first| {
            orphans.remove_orphan(handle, first)
        });
    }

    #[test]
    fn a_slot_changes_with_write_access_to_its_block() {
        let fs = fs_with("");
        let orphan = fixture::file(&fs, "f");
        add(&fs, &orphan);
        let done = fixture::on_aborted_journal(&fs, &[&orphan.itable], |handle| {
            fs.orphans.remove_orphan(handle, &orphan)
        });
        assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
    }

    #[test]
    fn threads_claim_slots_of_their_own() {
        const EACH: usize = 256;
        let cache = BufferCache::new(Arc::new(MemoryDevice::new(1 << 16)), 4096, 8);
        // One cache line, where every CPU begins.
        let file = OrphanFile {
            blocks: vec![OrphanBlock {
                buffer: cache.get(0).expect("a block"),
                slots: 2 * EACH,
                used: Words::of(&[0; 64]),
            }],
        };
        let begin = std::sync::Barrier::new(2);
        let claim = || -> Vec<_> {
            begin.wait();
            let claims = (0..EACH).filter_map(|_| file.claim());
            claims.map(|slot| slot.index).collect()
        };
        for _ in 0..200 {
            let all: HashSet<usize> = std::thread::scope(|scope| {
                let claiming = [(); 2].map(|()| scope.spawn(claim));
                let claimed = claiming.map(|thread| thread.join().expect("no panic"));
                claimed.into_iter().flatten().collect()
            });
            assert_eq!(all.len(), 2 * EACH);
            for index in all {
                file.release(Slot { block: 0, index });
            }
        }
    }
}
