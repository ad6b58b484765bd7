//! Garbage: roots and segments that nothing needs.
//!
//! A writer that was taken over may collect too, without harm: what its root does not need, no later root needs, and segments that were
//! written since are left alone.

use super::compact::{self, mostly_garbage};
use super::image::Image;
use super::lease::Stopped;
use super::map::in_parallel;
use super::names::{self, Segment};
use super::page::Location;
use super::root::Root;
use super::store::{ObjectStore, StoreError, StoreResult, again};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uext4_sync::{Mutex, class};

/// Roots after which old ones are removed.
const ROOTS: u64 = 256;
/// Bytes written after which segments are searched, at least; else as many as the image has, as all of its pages are read then.
const WRITTEN: u64 = 256 << 20;
/// Objects that are removed at a time.
const REMOVED: usize = 1000;

/// Begins to collect garbage if there is enough.
pub fn begin_if_due(image: &Arc<Image>) {
    let root = image.root();
    let has_garbage = root.written >= WRITTEN.max(image.used.load(Ordering::Relaxed));
    let is_due = root.number >= root.floor.max(root.first) + ROOTS || has_garbage;
    if !is_due || image.is_collecting.swap(true, Ordering::AcqRel) {
        return;
    }
    // Before the flush returns: a host that opens the image after this one has closed it meets no root of this one later.
    let begun = begin(image, has_garbage);
    let image = Arc::clone(image);
    let thread = std::thread::Builder::new().name("uext4-collect".into());
    let collecting = Collecting(Arc::clone(&image));
    // What fails is tried again when as much was written again.
    let _ = thread.spawn(move || {
        let _collecting = collecting;
        let _ = begun.and_then(|root| collect_from(&image, root, has_garbage));
    });
}

/// Ends a collection.
struct Collecting(Arc<Image>);

impl Drop for Collecting {
    fn drop(&mut self) {
        self.0.is_collecting.store(false, Ordering::Release);
    }
}

/// Removes roots that no reader reads and, if asked, segments that no root needs. The image's writer calls it.
///
/// The first root of an epoch stays for good: its name is what a writer that was taken over, and does not know, tries to make.
///
/// # Errors
/// As [`advance`](super::lease::advance).
pub fn collect(image: &Image, and_segments: bool) -> Result<(), Stopped> {
    collect_from(image, begin(image, and_segments)?, and_segments)
}

/// Removes garbage. Segments that are garbage in part are so as a whole once what they hold was moved, at a later root.
fn collect_from(image: &Image, root: Arc<Root>, and_segments: bool) -> Result<(), Stopped> {
    let mostly_garbage = remove_garbage(image, &root, and_segments)?;
    if mostly_garbage.is_empty() {
        return Ok(());
    }
    compact::compact(image, &root, mostly_garbage)?;
    remove_garbage(image, &*begin(image, true)?, true).map(drop)
}

/// Makes the root from which on readers that pin an older one read the floor, and pin another.
fn begin(image: &Image, and_segments: bool) -> Result<Arc<Root>, Stopped> {
    image.advance(|root| {
        root.floor = root.number;
        if and_segments {
            root.written = 0;
        }
    })
}

/// Removes garbage, and returns the segments that are mostly garbage.
fn remove_garbage(
    image: &Image,
    root: &Root,
    and_segments: bool,
) -> Result<BTreeSet<Segment>, Stopped> {
    let store = &*image.store;
    let pinned: BTreeSet<u64> = again(store, || store.list(names::READERS))?
        .iter()
        .filter_map(|reader| names::root_of_reader(&reader.name))
        .collect();
    let mostly_garbage = match and_segments {
        true => remove_segments(image, root, &pinned)?,
        false => BTreeSet::new(),
    };
    remove_roots(store, root, &pinned)?;
    Ok(mostly_garbage)
}

fn remove_segments(
    image: &Image,
    root: &Root,
    pinned: &BTreeSet<u64>,
) -> Result<BTreeSet<Segment>, Stopped> {
    let store = &*image.store;
    let mut used: HashMap<Segment, u64> = HashMap::new();
    image.map.for_each(root, |part, location| {
        *used.entry(location.segment).or_default() += part.bytes();
    })?;
    image.used.store(used.values().sum(), Ordering::Relaxed);
    let mut read: HashSet<Segment> = HashSet::new();
    for number in pinned {
        let found = Root::read(store, *number);
        let each = |_, location: Location| {
            read.insert(location.segment);
        };
        match found.and_then(|pinned| image.map.for_each(&pinned, each)) {
            // A reader that was late has pinned it, and another one then.
            Ok(()) | Err(StoreError::NotFound) => {}
            Err(why) => return Err(why.into()),
        }
    }
    let end = Segment {
        epoch: root.epoch,
        number: root.next_segment,
    };
    let all = again(store, || store.list(names::SEGMENTS))?;
    let sizes = all
        .iter()
        .map(|object| (Segment::parse(&object.name), object.bytes));
    let sizes: HashMap<Segment, u64> = sizes
        .filter_map(|(segment, bytes)| Some((segment?, bytes)))
        .filter(|(segment, _)| *segment < end)
        .collect();
    let garbage = sizes
        .keys()
        .filter(|s| !used.contains_key(s) && !read.contains(s));
    remove(store, garbage.map(|segment| segment.name()).collect())?;
    Ok(mostly_garbage(&used, &sizes))
}

/// Removes the roots before `root` that no reader reads and that are not the first of an epoch.
///
/// # Errors
/// The store's.
pub fn remove_roots(
    store: &dyn ObjectStore,
    root: &Root,
    pinned: &BTreeSet<u64>,
) -> StoreResult<()> {
    let all = again(store, || store.list(names::ROOTS))?;
    let old = all
        .iter()
        .filter_map(|object| names::root_number(&object.name));
    let old = old.filter(|number| *number < root.number && !pinned.contains(number));
    let (own, older): (Vec<u64>, Vec<u64>) = old.partition(|number| *number > root.first);
    let garbage = Mutex::new(&class::DEVICE, own);
    let older: Vec<u64> = older
        .into_iter()
        .filter(|number| *number != root.first)
        .collect();
    in_parallel(store, older.len(), |at| {
        match Root::read(store, older[at]) {
            Ok(found) if found.first == found.number => {}
            Ok(_) => garbage.lock().push(older[at]),
            // Gone, or damaged: what it was is not known, and it stays.
            Err(_) => {}
        }
        Ok(())
    })?;
    let garbage = garbage.into_inner();
    remove(store, garbage.into_iter().map(names::root).collect())
}

/// Removes objects.
///
/// # Errors
/// The store's.
pub fn remove(store: &dyn ObjectStore, names: Vec<String>) -> StoreResult<()> {
    let parts: Vec<&[String]> = names.chunks(REMOVED).collect();
    in_parallel(store, parts.len(), |at| {
        again(store, || store.delete(parts[at]))
    })
}
