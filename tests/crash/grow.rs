//! Power lost while a mounted image grows: recovery finds the old size or the new one, and every file.

use uext4_testkit::{image::mke2fs, prelude::*};

const MIB: u64 = 1 << 20;

fn content(number: usize) -> Vec<u8> {
    vec![number as u8 + 1; 10_000 * (number + 1)]
}

fn add(fs: &Ext4, number: usize) {
    let name = number.to_string();
    let file = fs.create(&Caller::root(), &fs.top(), name.as_bytes(), &FILE);
    fs.put(&file.expect("create"), 0, &content(number));
    fs.sync().expect("sync");
}

/// Grows to each size, with a durable file before and after each, and returns the sizes in blocks. The marks count the files.
fn record(args: &str, to: &[u64]) -> (uext4_testkit::device::RecordLog, Vec<u64>) {
    let image = mke2fs(args, 20 * MIB).expect("an image");
    let device = Arc::new(RecordDevice::new(image).expect("a device"));
    let fs = Ext4::mount(Arc::clone(&device) as Arc<_>, MountOptions::default()).expect("mount");
    let mut sizes = vec![fs.volume.geometry().blocks_count];
    add(&fs, 0);
    device.mark(1);
    for (step, mib) in (1..).zip(to) {
        let block = u64::from(fs.volume.geometry().block_size);
        sizes.push(fs.grow(mib * MIB / block).expect("grow"));
        add(&fs, step);
        device.mark(step as u64 + 1);
    }
    fs.crash();
    (device.log(), sizes)
}

/// What is wrong with an image after a crash, which has so many files at least.
fn recovers(device: MemoryDevice, files: u64, sizes: &[u64], by_e2fsck: bool) -> Result<()> {
    let device = Arc::new(device);
    let fs = Ext4::mount(Arc::clone(&device) as Arc<_>, MountOptions::default())?;
    let blocks = fs.volume.geometry().blocks_count;
    ensure!(sizes.contains(&blocks), "{blocks} blocks");
    for number in 0..files as usize {
        let file = find(&*fs, number.to_string().as_bytes())?;
        let wanted = content(number);
        let mut found = vec![0; wanted.len() + 1];
        let len = fs.read(&file, 0, &mut found)?;
        ensure!(found[..len] == wanted, "file {number}");
    }
    fs.unmount()?;
    drop(fs);
    oracle::check(&*device)?;
    match by_e2fsck {
        true => oracle::fsck_device(&device),
        false => Ok(()),
    }
}

/// As [`recovers`], by e2fsck alone.
fn recovers_by_e2fsck(device: &MemoryDevice, dir: &Path) -> Result<()> {
    let image = dir.join("image");
    device.save_to(&image)?;
    oracle::repair(&image)?;
    oracle::fsck(&image)
}

#[test]
fn a_crash_while_it_grows_leaves_the_old_size_or_the_new() {
    let dir = tempfile::tempdir().expect("a directory");
    let share = env_number("UEXT4_GROW_SHARE", 4);
    // Within the last group, by one, and by so many that there are more blocks of descriptors.
    for (args, to) in [
        ("-b 1024 -J size=2", &[22, 30, 180][..]),
        ("-b 1024 -J size=2 -O ^resize_inode,meta_bg", &[22, 30, 180]),
        (
            "-b 1024 -J size=2 -O ^flex_bg,^metadata_csum,uninit_bg",
            &[30, 280],
        ),
        ("-b 4096 -J size=4", &[60, 200]),
    ] {
        let (log, sizes) = record(args, to);
        let first = log.marks_before(&Cut::at(log.ops.len()))[0].at_op;
        let mut rng = Rng::with_seed(7);
        let mut replayer = log.replayer();
        let mut failed = Vec::new();
        for at in first + 1..=log.ops.len() {
            for cut in [Cut::at(at), Cut::at(at).seeded(rng.u64(..))] {
                let files = log.marks_before(&cut).last().map_or(0, |mark| mark.value);
                let image = replayer.image_at(&cut);
                let asked = rng.u64(..share) == 0;
                let theirs = match asked {
                    true => recovers_by_e2fsck(&image, dir.path()),
                    false => Ok(()),
                };
                let ours = recovers(image, files, &sizes, asked);
                for why in [ours.err(), theirs.err()].into_iter().flatten() {
                    failed.push(format!("{args}: {cut:?}: {why:#}"));
                }
            }
        }
        println!("{args}: {} cuts, {sizes:?}", 2 * (log.ops.len() - first));
        assert!(
            failed.is_empty(),
            "{}",
            failed[..failed.len().min(5)].join("\n")
        );
    }
}

/// The canary: of a device that ignores flushes, some crash is an error.
#[test]
fn a_device_that_ignores_flushes_is_found_out() {
    let (log, sizes) = record("-b 1024 -J size=2", &[60]);
    let mut rng = Rng::with_seed(3);
    let mut replayer = log.replayer().ignore_flushes();
    let found = (log.ops.len() / 2..log.ops.len()).any(|at| {
        let cut = Cut::at(at).seeded(rng.u64(..));
        let files = log.marks_before(&cut).last().map_or(0, |mark| mark.value);
        recovers(replayer.image_at(&cut), files, &sizes, false).is_err()
    });
    assert!(found);
}
