//! The image of a turn, mounted by a target.

use super::mount::{Mount, PATIENCE, PAUSE};
use super::scratch::Scratch;
use super::target::Target;
use anyhow::ensure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Instant;

/// The image of a turn, mounted by a target. Unmounted when it is dropped.
pub struct Location<'a> {
    target: &'a Target,
    scratch: &'a Scratch,
    dir: PathBuf,
    mount: Option<Mount>,
}

impl<'a> Location<'a> {
    /// Makes an image and mounts it.
    pub fn make(
        target: &'a Target,
        scratch: &'a Scratch,
        bytes: u64,
        inodes: u64,
    ) -> anyhow::Result<Location<'a>> {
        if target.has_image() {
            scratch.make_image(bytes, inodes)?;
        }
        let mut location = Location {
            target,
            scratch,
            dir: scratch.mount_point(),
            mount: None,
        };
        location.mount()?;
        Ok(location)
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Mounts it, or mounts it again.
    pub fn mount(&mut self) -> anyhow::Result<()> {
        let (image, log) = (self.scratch.image(), self.scratch.log());
        let mount = match self.target.server(&image, &self.dir) {
            Some(command) => Mount::serve(command, &self.dir, &log)?,
            None => {
                wait_for_loop_device(&image)?;
                let mut command = Command::new("mount");
                command.args(["-t", "ext4", "-o", "loop"]);
                command.args([&image, &self.dir]);
                Mount::of_kernel(&mut command, &self.dir, &log)?
            }
        };
        self.mount = Some(mount);
        Ok(())
    }

    /// Unmounts it, which makes everything durable, and waits until its server has ended.
    pub fn unmount(&mut self) -> anyhow::Result<()> {
        self.mount.take().map_or(Ok(()), Mount::unmount)
    }

    /// `e2fsck -fn` of the unmounted image finds nothing; how many inodes are in use.
    pub fn check(&self) -> anyhow::Result<u64> {
        wait_for_loop_device(&self.scratch.image())?;
        self.scratch.check_image()
    }

    /// Unmounts and checks it.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.unmount()?;
        match self.target.has_image() {
            true => self.check().map(drop),
            false => Ok(()),
        }
    }
}

/// Waits until no loop device has the image open: it releases the image some time after umount(8) returns.
pub fn wait_for_loop_device(image: &Path) -> anyhow::Result<()> {
    let since = Instant::now();
    while backs_loop_device(image) {
        ensure!(
            since.elapsed() < PATIENCE,
            "a loop device keeps {}",
            image.display()
        );
        sleep(PAUSE);
    }
    Ok(())
}

fn backs_loop_device(image: &Path) -> bool {
    let Ok(devices) = fs::read_dir("/sys/block") else {
        return false;
    };
    devices.flatten().any(|device| {
        fs::read_to_string(device.path().join("loop/backing_file"))
            .is_ok_and(|backing| backing.trim_end() == image.to_string_lossy())
    })
}
