//! Power lost while a file gets fs-verity: it has it, and its data is what was hashed, or it does not, and nothing is left behind its end.

use uext4_ondisk::FsVerity;
use uext4_testkit::{image::mke2fs, prelude::*};

const MIB: u64 = 1 << 20;
const BYTES: usize = 700_001;

/// Enables it, with marks before and after; the data is durable.
fn record(args: &str) -> uext4_testkit::device::RecordLog {
    let image = mke2fs(args, 20 * MIB).expect("an image");
    let device = Arc::new(RecordDevice::new(image).expect("a device"));
    let fs = Ext4::mount(Arc::clone(&device) as Arc<_>, MountOptions::default()).expect("mount");
    let file = fs.make(&fs.top(), b"file", &FILE);
    fs.put(&file, 0, &[7; BYTES]);
    fs.sync().expect("sync");
    device.mark(1);
    let root = Caller::root();
    let verity = FsVerity {
        block_bytes: 1024,
        ..FsVerity::default()
    };
    let made = fs.files.enable_verity(&root, &file, &verity);
    made.expect("enable");
    fs.sync().expect("sync");
    device.mark(2);
    fs.crash();
    device.log()
}

/// Whether the file has it after a crash.
fn recovers(device: MemoryDevice) -> Result<bool> {
    let device = Arc::new(device);
    let fs = Ext4::mount(Arc::clone(&device) as Arc<_>, MountOptions::default())?;
    let file = find(&*fs, b"file")?;
    let mut found = vec![0; BYTES + 1];
    let len = fs.read(&file, 0, &mut found)?;
    ensure!(found[..len] == [7; BYTES], "the data");
    let has_it = fs.files.verity(&file)?.is_some();
    drop(file);
    fs.unmount()?;
    drop(fs);
    oracle::check(&*device)?;
    oracle::fsck_device(&device)?;
    Ok(has_it)
}

#[test]
fn a_crash_leaves_the_file_with_it_or_without() {
    for args in [
        "-t ext4 -b 1024 -J size=2 -O verity",
        "-t ext4 -b 4096 -J size=4 -O verity,orphan_file",
    ] {
        let log = record(args);
        let first = log.marks_before(&Cut::at(log.ops.len()))[0].at_op;
        let mut rng = Rng::with_seed(7);
        let mut replayer = log.replayer();
        let mut states = [0, 0];
        for at in first + 1..=log.ops.len() {
            for cut in [Cut::at(at), Cut::at(at).seeded(rng.u64(..))] {
                let is_durable = log.marks_before(&cut).last().map_or(0, |mark| mark.value) == 2;
                let has_it = recovers(replayer.image_at(&cut));
                let has_it = has_it.unwrap_or_else(|why| panic!("{args}: {cut:?}: {why:#}"));
                assert!(has_it || !is_durable, "{args}: {cut:?}");
                states[usize::from(has_it)] += 1;
            }
        }
        println!("{args}: {states:?} without and with it");
        assert!(states.iter().all(|count| *count > 0), "{args}");
    }
}
