//! Random operations on a device, compared with a plain vector (tests only).

use crate::BlockDevice;
use fastrand::Rng;
use std::io::{IoSlice, IoSliceMut};

/// Runs `steps` random operations on `device`, whose bytes must be zeros at the start, and compares
/// what it reads. `resize` allows changes of length.
pub fn check(device: &dyn BlockDevice, seed: u64, steps: usize, resize: bool) {
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
    match rng.u8(..if resize { 9 } else { 8 }) {
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
    let bufs = [IoSlice::new(&[1]), IoSlice::new(&[2])];
    device.write_vectored_at(len - 1, &bufs).unwrap_err();
    let error = device.read_at(len + 5, &mut [0; 7]).unwrap_err();
    assert_eq!(error.offset(), Some(len + 5));
    assert_eq!(error.raw_os_error(), Some(5));
    assert_eq!(device.len(), len);
}
