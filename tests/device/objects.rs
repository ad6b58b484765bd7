//! Images in stores of objects.

use std::path::Path;
use uext4_block::objects::{CacheDir, Created, Listed, ObjectStore, StoreResult};
use uext4_block::{BlockError, Failure, Lease, LeaseLoss, ObjectDevice, RangeDevice, Result};
use uext4_testkit::device::contract::{Length, check_bytes, check_failed};
use uext4_testkit::object_store::{Bucket, HostStore, Trouble};
use uext4_testkit::prelude::*;

const LEN: u64 = 700_001;

fn open(store: &Arc<HostStore>, options: &OpenOptions) -> Result<ObjectDevice> {
    ObjectDevice::open(store.clone(), None, "image", options)
}

fn create(bucket: &Arc<Bucket>, len: u64) -> (Arc<HostStore>, ObjectDevice) {
    let store = HostStore::new(bucket, 0);
    let device = open(&store, &OpenOptions::create(len)).unwrap();
    (store, device)
}

#[test]
fn contract_objects() {
    for seed in 0..4 {
        let bucket = Arc::default();
        let (store, device) = create(&bucket, LEN);
        check_bytes(&device, seed, Length::Fixed);
        device.flush().unwrap();
        let bytes = MemoryDevice::copy_of(&device).unwrap().snapshot();
        drop(device);
        let again = open(&store, &OpenOptions::read_only()).unwrap();
        assert!(MemoryDevice::copy_of(&again).unwrap().snapshot() == bytes);
    }
}

#[test]
fn contract_objects_failed() {
    let (store, device) = create(&Arc::default(), LEN);
    device.write_at(5, &[1; 9000]).unwrap();
    store.set_trouble(Trouble {
        lost: 100,
        ..Trouble::default()
    });
    let error = device.flush().unwrap_err();
    assert!(matches!(error, BlockError::Io { .. }), "{error}");
    store.set_trouble(Trouble::default());
    check_failed(&device);
    let mut bytes = [0; 9000];
    device.read_at(5, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 9000], "what was written is read");
}

/// What was flushed is there, all of it; what was not is not.
#[test]
fn contract_objects_power_loss() {
    for seed in 0..40 {
        let bucket: Arc<Bucket> = Arc::default();
        let (store, device) = create(&bucket, 4 << 20);
        let (mut rng, mut flushed) = (Rng::with_seed(seed), None);
        for value in 1..40 {
            let at = rng.u64(..(3 << 20));
            match rng.u8(..6) {
                0 => {
                    device.flush().unwrap();
                    flushed = Some(MemoryDevice::copy_of(&device).unwrap().snapshot());
                }
                1 => device.zero(at, rng.u64(..(1 << 20))).unwrap(),
                2 => device.discard(at, rng.u64(..(1 << 20))).unwrap(),
                _ => device
                    .write_at(at, &vec![value; rng.usize(..100_000)])
                    .unwrap(),
            }
        }
        drop(device);
        let device = open(&store, &OpenOptions::read_only()).unwrap();
        let found = MemoryDevice::copy_of(&device).unwrap().snapshot();
        let flushed = flushed.unwrap_or_else(|| vec![0; 4 << 20]);
        assert!(found[..] == flushed[..], "seed {seed}");
    }
}

#[test]
fn a_writer_that_was_taken_over_fails_for_good() {
    let bucket = Arc::default();
    let (_, first) = create(&bucket, LEN);
    first.write_at(0, &[1; 4096]).unwrap();
    first.flush().unwrap();
    let second = open(&HostStore::new(&bucket, 1), &OpenOptions::read_write()).unwrap();
    let mut bytes = [0; 4096];
    second.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 4096]);
    second.write_at(0, &[2; 4096]).unwrap();
    first.write_at(0, &[3; 4096]).unwrap();
    let error = first.flush().unwrap_err();
    let lost = Failure::LeaseLost(LeaseLoss::TakenOver);
    assert!(
        matches!(error, BlockError::Failed { why, .. } if why == lost),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("another host took the image over")
    );
    check_failed(&first);
    second.flush().unwrap();
    let third = open(&HostStore::new(&bucket, 2), &OpenOptions::read_only()).unwrap();
    third.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [2; 4096]);
}

