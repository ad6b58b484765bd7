//! The inode lock and the locks on ranges, schedule by schedule: writers alone, no waiter forgotten.
//!
//! Under Shuttle a lock is wide from the first time that two readers meet, and one wait in four is
//! too long, so that the gate is handed over.
use crate::explore::explore;
use shuttle::thread;
use std::sync::Arc;
use uext4_sync::RangeLock;
use uext4_sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use uext4_vfs::attr::FileKind;
use uext4_vfs::{ILock, ILockGuard, LockMode, ilock, ilock_range, try_ilock, try_ilock_range};

use LockMode::{Exclusive, Shared};

/// A file whose lock is watched.
struct File {
    lock: ILock,
    ranges: RangeLock,
    readers: AtomicU32,
    writers: AtomicU32,
    /// How often a writer was in.
    writes: AtomicU32,
    /// Blocks that are written, as bits.
    written: AtomicU32,
}

impl File {
    fn new() -> Arc<File> {
        Arc::new(File {
            lock: ILock::new(12, FileKind::Regular),
            ranges: RangeLock::new(),
            readers: AtomicU32::new(0),
            writers: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            written: AtomicU32::new(0),
        })
    }

    fn lock(&self, mode: LockMode) -> ILockGuard<'_> {
        ilock(&self.lock, mode)
    }

    /// Does what the lock is held for, and checks that no thread does what it excludes.
    fn visit(&self, guard: &ILockGuard<'_>) {
        match guard.mode() {
            Shared => {
                self.readers.fetch_add(1, SeqCst);
                let writes = self.writes.load(SeqCst);
                assert_eq!(self.writers.load(SeqCst), 0, "a writer among readers");
                thread::yield_now();
                assert_eq!(self.writes.load(SeqCst), writes, "written under a reader");
                self.readers.fetch_sub(1, SeqCst);
            }
            Exclusive => {
                assert_eq!(self.writers.fetch_add(1, SeqCst), 0, "two writers");
                assert_eq!(self.readers.load(SeqCst), 0, "a reader under a writer");
                let writes = self.writes.load(SeqCst);
                thread::yield_now();
                self.writes.store(writes + 1, SeqCst);
                assert_eq!(self.readers.load(SeqCst), 0, "a reader under a writer");
                self.writers.fetch_sub(1, SeqCst);
            }
        }
    }

    fn lock_and_visit(&self, mode: LockMode) {
        let guard = self.lock(mode);
        self.visit(&guard);
    }
}

/// Runs each of `works` in a thread, on one file, and waits for them all.
fn run(file: &Arc<File>, works: &[fn(&File)]) {
    let threads: Vec<_> = works
        .iter()
        .map(|&work| {
            let file = Arc::clone(file);
            thread::spawn(move || work(&file))
        })
        .collect();
    for t in threads {
        t.join().expect("no panic");
    }
    // All threads have ended, and left nothing behind.
    assert!(try_ilock(&file.lock, Shared).is_some());
    assert!(try_ilock(&file.lock, Exclusive).is_some());
}

fn reader(file: &File) {
    for _ in 0..3 {
        file.lock_and_visit(Shared);
    }
}

fn writer(file: &File) {
    for _ in 0..2 {
        file.lock_and_visit(Exclusive);
    }
}

fn mixed(file: &File) {
    file.lock_and_visit(Shared);
    file.lock_and_visit(Exclusive);
    file.lock_and_visit(Shared);
}

#[test]
fn shuttle_readers_and_writers() {
    explore(|| {
        let file = File::new();
        run(&file, &[reader, reader, writer, writer, mixed]);
        assert_eq!(file.writes.load(SeqCst), 5);
    });
}

#[test]
fn shuttle_writers() {
    explore(|| {
        let file = File::new();
        run(&file, &[writer, writer, writer, writer]);
        assert_eq!(file.writes.load(SeqCst), 8);
    });
}

/// The first reader is counted in the word, and makes room for others that are counted elsewhere;
/// all leave in any order while a writer waits for them.
#[test]
fn shuttle_widened_while_held() {
    explore(|| {
        let file = File::new();
        let first = file.lock(Shared);
        let others: Vec<_> = [reader as fn(&File), reader, writer]
            .into_iter()
            .map(|work| {
                let file = Arc::clone(&file);
                thread::spawn(move || work(&file))
            })
            .collect();
        file.visit(&first);
        drop(first);
        for t in others {
            t.join().expect("no panic");
        }
        assert_eq!(file.writes.load(SeqCst), 2);
        assert!(try_ilock(&file.lock, Exclusive).is_some());
    });
}

/// A reader that saw the lock wide enters when a writer has made it narrow, and the next writer reads
/// the word only.
#[test]
fn shuttle_narrowed_in_between() {
    explore(|| {
        let file = File::new();
        let both = (file.lock(Shared), file.lock(Shared));
        drop(both);
        let writer = {
            let file = Arc::clone(&file);
            thread::spawn(move || {
                drop(file.lock(Exclusive));
                file.lock_and_visit(Exclusive);
            })
        };
        file.lock_and_visit(Shared);
        writer.join().expect("no panic");
    });
}

/// What a writer wrote is there, and nothing else, until it has left as a reader.
fn downgrader(file: &File) {
    let guard = file.lock(Exclusive);
    file.visit(&guard);
    let wrote = file.writes.load(SeqCst);
    let guard = guard.downgrade();
    assert_eq!(guard.mode(), Shared);
    assert_eq!(file.writes.load(SeqCst), wrote, "a writer got in between");
    file.visit(&guard);
    assert_eq!(file.writes.load(SeqCst), wrote, "a writer got in between");
}

