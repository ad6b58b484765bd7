//! Images of Ceph: what ends the right to write, and what an owner that has failed leaves behind.

use crate::remote_rbd::{BLOCK, LEN, name_of, open, open_after_death, owner_of, read_only};
use rustix::process::Signal;
use std::path::Path;
use uext4_block::{BlockError, Failure};
use uext4_testkit::ceph::*;
use uext4_testkit::librbd_shim;
use uext4_testkit::partition::can_partition;
use uext4_testkit::prelude::*;

/// Bytes of an object.
const OBJECT: u64 = 64 << 10;
/// For how long clients of these tests wait for an OSD.
const SHORT_TIMEOUT: (&str, &str) = ("CEPH_ARGS", "--rados-osd-op-timeout=3");
/// What a peer prints before what it has done.
const DONE: &str = "done ";

#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn settings_that_would_lose_writes_are_refused() {
    require!(is_client(
        "remote_rbd_claim::settings_that_would_lose_writes_are_refused"
    ));
    // No other test uses that pool.
    let image = "rbd-other/settings";
    rbd(&["create", image, "--size", "1M"]);
    let name = format!("rbd:{image}");
    let open = || open_image(Path::new(&name), &OpenOptions::read_write());
    for (option, value) in [
        ("rbd_cache", "true"),
        ("rbd_blocklist_on_break_lock", "false"),
        ("rbd_blocklist_on_break_lock", "true"),
        ("rbd_blocklist_expire_seconds", "5"),
        ("rbd_persistent_cache_mode", "ssd"),
        ("rbd_disable_zero_copy_writes", "false"),
    ] {
        for (place, target) in [("image", image), ("pool", "rbd-other")] {
            rbd(&["config", place, "set", target, option, value]);
            let refused = open().expect_err(option).to_string();
            rbd(&["config", place, "rm", target, option]);
            let command = format!("rbd config {place} rm {target} {option}");
            assert!(refused.contains(&command), "{refused}");
        }
    }
    rbd(&["config", "image", "set", image, "rbd_cache", "false"]);
    rbd(&["config", "image", "set", image, "rbd_cache_size", "1048576"]);
    open().unwrap().flush().unwrap();
}

/// Writes to the object that its role names while the OSD is not reached, closes the image, and waits.
#[test]
#[ignore = "run by other tests"]
fn remote_late_writer() {
    let role = require!(some role());
    let (image, offset) = role.split_once(' ').unwrap();
    let device = open(image).unwrap();
    println!("{DONE}open");
    wait_for_parent();
    let written = device.write_at(offset.parse().unwrap(), &[7; BLOCK]);
    println!("{DONE}write: {}", written.unwrap_err());
    drop(device);
    println!("{DONE}close");
    wait_for_parent();
}

/// A write without an answer arrives after its client has closed the image.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn a_late_write_of_a_closed_image_has_no_effect() {
    let test = "remote_rbd_claim::a_late_write_of_a_closed_image_has_no_effect";
    require!(can_partition() && is_client(test));
    let image = new_image(LEN);
    let id = id_of(&image);
    let head = osd_of(&format!("rbd_header.{id}"));
    let data_of = |object: u64| osd_of(&format!("rbd_data.{id}.{object:016x}"));
    let object = (0..LEN / OBJECT).find(|object| data_of(*object) != head);
    let object = object.expect("an object on the other OSD");
    let offset = object * OBJECT;
    // Connects to both.
    open(&image)
        .unwrap()
        .write_at(0, &vec![1; LEN as usize])
        .unwrap();
    let mut writer = Peer::start_with(
        "remote_rbd_claim::remote_late_writer",
        &format!("{image} {offset}"),
        &[SHORT_TIMEOUT],
    );
    assert_eq!(writer.line(DONE).as_deref(), Some("open"));
    let partition = writer.partition(Some(port_of(data_of(object))));
    writer.proceed();
    println!("{}", writer.line(DONE).expect("the error of the write"));
    assert_eq!(writer.line(DONE).as_deref(), Some("close"));
    let device = open_after_death(&image);
    let mut found = [0; BLOCK];
    device.read_at(offset, &mut found).unwrap();
    assert_eq!(found, [1; BLOCK]);
    drop(partition);
    for _ in 0..100 {
        device.read_at(offset, &mut found).unwrap();
        assert_eq!(found, [1; BLOCK], "the late write has an effect");
        thread::sleep(Duration::from_millis(100));
    }
    device.flush().unwrap();
}

/// Opens the image, then flushes when its parent asks, and keeps the device.
#[test]
#[ignore = "run by other tests"]
fn remote_idle_owner() {
    let image = require!(some role());
    let device = open(&image).unwrap();
    device.write_fua(0, &[1; BLOCK]).unwrap();
    println!("{DONE}open");
    wait_for_parent();
    println!("{DONE}flush: {}", device.flush().unwrap_err());
    wait_for_parent();
}

