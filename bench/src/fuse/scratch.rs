//! The directory that a run works in: the image, the mount point and what servers print.

use anyhow::{Context as _, bail};
use rustix::process::{getegid, geteuid};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory that a run works in; gone in the end.
pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// Makes it in `parent`, for this process and `purpose`.
    pub fn make(parent: &Path, purpose: &str) -> anyhow::Result<Scratch> {
        let dir = parent.join(format!("uext4-bench-{purpose}-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        let scratch = Scratch { dir };
        fs::create_dir(scratch.mount_point())?;
        Ok(scratch)
    }

    /// The image of a turn.
    pub fn image(&self) -> PathBuf {
        self.dir.join("image")
    }

    pub fn mount_point(&self) -> PathBuf {
        self.dir.join("mount")
    }

    /// What servers print.
    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The tree to unpack.
    pub fn tar(&self) -> PathBuf {
        self.dir.join("tree.tar")
    }

    /// The tree while it is packed.
    pub fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    /// Makes the image of a turn. No work is left for later, so that none is done in the background.
    pub fn make_image(&self, bytes: u64, inodes: u64) -> anyhow::Result<()> {
        let image = self.image();
        File::create(&image)
            .and_then(|file| file.set_len(bytes))
            .with_context(|| image.display().to_string())?;
        let mut mke2fs = Command::new("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4"]);
        // The calling user may work in the root directory.
        let owner = format!("root_owner={}:{}", geteuid().as_raw(), getegid().as_raw());
        let extended = format!("lazy_itable_init=0,lazy_journal_init=0,{owner}");
        mke2fs.args(["-E", &extended]);
        // As many as mke2fs would make, or what the work needs.
        mke2fs.arg("-N").arg(inodes.max(bytes >> 14).to_string());
        output_of(mke2fs.arg(&image)).map(drop)
    }

    /// `e2fsck -fn` finds nothing; how many inodes are in use.
    pub fn check_image(&self) -> anyhow::Result<u64> {
        let said = output_of(Command::new("e2fsck").arg("-fn").arg(self.image()))?;
        let last = said.lines().last().unwrap_or_default();
        let counts = last.split(": ").nth(1).unwrap_or_default();
        let used = counts.split('/').next().unwrap_or_default();
        used.parse()
            .with_context(|| format!("e2fsck says no count of files: `{last}`"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Never into a directory that is still mounted: what is not empty stays.
        let _ = fs::remove_dir(self.mount_point());
        let _ = fs::remove_dir_all(self.tree());
        for file in [self.image(), self.log(), self.tar()] {
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir(&self.dir);
    }
}

/// What a program printed.
pub fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let out = command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{}: is it installed?", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    if out.status.success() {
        return Ok(said);
    }
    let errors = String::from_utf8_lossy(&out.stderr);
    bail!("{command:?} failed, {}:\n{said}{errors}", out.status)
}
