//! Freezing: a copy of the image is one of an unmounted file system, changes wait, and nothing else does.

use std::sync::atomic::AtomicU8;
use std::thread::{scope, yield_now};
use uext4_ondisk::{CorruptKind, ErrorsBehaviour};
use uext4_testkit::prelude::*;

const BLOCK: usize = 4096;
const WRITERS: usize = 4;

fn mount(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Arc<Ext4> {
    Ext4::mount(device, options.clone()).expect("mounts")
}

fn create(fs: &Ext4, name: &str) -> uext4_vfs::Result<InodeRef> {
    let new = NewNode {
        mode: 0o644,
        kind: NewKind::Regular,
    };
    FileSystem::create(fs, &Caller::root(), &fs.top(), name.as_bytes(), &new)
}

fn errno<T>(done: uext4_vfs::Result<T>) -> Option<Errno> {
    done.err().map(|e| e.errno())
}

fn is_in_use(device: &MemoryDevice) -> bool {
    let sb = uext4_ext4::read_superblock(device).expect("a superblock");
    sb.incompat.contains(Incompat::RECOVER)
}

fn assert_clean(device: &MemoryDevice) {
    assert!(!is_in_use(device));
    oracle::fsck_device(device).expect("clean");
}

/// What one thread does: whole files of one byte each time, buffered or direct, and names.
struct Writer {
    number: usize,
    /// The byte that was written last, and that is being written.
    done: AtomicU8,
    begun: AtomicU8,
    rounds: AtomicUsize,
}

impl Writer {
    fn name(&self) -> String {
        format!("file{}", self.number)
    }

    fn work(&self, fs: &Ext4, stop: &AtomicBool) {
        let caller = Caller::root();
        let file = create(fs, &self.name()).expect("is made");
        let mut data = Aligned::new(4 * BLOCK);
        let flags = match self.number % 2 {
            0 => IoFlags::DIRECT,
            _ => IoFlags::empty(),
        };
        for round in 1.. {
            let byte = (round % 251) as u8 + 1;
            data.bytes_mut().fill(byte);
            self.begun.store(byte, Ordering::SeqCst);
            let written =
                FileSystem::write_with(fs, &file, 0, data.bytes(), flags).expect("writes");
            assert_eq!(written.len, data.bytes().len());
            self.done.store(byte, Ordering::SeqCst);
            let (one, other) = (format!("a{}", self.number), format!("b{}", self.number));
            drop(create(fs, &one).expect("is made"));
            let top = fs.top();
            let flags = RenameFlags::empty();
            FileSystem::rename(
                fs,
                &caller,
                &top,
                one.as_bytes(),
                &top,
                other.as_bytes(),
                flags,
            )
            .expect("is renamed");
            FileSystem::unlink(fs, &caller, &top, other.as_bytes()).expect("is removed");
            self.rounds.fetch_add(1, Ordering::SeqCst);
            if stop.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Waits for so many more rounds.
    fn wait(&self, rounds: usize) {
        let before = self.rounds.load(Ordering::SeqCst);
        while self.rounds.load(Ordering::SeqCst) < before + rounds {
            yield_now();
        }
    }

    /// While nothing changes, the file is whole, and what was written last or was being written.
    fn check(&self, copy: &Ext4) {
        let begun = self.begun.load(Ordering::SeqCst);
        let done = self.done.load(Ordering::SeqCst);
        let caller = Caller::root();
        let file = FileSystem::lookup(copy, &caller, &copy.top(), self.name().as_bytes());
        let file = file.expect("is there");
        let mut data = vec![0; 4 * BLOCK];
        assert_eq!(
            FileSystem::read(copy, &file, 0, &mut data).expect("reads"),
            data.len()
        );
        assert!(
            [done, begun].contains(&data[0]),
            "{} {done} {begun}",
            data[0]
        );
        assert!(data.iter().all(|byte| *byte == data[0]), "torn");
    }
}

/// Freezes while threads write, copies, and thaws.
fn freeze_under_load(shape: &Shape, options: &MountOptions) {
    let device = Arc::new(shape.make().expect("an image"));
    let fs = mount(device.clone(), options);
    let stop = AtomicBool::new(false);
    let writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer {
            number,
            done: AtomicU8::new(0),
            begun: AtomicU8::new(0),
            rounds: AtomicUsize::new(0),
        })
        .collect();
    scope(|scope| {
        let (fs, stop) = (&*fs, &stop);
        for writer in &writers {
            scope.spawn(move || writer.work(fs, stop));
        }
        for _ in 0..3 {
            writers.iter().for_each(|w| w.wait(2));
            fs.freeze().expect("freezes");
            let copy = Arc::new(MemoryDevice::copy_of(&*device).expect("a copy"));
            assert_clean(&copy);
            let theirs = mount(copy, &with(|o: &mut MountOptions| o.read_only = true));
            writers.iter().for_each(|w| w.check(&theirs));
            // Reads and syncs do not wait, and none of this changes the image.
            let frozen = device.snapshot();
            writers.iter().for_each(|w| w.check(fs));
            fs.sync().expect("has nothing to do");
            std::thread::sleep(Duration::from_millis(20));
            assert!(frozen == device.snapshot(), "changed while it was frozen");
            fs.thaw().expect("thaws");
            assert!(shape.name.contains("journal") != is_in_use(&device));
        }
        writers.iter().for_each(|w| w.wait(2));
        stop.store(true, Ordering::SeqCst);
    });
    fs.end_on(&device);
}

#[test]
fn a_copy_of_a_frozen_image_is_clean_and_whole() {
    let plain = MountOptions::default();
    let lazy = with(|o: &mut MountOptions| {
        o.lazytime = true;
        o.lazytime_max_age = Duration::from_millis(1);
        o.atime = AtimeUpdate::Strict;
    });
    let strict = with(|o: &mut MountOptions| o.atime = AtimeUpdate::Strict);
    let no_journal = Shape {
        name: "no journal",
        mke2fs: Some("-t ext4 -O ^has_journal -I 256"),
        ..Shape::DEFAULT
    };
    for options in [&plain, &lazy, &strict] {
        freeze_under_load(&Shape::DEFAULT, options);
    }
    freeze_under_load(&no_journal, &strict);
}

#[test]
fn a_freeze_begins_once_and_ends_once() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = mount(device.clone(), &MountOptions::default());
    let mounts = |device: &MemoryDevice| {
        let sb = uext4_ext4::read_superblock(device).expect("a superblock");
        sb.raw.mnt_count.get()
    };
    let before = mounts(&device);
    let report = |done| fs.volume.report(done);
    assert_eq!(errno(report(fs.thaw())), Some(Errno::EINVAL));
    fs.freeze().expect("freezes");
    assert_eq!(errno(report(fs.freeze())), Some(Errno::EBUSY));
    assert_eq!(
        errno(report(fs.remount(&MountOptions::default()))),
        Some(Errno::EBUSY)
    );
    assert!(fs.is_frozen());
    fs.thaw().expect("thaws");
    assert_eq!(errno(report(fs.thaw())), Some(Errno::EINVAL));
    assert!(is_in_use(&device) && mounts(&device) == before);
    // What is done after a thaw is recovered.
    let file = create(&fs, "after").expect("is made");
    FileSystem::fsync(&*fs, &file, false).expect("durable");
    drop(file);
    fs.crash();
    drop(fs);
    let fs = mount(device.clone(), &MountOptions::default());
    FileSystem::lookup(&*fs, &Caller::root(), &fs.top(), b"after").expect("recovered");
    fs.end_on(&device);
}

#[test]
fn what_must_not_wait_does_not() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = mount(device.clone(), &MountOptions::default());
    let free = FileSystem::statfs(&*fs).expect("counts").blocks_free;
    let file = create(&fs, "f").expect("is made");
    let mut data = Aligned::new(64 * BLOCK);
    data.bytes_mut().fill(7);
    FileSystem::write(&*fs, &file, 0, data.bytes()).expect("writes");
    fs.sync().expect("syncs");
    FileSystem::unlink(&*fs, &Caller::root(), &fs.top(), b"f").expect("is removed");
    fs.freeze().expect("freezes");
    let nowait = IoFlags::DIRECT | IoFlags::NOWAIT;
    let refused = FileSystem::write_with(&*fs, &file, 0, &data.bytes()[..BLOCK], nowait);
    assert_eq!(errno(refused), Some(Errno::EAGAIN));
    FileSystem::fsync(&*fs, &file, false).expect("is durable");
    // The last reference to a file without a name: it is deleted later.
    drop(file);
    let frozen = device.snapshot();
    fs.thaw().expect("thaws");
    fs.sync().expect("syncs");
    assert_eq!(FileSystem::statfs(&*fs).expect("counts").blocks_free, free);
    let copy = Arc::new(MemoryDevice::from_bytes(&frozen));
    let theirs = mount(copy.clone(), &MountOptions::default());
    assert_eq!(
        FileSystem::statfs(&*theirs).expect("counts").blocks_free,
        free
    );
    theirs.end_on(&copy);
    fs.end_on(&device);
}

