//! Images in S3, on the gateway of a real cluster.

use rustix::process::Signal;
use std::path::Path;
use uext4_block::{BlockError, ObjectDevice, RemoteAddress, Result, images_of, objects::S3Address};
use uext4_testkit::ceph::{Peer, is_client, role};
use uext4_testkit::device::contract::{Length, check_bytes};
use uext4_testkit::prelude::*;
use uext4_testkit::proxy::{Proxy, Way};

const LEN: u64 = 4 << 20;
const BLOCK: usize = 4096;
/// Blocks that a writer writes, one after the other.
const BLOCKS: u64 = 600;
/// What a writer prints before the number of a flush that was acknowledged.
const DURABLE: &str = "durable ";

fn new_image(len: u64) -> String {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("s3://images/{}-{number}", std::process::id());
    RemoteAddress::parse(&name).unwrap().create(len).unwrap();
    name
}

fn open(name: &str, options: &OpenOptions) -> Result<ObjectDevice> {
    S3Address::parse(name).unwrap().open(options)
}

#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn contract() {
    require!(is_client("remote_s3::contract"));
    for seed in 0..3 {
        let name = new_image(700_001);
        let device = open_image(Path::new(&name), &OpenOptions::read_write()).unwrap();
        check_bytes(&*device, seed, Length::Fixed);
        device.flush().unwrap();
        let bytes = MemoryDevice::copy_of(&*device).unwrap().snapshot();
        drop(device);
        let again = open(&name, &OpenOptions::read_only()).unwrap();
        assert!(MemoryDevice::copy_of(&again).unwrap().snapshot() == bytes);
    }
}

#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn images_as_a_whole() {
    require!(is_client("remote_s3::images_as_a_whole"));
    let name = new_image(LEN);
    let address = RemoteAddress::parse(&name).unwrap();
    address.create(LEN).unwrap_err();
    assert!(images_of("s3://images").unwrap().contains(&name));
    let (writer, reader) = (
        open(&name, &OpenOptions::read_write()).unwrap(),
        open(&name, &OpenOptions::read_only()).unwrap(),
    );
    writer.write_at(0, &[1; BLOCK]).unwrap();
    writer.flush().unwrap();
    let info = address.info().unwrap();
    assert_eq!((info.bytes, info.readers), (LEN, Some(1)));
    assert!(info.epoch > Some(0));
    address.break_lock().unwrap();
    writer.write_at(0, &[2; BLOCK]).unwrap();
    writer.flush().unwrap_err();
    drop((writer, reader));
    address.remove().unwrap();
    assert!(address.info().unwrap_err().is_missing());
    assert!(!images_of("s3://images/").unwrap().contains(&name));
}

/// Writes until it fails: block 0 has the number of the last flush.
#[test]
#[ignore = "is a writer that other tests start"]
fn remote_writer() {
    let Some(name) = role() else { return };
    let device = open(&name, &OpenOptions::read_write()).unwrap();
    let mut number = 0u64;
    loop {
        number += 1;
        let bytes = number.to_le_bytes().repeat(BLOCK / 8);
        let written = device
            .write_at(0, &bytes)
            .and_then(|()| device.write_at((1 + number % BLOCKS) * BLOCK as u64, &bytes))
            .and_then(|()| device.flush());
        match written {
            Ok(()) => println!("{DURABLE}{number}"),
            Err(e) => {
                println!("{DURABLE}0 {e}");
                return;
            }
        }
    }
}

/// What becomes of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stopped,
    Killed,
    /// What it sends arrives when another host has taken over and collected garbage.
    Held,
    /// Its connections are lost, and none can be made.
    Cut,
}

/// A host that hangs, dies or is cut off while it writes, and one that takes its image over; UEXT4_TAKEOVERS sets how often.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn takeovers() {
    require!(is_client("remote_s3::takeovers"));
    let gateway = std::env::var("AWS_ENDPOINT_URL").unwrap();
    let gateway = gateway.strip_prefix("http://").unwrap().parse().unwrap();
    let mut rng = Rng::with_seed(7);
    let (mut slowest, rounds) = (Duration::ZERO, env_number("UEXT4_TAKEOVERS", 20));
    for round in 0..rounds {
        let fates = [Fate::Stopped, Fate::Held, Fate::Cut, Fate::Killed];
        let fate = fates[(round % 4) as usize];
        let proxy = Proxy::start(gateway);
        let name = new_image(LEN);
        let endpoint = format!("http://{}", proxy.address());
        let variables = [("AWS_ENDPOINT_URL", &endpoint[..])];
        let mut writer = Peer::start_with("remote_s3::remote_writer", &name, &variables);
        let mut durable = 0;
        for _ in 0..rng.u8(1..12) {
            durable = number(&writer.line(DURABLE).expect("a line"));
        }
        thread::sleep(Duration::from_micros(rng.u64(..20_000)));
        match fate {
            Fate::Stopped => writer.signal(Signal::STOP),
            Fate::Killed => writer.signal(Signal::KILL),
            Fate::Held => proxy.set(Way::Held),
            Fate::Cut => proxy.set(Way::Cut),
        }
        let begin = Instant::now();
        let (device, found) = take_over(&name);
        slowest = slowest.max(begin.elapsed());
        assert!(found >= durable, "{found} is read, {durable} was durable");
        device.collect().unwrap();
        proxy.set(Way::Open);
        writer.signal(Signal::CONT);
        // What it had done before it was stopped may be printed now.
        while let Some(line) = writer.line(DURABLE) {
            let durable = number(&line);
            assert!(
                durable <= found,
                "{fate:?}: flush {durable} is acknowledged after {found} was read"
            );
        }
        let mut block = [0; BLOCK];
        device.read_at(0, &mut block).unwrap();
        assert_eq!(block, [0xff; BLOCK]);
        RemoteAddress::parse(&name).unwrap().remove().unwrap();
    }
    println!(
        "{rounds} takeovers, the slowest in {} ms",
        slowest.as_millis()
    );
}

/// Becomes the writer, with a flush; returns the number of the last flush before.
fn take_over(name: &str) -> (ObjectDevice, u64) {
    let mut block = [0; BLOCK];
    let device = loop {
        let device = open(name, &OpenOptions::read_write()).unwrap();
        device.read_at(0, &mut block).unwrap();
        match device.write_at(0, &[0xff; BLOCK]) {
            Ok(()) => break device,
            // What was on its way when the writer was stopped has arrived since.
            Err(e) => assert!(matches!(e, BlockError::Failed { .. }), "{e}"),
        }
    };
    device.flush().unwrap();
    let found = u64::from_le_bytes(block[..8].try_into().unwrap());
    let mut other = [0; BLOCK];
    let at = (1 + found % BLOCKS) * BLOCK as u64;
    device.read_at(at, &mut other).unwrap();
    assert!(found == 0 || other == block, "a flush is there in part");
    (device, found)
}

fn number(line: &str) -> u64 {
    line.split(' ').next().unwrap().parse().unwrap()
}
