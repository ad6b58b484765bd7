//! File systems to explore schedule by schedule: an image is made once, and mounted fresh, with its
//! journal and commit thread, for each schedule.
//!
//! # Locking
//! What the tests share is in locks of `std`, held across no point at which Shuttle may switch.

use std::sync::{Mutex, PoisonError};
use uext4_check::{CheckOptions, CheckReport};
use uext4_testkit::prelude::*;

pub use uext4_testkit::mke2fs::{DIR, FILE};

const CHUNK_BYTES: usize = 64 << 10;
/// Shuttle's stacks do not grow, and the file system's frames are larger than those of its examples.
const STACK_BYTES: usize = 1 << 20;
/// Far beyond what a schedule takes that ends.
const STEPS_MAX: usize = 2_000_000;

/// Schedules per scenario, variant and scheduler, unless `UEXT4_SHUTTLE_RUNS` says otherwise.
const RUNS: usize = 100;

/// Explores `scenario` at random, and by random priorities that change at three places.
pub fn explore(scenario: impl Fn() + Clone + Send + Sync + 'static) {
    explore_part(1, scenario);
}

/// The same with one in `part` of the schedules, where there are many variants.
pub fn explore_part(part: usize, scenario: impl Fn() + Clone + Send + Sync + 'static) {
    let runs: usize = std::env::var("UEXT4_SHUTTLE_RUNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(RUNS);
    let runs = runs.div_ceil(part);
    let random = shuttle::scheduler::RandomScheduler::new(runs);
    shuttle::Runner::new(random, config()).run(scenario.clone());
    let priorities = shuttle::scheduler::PctScheduler::new(3, runs);
    shuttle::Runner::new(priorities, config()).run(scenario);
}

/// A failing schedule is too long to print: it is written to a file, whose name Shuttle prints.
fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    let place = env!("CARGO_TARGET_TMPDIR").into();
    config.failure_persistence = shuttle::FailurePersistence::File(Some(place));
    config
}

/// What an image is made like. It holds the directories [`DIRS`], with inodes in the first group.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Bytes of the image: a group has 8 MiB.
    pub bytes: u64,
    /// Inodes, in all groups.
    pub inodes: u32,
    /// Files in the root, which take inodes from the first group on.
    pub files: u32,
    /// Features as `-O` of mke2fs lists them.
    pub features: &'static str,
}

/// When an image was made, in seconds since 1970.
pub const TIME: i64 = 1_000_000_000;

/// Directories of the root.
pub const DIRS: [&str; 3] = ["a", "b", "c"];

/// An image as every schedule finds it.
#[derive(Debug)]
pub struct Base {
    len: u64,
    /// Where it is not zero.
    chunks: Vec<(u64, Box<[u8]>)>,
    /// Inodes in use.
    pub inodes_used: u64,
    /// Inodes not in use.
    pub inodes_free: u64,
}

impl Base {
    /// Makes an image.
    pub fn make(shape: Shape) -> Arc<Base> {
        Base::make_used(shape, |_| ())
    }

    /// The same, and uses it once.
    pub fn make_used(
        shape: Shape,
        uses: impl Fn(&Arc<MemoryDevice>) + Send + Sync + 'static,
    ) -> Arc<Base> {
        let made = Arc::new(Mutex::new(None));
        let out = Arc::clone(&made);
        let once = shuttle::scheduler::RandomScheduler::new(1);
        // The device's locks are Shuttle's, so that this too needs an execution to run in.
        shuttle::Runner::new(once, config())
            .run(move || *lock(&out) = Some(Base::make_here(shape, &uses)));
        Arc::new(lock(&made).take().expect("made"))
    }

    fn make_here(shape: Shape, uses: &dyn Fn(&Arc<MemoryDevice>)) -> Base {
        let tree = tempfile::tempdir().expect("tempdir");
        for name in DIRS {
            std::fs::create_dir(tree.path().join(name)).expect("mkdir");
        }
        for i in 0..shape.files {
            std::fs::write(tree.path().join(format!("file-{i}")), b"").expect("file");
        }
        let options = MkfsOptions {
            size: Some(shape.bytes),
            block_size: 1024,
            journal_size: Some(1 << 20),
            inodes: Some(shape.inodes),
            features: FeatureSet::parse(shape.features).expect("features"),
            reserved_percent: Some(0.0),
            from: vec![tree.path().into()],
            // Long past: whatever is touched later shows.
            time: Some(TIME),
            threads: 1,
            ..MkfsOptions::default()
        };
        let device = Arc::new(MemoryDevice::new(shape.bytes));
        uext4_build::mkfs(&*device, &options, &uext4_build::NoProgress).expect("mkfs");
        uses(&device);
        let report = assert_clean(&*device);
        let bytes = device.snapshot();
        let chunks = (0u64..).zip(bytes.chunks(CHUNK_BYTES));
        Base {
            len: shape.bytes,
            chunks: chunks
                .filter(|(_, chunk)| chunk.iter().any(|byte| *byte != 0))
                .map(|(no, chunk)| (no * CHUNK_BYTES as u64, chunk.into()))
                .collect(),
            inodes_used: report.inodes_used,
            inodes_free: report.inodes_total - report.inodes_used,
        }
    }

    /// The image on a device of its own.
    pub fn device(&self) -> Arc<MemoryDevice> {
        let device = MemoryDevice::new(self.len);
        for (offset, chunk) in &self.chunks {
            device.write_at(*offset, chunk).expect("copy the image");
        }
        Arc::new(device)
    }
}

/// Mounts for writing.
pub fn mount(device: Arc<dyn BlockDevice>, options: MountOptions) -> Arc<Ext4> {
    let fs = Ext4::mount(device, options).expect("mount");
    assert!(!fs.volume.is_read_only());
    fs
}

/// The directory `name` of the root.
pub fn dir(fs: &Ext4, name: &str) -> InodeRef {
    let top = fs.namei.root().expect("root").clone();
    fs.namei
        .lookup(&Caller::root(), &top, name.as_bytes())
        .expect("the directory")
}

/// Verifies an image that was unmounted: counters are what bitmaps say, bitmaps what inodes and
/// extents say, inodes what names say.
pub fn assert_clean(device: &dyn BlockDevice) -> CheckReport {
    let options = CheckOptions {
        threads: 1,
        ..CheckOptions::default()
    };
    let report = uext4_check::check(device, &options, &uext4_check::NoProgress).expect("check");
    assert!(
        report.is_clean() && !report.incomplete && !report.needs_recovery,
        "{report:#?}"
    );
    assert!(!report.errors_recorded, "errors recorded");
    assert_eq!(report.orphans, 0, "orphans left");
    report
}

/// The inode numbers in use, as the threads see it: what no number may be in twice.
#[derive(Debug, Default)]
pub struct Live(Mutex<BTreeSet<u32>>);

impl Live {
    /// A create returned this inode.
    pub fn created(&self, inode: &InodeRef) {
        let ino = inode.ino.0;
        assert!(lock(&self.0).insert(ino), "inode {ino} was given twice");
    }

    /// The inode is about to be unlinked: from then on its number may come again.
    pub fn unlinking(&self, inode: &InodeRef) {
        let ino = inode.ino.0;
        assert!(lock(&self.0).remove(&ino), "inode {ino} is unknown");
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        lock(&self.0).len() as u64
    }
}

/// A lock of `std`, also after a panic elsewhere.
pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
