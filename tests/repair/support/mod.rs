//! Damaged images, and what repairs leave of them.

pub mod changes;
pub mod contents;
pub mod loss;

use crate::verifier::{mke2fs, shapes};
use shapes::{CLUSTERED, SHAPES, Shape};
use uext4_check::{CheckError, CheckOptions, NoProgress, Plan, Policy};
use uext4_testkit::damage::{DamagedImage, Target, mutate, targets_of};
use uext4_testkit::prelude::*;

/// A sound image of a shape, to be damaged.
pub struct Base {
    pub options: &'static str,
    /// e2fsck waits until it believes that no other host uses the image.
    pub has_mmp: bool,
    image: DamagedImage,
    targets: Vec<Target>,
    number: u64,
}

impl Base {
    /// Makes the image of a shape; after the others, of one in clusters.
    pub fn make(number: usize, dir: &Path) -> Base {
        Base::with_files(number, 300, dir)
    }

    /// Makes it with so many files in its largest directory.
    pub fn with_files(number: usize, files: usize, dir: &Path) -> Base {
        let shape: &Shape = SHAPES.iter().chain(CLUSTERED).nth(number).expect("a shape");
        let path = shapes::make(shape, dir, files);
        let image = DamagedImage::new(fs::read(&path).expect("image"));
        Base {
            options: shape.options,
            has_mmp: shape.options.contains("mmp"),
            targets: targets_of(&image),
            image,
            number: number as u64,
        }
    }

    /// The bytes before the damage.
    pub fn bytes(&self) -> &[u8] {
        &self.image.bytes
    }

    /// The image with one thing damaged, and what that is; `None` if it is the same.
    pub fn damaged(&self, seed: u64, i: u64) -> Option<(Vec<u8>, String)> {
        let seed = seed * 1_000_000 + self.number * 100_000 + i;
        let mut rng = Rng::with_seed(seed);
        let mut image = self.image.clone();
        let what = mutate(&mut rng, &mut image, &self.targets);
        let name = format!("[{}: {}] #{i} {what}", self.number, self.options);
        (image.bytes != self.image.bytes).then_some((image.bytes, name))
    }
}

/// Plans a repair of everything.
pub fn plan(bytes: &[u8]) -> Result<Plan, CheckError> {
    plan_as(bytes, Policy::All)
}

/// Plans a repair of what a policy chooses.
pub fn plan_as(bytes: &[u8], mut policy: Policy) -> Result<Plan, CheckError> {
    let device = MemoryDevice::from_bytes(bytes);
    let options = CheckOptions {
        threads: 1,
        faults_max: 1000,
    };
    uext4_check::plan(&device, &options, &mut policy, &NoProgress)
}

/// The image after the repair.
pub fn repaired(bytes: &[u8], plan: &Plan) -> Vec<u8> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(bytes));
    uext4_repair::apply(&device, plan, None).expect("apply");
    all_of(&*device)
}

/// The bytes of a device.
pub fn all_of(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.len() as usize];
    device.read_at(0, &mut bytes).expect("read");
    bytes
}

/// Makes a small image with one directory and files.
pub fn small(dir: &Path) -> Vec<u8> {
    let tree = dir.join("small");
    fs::create_dir_all(tree.join("d")).expect("mkdir");
    fs::write(tree.join("d/file"), [7; 3000]).expect("write");
    let path = dir.join("small.img");
    mke2fs(&path, "8M", "-t ext4 -b 1024 -N 128", Some(&tree));
    fs::read(&path).expect("image")
}
