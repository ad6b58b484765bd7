//! The contract of [`BlockDevice`] as a suite of tests, which every device passes.
//!
//! | function | of |
//! | --- | --- |
//! | [`check_bytes`] | one device: bytes, bounds, batches, discards, calls that run at the same time |
//! | [`check_wrapper`] | a device that wraps another: the same, and each call passes on as what it is |
//! | [`check_failed`] | a device whose writes were lost: it has failed for good |
//! | [`check_power_loss`] | a device that models a power loss: what is durable and what may be torn |
//!
//! A violation panics and names the rule.

use super::fault::{FaultCall, FaultDevice, FaultPlan, FaultRule};
use crate::external::*;
use std::io::{IoSlice, IoSliceMut};
use uext4_block::error::{BlockError, BlockOp, Result};
use uext4_block::stats::CountDevice;

/// The unit of atomicity: a device writes so many bytes, aligned, as a whole.
const SECTOR: usize = 512;

/// Whether a device's length can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// [`BlockDevice::set_len`] works.
    Changes,
    /// It is refused.
    Fixed,
}

/// Checks a device of at least 64 KiB with calls that `seed` chooses. Its bytes are lost.
pub fn check_bytes(device: &dyn BlockDevice, seed: u64, length: Length) {
    check_discard(device);
    check_neighbours(device);
    check_overlaps(device);
    device.zero(0, device.len()).unwrap();
    check_beside_a_vector(device, seed, 200, length == Length::Changes);
}

/// Checks a device that wraps the one that it is given.
pub fn check_wrapper(wrap: &dyn Fn(Arc<dyn BlockDevice>) -> Box<dyn BlockDevice>) {
    for seed in 0..3 {
        let inner = Arc::new(MemoryDevice::new(100_000 + seed));
        check_bytes(&*wrap(inner), seed, Length::Changes);
    }
    check_calls_pass_on(wrap);
    check_errors_pass_on(wrap);
}

/// Checks a device that has lost writes: a flush or a durable write has failed. It reads, and refuses
/// everything else, however often and whatever its host does meanwhile.
pub fn check_failed(device: &dyn BlockDevice) {
    let bytes = [1; 512];
    let calls: [(&str, &dyn Fn() -> Result<()>); 6] = [
        ("flush", &|| device.flush()),
        ("write", &|| device.write_at(0, &bytes)),
        ("batch", &|| {
            device.write_batch(&[(0, &bytes), (8192, &bytes)])
        }),
        ("durable write", &|| device.write_fua(0, &bytes)),
        ("zero", &|| device.zero(0, 512)),
        ("discard", &|| device.discard(0, 512)),
    ];
    for (what, call) in calls.iter().chain(&calls) {
        let error = call().expect_err(what);
        assert!(
            matches!(error, BlockError::Failed { .. }),
            "{what}: {error}"
        );
        assert_eq!(error.raw_os_error(), Some(5), "{what}: {error}");
    }
    device
        .read_at(0, &mut [0; 4096])
        .expect("a failed device reads");
}

/// Checks a device that `make` makes, of zeros and of some length, and of which `lose_power` makes what is
/// left of it, as a seed chooses.
pub fn check_power_loss<D: BlockDevice>(
    make: &dyn Fn(u64) -> D,
    lose_power: &dyn Fn(&D, u64) -> MemoryDevice,
) {
    const LEN: usize = 64 << 10;
    for seed in 0..60 {
        let device = make(LEN as u64);
        let mut rng = Rng::with_seed(seed);
        // What a sector may hold: the last entry is what it does hold.
        let mut may_be = vec![vec![0u8]; LEN / SECTOR];
        for value in 1..60 {
            let first = rng.usize(..may_be.len());
            let sectors = rng.usize(1..=(may_be.len() - first).min(20));
            let (at, bytes) = ((first * SECTOR) as u64, vec![value; sectors * SECTOR]);
            let range = first..first + sectors;
            match rng.u8(..8) {
                0 => {
                    device.flush().unwrap();
                    for held in &mut may_be {
                        held.drain(..held.len() - 1);
                    }
                }
                1 => {
                    device.write_fua(at, &bytes).unwrap();
                    may_be[range].fill(vec![value]);
                }
                2 => {
                    device.zero(at, bytes.len() as u64).unwrap();
                    may_be[range].iter_mut().for_each(|held| held.push(0));
                }
                _ => {
                    device.write_at(at, &bytes).unwrap();
                    may_be[range].iter_mut().for_each(|held| held.push(value));
                }
            }
        }
        let left = lose_power(&device, seed).snapshot();
        assert_eq!(left.len(), LEN, "the length stays");
        for (number, (sector, held)) in left.chunks(SECTOR).zip(&may_be).enumerate() {
            assert!(
                sector.iter().all(|byte| *byte == sector[0]) && held.contains(&sector[0]),
                "seed {seed}: sector {number} holds {:?}, allowed is one of {held:?}",
                &sector[..8]
            );
        }
    }
}