/// A writer whose host is stopped in a flush, and resumed when another has taken over and collected.
#[test]
fn a_writer_that_was_stopped_makes_nothing_durable() {
    let bucket = Arc::default();
    let (store, first) = create(&bucket, LEN);
    first.write_at(0, &[1; 4096]).unwrap();
    first.flush().unwrap();
    first.write_at(0, &[2; 4096]).unwrap();
    store.stop(true);
    let (second, flushed) = thread::scope(|scope| {
        let flush = scope.spawn(|| first.flush());
        let other = HostStore::new(&bucket, 1);
        let second = open(&other, &OpenOptions::read_write()).unwrap();
        second.write_at(8192, &[3; 4096]).unwrap();
        second.flush().unwrap();
        second.collect().unwrap();
        store.stop(false);
        (second, flush.join().unwrap())
    });
    flushed.unwrap_err();
    let mut bytes = [0; 4096];
    second.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 4096]);
}

/// Replaces what exists.
#[derive(Debug)]
struct Careless(Arc<HostStore>);

impl ObjectStore for Careless {
    fn get(&self, name: &str, range: Option<Range<u64>>) -> StoreResult<Vec<u8>> {
        self.0.get(name, range)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> StoreResult<()> {
        self.0.put(name, bytes)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> StoreResult<Created> {
        self.0.put(name, bytes).map(|()| Created::Yes)
    }

    fn list(&self, prefix: &str) -> StoreResult<Vec<Listed>> {
        self.0.list(prefix)
    }

    fn delete(&self, names: &[String]) -> StoreResult<()> {
        self.0.delete(names)
    }
}

/// A store that replaces what exists keeps no two hosts apart.
#[test]
fn a_store_without_conditions_is_refused() {
    let store = Arc::new(Careless(HostStore::new(&Arc::default(), 0)));
    let device = ObjectDevice::open(store, None, "image", &OpenOptions::create(LEN)).unwrap();
    let error = device.write_at(0, &[1; 512]).unwrap_err();
    assert!(error.to_string().contains("If-None-Match"), "{error}");
}

/// A reader keeps what it reads, whatever is collected; a new one reads what is new.
#[test]
fn readers_keep_their_root() {
    let bucket: Arc<Bucket> = Arc::default();
    let (_, writer) = create(&bucket, 64 << 20);
    let far = 40 << 20;
    for at in [0, far] {
        writer.write_at(at, &[1; 8192]).unwrap();
    }
    writer.flush().unwrap();
    let reader = open(&HostStore::new(&bucket, 1), &OpenOptions::read_only()).unwrap();
    for value in 2..9 {
        writer.write_at(0, &[value; 8192]).unwrap();
        writer.write_at(far, &[value; 8192]).unwrap();
        writer.flush().unwrap();
        writer.collect().unwrap();
    }
    let segments = |bucket: &Bucket| {
        let names = bucket.names();
        names
            .iter()
            .filter(|name| name.starts_with("segment/"))
            .count()
    };
    assert_eq!(
        segments(&bucket),
        2,
        "that of the writer and that of the reader"
    );
    let mut bytes = [0; 8192];
    for at in [0, far] {
        reader.read_at(at, &mut bytes).unwrap();
        assert_eq!(bytes, [1; 8192]);
    }
    reader.release();
    writer.collect().unwrap();
    assert_eq!(segments(&bucket), 1);
    let reader = open(&HostStore::new(&bucket, 2), &OpenOptions::read_only()).unwrap();
    reader.read_at(far, &mut bytes).unwrap();
    assert_eq!(bytes, [8; 8192]);
}

/// Segments that are mostly garbage are written again: a store has twice the image at most, however often blocks are written.
#[test]
fn what_is_needed_is_moved_out_of_segments_of_garbage() {
    const BLOCKS: u64 = 4096;
    let bucket: Arc<Bucket> = Arc::default();
    let (_, writer) = create(&bucket, 1 << 30);
    let mut rng = Rng::with_seed(3);
    let mut content = vec![0u8; BLOCKS as usize];
    let offset = |block: u64| block * 4096 * 37;
    for round in 1..12 {
        for _ in 0..if round == 1 { 4 * BLOCKS } else { BLOCKS } {
            let block = rng.u64(..BLOCKS);
            content[block as usize] = round;
            writer.write_at(offset(block), &[round; 4096]).unwrap();
            if rng.u8(..) == 0 {
                writer.flush().unwrap();
            }
        }
    }
    writer.flush().unwrap();
    let bytes = || -> u64 { bucket.list("segment/").iter().map(|s| s.bytes).sum() };
    let before = bytes();
    thread::scope(|scope| {
        let collecting = scope.spawn(|| writer.collect());
        // What is written meanwhile is not overwritten with what is moved.
        for block in 0..BLOCKS {
            if block % 7 == 0 {
                content[block as usize] = 99;
                writer.write_at(offset(block), &[99; 4096]).unwrap();
                writer.flush().unwrap();
            }
        }
        collecting.join().unwrap().unwrap();
    });
    writer.collect().unwrap();
    // Pages of blocks, and of pages.
    let pages = (BLOCKS * 37).div_ceil(512) + 1;
    let needed = BLOCKS * 4096 + pages * 8192;
    assert!(
        bytes() <= 2 * needed && before > 4 * needed,
        "{needed} bytes are needed, {before} were there, {} are",
        bytes()
    );
    let reader = open(&HostStore::new(&bucket, 1), &OpenOptions::read_only()).unwrap();
    for (block, value) in content.iter().enumerate() {
        let mut found = [0; 4096];
        reader.read_at(offset(block as u64), &mut found).unwrap();
        assert_eq!(found, [*value; 4096], "block {block}");
    }
}

/// Garbage that is collected while a reader opens the image, between any two of its requests.
#[test]
fn readers_that_open_beside_a_collection() {
    let mut stopped = 0;
    for requests in 0..8 {
        let bucket: Arc<Bucket> = Arc::default();
        let (_, writer) = create(&bucket, 8 << 20);
        let store = HostStore::new(&bucket, 1);
        let write = |value: u8| {
            writer.write_at(0, &[value; 8192]).unwrap();
            writer.write_at(4 << 20, &[value; 8192]).unwrap();
            writer.flush().unwrap();
            writer.collect().unwrap();
        };
        write(1);
        store.stop_at(requests);
        let found = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let device = open(&store, &OpenOptions::read_only()).unwrap();
                [0, 4 << 20].map(|at| {
                    let mut bytes = [0; 8192];
                    device.read_at(at, &mut bytes).unwrap();
                    bytes
                })
            });
            stopped += u64::from(store.wait_until_stopped());
            write(2);
            write(3);
            store.stop(false);
            reader.join().unwrap()
        });
        assert_eq!(found[0], found[1], "stopped after {requests} requests");
    }
    assert!(stopped > 4, "a reader makes {stopped} requests");
}

