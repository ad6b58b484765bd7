//! The image of a turn, mounted by a contestant.

use super::contestant::Contestant;
use super::scratch::{Scratch, output_of};
use anyhow::{Context as _, bail, ensure};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often something is tried that the kernel or a server does soon.
const PAUSE: Duration = Duration::from_millis(5);

/// A server that does not mount or end within this never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// The image of a turn, mounted by a contestant. Unmounted when it is dropped.
pub struct Place<'a> {
    contestant: &'a Contestant,
    scratch: &'a Scratch,
    dir: PathBuf,
    mounted: bool,
    server: Option<Child>,
}

impl<'a> Place<'a> {
    /// Makes an image and mounts it.
    ///
    /// # Errors
    /// A program that fails, or a server that does not mount.
    pub fn make(
        contestant: &'a Contestant,
        scratch: &'a Scratch,
        bytes: u64,
        inodes: u64,
    ) -> anyhow::Result<Place<'a>> {
        if contestant.has_image() {
            scratch.make_image(bytes, inodes)?;
        }
        let mut place = Place {
            contestant,
            scratch,
            dir: scratch.mount_point(),
            mounted: false,
            server: None,
        };
        place.mount()?;
        Ok(place)
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Mounts it again.
    ///
    /// # Errors
    /// A program that fails, or a server that does not mount.
    pub fn mount(&mut self) -> anyhow::Result<()> {
        let image = self.scratch.image();
        let Some(mut command) = self.contestant.server(&image, &self.dir)? else {
            wait_for_loop_device(&image)?;
            output_of(
                Command::new("mount")
                    .args(["-t", "ext4", "-o", "loop"])
                    .args([&image, &self.dir]),
            )?;
            self.mounted = true;
            return Ok(());
        };
        let log = File::create(self.scratch.log())?;
        command.stdout(log.try_clone()?).stderr(log);
        let outside = fs::metadata(&self.dir)?.dev();
        let server = command.spawn();
        self.server = Some(server.with_context(|| format!("{command:?}"))?);
        self.mounted = true;
        let since = Instant::now();
        // Until it serves, asking it may fail.
        while !fs::metadata(&self.dir).is_ok_and(|inside| inside.dev() != outside) {
            if let Some(server) = &mut self.server
                && let Some(status) = server.try_wait()?
            {
                self.server = None;
                bail!("{command:?} ended, {status}:\n{}", self.said());
            }
            ensure!(
                since.elapsed() < PATIENCE,
                "{command:?} does not mount:\n{}",
                self.said()
            );
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Unmounts it, which makes everything durable, and waits until its server has ended.
    ///
    /// # Errors
    /// The mount stays busy, or the server fails.
    pub fn unmount(&mut self) -> anyhow::Result<()> {
        let since = Instant::now();
        while let Err(why) = output_of(&mut unmount_command(&self.dir, false)) {
            // A process that was just ended may still have a directory open.
            if since.elapsed() > PATIENCE || !why.to_string().contains("busy") {
                return Err(why);
            }
            sleep(PAUSE);
        }
        self.mounted = false;
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        match wait_for(&mut server)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("the server ended, {status}:\n{}", self.said()),
            None => {
                self.server = Some(server);
                bail!("the server does not end:\n{}", self.said())
            }
        }
    }

    /// `e2fsck -fn` of the unmounted image finds nothing; how many inodes are in use.
    ///
    /// # Errors
    /// What it found.
    pub fn check(&self) -> anyhow::Result<u64> {
        wait_for_loop_device(&self.scratch.image())?;
        self.scratch.check_image()
    }

    /// Unmounts and checks it.
    ///
    /// # Errors
    /// Those of unmounting, and what the check found.
    pub fn finish(mut self) -> anyhow::Result<()> {
        if self.mounted {
            self.unmount()?;
        }
        match self.contestant.has_image() {
            true => self.check().map(drop),
            false => Ok(()),
        }
    }

    /// What the server printed.
    fn said(&self) -> String {
        fs::read_to_string(self.scratch.log()).unwrap_or_default()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.mounted {
            let _ = unmount_command(&self.dir, true).output();
        }
        if let Some(server) = &mut self.server
            && !matches!(wait_for(server), Ok(Some(_)))
        {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn unmount_command(dir: &Path, lazy: bool) -> Command {
    let root = rustix::process::geteuid().is_root();
    let mut command = match root {
        true => Command::new("umount"),
        false => Command::new("fusermount3"),
    };
    if !root {
        command.arg("-u");
    }
    match (lazy, root) {
        (true, true) => command.arg("-l").arg(dir),
        (true, false) => command.arg("-z").arg(dir),
        (false, _) => command.arg(dir),
    };
    command
}

/// How a process ended, if it did in time.
fn wait_for(process: &mut Child) -> std::io::Result<Option<std::process::ExitStatus>> {
    let (since, mut pause) = (Instant::now(), Duration::from_micros(100));
    loop {
        let ended = process.try_wait()?;
        if ended.is_some() || since.elapsed() > PATIENCE {
            return Ok(ended);
        }
        sleep(pause);
        pause = (pause * 2).min(PAUSE);
    }
}

/// Waits until no loop device has the image open: it lets go some time after umount(8) returns.
fn wait_for_loop_device(image: &Path) -> anyhow::Result<()> {
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
