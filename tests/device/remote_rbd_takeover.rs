//! Images of Ceph that a host takes over from one that hangs, dies or is cut off: nothing that was durable is lost, and nothing that the
//! old owner still writes has an effect.
//!
//! `UEXT4_TAKEOVERS` sets how often.

use crate::remote_rbd::{BLOCK, blocklisted, name_of, open, open_after_death, owner_of, snapshot};
use rustix::process::Signal;
use uext4_block::RbdAddress;
use uext4_testkit::ceph::*;
use uext4_testkit::image::mount;
use uext4_testkit::librbd_shim;
use uext4_testkit::operation::Op;
use uext4_testkit::partition::{Partition, can_partition};
use uext4_testkit::prelude::*;

const WRITER: &str = "remote_rbd_takeover::remote_writer";
/// What a writer prints before the number of what is durable.
const DURABLE: &str = "durable ";
/// Blocks of an image that is written without a file system.
const BLOCKS: u64 = 64;
/// Bytes of one with a file system.
const FILE_SYSTEM: u64 = 16 << 20;
/// Files that a writer uses in turn.
const FILES: u64 = 40;
/// Takeovers at a time.
const THREADS: u64 = 4;

/// What happens to a writer.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// It hangs, and continues later.
    Stopped,
    Killed,
    /// What it sends is late.
    CutOff,
}

/// What a writer writes.
#[derive(Clone, Copy, Debug)]
enum Content {
    Blocks,
    Files,
}

/// Writes, as its role says, and prints the number of what is durable; then why it ended.
#[test]
#[ignore = "run by other tests"]
fn remote_writer() {
    let role = require!(some role());
    let (content, image) = role.split_once(' ').unwrap();
    let device = open(image).unwrap();
    let error = match content {
        "Blocks" => write_blocks(&*device).into(),
        _ => write_files(&device),
    };
    println!("{DURABLE}0 {error}");
}

fn write_blocks(device: &dyn BlockDevice) -> uext4_block::BlockError {
    let mut rng = Rng::new();
    for number in 1u64.. {
        let at = number % BLOCKS * BLOCK as u64;
        let written = match rng.bool() {
            true => device.write_fua(at, &block(number)),
            false => device
                .write_at(at, &block(number))
                .and_then(|()| device.flush()),
        };
        match written {
            Ok(()) => println!("{DURABLE}{number}"),
            Err(error) => {
                device
                    .write_at(at, &block(number))
                    .expect_err("it has failed");
                device.flush().expect_err("it has failed");
                return error;
            }
        }
    }
    unreachable!()
}

fn write_files(device: &Arc<dyn BlockDevice>) -> anyhow::Error {
    let fs = match mount(device.clone()) {
        Ok(fs) => fs,
        Err(error) => return error,
    };
    for number in 1u64.. {
        match write_file(&fs, number) {
            Ok(()) => println!("{DURABLE}{number}"),
            Err(error) => {
                for number in number + 1..number + 3 {
                    write_file(&fs, number).expect_err("its journal is aborted");
                }
                return error;
            }
        }
    }
    unreachable!()
}

/// Removes the file that had the number `FILES` earlier, and makes one.
fn write_file(fs: &Ext4, number: u64) -> Result<()> {
    let path = file(number);
    if number > FILES {
        let path = file(number - FILES);
        apply(fs, &Op::Unlink { path, keep: false })?;
    }
    apply(
        fs,
        &Op::Create {
            path: path.clone(),
            mode: 0o644,
        },
    )?;
    let data = block(number);
    apply(
        fs,
        &Op::Write {
            path: path.clone(),
            at: 0,
            data,
            direct: false,
        },
    )?;
    apply(
        fs,
        &Op::Fsync {
            path,
            data_only: false,
        },
    )?;
    Ok(())
}

fn file(number: u64) -> Vec<u8> {
    format!("file-{number}").into_bytes()
}

fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK / 8)
}

/// The number in a block that is whole.
fn number_in(block: &[u8]) -> Result<u64> {
    let (words, _) = block.as_chunks();
    ensure!(
        words.iter().all(|word| *word == words[0]),
        "a block is torn"
    );
    Ok(u64::from_le_bytes(words[0]))
}

