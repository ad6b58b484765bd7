//! The map of an image: where each block is at a root.

use super::chunk::Chunk;
use super::chunks::Chunks;
use super::names::Segment;
use super::page::{BLOCK, ENTRIES, Location, PAGE, Page};
use super::root::{Root, TABLE_ENTRY};
use super::store::{ObjectStore, StoreError, StoreResult};
use quick_cache::sync::Cache;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use uext4_sync::{Mutex, class};

/// Pages that are kept: those of 8 GiB.
const PAGES: usize = 4096;

/// Blocks that an image begins with, 16 MiB, and how many chunks of them are read ahead.
const HEAD: u64 = 4096;
const HEAD_CHUNKS: usize = 24;

/// The pages that were read or written. Pages do not change: a root that changed a block has others.
#[derive(Debug)]
pub struct Map {
    pub chunks: Chunks,
    pages: Cache<(Segment, u16), Arc<Page>>,
}

impl Map {
    /// Of what the chunks hold.
    pub fn new(chunks: Chunks) -> Map {
        Map {
            chunks,
            pages: Cache::new(PAGES),
        }
    }

    /// The page at a location; of holes where there is none.
    ///
    /// # Errors
    /// As [`Chunks::read`].
    pub fn page(&self, location: Location) -> StoreResult<Arc<Page>> {
        if location.is_hole() {
            return Ok(Arc::new(Page::empty(ENTRIES)));
        }
        let key = (location.segment, location.at);
        self.pages.get_or_insert_with(&key, || {
            let mut bytes = vec![0; PAGE];
            self.chunks.read(location, &mut bytes)?;
            Ok(Arc::new(Page::decode(&bytes)))
        })
    }

    /// Keeps a page that was written.
    pub fn written(&self, location: Location, page: Arc<Page>) {
        self.pages.insert((location.segment, location.at), page);
    }

    /// Where a block is.
    ///
    /// # Errors
    /// As [`Chunks::read`].
    pub fn locate(&self, root: &Root, block: u64) -> StoreResult<Location> {
        let middle = root.table.get((block / TABLE_ENTRY) as usize);
        if middle.is_hole() {
            return Ok(Location::HOLE);
        }
        let leaf = self
            .page(middle)?
            .get((block / ENTRIES as u64) as usize % ENTRIES);
        if leaf.is_hole() {
            return Ok(Location::HOLE);
        }
        Ok(self.page(leaf)?.get(block as usize % ENTRIES))
    }

    /// The blocks of a range that have bytes.
    ///
    /// # Errors
    /// As [`Chunks::read`].
    pub fn mapped(
        &self,
        root: &Root,
        blocks: std::ops::Range<u64>,
    ) -> StoreResult<Vec<(u64, Location)>> {
        let mut found = Vec::new();
        let leaf_blocks = ENTRIES as u64;
        let mut at = blocks.start;
        while at < blocks.end {
            let middle = root.table.get((at / TABLE_ENTRY) as usize);
            if middle.is_hole() {
                at = (at / TABLE_ENTRY + 1) * TABLE_ENTRY;
                continue;
            }
            let next = (at / leaf_blocks + 1) * leaf_blocks;
            let leaf = self
                .page(middle)?
                .get((at / leaf_blocks) as usize % ENTRIES);
            if !leaf.is_hole() {
                let first = at / leaf_blocks * leaf_blocks;
                for (slot, location) in self.page(leaf)?.locations() {
                    let block = first + slot as u64;
                    if blocks.contains(&block) {
                        found.push((block, location));
                    }
                }
            }
            at = next;
        }
        Ok(found)
    }

    /// Reads whole blocks at a root: each number with the bytes that it fills.
    ///
    /// # Errors
    /// As [`Chunks::read`].
    pub fn read(&self, root: &Root, blocks: &mut [(u64, &mut [u8])]) -> StoreResult<()> {
        let mut located = Vec::with_capacity(blocks.len());
        for (block, buf) in blocks.iter_mut() {
            located.push((self.locate(root, *block)?, &mut **buf));
        }
        self.read_located(&mut located)
    }

