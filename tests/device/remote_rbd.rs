//! Images of Ceph, on a real cluster.

use std::path::Path;
use uext4_block::{BlockError, BlockOp, Failure, LeaseLoss, RbdAddress, RbdDevice, Result};
use uext4_testkit::ceph::{Peer, is_client, new_image, rbd, role};
use uext4_testkit::device::contract::{Length, check_bytes, check_failed};
use uext4_testkit::prelude::*;

const LEN: u64 = 1 << 20;
const BLOCK: usize = 4096;

fn name_of(image: &str) -> String {
    format!("rbd:rbd/{image}")
}

fn open(image: &str) -> Result<Arc<dyn BlockDevice>> {
    open_image(Path::new(&name_of(image)), &OpenOptions::read_write())
}

fn read_only(image: &str) -> Result<Arc<dyn BlockDevice>> {
    open_image(Path::new(&name_of(image)), &OpenOptions::read_only())
}

fn snapshot(device: &dyn BlockDevice) -> Vec<u8> {
    MemoryDevice::copy_of(device).unwrap().snapshot()
}

#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn contract() {
    require!(is_client("remote_rbd::contract"));
    for seed in 0..3 {
        let image = new_image(LEN + 512 * seed);
        let device = open(&image).unwrap();
        assert!(device.is_fenced());
        check_bytes(&*device, seed, Length::Fixed);
        let bytes = snapshot(&*device);
        device.flush().unwrap();
        let reader = read_only(&image).unwrap();
        assert_eq!(reader.identity(), device.identity());
        assert!(!reader.is_fenced());
        assert!(snapshot(&*reader) == bytes);
        let refused = reader.write_at(0, &[1]).unwrap_err();
        assert!(matches!(refused, BlockError::ReadOnly { .. }), "{refused}");
        reader.flush().unwrap();
        drop(device);
        assert!(snapshot(&*open(&image).unwrap()) == bytes);
    }
}

/// Many requests of one call, each inside an object of 64 KiB.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn batches() {
    require!(is_client("remote_rbd::batches"));
    let device = open(&new_image(16 << 20)).unwrap();
    let mut model = vec![0; 16 << 20];
    let mut rng = Rng::with_seed(1);
    for round in 1..30u8 {
        let mut at = 0;
        let mut ranges = Vec::new();
        while at < model.len() {
            let len = rng.usize(1..200_000).min(model.len() - at);
            if rng.u8(..3) > 0 {
                ranges.push((at, vec![round; len]));
                model[at..at + len].fill(round);
            }
            at += len;
        }
        let writes: Vec<_> = ranges.iter().map(|(at, b)| (*at as u64, &b[..])).collect();
        device.write_batch(&writes).unwrap();
        let mut found: Vec<_> = ranges.iter().map(|(_, b)| vec![0; b.len()]).collect();
        let offsets = ranges.iter().map(|(at, _)| *at as u64);
        let mut reads: Vec<_> = offsets.zip(found.iter_mut().map(|b| &mut b[..])).collect();
        device.read_batch(&mut reads).unwrap();
        assert!(found.iter().flatten().all(|byte| *byte == round));
        assert!(snapshot(&*device) == model, "round {round}");
    }
}

#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn snapshots_are_for_readers() {
    require!(is_client("remote_rbd::snapshots_are_for_readers"));
    let image = new_image(LEN);
    let device = open(&image).unwrap();
    device.write_fua(0, &[1; BLOCK]).unwrap();
    rbd(&["snap", "create", "--no-progress", &format!("{image}@first")]);
    device.write_fua(0, &[2; BLOCK]).unwrap();
    let reader = read_only(&format!("{image}@first")).unwrap();
    let mut found = [0; BLOCK];
    reader.read_at(0, &mut found).unwrap();
    assert_eq!(found, [1; BLOCK]);
    device.read_at(0, &mut found).unwrap();
    assert_eq!(found, [2; BLOCK]);
    assert_ne!(reader.identity(), device.identity());
    let refused = open(&format!("{image}@first")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30), "{refused}");
}

#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn what_can_not_be_opened_says_why() {
    require!(is_client("remote_rbd::what_can_not_be_opened_says_why"));
    let image = new_image(LEN);
    rbd(&[
        "feature",
        "disable",
        &image,
        "fast-diff,object-map,exclusive-lock",
    ]);
    for (name, why) in [
        (format!("rbd:rbd/{image}"), "rbd feature enable rbd/image"),
        ("rbd:rbd/none".to_owned(), "No such file"),
        ("rbd:none/none".to_owned(), "has not a pool none"),
        ("rbd:rbd/none/none".to_owned(), "No such file"),
        ("rbd:none".to_owned(), "rbd:POOL"),
    ] {
        let error = open_image(Path::new(&name), &OpenOptions::read_write()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    read_only(&image).unwrap();
}

/// One client writes at a time; the next may when the first has closed the image.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn the_lock_of_a_live_owner_is_refused() {
    require!(is_client("remote_rbd::the_lock_of_a_live_owner_is_refused"));
    let image = new_image(LEN);
    let device = open(&image).unwrap();
    let refused = open(&image).unwrap_err();
    assert!(matches!(refused, BlockError::Locked { .. }), "{refused}");
    assert_eq!(refused.raw_os_error(), Some(16));
    assert!(refused.to_string().contains("127.0.0.1:0/"), "{refused}");
    device.write_fua(0, &[1; BLOCK]).unwrap();
    drop(device);
    open(&image).unwrap().flush().unwrap();
}

/// An owner whose lock was broken has failed for good, and its writes do not reach the image.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn a_broken_lock_ends_its_owner() {
    require!(is_client("remote_rbd::a_broken_lock_ends_its_owner"));
    let image = new_image(LEN);
    let device = open(&image).unwrap();
    device.write_fua(0, &[1; BLOCK]).unwrap();
    let address = RbdAddress::parse(&name_of(&image)).unwrap();
    assert_eq!(RbdDevice::break_lock(&address).unwrap().len(), 1);
    let next = open(&image).unwrap();
    next.write_fua(0, &[2; BLOCK]).unwrap();
    let lost = device.flush().unwrap_err();
    let is_lost = |error: &BlockError| {
        let lease_lost = Failure::LeaseLost(LeaseLoss::Blocklisted);
        matches!(error, BlockError::Failed { why, .. } if *why == lease_lost)
    };
    assert!(is_lost(&lost), "{lost}");
    for error in [
        device.write_at(0, &[3; BLOCK]),
        device.write_fua(0, &[3; BLOCK]),
        device.zero(0, 512),
        device.discard(0, 512),
        device.flush(),
    ] {
        let error = error.unwrap_err();
        assert!(is_lost(&error), "{error}");
    }
    let mut found = [0; BLOCK];
    next.read_at(0, &mut found).unwrap();
    assert_eq!(found, [2; BLOCK]);
    drop(device);
    next.flush().unwrap();
    assert_eq!(RbdDevice::break_lock(&address).unwrap().len(), 1);
    drop(next);
    assert_eq!(RbdDevice::break_lock(&address).unwrap().len(), 0);
}
