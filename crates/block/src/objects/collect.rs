//! Garbage: roots and segments that nothing needs.
//!
//! A writer that was taken over may collect too, without harm: what its root does not need, no later root needs, and segments that were
//! written since are left alone.

use super::image::Image;
use super::lease::Stopped;
use super::map::in_parallel;
use super::names::{self, Segment};
use super::page::BLOCK;
use super::root::Root;
use super::store::{ObjectStore, StoreError, again};
use std::collections::{BTreeSet, HashMap};
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
        let _ = begun.and_then(|root| remove_garbage(&image, &root, has_garbage));
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
    let root = begin(image, and_segments)?;
    remove_garbage(image, &root, and_segments)
}

/// Makes the root from which on readers that pin an older one read the floor, and pin another.
fn begin(image: &Image, and_segments: bool) -> Result<Arc<Root>, Stopped> {
    image.advance_alone(|root| {
        root.floor = root.number;
        if and_segments {
            root.written = 0;
        }
    })
}

fn remove_garbage(image: &Image, root: &Root, and_segments: bool) -> Result<(), Stopped> {
    let store = &*image.store;
    let pinned: BTreeSet<u64> = again(store, || store.list(names::READERS, ""))?
        .iter()
        .filter_map(|name| names::root_of_reader(name))
        .collect();
    if and_segments {
        remove_segments(image, root, &pinned)?;
    }
    remove_roots(store, root, &pinned)
}

fn remove_segments(image: &Image, root: &Root, pinned: &BTreeSet<u64>) -> Result<(), Stopped> {
    let store = &*image.store;
    let mut used = HashMap::new();
    image.map.used(root, &mut used)?;
    let bytes = used.values().sum::<u64>() * BLOCK as u64;
    image.used.store(bytes, Ordering::Relaxed);
    for number in pinned {
        let counted = Root::read(store, *number);
        match counted.and_then(|pinned| image.map.used(&pinned, &mut used)) {
            // A reader that was late has pinned it, and another one then.
            Ok(()) | Err(StoreError::NotFound) => {}
            Err(why) => return Err(why.into()),
        }
    }
    let end = Segment {
        epoch: root.epoch,
        number: root.next_segment,
    };
    let all = again(store, || store.list(names::SEGMENTS, ""))?;
    let garbage = all.into_iter().filter(|name| {
        Segment::parse(name).is_some_and(|segment| segment < end && !used.contains_key(&segment))
    });
    remove(store, garbage.collect())
}

pub fn remove_roots(
    store: &dyn ObjectStore,
    root: &Root,
    pinned: &BTreeSet<u64>,
) -> Result<(), Stopped> {
    let all = again(store, || store.list(names::ROOTS, ""))?;
    let old = all.iter().filter_map(|name| names::root_number(name));
    let old = old.filter(|number| *number < root.number && !pinned.contains(number));
    let (own, older): (Vec<u64>, Vec<u64>) = old.partition(|number| *number > root.first);
    let garbage = Mutex::new(&class::DEVICE, own);
    let older: Vec<u64> = older
        .into_iter()
        .filter(|number| *number != root.first)
        .collect();
    in_parallel(older.len(), |at| {
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

fn remove(store: &dyn ObjectStore, names: Vec<String>) -> Result<(), Stopped> {
    let parts: Vec<&[String]> = names.chunks(REMOVED).collect();
    Ok(in_parallel(parts.len(), |at| {
        again(store, || store.delete(parts[at]))
    })?)
}