/// What is outside a discarded range stays, and the range takes new bytes.
fn check_discard(device: &dyn BlockDevice) {
    device.write_at(0, &[9; 32 << 10]).unwrap();
    device.discard(5000, 9000).unwrap();
    device.discard(20_000, 0).unwrap();
    let mut found = vec![0; 32 << 10];
    device.read_at(0, &mut found).unwrap();
    assert!(
        found[..5000]
            .iter()
            .chain(&found[14_000..])
            .all(|b| *b == 9),
        "discard: around"
    );
    device.write_at(6000, &[3; 1000]).unwrap();
    device.read_at(0, &mut found).unwrap();
    assert_eq!(found[6000..7000], [3; 1000], "discard: written again");
    device.zero(5000, 9000).unwrap();
    device.read_at(0, &mut found).unwrap();
    assert_eq!(found[5000..14_000], [0; 9000], "discard: zeroed");
}

/// Threads that write bytes beside each other, within sectors, lose none.
fn check_neighbours(device: &dyn BlockDevice) {
    const THREADS: usize = 4;
    device.zero(0, 16 << 10).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for place in (thread..1000).step_by(THREADS) {
                    let (at, byte) = (place as u64 * 13, thread as u8 + 1);
                    match place % 3 {
                        0 => device.write_fua(at, &[byte; 13]),
                        1 => device.write_batch(&[(at, &[byte; 6]), (at + 6, &[byte; 7])]),
                        _ => device.write_at(at, &[byte; 13]),
                    }
                    .unwrap();
                }
            });
        }
    });
    let mut found = vec![0; 13_000];
    device.read_at(0, &mut found).unwrap();
    for (place, part) in found.chunks(13).enumerate() {
        assert_eq!(
            part,
            [(place % THREADS) as u8 + 1; 13],
            "neighbours: place {place}"
        );
    }
}

/// Of writes that overlap and run at the same time, each byte is that of one.
fn check_overlaps(device: &dyn BlockDevice) {
    for round in 0..20 {
        device.write_at(0, &[200; 16 << 10]).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                scope.spawn(move || {
                    let bytes = vec![thread as u8; 8 << 10];
                    device.write_at(thread * 1024 + round, &bytes).unwrap();
                });
            }
        });
        let mut found = vec![0; 16 << 10];
        device.read_at(0, &mut found).unwrap();
        for (at, &byte) in found.iter().enumerate() {
            let covers =
                |t: u64| (t * 1024 + round..t * 1024 + round + 8192).contains(&(at as u64));
            let fits = match (0..4).any(covers) {
                true => byte < 4 && covers(u64::from(byte)),
                false => byte == 200,
            };
            assert!(fits, "overlaps: byte {at} is {byte} in round {round}");
        }
    }
}

/// A call reaches the wrapped device once and as what it is: what counts calls below a wrapper counts what
/// came in above.
fn check_calls_pass_on(wrap: &dyn Fn(Arc<dyn BlockDevice>) -> Box<dyn BlockDevice>) {
    let (direct, below) = [(); 2]
        .map(|()| Arc::new(CountDevice::new(MemoryDevice::new(100_000))))
        .into();
    let wrapped = wrap(Arc::clone(&below) as Arc<_>);
    // What making it took is its own.
    let start = below.counts();
    for device in [&*wrapped, &*direct] {
        let (mut first, mut second) = ([0; 100], [0; 200]);
        device
            .write_vectored_at(0, &[IoSlice::new(&[1; 10]), IoSlice::new(&[2; 20])])
            .unwrap();
        device
            .write_batch(&[(0, &[1; 10]), (10, &[2; 10]), (90, &[3; 10])])
            .unwrap();
        device.write_fua(70, &[4; 30]).unwrap();
        device.zero(5, 6).unwrap();
        device.discard(50, 10).unwrap();
        device.flush().unwrap();
        let mut bufs = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        device.read_vectored_at(0, &mut bufs).unwrap();
        device
            .read_batch(&mut [(900, &mut first), (0, &mut second)])
            .unwrap();
    }
    let mut want = direct.counts();
    want.reads += start.reads;
    want.read_bytes += start.read_bytes;
    assert_eq!(below.counts(), want, "calls pass on as what they are");
    assert_eq!(wrapped.identity(), below.identity());
    assert_eq!(wrapped.logical_block_size(), below.logical_block_size());
    assert_eq!(wrapped.is_read_only(), below.is_read_only());
}

/// An error of the wrapped device reaches the caller.
fn check_errors_pass_on(wrap: &dyn Fn(Arc<dyn BlockDevice>) -> Box<dyn BlockDevice>) {
    let plan = FaultPlan::new();
    let below = FaultDevice::new(MemoryDevice::new(100_000), plan.clone());
    let device = wrap(Arc::new(below));
    for call in [
        FaultCall::Read,
        FaultCall::Write,
        FaultCall::Flush,
        FaultCall::Discard,
    ] {
        plan.add(FaultRule::new(call));
    }
    let errors = [
        device.read_at(0, &mut [0; 10]).unwrap_err(),
        device
            .read_batch(&mut [(0, &mut [0; 10]), (50, &mut [0; 10])])
            .unwrap_err(),
        device.write_at(0, &[0; 10]).unwrap_err(),
        device
            .write_batch(&[(0, &[0; 10]), (50, &[0; 10])])
            .unwrap_err(),
        device.write_fua(0, &[0; 10]).unwrap_err(),
        device.flush().unwrap_err(),
        device.zero(0, 10).unwrap_err(),
        device.discard(0, 10).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.raw_os_error(), Some(5), "{error}");
        assert!(matches!(error, BlockError::Io { .. }), "{error}");
    }
}

