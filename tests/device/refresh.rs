//! Readers of an image in a store that another host writes, which advance to its newest state.

use std::thread::scope;
use uext4::{Errno, File, Filesystem, ImageOptions, MkfsOptions, NoProgress, mkfs_on};
use uext4_block::{ObjectDevice, RangeDevice};
use uext4_testkit::object_store::{Bucket, HostStore, Trouble};
use uext4_testkit::prelude::*;

const LEN: u64 = 16 << 20;

/// A new image, and the host that writes it.
fn writer(bucket: &Arc<Bucket>) -> (Arc<ObjectDevice>, Filesystem) {
    let store = HostStore::new(bucket, 0);
    // An image is open once in a process, by its name.
    let name = format!("writer {:p}", Arc::as_ptr(bucket));
    let device = ObjectDevice::open(store, None, &name, &OpenOptions::create(LEN));
    let device = Arc::new(device.unwrap());
    mkfs_on(&*device, &MkfsOptions::new(), &NoProgress).unwrap();
    let fs = Filesystem::open_device(device.clone(), &ImageOptions::read_write()).unwrap();
    (device, fs)
}

/// Another host, which reads it.
fn reader(bucket: &Arc<Bucket>) -> (Arc<HostStore>, Filesystem) {
    let store = HostStore::new(bucket, 1);
    let name = format!("reader {:p}", Arc::as_ptr(bucket));
    let device = ObjectDevice::open(store.clone(), None, &name, &OpenOptions::read_only());
    // As a partition of it.
    let part = RangeDevice::new(Arc::new(device.unwrap()), 0, Some(LEN)).unwrap();
    let fs = Filesystem::open_device(Arc::new(part), &ImageOptions::read_only()).unwrap();
    (store, fs)
}

fn content(file: &File) -> Vec<u8> {
    let mut data = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut data, 0).unwrap();
    data
}

#[test]
fn a_reader_advances_when_it_asks_for_it() {
    let bucket = Arc::default();
    let (device, writer) = writer(&bucket);
    writer.write("/f", "one").unwrap();
    writer.write("/removed", vec![7; 1 << 20]).unwrap();
    writer.sync().unwrap();
    let (store, mut reader) = reader(&bucket);
    let (old, before) = (reader.open_file("/f").unwrap(), reader.clone());
    let removed = reader.open_file("/removed").unwrap();
    writer.write("/f", "two two").unwrap();
    writer.write("/new", "new").unwrap();
    writer.remove_file("/removed").unwrap();
    writer.sync().unwrap();
    assert_eq!(reader.read("/f").unwrap(), b"one");
    assert!(!reader.exists("/new").unwrap());
    // It can't, and stays where it is.
    store.set_trouble(Trouble {
        lost: 100,
        ..Trouble::default()
    });
    reader.refresh().unwrap_err();
    store.set_trouble(Trouble::default());
    assert_eq!(reader.read("/f").unwrap(), b"one");
    reader.refresh().unwrap();
    assert_eq!(reader.read("/f").unwrap(), b"two two");
    assert_eq!(reader.read("/new").unwrap(), b"new");
    assert!(!reader.exists("/removed").unwrap() && reader.is_read_only());
    // What was open stays at its state, also where the writer removes what the newest does not need.
    for round in 0..20 {
        writer.write("/f", format!("round {round}")).unwrap();
        writer.sync().unwrap();
        device.collect().unwrap();
    }
    assert_eq!(content(&old), b"one");
    assert!(content(&removed) == vec![7; 1 << 20]);
    assert_eq!(before.read("/f").unwrap(), b"one");
    assert_eq!(reader.read("/f").unwrap(), b"two two");
    reader.refresh().unwrap();
    reader.refresh().unwrap();
    assert_eq!(reader.read("/f").unwrap(), b"round 19");
}

#[test]
fn a_reader_never_sees_a_part_of_a_change() {
    let bucket = Arc::default();
    let (_, writer) = writer(&bucket);
    writer.create_dir_all("/a").unwrap();
    writer.create_dir_all("/b").unwrap();
    writer.write("/a/f", "here").unwrap();
    writer.sync().unwrap();
    let (_, mut reader) = reader(&bucket);
    let stop = AtomicBool::new(false);
    scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                let (from, to) = match round % 2 {
                    0 => ("/a/f", "/b/f"),
                    _ => ("/b/f", "/a/f"),
                };
                writer.rename(from, to).unwrap();
                writer.sync().unwrap();
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let mut seen = [false; 2];
        while seen != [true; 2] {
            reader.refresh().unwrap();
            let there = ["/a/f", "/b/f"].map(|name| reader.exists(name).unwrap());
            assert!(there[0] != there[1], "{there:?}");
            seen[usize::from(there[1])] = true;
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_has_no_states_is_not_refreshed() {
    let device = Arc::new(MemoryDevice::new(LEN));
    mkfs_on(&*device, &MkfsOptions::new(), &NoProgress).unwrap();
    let mut written = Filesystem::open_device(device.clone(), &ImageOptions::read_write()).unwrap();
    assert_eq!(written.refresh().unwrap_err().errno(), Errno::EINVAL);
    written.unmount().unwrap();
    let mut read = Filesystem::open_device(device, &ImageOptions::read_only()).unwrap();
    let error = read.refresh().unwrap_err();
    assert_eq!(error.errno(), Errno::EOPNOTSUPP);
    assert!(error.to_string().contains("no snapshots"), "{error}");
}
