//! qcow2 images that contradict themselves: an error or other data, and never a panic.

use std::path::Path;
use uext4_block::{BlockError, Qcow2Device, Result};
use uext4_testkit::prelude::*;

const LEN: u64 = 3 << 20;

fn open(file: MemoryDevice) -> Result<Qcow2Device> {
    Qcow2Device::open(Path::new("image"), Arc::new(file), None)
}

/// A file with an image of some clusters, one of them written in part.
fn image() -> MemoryDevice {
    let file = Arc::new(MemoryDevice::new(0));
    let device = Qcow2Device::create(Path::new("image"), file.clone(), LEN).unwrap();
    device.write_at(0, &[1; 200_000]).unwrap();
    device.write_at(2 << 20, &[2; 70_000]).unwrap();
    device.flush().unwrap();
    device.discard(65536, 65536).unwrap();
    drop(device);
    MemoryDevice::copy_of(&*file).unwrap()
}

/// Reads, writes, discards and flushes; errors are allowed.
fn use_it(device: &dyn BlockDevice) {
    let mut bytes = vec![0; 1 << 20];
    let len = device.len();
    for at in [0, len / 2, len.saturating_sub(1 << 20)] {
        let part = (len - at).min(1 << 20) as usize;
        let _ = device.read_at(at, &mut bytes[..part]);
    }
    let _ = device.write_at(
        len.saturating_sub(70_000),
        &vec![3; len.min(70_000) as usize],
    );
    let _ = device.write_at(
        100_000.min(len),
        &vec![4; len.saturating_sub(100_000).min(9) as usize],
    );
    let _ = device.discard(0, len.min(200_000));
    let _ = device.zero(len / 2, len.min(300_000) / 2);
    let _ = device.flush();
}

/// Each byte of the header, and those at the start of each table.
#[test]
fn qcow2_with_a_changed_byte() {
    let whole = image();
    let header = 0..112;
    // The refcount table, its block, the L1 table, and the L2 table behind three clusters of data.
    let tables = (1..10).flat_map(|cluster| (0..16).map(move |byte| (cluster << 16) + byte));
    let mut refused = 0;
    for at in header.chain(tables).filter(|at| *at < whole.len()) {
        let mut old = [0];
        whole.read_at(at, &mut old).unwrap();
        for new in [0, 0x80, 0xff, old[0] ^ 1, old[0].wrapping_add(1)] {
            let file = whole.clone();
            file.write_at(at, &[new]).unwrap();
            match open(file) {
                Ok(device) => use_it(&device),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

/// A file that ends anywhere.
#[test]
fn qcow2_that_is_truncated() {
    let whole = image();
    for len in (0..200).chain((1..12).map(|cluster| (cluster << 16) - 1)) {
        let file = whole.clone();
        file.set_len(len).unwrap();
        match open(file) {
            Ok(device) => use_it(&device),
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
}

/// What is refused is named.
#[test]
fn qcow2_refusals_name_the_reason() {
    for (at, bytes, why) in [
        (7, &[9][..], "version 9"),
        (23, &[40], "clusters of 2^40 bytes"),
        (35, &[1], "is encrypted"),
        (63, &[2], "2 internal snapshots"),
        (79, &[1], "not closed cleanly"),
        (79, &[2], "marked corrupt"),
        (79, &[4], "in another file"),
        (79, &[8], "not compressed by zlib"),
        (79, &[16], "extended L2 entries"),
        (79, &[32], "incompatible feature 5"),
        (36, &[0x10], "more than 32M"),
        (24, &[1], "too few for its"),
        (47, &[1], "where no cluster begins"),
        (42, &[1], "has the refcount 0"),
        (99, &[7], "refcounts of 2^7 bits"),
    ] {
        let file = image();
        file.write_at(at, bytes).unwrap();
        let e = open(file).unwrap_err();
        assert!(e.to_string().contains(why), "{at}: {e}");
        assert!(!matches!(e, BlockError::Io { .. }), "{at}: {e}");
    }
}

/// A cluster that is in use and counts as free would be given to something else.
#[test]
fn qcow2_with_a_wrong_refcount_is_not_written() {
    let file = image();
    // The count of the first cluster of data.
    file.write_at((2 << 16) + 8, &[0; 2]).unwrap();
    let device = open(file).unwrap();
    let e = device.write_at(0, &[9]).unwrap_err();
    assert!(e.to_string().contains("has the refcount 0"), "{e}");
}