/// Runs `steps` random operations on `device` and on a vector, and compares what it reads.
fn check_beside_a_vector(device: &dyn BlockDevice, seed: u64, steps: usize, resize: bool) {
    let mut rng = Rng::with_seed(seed);
    let mut model = vec![0u8; device.len() as usize];
    for _ in 0..steps {
        step(device, &mut rng, &mut model, resize);
    }
    let mut all = vec![1u8; model.len()];
    device.read_at(0, &mut all).unwrap();
    assert!(all == model, "image differs from the model, seed {seed}");
    refuses_past_end(device);
}

fn step(device: &dyn BlockDevice, rng: &mut Rng, model: &mut Vec<u8>, resize: bool) {
    let offset = rng.usize(..model.len());
    let len = rng.usize(..=(model.len() - offset).min(200_000));
    let at = offset as u64;
    let target = offset..offset + len;
    match rng.u8(..if resize { 10 } else { 9 }) {
        0 => {
            let mut buf = vec![0xAA; len];
            device.read_at(at, &mut buf).unwrap();
            assert!(buf == model[target]);
        }
        1 => {
            let mut buf = vec![0xAA; len];
            let (first, second) = buf.split_at_mut(len / 3);
            device
                .read_vectored_at(at, &mut [IoSliceMut::new(first), IoSliceMut::new(second)])
                .unwrap();
            assert!(buf == model[target]);
        }
        2 | 3 => {
            rng.fill(&mut model[target.clone()]);
            device.write_at(at, &model[target]).unwrap();
        }
        4 => {
            rng.fill(&mut model[target.clone()]);
            let (first, second) = model[target].split_at(len / 2);
            let bufs = [IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(second)];
            device.write_vectored_at(at, &bufs).unwrap();
        }
        5 => batch(device, rng, &mut model[target], at),
        6 => {
            rng.fill(&mut model[target.clone()]);
            device.write_fua(at, &model[target]).unwrap();
        }
        7 => {
            model[target].fill(0);
            device.zero(at, len as u64).unwrap();
        }
        8 => device.drop_cache(at, len as u64).unwrap(),
        _ => {
            let len = rng.usize(model.len() / 2..model.len() * 3 / 2).max(1);
            model.resize(len, 0);
            device.set_len(len as u64).unwrap();
            assert_eq!(device.len(), len as u64);
        }
    }
}

/// Writes some of the pieces of a range as a batch, and reads others back.
fn batch(device: &dyn BlockDevice, rng: &mut Rng, model: &mut [u8], at: u64) {
    let piece = [512, 4096, 700][rng.usize(..3)];
    let mut writes = Vec::new();
    for (i, bytes) in model.chunks_mut(piece).enumerate() {
        if rng.u8(..4) > 0 {
            rng.fill(bytes);
            writes.push((at + (i * piece) as u64, &*bytes));
        }
    }
    if rng.bool() {
        rng.shuffle(&mut writes);
    }
    device.write_batch(&writes).unwrap();
    device.flush().unwrap();
    let mut back = vec![0xAA; model.len()];
    let mut reads: Vec<_> = back
        .chunks_mut(piece)
        .enumerate()
        .map(|(i, buf)| (at + (i * piece) as u64, buf))
        .collect();
    if rng.bool() {
        rng.shuffle(&mut reads);
    }
    device.read_batch(&mut reads).unwrap();
    assert!(back == model);
}

fn refuses_past_end(device: &dyn BlockDevice) {
    let len = device.len();
    device.write_at(len, &[]).unwrap();
    device.write_at(len, &[1]).unwrap_err();
    device.read_at(len - 1, &mut [0; 2]).unwrap_err();
    device.zero(u64::MAX, 2).unwrap_err();
    device.discard(len, 1).unwrap_err();
    device.write_fua(len, &[1]).unwrap_err();
    let error = device
        .write_batch(&[(0, &[1]), (len - 1, &[1; 2])])
        .unwrap_err();
    assert_eq!(error.op(), Some(BlockOp::Write));
    let bufs = [IoSlice::new(&[1]), IoSlice::new(&[2])];
    device.write_vectored_at(len - 1, &bufs).unwrap_err();
    let error = device.read_at(len + 5, &mut [0; 7]).unwrap_err();
    assert_eq!(error.offset(), Some(len + 5));
    assert_eq!(error.raw_os_error(), Some(5));
    assert_eq!(device.len(), len);
}
