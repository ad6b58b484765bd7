//! From what was written to a new root.

use super::lease::{Stopped, advance};
use super::map::{Map, in_parallel};
use super::moved::Moved;
use super::page::{ENTRIES, Location, Page};
use super::root::Root;
use super::segments::NewSegments;
use super::store::{ObjectStore, StoreResult};
use super::writeback::{Change, Changes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// New entries of pages, by the numbers of the pages.
type Entries = BTreeMap<u64, Vec<(usize, Location)>>;

/// Writes changes of what `base` holds, and the pages that are to be moved, and returns the root that holds them. What changes nothing has a root
/// too: that it can be made says that no other host is the writer.
///
/// # Errors
/// As [`advance`].
pub fn write(
    store: &dyn ObjectStore,
    map: &Map,
    base: &Root,
    changes: &Changes,
    moved: &Moved,
) -> Result<Root, Stopped> {
    let mut segments = NewSegments::new(base.epoch, base.next_segment);
    let mut blocks = Entries::new();
    changes.for_each(|block, change| {
        let location = match change {
            Change::Data(bytes) if bytes.iter().any(|byte| *byte != 0) => segments.push(bytes),
            _ => Location::HOLE,
        };
        add(&mut blocks, block, location);
        Ok::<(), Stopped>(())
    })?;
    for leaf in &moved.leaves {
        blocks.entry(*leaf).or_default();
    }
    let per_page = ENTRIES as u64;
    let old_middle = |middle: u64| Ok(base.table.get(middle as usize));
    let old_leaf = |leaf: u64| {
        let middle = map.page(base.table.get((leaf / per_page) as usize))?;
        Ok(middle.get(leaf as usize % ENTRIES))
    };
    let pages = &mut Vec::new();
    let mut leaves = rewrite(map, &blocks, old_leaf, moved, &mut segments, pages)?;
    for middle in &moved.middles {
        leaves.entry(*middle).or_default();
    }
    let middles = rewrite(map, &leaves, old_middle, moved, &mut segments, pages)?;
    let mut root = base.clone();
    for (part, entries) in middles {
        for (index, location) in entries {
            root.table.set(part as usize * ENTRIES + index, location);
        }
    }
    let (next_segment, bytes) = segments.write(store, &map.chunks)?;
    root.number += 1;
    root.next_segment = next_segment;
    root.written += bytes;
    advance(store, &root)?;
    for (location, page) in pages.drain(..) {
        map.written(location, page);
    }
    Ok(root)
}

/// Adds what becomes of entry `number` of a level. The table is one page.
fn add(entries: &mut Entries, number: u64, location: Location) {
    let (page, index) = (number / ENTRIES as u64, number as usize % ENTRIES);
    entries.entry(page).or_default().push((index, location));
}

/// The pages of a level with new entries, and the entries of the level above.
fn rewrite(
    map: &Map,
    entries: &Entries,
    old: impl Fn(u64) -> StoreResult<Location> + Sync,
    moved: &Moved,
    segments: &mut NewSegments,
    pages: &mut Vec<(Location, Arc<Page>)>,
) -> StoreResult<Entries> {
    // What has to be read is read at once.
    let numbers: Vec<u64> = entries.keys().copied().collect();
    in_parallel(&*map.chunks.store, numbers.len(), |at| {
        map.page(old(numbers[at])?).map(drop)
    })?;
    let mut above = Entries::new();
    for (number, entries) in entries {
        let at = old(*number)?;
        let before = map.page(at)?;
        let mut page = Page::clone(&before);
        for (index, location) in entries {
            page.set(*index, *location);
        }
        if page == *before && !moved.segments.contains(&at.segment) {
            continue;
        }
        let location = match page.is_hole() {
            true => Location::HOLE,
            false => segments.push(&page.encode()),
        };
        if !location.is_hole() {
            pages.push((location, Arc::new(page)));
        }
        add(&mut above, *number, location);
    }
    Ok(above)
}
