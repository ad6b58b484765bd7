//! The slot of a name beside changes, in every order that the memory model allows.

use super::*;
use loom::sync::Arc;
use loom::thread;
use uext4_sync::atomic::AtomicU32;

const KEY: NameKey = NameKey {
    dir: Ino(2),
    at: 0,
    hash: 7,
    more: 3,
};

/// An entry that names an inode, and the slot of its name.
struct Entry {
    ino: AtomicU32,
    slot: Slot,
}

impl Entry {
    fn change(&self, ino: u32) {
        self.ino.store(ino, Relaxed);
        fence(Ordering::SeqCst);
        self.slot.forget(KEY);
    }

    fn note(&self) {
        if let Some(place) = self.slot.claim(KEY) {
            place.found(Some(Ino(self.ino.load(Relaxed))));
        }
    }

    fn read(&self) -> Option<u32> {
        read(&self.slot, KEY).map(|known| known.ino.map_or(0, |ino| ino.0))
    }
}

/// Once a change has returned, no reader finds what was before, whichever thread notes what it found meanwhile.
#[test]
fn a_change_is_seen_at_once() {
    loom::model(|| {
        let entry = Arc::new(Entry {
            ino: AtomicU32::new(1),
            slot: Slot::new(),
        });
        let noting = Arc::clone(&entry);
        let noting = thread::spawn(move || noting.note());
        entry.change(2);
        assert!(entry.read().is_none_or(|ino| ino == 2));
        noting.join().unwrap();
        assert!(entry.read().is_none_or(|ino| ino == 2));
    });
}

/// A reader gets a number with the hash that it was noted with.
#[test]
fn words_belong_together() {
    loom::model(|| {
        let entry = Arc::new(Entry {
            ino: AtomicU32::new(1),
            slot: Slot::new(),
        });
        let noting = Arc::clone(&entry);
        let noting = thread::spawn(move || {
            noting.note();
            let other = NameKey { hash: 8, ..KEY };
            let place = noting.slot.claim(other).expect("idle");
            place.found(Some(Ino(9)));
        });
        assert!(entry.read().is_none_or(|ino| ino == 1));
        noting.join().unwrap();
        assert!(entry.read().is_none());
    });
}