/// The highest number that the new owner finds. All before it must be there, or have been replaced. To a file system it adds a file.
fn highest(device: &Arc<dyn BlockDevice>, content: Content) -> Result<u64> {
    let numbers: Vec<u64> = match content {
        Content::Blocks => {
            let bytes = snapshot(&**device);
            bytes.chunks(BLOCK).map(number_in).collect::<Result<_>>()?
        }
        Content::Files => {
            let fs = mount(device.clone())?;
            let mut numbers = Vec::new();
            for number in 1..5000 {
                let Ok(node) = find(&*fs, &file(number)) else {
                    continue;
                };
                let mut bytes = vec![0; BLOCK];
                let len = fs.read(&node, 0, &mut bytes)?;
                // The last one may be there without its data.
                numbers.push(match len {
                    BLOCK => number_in(&bytes)?,
                    _ => 0,
                });
            }
            apply(
                &*fs,
                &Op::Create {
                    path: b"owner".to_vec(),
                    mode: 0o600,
                },
            )?;
            fs.unmount()?;
            numbers
        }
    };
    let highest = numbers.iter().copied().max().unwrap_or(0);
    let kept = match content {
        Content::Blocks => BLOCKS,
        Content::Files => FILES - 1,
    };
    for number in highest.saturating_sub(kept - 1).max(1)..=highest {
        ensure!(
            numbers.contains(&number),
            "{number} is lost, {highest} is there"
        );
    }
    Ok(highest)
}

/// A takeover; returns how long it took from when the cluster had found the owner dead.
fn take_over(content: Content, loss: Loss, rng: &mut Rng) -> Result<Duration> {
    let image = new_image(match content {
        Content::Blocks => BLOCKS * BLOCK as u64,
        Content::Files => FILE_SYSTEM,
    });
    if let Content::Files = content {
        let device = open(&image)?;
        uext4_build::mkfs(&*device, &MkfsOptions::default(), &NoProgress)?;
        device.flush()?;
    }
    let mut writer = Peer::start(WRITER, &format!("{content:?} {image}"));
    let mut durable = 0;
    for _ in 0..rng.u8(1..60) {
        let line = writer.line(DURABLE).context("the writer ended")?;
        durable = number_of(&line)?;
    }
    thread::sleep(Duration::from_micros(rng.u64(..20_000)));
    let partition: Option<Partition> = match loss {
        Loss::Stopped => {
            writer.signal(Signal::STOP);
            None
        }
        Loss::Killed => {
            writer.signal(Signal::KILL);
            None
        }
        Loss::CutOff => Some(writer.partition(None)),
    };
    let begin = wait_for_death(&image);
    let device = open_after_death(&image);
    let highest = highest(&device, content)?;
    if let Content::Blocks = content {
        device.write_fua(0, &[0xff; BLOCK])?;
    }
    let took = begin.elapsed();
    ensure!(
        highest >= durable,
        "{highest} is there, {durable} was durable"
    );
    let bytes = snapshot(&*device);
    drop(partition);
    writer.signal(Signal::CONT);
    while let Some(line) = writer.line(DURABLE) {
        let durable = number_of(&line)?;
        ensure!(
            durable <= highest,
            "{durable} was acknowledged, {highest} is there"
        );
    }
    for _ in 0..5 {
        ensure!(snapshot(&*device) == bytes, "the old owner has written");
        thread::sleep(Duration::from_millis(100));
    }
    device.flush()?;
    if let Content::Files = content {
        oracle::fsck_device(&MemoryDevice::from_bytes(&bytes))?;
    }
    drop(device);
    // What is left is in memory, and small.
    let _ = RbdAddress::parse(&name_of(&image)).map(|address| address.remove());
    Ok(took)
}

/// Waits until the cluster has removed the watches of the owner.
fn wait_for_death(image: &str) -> Instant {
    while rbd(&["status", image]).contains("watcher=") {
        thread::sleep(Duration::from_millis(50));
    }
    Instant::now()
}

fn number_of(line: &str) -> Result<u64> {
    let number = line.split(' ').next().unwrap_or(line);
    number.parse().context("a number")
}

