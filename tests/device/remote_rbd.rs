//! Images of Ceph, on a real cluster.

use rustix::process::Signal;
use std::path::Path;
use uext4_block::{BlockError, Failure, LeaseLoss, RbdAddress, RbdDevice, Result};
use uext4_testkit::ceph::{Peer, ceph, is_client, new_image, rbd, role};
use uext4_testkit::device::contract::{Length, check_bytes};
use uext4_testkit::prelude::*;

pub(crate) const LEN: u64 = 1 << 20;
pub(crate) const BLOCK: usize = 4096;

pub(crate) fn name_of(image: &str) -> String {
    format!("rbd:rbd/{image}")
}

pub(crate) fn open(image: &str) -> Result<Arc<dyn BlockDevice>> {
    open_image(Path::new(&name_of(image)), &OpenOptions::read_write())
}

pub(crate) fn read_only(image: &str) -> Result<Arc<dyn BlockDevice>> {
    open_image(Path::new(&name_of(image)), &OpenOptions::read_only())
}

pub(crate) fn snapshot(device: &dyn BlockDevice) -> Vec<u8> {
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
        let shared = OpenOptions::read_only().exclusive(false);
        let reader = open_image(Path::new(&name_of(&image)), &shared).unwrap();
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
        ("rbd:rbd/none/none".to_owned(), "has not this namespace"),
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
    let refused = device.read_at(0, &mut found).unwrap_err();
    assert!(is_lost(&refused), "{refused}");
    next.read_at(0, &mut found).unwrap();
    assert_eq!(found, [2; BLOCK]);
    drop(device);
    next.flush().unwrap();
    assert_eq!(RbdDevice::break_lock(&address).unwrap().len(), 1);
    drop(next);
    assert_eq!(RbdDevice::break_lock(&address).unwrap().len(), 0);
}

/// What the cluster has blocklisted of a client, as `ceph osd blocklist ls` prints it.
pub(crate) fn blocklisted(owner: &str) -> Option<String> {
    let printed = ceph(&["osd", "blocklist", "ls"]);
    let mut lines = printed.lines().map(str::to_owned);
    lines.find(|line| line.starts_with(&format!("{owner} ")))
}

const WRITER: &str = "remote_rbd::writer";

/// Writes to the image that its role names, and prints the number of each block that is durable; then why it ended.
#[test]
#[ignore = "run by other tests"]
fn writer() {
    let image = require!(some role());
    let device = open(&image).unwrap();
    let blocks = device.len() / BLOCK as u64;
    for number in 1.. {
        let bytes = [(number % 251) as u8; BLOCK];
        let at = number % blocks * BLOCK as u64;
        let written = match number % 2 {
            0 => device.write_fua(at, &bytes),
            _ => device.write_at(at, &bytes).and_then(|()| device.flush()),
        };
        match written {
            Ok(()) => println!("durable {number}"),
            Err(error) => {
                for call in [device.write_at(0, &bytes), device.flush()] {
                    let refused = call.unwrap_err();
                    let is_failed = matches!(refused, BlockError::Failed { .. });
                    assert!(is_failed, "{refused}");
                }
                println!("durable lost: {error}");
                return;
            }
        }
    }
}

/// A writer, after it has written for a while.
fn started_writer(image: &str) -> Peer {
    let mut writer = Peer::start(WRITER, image);
    while writer.line("durable ") != Some("50".to_owned()) {}
    writer
}

/// Opens an image when the cluster has found that its owner is dead.
pub(crate) fn open_after_death(image: &str) -> Arc<dyn BlockDevice> {
    loop {
        match open(image) {
            Err(BlockError::Locked { .. }) => thread::sleep(Duration::from_millis(200)),
            opened => return opened.unwrap(),
        }
    }
}

/// The address of the client that has the lock.
pub(crate) fn owner_of(image: &str) -> String {
    let refused = open(image).unwrap_err();
    match refused {
        BlockError::Locked { owner, .. } => owner,
        _ => panic!("{refused}"),
    }
}