#[test]
fn shuttle_downgrade() {
    explore(|| {
        let file = File::new();
        run(&file, &[downgrader, downgrader, writer, reader]);
        assert_eq!(file.writes.load(SeqCst), 4);
    });
}

/// Takes the lock where that needs no waiting.
fn tryer(file: &File) {
    for mode in [Shared, Exclusive, Shared, Exclusive] {
        if let Some(guard) = try_ilock(&file.lock, mode) {
            file.visit(&guard);
        }
    }
}

#[test]
fn shuttle_tries() {
    explore(|| {
        let file = File::new();
        run(&file, &[tryer, tryer, reader, writer]);
    });
    explore(|| {
        let file = File::new();
        run(&file, &[tryer, tryer, reader, reader]);
    });
}

/// A try gets in among readers without other threads, and does not among what excludes it.
#[test]
fn shuttle_a_try_beside_a_holder() {
    explore(|| {
        let file = File::new();
        let held = file.lock(Shared);
        let readers = [(); 2].map(|()| {
            let file = Arc::clone(&file);
            thread::spawn(move || {
                let guard = try_ilock(&file.lock, Shared).expect("readers only");
                file.visit(&guard);
                drop(guard);
                assert!(try_ilock(&file.lock, Exclusive).is_none());
            })
        });
        // A try for it alone finds the reader before it closes the gate.
        for t in readers {
            t.join().expect("no panic");
        }
        drop(held);
        let _alone = try_ilock(&file.lock, Exclusive).expect("the lock is free");
        assert!(try_ilock(&file.lock, Shared).is_none());
    });
}

/// Writes block 0 if that was not written yet: shared where it was, else alone, checked again.
fn shared_first(file: &File) {
    let guard = file.lock(Shared);
    file.visit(&guard);
    if file.written.load(SeqCst) & 1 != 0 {
        return;
    }
    drop(guard);
    let guard = file.lock(Exclusive);
    if file.written.load(SeqCst) & 1 == 0 {
        file.visit(&guard);
        let before = file.written.load(SeqCst);
        thread::yield_now();
        assert_eq!(before, 0, "allocated twice");
        file.written.store(before + 1, SeqCst);
        // The data goes there with others reading.
        let guard = guard.downgrade();
        file.visit(&guard);
    }
}

#[test]
fn shuttle_shared_first() {
    explore(|| {
        let file = File::new();
        run(&file, &[shared_first, shared_first, shared_first, reader]);
        assert_eq!(file.written.load(SeqCst), 1);
        assert_eq!(file.writes.load(SeqCst), 1);
    });
}

/// Takes blocks under the shared lock and a range, and checks that no thread has one of them.
fn range_writer(file: &File, blocks: std::ops::Range<u64>) {
    let bits = (1 << blocks.end) - (1 << blocks.start);
    let locked = file.lock(Shared);
    let _range = ilock_range(&file.lock, &file.ranges, blocks, &locked);
    assert_eq!(file.written.fetch_or(bits, SeqCst) & bits, 0, "overlap");
    thread::yield_now();
    file.written.fetch_and(!bits, SeqCst);
}

#[test]
fn shuttle_ranges() {
    let works: [fn(&File); 4] = [
        |file| (0..2).for_each(|_| range_writer(file, 0..2)),
        |file| (0..2).for_each(|_| range_writer(file, 1..4)),
        |file| (0..2).for_each(|_| range_writer(file, 3..5)),
        |file| {
            file.lock_and_visit(Exclusive);
            range_writer(file, 0..5);
        },
    ];
    explore(move || {
        let file = File::new();
        run(&file, &works);
        let locked = file.lock(Shared);
        assert!(try_ilock_range(&file.ranges, 0..9, &locked).is_some());
    });
}

/// A wide range waits for a narrow one; another narrow one, that the held one does not touch, queues
/// behind the wide one all the same.
#[test]
fn shuttle_ranges_are_first_come_first_served() {
    explore(|| {
        let file = File::new();
        let wide_was_in = Arc::new(AtomicBool::new(false));
        let locked = file.lock(Shared);
        let held = ilock_range(&file.lock, &file.ranges, 0..4, &locked);
        let wide = {
            let (file, wide_was_in) = (Arc::clone(&file), Arc::clone(&wide_was_in));
            thread::spawn(move || {
                let locked = file.lock(Shared);
                let _range = ilock_range(&file.lock, &file.ranges, 0..8, &locked);
                thread::yield_now();
                wide_was_in.store(true, SeqCst);
            })
        };
        while try_ilock_range(&file.ranges, 4..8, &locked).is_some() {
            thread::yield_now();
        }
        let narrow = {
            let (file, wide_was_in) = (Arc::clone(&file), Arc::clone(&wide_was_in));
            thread::spawn(move || {
                let locked = file.lock(Shared);
                assert!(try_ilock_range(&file.ranges, 8..9, &locked).is_some());
                let _range = ilock_range(&file.lock, &file.ranges, 4..8, &locked);
                assert!(wide_was_in.load(SeqCst), "out of turn");
            })
        };
        drop(held);
        wide.join().expect("no panic");
        narrow.join().expect("no panic");
    });
}
