//! Changes that are made together are there after a crash or a failed call of the device, or none is.
use uext4::{Edit, ExportOptions, Filesystem, ImageOptions};
use uext4_testkit::prelude::*;

fn old(features: &str, block_size: u32) -> MemoryDevice {
    let device = MemoryDevice::new(24 << 20);
    let options = MkfsOptions {
        block_size,
        journal_size: Some(4 << 20),
        inodes: Some(8192),
        features: FeatureSet::parse(features).unwrap(),
        threads: 1,
        ..MkfsOptions::default()
    };
    uext4_build::mkfs(&device, &options, &NoProgress).unwrap();
    let device = Arc::new(device);
    let fs = open(&device);
    fs.create_dir("/etc").unwrap();
    fs.write("/etc/passwd", [b'a'; 30_000]).unwrap();
    fs.write("/etc/gone", [b'b'; 9000]).unwrap();
    fs.unmount().unwrap();
    (*device).clone()
}

fn open(device: &Arc<MemoryDevice>) -> Filesystem {
    Filesystem::open_device(Arc::clone(device) as _, &ImageOptions::read_write()).unwrap()
}

fn change(fs: &Filesystem) {
    fs.create_dir("/srv").unwrap();
    for i in 0..40 {
        fs.write(format!("/srv/{i}"), vec![i; 500 * usize::from(i)])
            .unwrap();
    }
    fs.write("/etc/passwd", b"short\n").unwrap();
    fs.remove_file("/etc/gone").unwrap();
    fs.rename("/srv/7", "/etc/seven").unwrap();
}

/// Whether all of [`change`] is there.
fn is_changed(fs: &Filesystem) -> bool {
    let has = |path: String, bytes: &[u8]| fs.read(path).is_ok_and(|found| found == bytes);
    let is_whole = |i: u8| {
        let path = match i {
            7 => "/etc/seven".to_owned(),
            _ => format!("/srv/{i}"),
        };
        has(path, &vec![i; 500 * usize::from(i)])
    };
    (0..40).all(is_whole)
        && has("/etc/passwd".to_owned(), b"short\n")
        && !fs.exists("/etc/gone").unwrap()
}

/// Recovers a device, verifies it, and gives its tree.
fn tree(device: MemoryDevice) -> Vec<u8> {
    let device = Arc::new(device);
    let fs = open(&device);
    let mut archive = Vec::new();
    fs.export("/", &mut archive, &ExportOptions::new(), &NoProgress)
        .unwrap();
    fs.unmount().unwrap();
    oracle::check(&*device).unwrap();
    archive
}

fn edited<D: BlockDevice + 'static>(device: Arc<D>) -> uext4::Result<()> {
    let edit = Edit::open_device(device, None, &ImageOptions::read_write())?;
    change(edit.fs());
    edit.commit().map(drop)
}

#[test]
fn crash_an_edit_is_there_or_not() {
    for (features, block_size) in [("", 4096), ("^metadata_csum", 1024)] {
        let old = old(features, block_size);
        let before = tree(old.clone());
        let device = Arc::new(RecordDevice::new(old).unwrap());
        edited(Arc::clone(&device)).unwrap();
        let log = device.log();
        let last = log.ops.len();
        let after = tree(log.replay(&Cut::at(last)));
        assert_ne!(before, after);
        let mut random = fastrand::Rng::with_seed(5);
        let mut replayer = log.replayer();
        let (mut olds, mut news) = (0, 0);
        for at in 0..=last {
            for _ in 0..4 {
                let found = tree(replayer.image_at(&Cut::at(at).seeded(random.u64(..))));
                olds += usize::from(found == before);
                news += usize::from(found == after);
            }
        }
        assert_eq!(
            olds + news,
            (last + 1) * 4,
            "{features}: {olds} old, {news} new"
        );
        assert!(olds > 0 && news > 0, "{features}: {olds} old, {news} new");
    }
}

#[test]
fn fault_an_edit_that_fails_is_there_or_not() {
    let old = old("", 4096);
    let before = tree(old.clone());
    for call in [FaultCall::Write, FaultCall::Flush] {
        let mut failures = 0;
        for n in 1.. {
            let memory = Arc::new(old.clone());
            let plan = FaultPlan::new();
            plan.add(FaultRule::new(call).from_nth(n));
            let device = FaultDevice::new(Arc::clone(&memory), plan.clone());
            let done = edited(Arc::new(device));
            if plan.failed() == 0 {
                done.unwrap();
                break;
            }
            done.unwrap_err();
            failures += 1;
            let is_old = tree((*memory).clone()) == before;
            assert!(is_old || is_changed(&open(&memory)), "{call:?} {n}");
        }
        assert!(failures > 3, "{call:?}: {failures}");
    }
}

#[test]
fn an_edit_that_is_not_committed_changes_nothing() {
    let device = Arc::new(old("", 4096));
    let bytes = device.snapshot();
    let edit = Edit::open_device(device.clone(), None, &ImageOptions::read_write()).unwrap();
    change(edit.fs());
    drop(edit);
    assert!(bytes == device.snapshot());
}

#[test]
fn an_edit_that_the_journal_can_not_take_changes_nothing() {
    let device = Arc::new(old("", 1024));
    let before = tree((*device).clone());
    let edit = Edit::open_device(device.clone(), None, &ImageOptions::read_write()).unwrap();
    // In inodes, which the old image uses: 1 MiB is a quarter of the log.
    for i in 0..5000 {
        edit.fs().write(format!("/{i}"), b"").unwrap();
    }
    let error = edit.commit().unwrap_err();
    assert_eq!(error.errno(), uext4::Errno::EFBIG, "{error}");
    assert!(before == tree((*device).clone()));
}

#[test]
fn an_edit_of_an_image_without_a_journal_is_made() {
    let device = Arc::new(old("^has_journal", 4096));
    edited(Arc::clone(&device)).unwrap();
    oracle::check(&*device).unwrap();
    assert_eq!(open(&device).read("/etc/passwd").unwrap(), b"short\n");
}
