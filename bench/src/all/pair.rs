//! Two images made alike: one for ours, and one that the kernel's ext4 has mounted on a loop device.
//!
//! Both are fully written, so that neither side waits for the host to find blocks. On a disk the loop device
//! passes the host's cache by, so that Linux's data are not cached twice; ours writes through it and flushes.

use crate::fuse::interrupt::Interrupt;
use crate::fuse::location::wait_for_loop_device;
use crate::fuse::mount::Mount;
use crate::fuse::scratch::output_of;
use anyhow::{Context as _, ensure};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: usize = 1 << 20;
/// Nothing is left for the background, and blocks that were written stay.
const EXTENDED: &str = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";

/// What images to make.
#[derive(Clone, Debug)]
pub struct PairSpec {
    /// Of each image.
    pub mib: u64,
    pub journal_mib: u64,
    /// Of each image.
    pub inodes: u64,
    /// How the kernel mounts.
    pub options: String,
    /// On a disk, not in memory.
    pub on_disk: bool,
}

impl PairSpec {
    fn mke2fs(&self, image: &Path) -> Command {
        let mut mke2fs = Command::new("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-E", EXTENDED]);
        mke2fs.arg("-J").arg(format!("size={}", self.journal_mib));
        mke2fs.arg("-N").arg(self.inodes.to_string());
        mke2fs.arg(image);
        mke2fs
    }

    fn mount(&self, image: &Path, dir: &Path) -> Command {
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", &self.options]);
        mount.args([image, dir]);
        mount
    }

    /// What a user would type before a section's command, so that its names are there; `dir` is where the images are.
    pub fn commands(&self, dir: &Path) -> Vec<String> {
        let (ours, theirs) = (typed_image(dir), dir.join("k.img"));
        let typed = |command: &Command| {
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words
                .map(|word| word.to_string_lossy())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let mut all = Vec::new();
        for image in [&ours, &theirs] {
            let name = image.display();
            all.push(format!(
                "dd if=/dev/zero of={name} bs=1M count={}",
                self.mib
            ));
            all.push(typed(&self.mke2fs(image)));
        }
        all.push(typed(&self.mount(&theirs, Path::new("/mnt"))));
        if self.on_disk {
            let name = theirs.display();
            all.push(format!(
                "losetup --direct-io=on $(losetup -n -O NAME -j {name})"
            ));
        }
        all
    }
}

/// Where images are for the time of the run.
pub struct Locations {
    pub memory: PathBuf,
    pub disk: PathBuf,
}

impl Locations {
    /// Where the images of a pair are.
    pub fn of(&self, pair: &PairSpec) -> &Path {
        match pair.on_disk {
            true => &self.disk,
            false => &self.memory,
        }
    }
}

/// What a user would call the image for ours.
pub fn typed_image(dir: &Path) -> PathBuf {
    dir.join("u.img")
}

/// Two images, one of them mounted. Gone when it is dropped.
pub struct Pair {
    dir: PathBuf,
    mount: Option<Mount>,
}

impl Pair {
    /// A new directory in `parent` for both.
    pub fn begin(parent: &Path) -> anyhow::Result<Pair> {
        let dir = parent.join(format!("uext4-bench-pair-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        Ok(Pair { dir, mount: None })
    }

    /// Makes both, and mounts one.
    pub fn make(&mut self, spec: &PairSpec, interrupt: &Interrupt) -> anyhow::Result<()> {
        for image in [self.ours(), self.theirs()] {
            write_zeros(&image, spec.mib, interrupt)
                .with_context(|| image.display().to_string())?;
            output_of(&mut spec.mke2fs(&image))?;
        }
        let (image, dir) = (self.theirs(), self.mounted());
        fs::create_dir(&dir)?;
        let mount = Mount::of_kernel(&mut spec.mount(&image, &dir), &dir, &self.dir.join("log"))?;
        self.mount = Some(mount);
        if spec.on_disk {
            pass_cache_by(&image)?;
        }
        Ok(())
    }

    /// The image for ours.
    pub fn ours(&self) -> PathBuf {
        self.dir.join("ours.img")
    }

    fn theirs(&self) -> PathBuf {
        self.dir.join("kernel.img")
    }

    /// Where the other one is mounted.
    pub fn mounted(&self) -> PathBuf {
        self.dir.join("mount")
    }

    /// Unmounts it; `e2fsck -fn` finds nothing in either.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.mount.take().map_or(Ok(()), Mount::unmount)?;
        wait_for_loop_device(&self.theirs())?;
        for image in [self.ours(), self.theirs()] {
            output_of(Command::new("e2fsck").arg("-fn").arg(image))?;
        }
        Ok(())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.mount = None;
        for image in [self.ours(), self.theirs(), self.dir.join("log")] {
            let _ = fs::remove_file(image);
        }
        // Never into a directory that is still mounted: what is not empty stays.
        let _ = fs::remove_dir(self.mounted());
        let _ = fs::remove_dir(&self.dir);
    }
}

/// A file of zeros that the host has given blocks to.
fn write_zeros(path: &Path, mib: u64, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut file = File::create_new(path)?;
    let zeros = vec![0; MIB];
    for _ in 0..mib {
        interrupt.check()?;
        file.write_all(&zeros)?;
    }
    Ok(file.sync_all()?)
}

/// The loop device of `image` does direct I/O.
fn pass_cache_by(image: &Path) -> anyhow::Result<()> {
    let said = output_of(
        Command::new("losetup")
            .args(["-n", "-O", "NAME", "-j"])
            .arg(image),
    )?;
    let device = said.trim();
    ensure!(!device.is_empty(), "no loop device has {}", image.display());
    output_of(Command::new("losetup").arg("--direct-io=on").arg(device)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_what_the_sections_use() {
        let typed = |on_disk, dir: &str| {
            let spec = PairSpec {
                mib: 1024,
                journal_mib: 64,
                inodes: 16_384,
                options: "loop".to_owned(),
                on_disk,
            };
            spec.commands(Path::new(dir)).join("\n")
        };
        let disk = typed(true, "/var/tmp");
        assert!(
            disk.contains("mount -t ext4 -o loop /var/tmp/k.img /mnt"),
            "{disk}"
        );
        assert!(disk.contains("losetup --direct-io=on"), "{disk}");
        assert!(!typed(false, "/dev/shm").contains("losetup"));
    }
}
