//! The map of an image: where each block is at a root.

use super::chunk::Chunk;
use super::chunks::{Chunks, IN_FLIGHT};
use super::names::Segment;
use super::page::{BLOCK, ENTRIES, Location, PAGE, Page};
use super::root::{Root, TABLE_ENTRY};
use super::store::{StoreError, StoreResult};
use quick_cache::sync::Cache;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use uext4_sync::{Mutex, class};

/// Pages that are kept: those of 8 GiB.
const PAGES: usize = 4096;

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
        for (block, _) in blocks.iter() {
            located.push(self.locate(root, *block)?);
        }
        self.fetch(&located)?;
        for ((_, buf), location) in blocks.iter_mut().zip(located) {
            match location.is_hole() {
                true => buf.fill(0),
                false => self.chunks.read(location, buf)?,
            }
        }
        Ok(())
    }

    /// Reads the chunks that this host has not, many at a time, and what follows them if they follow each other.
    fn fetch(&self, located: &[Location]) -> StoreResult<()> {
        let wanted = located.iter().filter(|location| !location.is_hole());
        let chunks: BTreeSet<(Segment, u16)> = wanted
            .flat_map(|location| Chunk::of(*location, BLOCK))
            .filter(|chunk| !self.chunks.has(*chunk))
            .map(|chunk| (chunk.segment, chunk.index))
            .collect();
        let chunks: Vec<_> = chunks.into_iter().collect();
        if chunks.len() < 2 {
            return Ok(());
        }
        in_parallel(chunks.len(), |at| {
            let (segment, index) = chunks[at];
            self.chunks.chunk(Chunk { segment, index }, false).map(drop)
        })
    }

    /// How many blocks of each segment a root needs, its pages included.
    ///
    /// # Errors
    /// As [`Chunks::read`].
    pub fn used(&self, root: &Root, used: &mut HashMap<Segment, u64>) -> StoreResult<()> {
        let mut count = |location: Location, len: usize| {
            *used.entry(location.segment).or_default() += (len / BLOCK) as u64;
        };
        for (_, middle) in root.table.locations() {
            count(middle, PAGE);
            for (_, leaf) in self.page(middle)?.locations() {
                count(leaf, PAGE);
                for (_, block) in self.page(leaf)?.locations() {
                    count(block, BLOCK);
                }
            }
        }
        Ok(())
    }
}

/// Does so many things, several at a time.
///
/// # Errors
/// That of one that failed.
pub fn in_parallel(count: usize, one: impl Fn(usize) -> StoreResult<()> + Sync) -> StoreResult<()> {
    if count <= 1 {
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
        for _ in 1..count.min(IN_FLIGHT) {
            // A host that has no thread left does with fewer.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    failed.into_inner().map_or(Ok(()), Err)
}