    /// Reads whole blocks that are at locations.
    ///
    /// # Errors
    /// As [`Chunks::read`].
    pub fn read_located(&self, blocks: &mut [(Location, &mut [u8])]) -> StoreResult<()> {
        let wanted = blocks.iter().map(|(location, _)| *location);
        self.fetch(wanted.filter(|location| !location.is_hole()), usize::MAX)?;
        for (location, buf) in blocks {
            match location.is_hole() {
                true => buf.fill(0),
                false => self.chunks.read(*location, buf)?,
            }
        }
        Ok(())
    }

    /// Reads the chunks of blocks that this host has not, the first so many of them.
    fn fetch(&self, located: impl Iterator<Item = Location>, max: usize) -> StoreResult<()> {
        let chunks: BTreeSet<(Segment, u16)> = located
            .flat_map(|location| Chunk::of(location, BLOCK))
            .filter(|chunk| !self.chunks.has(*chunk))
            .map(|chunk| (chunk.segment, chunk.index))
            .collect();
        let chunks: Vec<_> = chunks.into_iter().take(max).collect();
        in_parallel(&*self.chunks.store, chunks.len(), |at| {
            let (segment, index) = chunks[at];
            self.chunks.chunk(Chunk { segment, index }, false).map(drop)
        })
    }

    /// Reads ahead what an image begins with, which a file system reads first: a level of the map after the other, each at once.
    ///
    /// # Errors
    /// As [`Chunks::read`].
    pub fn read_head(&self, root: &Root) -> StoreResult<()> {
        let middle = self.page(root.table.get(0))?;
        let leaves = (HEAD / ENTRIES as u64) as usize;
        in_parallel(&*self.chunks.store, leaves, |leaf| {
            self.page(middle.get(leaf)).map(drop)
        })?;
        let mapped = self.mapped(root, 0..HEAD)?;
        let locations = mapped.into_iter().map(|(_, location)| location);
        self.fetch(locations, HEAD_CHUNKS)
    }

    /// Calls `each` with everything that a root needs: pages before what they lead to.
    ///
    /// # Errors
    /// As [`Chunks::read`].
    pub fn for_each(&self, root: &Root, mut each: impl FnMut(Part, Location)) -> StoreResult<()> {
        for (at, middle) in root.table.locations() {
            each(Part::Middle(at as u64), middle);
            let first = at * ENTRIES;
            for (at, leaf) in self.page(middle)?.locations() {
                let number = (first + at) as u64;
                each(Part::Leaf(number), leaf);
                for (at, block) in self.page(leaf)?.locations() {
                    each(Part::Block(number * ENTRIES as u64 + at as u64), block);
                }
            }
        }
        Ok(())
    }
}

/// What segments hold of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A page of pages, by its number in the table.
    Middle(u64),
    /// A page of blocks, by its number.
    Leaf(u64),
    /// A block, by its number.
    Block(u64),
}

impl Part {
    /// Its size.
    pub fn bytes(self) -> u64 {
        match self {
            Part::Middle(_) | Part::Leaf(_) => PAGE as u64,
            Part::Block(_) => BLOCK as u64,
        }
    }
}

/// Does so many things, as many at a time as the store lets.
///
/// # Errors
/// That of one that failed.
pub fn in_parallel(
    store: &dyn ObjectStore,
    count: usize,
    one: impl Fn(usize) -> StoreResult<()> + Sync,
) -> StoreResult<()> {
    let threads = count.min(store.in_flight());
    if threads <= 1 {
        return (0..count).try_for_each(one);
    }
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<StoreError>> = Mutex::new(&class::DEVICE, None);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count || failed.lock().is_some() {
                return;
            }
            if let Err(why) = one(at) {
                failed.lock().get_or_insert(why);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // A host that has no thread left does with fewer.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    failed.into_inner().map_or(Ok(()), Err)
}