#[test]
fn an_unmount_ends_a_freeze() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = mount(device.clone(), &MountOptions::default());
    let file = create(&fs, "f").expect("is made");
    fs.freeze().expect("freezes");
    let begins = AtomicBool::new(false);
    scope(|scope| {
        let waits = scope.spawn(|| {
            begins.store(true, Ordering::SeqCst);
            FileSystem::write(&*fs, &file, 0, b"late")
        });
        while !begins.load(Ordering::SeqCst) {
            yield_now();
        }
        fs.unmount().expect("unmounts");
        let written = waits.join().expect("does not panic");
        assert!(matches!(errno(written), None | Some(Errno::EROFS)));
    });
    assert!(!fs.is_frozen());
    drop(file);
    assert_clean(&device);
}

#[test]
fn a_freeze_that_fails_is_none() {
    let plan = FaultPlan::new();
    let image = Shape::DEFAULT.make().expect("an image");
    let device = Arc::new(FaultDevice::new(image, plan.clone()));
    let fs = mount(device, &MountOptions::default());
    let file = create(&fs, "f").expect("is made");
    plan.add(FaultRule::new(FaultCall::Flush));
    assert_eq!(errno(fs.volume.report(fs.freeze())), Some(Errno::EIO));
    assert!(!fs.is_frozen());
    // It does not wait.
    assert!(FileSystem::write(&*fs, &file, 0, b"late").is_err());
}

#[test]
fn damage_that_is_found_while_frozen_is_recorded_by_the_thaw() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let options = with(|o: &mut MountOptions| o.errors = Some(ErrorsBehaviour::Continue));
    let fs = mount(device.clone(), &options);
    fs.freeze().expect("freezes");
    let found: uext4_vfs::Result<()> = fs.volume.report(Err(CorruptKind::BlockRange.into()));
    assert!(found.is_err());
    let errors = |device: &MemoryDevice| {
        let sb = uext4_ext4::read_superblock(device).expect("a superblock");
        sb.raw.error_count.get()
    };
    assert_eq!(errors(&device), 0);
    fs.thaw().expect("thaws");
    fs.unmount().expect("unmounts");
    assert_eq!(errors(&device), 1);
}
