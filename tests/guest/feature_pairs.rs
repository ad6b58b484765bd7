//! What `tests/kernel/feature_pairs.rs` leaves to a kernel with quota, projects, casefold and verity: each of these alone and in pairs, filled by
//! debugfs, by uext4 and by the guest's kernel, read by both, and changed.
//!
//! The images are files of a disk of the guest. `UEXT4_PAIR=casefold+quota` takes one,
//! `UEXT4_PAIR=quota` all with it.
use crate::{
    is_asked_for,
    machine::{Guest, printed},
};
use uext4_testkit::feature_pairs::{Calls, Features, all, same};
use uext4_testkit::prelude::*;

/// What the kernels of the tests lack.
const OF_THE_GUEST: [&str; 4] = ["quota", "project", "casefold", "verity"];

const FILL: &str = "
mkdir /disk /image; mount -t ext4 /dev/vda /disk
for image in /disk/*.img; do
  mount -t ext4 -o loop $image /image || { dmesg | tail -n 2 > $image.before; continue; }
  /calls list /image > $image.before
  /calls fill /image/kernel $(cat $image.used)
  umount /image
  mount -t ext4 -o loop,ro $image /image || { dmesg | tail -n 2 > $image.filled; continue; }
  /calls list /image > $image.filled
  umount /image
done
umount /disk
echo done: all
";

const LIST: &str = "
mkdir /disk /image; mount -t ext4 /dev/vda /disk
for image in /disk/*.img; do
  mount -t ext4 -o loop,ro $image /image || { dmesg | tail -n 2 > $image.changed; continue; }
  /calls list /image > $image.changed
  umount /image
done
umount /disk
echo done: all
";

/// An image, and what uext4 lists of it.
struct Filled {
    features: Features,
    image: PathBuf,
    ours: String,
}

fn fill(features: &Features, disk: &Path, calls: &Calls) -> Result<Option<Filled>> {
    let image = disk.join(format!("{}.img", features.name));
    if !features.make(&image)? {
        return Ok(None);
    }
    calls.fill_by_debugfs(&image)?;
    let fill = |mount: &Path| calls.fill(mount, "ours", features);
    let ours = calls.in_our_mount(&image, fill)?;
    fs::write(image.with_extension("img.used"), features.used().join(" "))?;
    Ok(Some(Filled {
        features: features.clone(),
        image,
        ours,
    }))
}

impl Filled {
    /// What the guest listed.
    fn listed(&self, when: &str) -> Result<String> {
        let path = self.image.with_extension(format!("img.{when}"));
        Ok(fs::read_to_string(path)?)
    }

    /// Compares what the guest saw and wrote, and changes it.
    fn change(&mut self, calls: &Calls) -> Result<()> {
        same(&self.listed("before")?, &self.ours).context("the kernel reads it")?;
        if self.features.has("filetype") {
            oracle::fsck(&self.image).context("the kernel's")?;
        } else {
            oracle::repair(&self.image)?;
        }
        let ours = calls.in_our_mount(&self.image, |_| Ok(()))?;
        same(&self.listed("filled")?, &ours).context("reading what the kernel wrote")?;
        let change = |mount: &Path| calls.change(mount, &["debugfs", "ours", "kernel"]);
        self.ours = calls.in_our_mount(&self.image, change)?;
        Ok(())
    }
}

/// Runs commands in a guest that has the disk.
fn in_guest(disk: &Path, calls: &Calls, commands: &str) -> Result<()> {
    let guest = Guest {
        disks: &[disk],
        files: &[&calls.program()],
        modules: "ext4 loop quota_v2",
    };
    printed(&guest.run(commands)?, "done").map(drop)
}

#[test]
fn features_that_the_guest_has() -> Result<()> {
    if !is_asked_for() {
        return Ok(());
    }
    let only = std::env::var("UEXT4_PAIR").ok();
    let wanted = all().into_iter().filter(|features| match &only {
        Some(only) => features.are_asked_for(only),
        None => OF_THE_GUEST.iter().any(|feature| features.has(feature)),
    });
    let calls = Calls::build()?;
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let (disk, mount) = (dir.path().join("disk"), dir.path().join("mount"));
    uext4_testkit::mke2fs::make(&disk, "12G", &["-t", "ext4"]);

    let mounted = KernelMount::new(&disk, &mount, "")?;
    let (mut filled, mut failed) = (Vec::new(), Vec::new());
    for features in wanted {
        match fill(&features, mounted.dir(), &calls) {
            Ok(done) => filled.extend(done),
            Err(why) => failed.push(format!("{}: filling it: {why:#}", features.name)),
        }
    }
    mounted.unmount()?;
    in_guest(&disk, &calls, FILL)?;

    let mounted = KernelMount::new(&disk, &mount, "")?;
    for image in &mut filled {
        if let Err(why) = image.change(&calls) {
            failed.push(format!("{}: {why:#}", image.features.name));
        }
    }
    mounted.unmount()?;
    in_guest(&disk, &calls, LIST)?;

    let mounted = KernelMount::new(&disk, &mount, "ro")?;
    for image in &filled {
        if let Err(why) = same(&image.listed("changed")?, &image.ours) {
            failed.push(format!(
                "{}: the kernel reads the changes: {why:#}",
                image.features.name
            ));
        }
    }
    mounted.unmount()?;
    eprintln!("features: {} with the guest's kernel", filled.len());
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    Ok(())
}
