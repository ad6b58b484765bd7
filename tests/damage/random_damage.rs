//! Damaged images: mounting, walking and changing them gives errors, never a panic or a hang.
//! `UEXT4_DAMAGE_RUNS` sets how many.

use uext4_testkit::image::mount;
use uext4_testkit::prelude::*;

const ENTRIES_MAX: usize = 5000;

/// An image with a bit of everything; half of them with a journal to replay.
fn image(shape: Shape, seed: u64) -> Vec<u8> {
    let device = Arc::new(shape.make().unwrap());
    let fs = mount(Arc::clone(&device) as Arc<_>).unwrap();
    apply(
        &*fs,
        &Op::Mkdir {
            path: b"shared".to_vec(),
            mode: 0o755,
        },
    )
    .unwrap();
    let mut worker = Worker::new(&fs, "t0", seed, Habits::of(&shape)).unwrap();
    for _ in 0..300 {
        worker.step().unwrap();
    }
    worker.close();
    drop(worker);
    if seed.is_multiple_of(2) {
        fs.unmount().unwrap();
    } else {
        fs.sync().unwrap();
        fs.crash();
    }
    drop(fs);
    device.snapshot()
}

/// Damages bytes where something is, mostly metadata: where the image isn't zero.
fn damage(bytes: &mut Vec<u8>, rng: &mut fastrand::Rng) {
    match rng.u8(..10) {
        0 => bytes.truncate(rng.usize(..bytes.len())),
        kind => {
            for _ in 0..rng.usize(1..20) {
                let at = if kind < 3 {
                    rng.usize(1024..2048)
                } else {
                    rng.usize(..bytes.len())
                };
                let near = bytes[at..]
                    .iter()
                    .take(1 << 20)
                    .position(|b| *b != 0)
                    .unwrap_or(0);
                bytes[at + near] = match rng.bool() {
                    true => bytes[at + near] ^ (1 << rng.u8(..8)),
                    false => rng.u8(..),
                };
            }
        }
    }
}

/// Everything that can be done, errors ignored.
fn exercise(bytes: &[u8], seed: u64) {
    let device = Arc::new(MemoryDevice::from_bytes(bytes));
    let Ok(fs) = mount(Arc::clone(&device) as Arc<dyn BlockDevice>) else {
        return;
    };
    let caller = Caller::root();
    let mut left = Vec::new();
    left.extend(FileSystem::root(&*fs).cloned());
    let (mut seen, mut nodes) = (0, Vec::new());
    while let Some(dir) = left.pop() {
        let mut names = Vec::new();
        let _ = fs.readdir(&caller, &dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            names.len() < ENTRIES_MAX
        });
        for name in names.iter().filter(|name| *name != b"." && *name != b"..") {
            seen += 1;
            if seen > ENTRIES_MAX {
                break;
            }
            let Ok(node) = FileSystem::lookup(&*fs, &caller, &dir, name) else {
                continue;
            };
            let Ok(attr) = fs.getattr(&node) else {
                continue;
            };
            let mut data = vec![0; 70_000];
            let _ = FileSystem::read(&*fs, &node, 0, &mut data);
            let _ = FileSystem::read(&*fs, &node, attr.size.saturating_sub(100), &mut data);
            let _ = FileSystem::readlink(&*fs, &caller, &node);
            for name in fs.listxattr(&caller, &node).unwrap_or_default() {
                let _ = fs.getxattr(&caller, &node, &name);
            }
            if attr.kind == FileKind::Directory {
                left.push(node.clone());
            }
            nodes.push((dir.clone(), name.clone(), node));
        }
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    for (dir, name, node) in &nodes {
        let _ = match rng.u8(..8) {
            0 => FileSystem::unlink(&*fs, &caller, dir, name),
            1 => FileSystem::rmdir(&*fs, &caller, dir, name),
            2 => FileSystem::write(&*fs, node, rng.u64(..100_000), &[5; 9000]).map(|_| ()),
            3 => FileSystem::append(&*fs, node, &[6; 300]).map(|_| ()),
            4 => fs.setxattr(&caller, node, b"user.new", &[1; 100], Default::default()),
            5 => FileSystem::link(&*fs, &caller, node, dir, b"another name"),
            6 => FileSystem::rename(&*fs, &caller, dir, name, dir, b"moved", Default::default()),
            _ => FileSystem::fsync(&*fs, node, false),
        };
        let path = format!("new{}", rng.u16(..)).into_bytes();
        let _ = apply(&*fs, &Op::Create { path, mode: 0o600 });
    }
    drop(nodes);
    drop(left);
    let _ = fs.syncfs();
    let _ = fs.unmount();
}

