//! Tests of the superblock registry.

use super::*;
use crate::errno::Error;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

impl SuperKey for u32 {
    fn spread(&self) -> u64 {
        u64::from(*self).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

struct Super {
    id: u32,
    read_only: bool,
    shutdowns: Arc<AtomicU32>,
}

impl Superblock for Super {
    fn shutdown(&self) -> crate::errno::Result<()> {
        self.shutdowns.fetch_add(1, SeqCst);
        if self.id == 666 {
            return Err(Errno::EIO.into());
        }
        Ok(())
    }
    fn is_read_only(&self) -> bool {
        self.read_only
    }
}

#[derive(Default)]
struct Maker {
    fills: AtomicU32,
    shutdowns: Arc<AtomicU32>,
}

impl Maker {
    fn fill(&self, id: u32) -> Result<Super, Error> {
        self.fills.fetch_add(1, SeqCst);
        Ok(Super {
            id,
            read_only: false,
            shutdowns: Arc::clone(&self.shutdowns),
        })
    }
    fn counts(&self) -> (u32, u32) {
        (self.fills.load(SeqCst), self.shutdowns.load(SeqCst))
    }
}

fn keyed(
    registry: &Registry<u32, Super>,
    maker: &Maker,
    key: u32,
) -> Result<SuperRef<u32, Super>, Error> {
    registry.get_tree_keyed(key, |_| Ok(()), || maker.fill(key))
}

fn registries() -> impl Iterator<Item = Registry<u32, Super>> {
    SuperVariant::ALL.into_iter().map(Registry::new)
}

#[test]
fn variant_names_round_trip() {
    for variant in SuperVariant::ALL {
        assert_eq!(variant.to_string().parse(), Ok(variant));
    }
    assert!("".parse::<SuperVariant>().is_err());
}

#[test]
fn one_key_one_superblock() {
    for registry in registries() {
        let maker = Maker::default();
        let a = keyed(&registry, &maker, 1).unwrap();
        let b = keyed(&registry, &maker, 1).unwrap();
        let other = keyed(&registry, &maker, 2).unwrap();
        assert!(std::ptr::eq(&*a, &*b));
        assert_eq!((a.id, other.id, *a.key()), (1, 2, 1));
        assert_eq!((registry.len(), maker.counts()), (2, (2, 0)));
        drop(a);
        let c = b.clone();
        drop(b);
        assert_eq!(maker.counts(), (2, 0));
        drop(c);
        assert_eq!((registry.len(), maker.counts()), (1, (2, 1)));
        assert!(registry.find(&1).is_none());
        assert_eq!(registry.find(&2).unwrap().id, 2);
        drop(other);
        assert!(registry.is_empty());
    }
}

#[test]
fn nodev_makes_one_that_keyed_finds() {
    for registry in registries() {
        let maker = Maker::default();
        let made: Vec<_> = (0..500)
            .map(|key| registry.get_tree_nodev(key, || maker.fill(key)).unwrap())
            .collect();
        for one in &made {
            let found = keyed(&registry, &maker, one.id).unwrap();
            assert!(std::ptr::eq(&**one, &*found));
        }
        assert_eq!(maker.counts(), (500, 0));
        // Out of order, which moves the entries of a list.
        let (odd, even): (Vec<_>, Vec<_>) = made.into_iter().partition(|s| s.id % 2 == 1);
        drop(odd);
        assert!(
            even.iter()
                .all(|s| registry.find(&s.id).unwrap().id == s.id)
        );
        assert_eq!(registry.len(), 250);
        drop(even);
        assert_eq!((registry.len(), maker.counts()), (0, (500, 500)));
    }
}

#[test]
fn a_failed_fill_leaves_nothing() {
    for registry in registries() {
        let failed = registry.get_tree_keyed(1, |_| Ok(()), || Err(Error::from(Errno::EUCLEAN)));
        assert_eq!(failed.unwrap_err(), Errno::EUCLEAN);
        let failed = registry.get_tree_nodev(1, || Err(Error::from(Errno::EIO)));
        assert_eq!(failed.unwrap_err(), Errno::EIO);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            registry.get_tree_nodev(1, || -> Result<_, Error> { panic!("in fill") })
        }));
        assert!(panicked.is_err());
        assert!(registry.is_empty());
    }
}