/// Checks that `writer`, which was stopped, writes nothing once it runs again beside the owner of the image.
fn check_fenced(mut writer: Peer, device: &dyn BlockDevice) {
    device.write_fua(0, &[252; BLOCK]).unwrap();
    let bytes = snapshot(device);
    writer.signal(Signal::CONT);
    // What it had printed before it was stopped, then its end.
    let mut said = Vec::new();
    while let Some(line) = writer.line("durable ") {
        said.push(line);
    }
    let end = said.pop().expect("it says why it ends");
    assert!(
        end.starts_with("lost: ") && end.contains("took the image over"),
        "{end}"
    );
    for _ in 0..20 {
        assert!(
            snapshot(device) == bytes,
            "it has written after the takeover"
        );
        thread::sleep(Duration::from_millis(50));
    }
    // Older ones may be overwritten by what was not acknowledged.
    for number in said.iter().rev().take(60) {
        let number: u64 = number.parse().expect("a number");
        let at = (number % 64) as usize * BLOCK;
        let is_there = bytes[at] == (number % 251) as u8 || at == 0;
        assert!(
            is_there,
            "block {number} was acknowledged after the takeover"
        );
    }
    device.flush().unwrap();
}

/// Stopped, which is what a host does that hangs; the cluster finds it dead.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn takeover_of_a_host_that_hangs() {
    require!(is_client("remote_rbd::takeover_of_a_host_that_hangs"));
    let image = new_image(64 * BLOCK as u64);
    let mut writer = started_writer(&image);
    let owner = owner_of(&image);
    writer.signal(Signal::STOP);
    let device = open_after_death(&image);
    let entry = blocklisted(&owner).expect("it is blocklisted");
    let year = |text: &str| text.split('-').next().and_then(|year| year.parse().ok());
    let expires: u32 = year(entry.split(' ').nth(1).unwrap()).unwrap();
    let modified = rbd(&["info", &image]);
    let now = modified
        .lines()
        .find(|line| line.contains("create_timestamp"));
    let now: u32 = now
        .and_then(|line| line.rsplit(' ').next())
        .unwrap()
        .parse()
        .unwrap();
    assert!(expires >= now + 9, "{entry}");
    check_fenced(writer, &*device);
}

/// Stopped, and taken over by command while the cluster has not found it dead.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn takeover_by_command() {
    require!(is_client("remote_rbd::takeover_by_command"));
    let address = |image: &str| RbdAddress::parse(&name_of(image)).unwrap();
    for is_stopped in [true, false] {
        let image = new_image(64 * BLOCK as u64);
        let mut writer = started_writer(&image);
        if is_stopped {
            writer.signal(Signal::STOP);
        }
        let owner = owner_of(&image);
        assert_eq!(RbdDevice::break_lock(&address(&image)).unwrap(), [owner]);
        check_fenced(writer, &*open(&image).unwrap());
    }
}

#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn takeover_of_a_host_that_dies() {
    require!(is_client("remote_rbd::takeover_of_a_host_that_dies"));
    let image = new_image(64 * BLOCK as u64);
    let mut writer = started_writer(&image);
    writer.signal(Signal::KILL);
    let mut last = 50u64;
    while let Some(number) = writer.line("durable ") {
        last = number.parse().unwrap();
    }
    let device = open_after_death(&image);
    let bytes = snapshot(&*device);
    let at = (last % 64) as usize * BLOCK;
    assert!(
        bytes[at..at + BLOCK]
            .iter()
            .all(|b| *b == (last % 251) as u8),
        "{last}"
    );
    device.write_fua(0, &[1; BLOCK]).unwrap();
}

/// A watch that is lost ends the owner, even if no other client takes the image over.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn a_lost_watch_ends_its_owner() {
    require!(is_client("remote_rbd::a_lost_watch_ends_its_owner"));
    let image = new_image(64 * BLOCK as u64);
    let mut writer = started_writer(&image);
    writer.signal(Signal::STOP);
    while rbd(&["status", &image]).contains("watcher=") {
        thread::sleep(Duration::from_millis(200));
    }
    writer.signal(Signal::CONT);
    let mut end = String::new();
    while let Some(line) = writer.line("durable ") {
        end = line;
    }
    assert!(end.contains("lost the watch"), "{end}");
}