/// What is read twice is not fetched twice, also by another process; damage on the host's disk is read again, damage in the store is an error.
#[test]
fn a_cache_on_the_disk_survives_and_is_not_trusted() {
    let bucket: Arc<Bucket> = Arc::default();
    let (store, writer) = create(&bucket, 64 << 20);
    for at in 0..40 {
        writer.write_at(at << 20, &[at as u8 + 1; 4096]).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let dir = tempfile::tempdir().unwrap();
    let cache = CacheDir {
        dir: dir.path().to_owned(),
        bytes_max: 1 << 20,
    };
    let read = |cache: Option<&CacheDir>| {
        let options = OpenOptions::read_only();
        let device = ObjectDevice::open(store.clone(), cache, "image", &options)?;
        for at in 0..40 {
            let mut bytes = [0; 4096];
            device.read_at(at << 20, &mut bytes)?;
            assert_eq!(bytes, [at as u8 + 1; 4096]);
        }
        Ok::<u64, BlockError>(device.fetched())
    };
    assert!(read(Some(&cache)).unwrap() > 0);
    assert_eq!(read(Some(&cache)).unwrap(), 0);
    let files = || -> Vec<PathBuf> {
        let files = fs::read_dir(dir.path()).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    };
    for file in files() {
        damage(&file);
    }
    assert!(
        read(Some(&cache)).unwrap() > 0,
        "what is damaged is read again"
    );
    assert_eq!(read(Some(&cache)).unwrap(), 0);
    let small = CacheDir {
        bytes_max: 4096,
        ..cache
    };
    read(Some(&small)).unwrap();
    assert!(files().is_empty(), "{:?} does not fit", files());
    let segment = bucket
        .names()
        .into_iter()
        .find(|name| name.starts_with("segment/"));
    bucket.damage(&segment.unwrap(), 5);
    let error = read(None).unwrap_err();
    assert!(error.to_string().contains("wrong checksum"), "{error}");
}

fn damage(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    for at in (0..bytes.len()).step_by(512) {
        bytes[at] ^= 1;
    }
    fs::write(file, bytes).unwrap();
}

#[test]
fn statistics_of_a_store() {
    let bucket = Arc::default();
    let (store, device) = create(&bucket, 4 << 20);
    let dir = TempDir::new().unwrap();
    let cache = CacheDir {
        dir: dir.path().to_owned(),
        bytes_max: 1 << 30,
    };
    let cached = || {
        ObjectDevice::open(
            store.clone(),
            Some(&cache),
            "image",
            &OpenOptions::read_only(),
        )
        .unwrap()
    };
    let stats = |device: &dyn BlockDevice| device.remote_stats().unwrap();
    let before = stats(&device);
    assert_eq!(
        (before.kind, before.lease),
        ("objects", Some(Lease::NotHeld))
    );
    assert_eq!((before.flushes.count, before.cache.unwrap().misses), (0, 0));
    device.flush().unwrap();
    assert_eq!(stats(&device).flushes.count, 0, "nothing was written");
    for _ in 0..2 {
        device.write_at(0, &[7; 4096]).unwrap();
        device.flush().unwrap();
    }
    let after = stats(&device);
    assert_eq!((after.lease, after.flushes.count), (Some(Lease::Held), 2));
    assert_eq!(after.epoch_and_root, Some(device.epoch_and_root()));
    assert!(after.epoch_and_root > before.epoch_and_root);
    let read = |device: &dyn BlockDevice| {
        device.read_at(0, &mut [0; 4096]).unwrap();
        stats(device).cache.unwrap()
    };
    // Through a part of it, as a mount does.
    let reader = Arc::new(cached());
    let part = RangeDevice::new(reader.clone(), 0, Some(4 << 20)).unwrap();
    let first = read(&part);
    assert!(first.misses > 0 && first.disk_hits == 0, "{first:?}");
    let second = read(&part);
    assert_eq!((second.misses, second.disk_hits), (first.misses, 0));
    assert!(second.memory_hits > first.memory_hits);
    drop((reader, part));
    let from_disk = read(&cached());
    assert!(
        from_disk.misses == 0 && from_disk.disk_hits > 0,
        "{from_disk:?}"
    );
    // Another host takes it over.
    let other = open(&HostStore::new(&bucket, 1), &OpenOptions::read_write()).unwrap();
    other.write_at(0, &[8; 4096]).unwrap();
    device.write_at(0, &[9; 4096]).unwrap();
    device.flush().unwrap_err();
    assert_eq!(stats(&device).lease, Some(Lease::Lost));
    assert_eq!(stats(&device).flushes.count, 3);
    assert_eq!(MemoryDevice::new(1).remote_stats(), None);
}
