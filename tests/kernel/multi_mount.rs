//! Multi-mount protection beside the kernel's: what one has open the other refuses. Needs root and loop devices, and waits as hosts do.

use uext4_testkit::prelude::*;

/// Opened without a lock, as by another host.
fn try_mount(image: &Path) -> Result<Arc<Ext4>> {
    let options = OpenOptions::read_write().exclusive(false);
    let device = Arc::new(FileDevice::open(image, &options)?);
    Ok(Ext4::mount(device, MountOptions::default())?)
}

fn make(fs: &Ext4, name: &str) -> Result<()> {
    let path = name.as_bytes().to_vec();
    apply(fs, &Op::Mkdir { path, mode: 0o755 })?;
    Ok(())
}

fn made(image: &Path) {
    let path = image.to_str().expect("a path");
    let args = ["-q", "-t", "ext4", "-O", "mmp", path, "32M"];
    oracle::run("mke2fs", &args, 0).expect("mke2fs");
}

fn the_kernel_refuses_what_is_open_here(dir: &Path) {
    let (image, at) = (dir.join("ours"), dir.join("refused"));
    made(&image);
    let fs = try_mount(&image).expect("mounts");
    make(&fs, "ours").expect("makes it");
    let refused = oracle::KernelMount::new(&image, &at, "rw").map(drop);
    assert!(refused.is_err(), "the kernel mounted it as well");
    fs.unmount().expect("unmounts");
    drop(fs);
    oracle::fsck(&image).expect("clean");
}

fn what_the_kernel_has_open_is_refused(dir: &Path) {
    let (image, at) = (dir.join("theirs"), dir.join("mount"));
    made(&image);
    let kernel = oracle::KernelMount::new(&image, &at, "rw").expect("the kernel mounts it");
    std::fs::create_dir(kernel.dir().join("theirs")).expect("makes it");
    let why = try_mount(&image).map(drop);
    let why = why.expect_err("it is open elsewhere");
    assert!(why.to_string().contains("has it open"), "{why:#}");
    kernel.unmount().expect("unmounts");
    let fs = try_mount(&image).expect("mounts");
    make(&fs, "theirs/inside").expect("makes it");
    fs.unmount().expect("unmounts");
    drop(fs);
    oracle::fsck(&image).expect("clean");
}

#[test]
fn one_of_both_has_an_image_open() {
    require!(kernel_mounts());
    let dir = tempfile::tempdir().expect("a directory");
    // At the same time, as each waits.
    std::thread::scope(|scope| {
        scope.spawn(|| the_kernel_refuses_what_is_open_here(dir.path()));
        what_the_kernel_has_open_is_refused(dir.path());
    });
}