/// Damages an inode that has inline data: its fields, its data, its attributes.
fn damage_inline(bytes: &mut [u8], inode_size: usize, rng: &mut fastrand::Rng) {
    let named: Vec<usize> = (0..bytes.len() - 24)
        .step_by(4)
        .filter(|&at| bytes[at..at + 2] == [4, 7] && bytes[at + 16..at + 20] == *b"data")
        .collect();
    for _ in 0..rng.usize(1..4) {
        let Some(&at) = rng.choice(&named) else {
            return;
        };
        let slot = at - at % inode_size;
        for _ in 0..rng.usize(1..4) {
            // Mostly where the data is, or the attribute's entry.
            let byte = match rng.u8(..4) {
                0 => slot + rng.usize(..inode_size),
                1 => slot + 0x28 + rng.usize(..60),
                2 => slot + rng.usize(..0x28),
                _ => at + rng.usize(..24),
            };
            bytes[byte] = match rng.bool() {
                true => bytes[byte] ^ (1 << rng.u8(..8)),
                false => rng.u8(..),
            };
        }
    }
}

#[test]
fn fuzz_damaged_images() {
    let runs = env_number("UEXT4_DAMAGE_RUNS", 150);
    fuzz(runs, &Shape::ALL[..4]);
}

#[test]
fn fuzz_damaged_block_maps() {
    fuzz(env_number("UEXT4_DAMAGE_RUNS", 70), &Shape::BLOCK_MAPPED);
}

#[test]
fn fuzz_damaged_inline_data() {
    fuzz(env_number("UEXT4_DAMAGE_RUNS", 70), &Shape::INLINE);
}

#[test]
fn fuzz_damaged_large_values() {
    fuzz(env_number("UEXT4_DAMAGE_RUNS", 70), &Shape::LARGE_VALUES);
}

/// Without checksums, so that all of it is seen.
#[test]
fn fuzz_damaged_inodes_with_inline_data() {
    let shapes = [Shape::INLINE[2], Shape::INLINE[4]];
    fuzz_with(
        env_number("UEXT4_DAMAGE_RUNS", 200),
        &shapes,
        |bytes, rng| {
            damage_inline(bytes, 256, rng);
        },
    );
}

fn fuzz(runs: u64, shapes: &[Shape]) {
    fuzz_with(runs, shapes, damage);
}

fn fuzz_with(runs: u64, shapes: &[Shape], damage: impl Fn(&mut Vec<u8>, &mut fastrand::Rng)) {
    let first = env_number("UEXT4_DAMAGE_SEED", 0);
    let images: Vec<Vec<u8>> = (0..shapes.len().max(6))
        .map(|i| {
            image(
                Shape {
                    bytes: 16 << 20,
                    ..shapes[i % shapes.len()]
                },
                i as u64,
            )
        })
        .collect();
    let mut failed = Vec::new();
    for seed in first..first + runs {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bytes = images[(seed % images.len() as u64) as usize].clone();
        damage(&mut bytes, &mut rng);
        let (done, waits) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            exercise(&bytes, seed);
            let _ = done.send(());
        });
        match waits.recv_timeout(Duration::from_secs(60)) {
            Ok(()) => {}
            // Not a measure of speed: an image of 16 MiB takes milliseconds.
            Err(mpsc::RecvTimeoutError::Timeout) => failed.push((seed, "hangs")),
            Err(mpsc::RecvTimeoutError::Disconnected) => failed.push((seed, "panics")),
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