/// An owner that was silent has failed: it does not keep the image from other clients, though its process lives and does nothing.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn an_owner_that_has_failed_does_not_hold_the_lock() {
    require!(is_client(
        "remote_rbd_claim::an_owner_that_has_failed_does_not_hold_the_lock"
    ));
    let image = new_image(LEN);
    let mut owner = Peer::start("remote_rbd_claim::remote_idle_owner", &image);
    assert_eq!(owner.line(DONE).as_deref(), Some("open"));
    owner.signal(Signal::STOP);
    while rbd(&["status", &image]).contains("watcher=") {
        thread::sleep(Duration::from_millis(200));
    }
    owner.signal(Signal::CONT);
    // librbd watches and locks it again at once.
    thread::sleep(Duration::from_secs(2));
    let device = within_attempts(100, || open(&image));
    device.write_fua(0, &[2; BLOCK]).unwrap();
    owner.proceed();
    let end = owner.line(DONE).expect("the error of the flush");
    assert!(end.contains("another host"), "{end}");
    device.flush().unwrap();
}

/// Tries to open an image so often that an owner which is alive would be there still.
fn within_attempts<T>(attempts: u32, try_once: impl Fn() -> uext4_block::Result<T>) -> T {
    for _ in 1..attempts {
        if let Ok(done) = try_once() {
            return done;
        }
        thread::sleep(Duration::from_millis(100));
    }
    try_once().expect("the last attempt")
}

/// Another client acquires the lock after its owner was listed and before it is requested, and hangs.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn the_lock_is_not_waited_for_without_limit() {
    let library = librbd_shim::build().unwrap();
    let variables = [
        SHORT_TIMEOUT,
        (librbd_shim::FAULT, "late-owner"),
        (librbd_shim::LIBRARY_PATH, library.path().to_str().unwrap()),
    ];
    let test = "remote_rbd_claim::the_lock_is_not_waited_for_without_limit";
    require!(is_client_with(test, &variables));
    let image = new_image(LEN);
    let no_fault = [(librbd_shim::FAULT, "")];
    let mut owner = Peer::start_with("remote_rbd_claim::remote_idle_owner", &image, &no_fault);
    assert_eq!(owner.line(DONE).as_deref(), Some("open"));
    owner.signal(Signal::STOP);
    let refused = open(&image).unwrap_err();
    assert!(matches!(refused, BlockError::Locked { .. }), "{refused}");
    assert!(refused.to_string().contains("127.0.0.1:0/"), "{refused}");
    open_after_death(&image).flush().unwrap();
}

/// The image is made shorter by another client: what librbd would drop is not acknowledged.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn a_shorter_image_ends_its_owner() {
    require!(is_client(
        "remote_rbd_claim::a_shorter_image_ends_its_owner"
    ));
    let resize = |image: &str, bytes: u64| {
        let size = format!("{bytes}B");
        rbd(&[
            "resize",
            "--no-progress",
            "--allow-shrink",
            image,
            "--size",
            &size,
        ]);
    };
    for sizes in [
        &[LEN / 2][..],
        &[LEN / 2, LEN],
        &[2 * LEN, LEN / 2, 2 * LEN],
    ] {
        let image = new_image(LEN);
        let device = open(&image).unwrap();
        device.write_at(LEN - BLOCK as u64, &[1; BLOCK]).unwrap();
        for bytes in sizes {
            resize(&image, *bytes);
        }
        let is_truncated = |error: &BlockError| {
            matches!(
                error,
                BlockError::Failed {
                    why: Failure::Truncated { .. },
                    ..
                }
            )
        };
        for _ in 0..2 {
            let refused = device.flush().expect_err("the write was dropped");
            assert!(is_truncated(&refused), "{refused}");
        }
        let refused = device.write_fua(0, &[1; BLOCK]).unwrap_err();
        assert!(is_truncated(&refused), "{refused}");
        drop(device);
        assert_eq!(open(&image).unwrap().len(), *sizes.last().unwrap());
    }
    let image = new_image(LEN);
    let device = open(&image).unwrap();
    resize(&image, 2 * LEN);
    resize(&image, LEN);
    device.write_fua(LEN - BLOCK as u64, &[1; BLOCK]).unwrap();
    assert_eq!(device.len(), LEN);
    device.flush().unwrap();
}

/// With exclusion a reader and a writer keep each other out; without it nothing is locked.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn exclusion_is_an_option() {
    require!(is_client("remote_rbd_claim::exclusion_is_an_option"));
    let image = new_image(LEN);
    let name = name_of(&image);
    let writer = open(&image).unwrap();
    let refused = read_only(&image).unwrap_err();
    assert!(matches!(refused, BlockError::Busy { .. }), "{refused}");
    let shared = OpenOptions::read_only().exclusive(false);
    let reader = open_image(Path::new(&name), &shared).unwrap();
    writer.write_fua(0, &[1; BLOCK]).unwrap();
    let mut found = [0; BLOCK];
    reader.read_at(0, &mut found).unwrap();
    assert_eq!(found, [1; BLOCK]);
    let shared = OpenOptions::read_write().exclusive(false);
    let other = open_image(Path::new(&name), &shared).unwrap();
    assert!(!other.is_fenced());
    other.read_at(0, &mut found).unwrap();
    // The owner does not hand its lock over.
    other.write_at(0, &[2; BLOCK]).unwrap_err();
    drop((writer, other));
    let other = open_image(Path::new(&name), &shared).unwrap();
    other.write_at(0, &[3; BLOCK]).unwrap();
    other.flush().unwrap();
    drop(other);
    read_only(&image).unwrap().read_at(0, &mut found).unwrap();
    assert_eq!(found, [3; BLOCK]);
    let owner = open(&image).unwrap();
    assert!(owner.is_fenced());
    assert!(owner_of(&image).starts_with("127.0.0.1:0/"));
}