#[test]
fn an_incompatible_mount_leaves_the_live_one() {
    for registry in registries() {
        let maker = Maker::default();
        let a = keyed(&registry, &maker, 1).unwrap();
        let refused = registry.get_tree_keyed(
            1,
            |_| Err(Error::from(Errno::EINVAL)),
            || unreachable!("is live"),
        );
        assert_eq!(refused.unwrap_err(), Errno::EINVAL);
        assert_eq!(maker.counts(), (1, 0));
        drop(a);
        assert_eq!(maker.counts(), (1, 1));
    }
}

/// A mount that is refused never has a reference, so it is never the last that ends the superblock.
#[test]
fn who_is_refused_ends_nothing() {
    for registry in registries() {
        let maker = Maker::default();
        std::thread::scope(|s| {
            let (registry, maker) = (&registry, &maker);
            let refused = s.spawn(move || {
                for _ in 0..20_000 {
                    let refuse = |_: &Super| Err(Error::from(Errno::EBUSY));
                    let got = registry.get_tree_keyed(1, refuse, || Err(Errno::ENOENT.into()));
                    assert!(got.is_err());
                }
            });
            while !refused.is_finished() {
                let one = keyed(registry, maker, 1).unwrap();
                assert!(one.deactivate().unwrap(), "it is the only one");
            }
        });
    }
}

#[test]
fn a_device_is_read_write_or_read_only() {
    let registry = Registry::new(SuperVariant::Keyed);
    let maker = Maker::default();
    let (image, block) = (1, 2);
    let open = |read_only| registry.get_tree_bdev(image, read_only, |_| Ok(()), || maker.fill(0));
    let a = open(false).unwrap();
    assert_eq!(open(true).unwrap_err(), Errno::EBUSY);
    let b = open(false).unwrap();
    assert!(std::ptr::eq(&*a, &*b));
    let other = registry
        .get_tree_bdev(block, false, |_| Ok(()), || maker.fill(1))
        .unwrap();
    assert_eq!((other.id, registry.len()), (1, 2));
}

#[test]
fn a_single_one_is_shared() {
    let registry = Registry::new(SuperVariant::Beyond);
    let maker = Maker::default();
    let a = registry.get_tree_single(|| maker.fill(0)).unwrap();
    let b = registry.get_tree_single(|| maker.fill(0)).unwrap();
    assert!(std::ptr::eq(&*a, &*b));
}

#[test]
fn deactivating_the_last_tells_how_it_ended() {
    for registry in registries() {
        let maker = Maker::default();
        let a = keyed(&registry, &maker, 666).unwrap();
        let b = a.clone();
        assert!(!a.deactivate().unwrap());
        assert_eq!(b.deactivate().unwrap_err(), Errno::EIO);
        assert!(registry.is_empty());
    }
}

#[test]
fn mounts_and_unmounts_race() {
    for registry in registries() {
        let maker = Maker::default();
        std::thread::scope(|s| {
            for thread in 0..4 {
                let (registry, maker) = (&registry, &maker);
                s.spawn(move || {
                    for i in 0..2000 {
                        let a = keyed(registry, maker, i % 3).unwrap();
                        assert_eq!(a.id, i % 3);
                        let own = 1000 + thread * 2000 + i;
                        let b = registry.get_tree_nodev(own, || maker.fill(own)).unwrap();
                        let (fills, shutdowns) = maker.counts();
                        assert!(fills > shutdowns);
                        drop((a, b));
                    }
                });
            }
        });
        let (fills, shutdowns) = maker.counts();
        assert_eq!(fills, shutdowns);
        assert!(registry.is_empty());
    }
}
