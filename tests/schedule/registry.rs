//! The new and freeing protocol of the superblock registry, schedule by schedule.
use crate::explore::explore;
use shuttle::thread;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicU32, Ordering::SeqCst};
use uext4_vfs::registry::{Registry, SuperKey, SuperVariant, Superblock};
use uext4_vfs::{Errno, Error};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key(u32);

impl SuperKey for Key {
    fn spread(&self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Counts the superblocks of one key that have the device open.
struct Super {
    open: Arc<AtomicU32>,
}

impl Super {
    fn fill(open: &Arc<AtomicU32>) -> Result<Super, Error> {
        assert_eq!(open.fetch_add(1, SeqCst), 0, "the device is open twice");
        thread::yield_now();
        Ok(Super {
            open: Arc::clone(open),
        })
    }
}

impl Superblock for Super {
    fn shutdown(&self) -> uext4_vfs::Result<()> {
        thread::yield_now();
        assert_eq!(self.open.fetch_sub(1, SeqCst), 1);
        Ok(())
    }
}

fn explore_variants(scenario: fn(SuperVariant)) {
    for variant in SuperVariant::ALL {
        explore(move || scenario(variant));
    }
}

/// Threads mount, clone and unmount one key: never two superblocks at once, none left.
fn mount_and_unmount(variant: SuperVariant) {
    let registry = Arc::new(Registry::<Key, Super>::new(variant));
    let open = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (registry, open) = (Arc::clone(&registry), Arc::clone(&open));
            thread::spawn(move || {
                for _ in 0..2 {
                    let a = registry
                        .get_tree_keyed(Key(7), |_| Ok::<_, Error>(()), || Super::fill(&open))
                        .expect("fills");
                    assert_eq!(a.open.load(SeqCst), 1);
                    let b = a.clone();
                    drop(a);
                    assert_eq!(b.open.load(SeqCst), 1);
                }
            })
        })
        .collect();
    for t in threads {
        t.join().expect("no panic");
    }
    assert!(registry.is_empty());
    assert_eq!(open.load(SeqCst), 0);
}

/// The first fill fails: its waiter is woken and retries.
fn failing_fill(variant: SuperVariant) {
    let registry = Arc::new(Registry::<Key, Super>::new(variant));
    let open = Arc::new(AtomicU32::new(0));
    let tries = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (registry, open, tries) =
                (Arc::clone(&registry), Arc::clone(&open), Arc::clone(&tries));
            thread::spawn(move || {
                let got = registry.get_tree_keyed(
                    Key(7),
                    |_| Ok(()),
                    || {
                        thread::yield_now();
                        if tries.fetch_add(1, SeqCst) == 0 {
                            return Err(Error::from(Errno::EIO));
                        }
                        Super::fill(&open)
                    },
                );
                u32::from(got.is_err())
            })
        })
        .collect();
    let failed: u32 = threads
        .into_iter()
        .map(|t| t.join().expect("no panic"))
        .sum();
    assert_eq!(failed, 1);
    assert!(registry.is_empty());
}

/// A namespace is created while another thread mounts its queues by key.
fn create_and_find(variant: SuperVariant) {
    let registry = Arc::new(Registry::<Key, Super>::new(variant));
    let open = Arc::new(AtomicU32::new(0));
    let finder = {
        let (registry, open) = (Arc::clone(&registry), Arc::clone(&open));
        thread::spawn(move || {
            if let Some(found) = registry.find(&Key(7)) {
                assert!(Arc::ptr_eq(&found.open, &open));
                assert_eq!(found.open.load(SeqCst), 1);
            }
        })
    };
    let made = registry
        .get_tree_nodev(Key(7), || Super::fill(&open))
        .expect("fills");
    drop(made);
    finder.join().expect("no panic");
    assert!(registry.is_empty());
}

/// A waiter for a birth is woken by it: nothing else wakes it while the maker keeps the superblock.
fn found_while_it_is_kept(variant: SuperVariant) {
    let registry = Arc::new(Registry::<Key, Super>::new(variant));
    let open = Arc::new(AtomicU32::new(0));
    let finders = [(); 2].map(|()| {
        let registry = Arc::clone(&registry);
        thread::spawn(move || drop(registry.find(&Key(7))))
    });
    let made = registry
        .get_tree_nodev(Key(7), || Super::fill(&open))
        .expect("fills");
    for finder in finders {
        finder.join().expect("no panic");
    }
    assert_eq!(open.load(SeqCst), 1);
    drop(made);
    assert!(registry.is_empty());
}

#[test]
fn shuttle_found_while_it_is_kept() {
    explore_variants(found_while_it_is_kept);
}

#[test]
fn shuttle_mount_and_unmount() {
    explore_variants(mount_and_unmount);
}

#[test]
fn shuttle_failing_fill() {
    explore_variants(failing_fill);
}

#[test]
fn shuttle_create_and_find() {
    explore_variants(create_and_find);
}