/// Takes over so often, some at a time; returns the slowest.
fn take_over_often(rounds: u64) -> Result<Duration> {
    let next = AtomicU64::new(0);
    let work = || -> Result<Duration> {
        let mut slowest = Duration::ZERO;
        loop {
            let round = next.fetch_add(1, Ordering::Relaxed);
            if round >= rounds {
                return Ok(slowest);
            }
            let loss = [Loss::CutOff, Loss::Stopped, Loss::Killed][(round % 3) as usize];
            let content = match round / 3 % 2 {
                0 => Content::Blocks,
                _ => Content::Files,
            };
            let took = take_over(content, loss, &mut Rng::with_seed(round));
            let took = took.with_context(|| format!("round {round}: {content:?}, {loss:?}"))?;
            slowest = slowest.max(took);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread"));
        ended
            .collect::<Vec<_>>()
            .into_iter()
            .try_fold(Duration::ZERO, |slowest, took| Ok(slowest.max(took?)))
    })
}

#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn takeovers() {
    require!(can_partition() && is_client("remote_rbd_takeover::takeovers"));
    let rounds = env_number("UEXT4_TAKEOVERS", 12);
    let slowest = take_over_often(rounds).unwrap();
    println!(
        "{rounds} takeovers, the slowest {} ms after the owner was found dead",
        slowest.as_millis()
    );
}

/// The planted bug: clients whose locks are broken are not blocklisted.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn takeovers_without_a_blocklist_are_caught() {
    let test = "remote_rbd_takeover::takeovers_without_a_blocklist_are_caught";
    let library = librbd_shim::build().unwrap();
    let variables = [
        (librbd_shim::FAULT, "no-blocklist"),
        (librbd_shim::LIBRARY_PATH, library.path().to_str().unwrap()),
    ];
    require!(can_partition() && is_client_with(test, &variables));
    let caught = take_over_often(12).expect_err("one of them fails");
    let why = format!("{caught:#}");
    let is_caught = ["has written", "was acknowledged", "is lost"];
    assert!(is_caught.iter().any(|what| why.contains(what)), "{why}");
    println!("{why}");
}

/// Cuts an owner off, takes over, makes its entry in the blocklist a short one, and lets it continue after that has expired.
fn resume_after_expiry() -> Result<()> {
    let image = new_image(BLOCKS * BLOCK as u64);
    let mut writer = Peer::start(WRITER, &format!("{:?} {image}", Content::Blocks));
    while number_of(&writer.line(DURABLE).context("the writer ended")?)? < 20 {}
    let owner = owner_of(&image);
    let partition = writer.partition(None);
    let device = open_after_death(&image);
    device.write_fua(0, &[0xff; BLOCK])?;
    let bytes = snapshot(&*device);
    let made = blocklisted(&owner).context("an entry")?;
    // An entry that is there is not made shorter.
    ceph(&["osd", "blocklist", "rm", &owner]);
    ceph(&["osd", "blocklist", "add", &owner, "20"]);
    let short = blocklisted(&owner).context("an entry")?;
    ensure!(short != made, "{short}");
    thread::sleep(Duration::from_secs(25));
    let renewed = blocklisted(&owner);
    drop(partition);
    while writer.line(DURABLE).is_some() {}
    ensure!(snapshot(&*device) == bytes, "the old owner has written");
    let renewed = renewed.context("the entry has expired")?;
    ensure!(renewed > made, "{renewed}");
    device.flush()?;
    Ok(())
}

/// A client stays blocklisted while the owner that has fenced it lives, whatever the entry says.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn an_entry_of_the_blocklist_is_renewed() {
    let test = "remote_rbd_takeover::an_entry_of_the_blocklist_is_renewed";
    require!(can_partition() && is_client(test));
    resume_after_expiry().unwrap();
}

/// The planted bug: an entry is made once.
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn an_entry_that_expires_is_caught() {
    let test = "remote_rbd_takeover::an_entry_that_expires_is_caught";
    let library = librbd_shim::build().unwrap();
    let variables = [
        (librbd_shim::FAULT, "no-renewal"),
        (librbd_shim::LIBRARY_PATH, library.path().to_str().unwrap()),
    ];
    require!(can_partition() && is_client_with(test, &variables));
    let caught = resume_after_expiry().expect_err("it is not renewed");
    let is_caught = ["the old owner has written", "the entry has expired"];
    assert!(is_caught.contains(&caught.to_string().as_str()), "{caught}");
}
