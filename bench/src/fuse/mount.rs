//! A mounted directory, and the process that serves it.
//!
//! # Invariants
//! Unmounted when it is dropped, even while it is in use, and its server has ended then.

use super::scratch::output_of;
use anyhow::{Context as _, bail, ensure};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often something is tried that the kernel or a server does soon.
pub const PAUSE: Duration = Duration::from_millis(5);

/// A server that does not mount or end within this never will.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A mounted directory.
pub struct Mount {
    dir: PathBuf,
    /// What the server prints.
    log: PathBuf,
    /// Not unmounted yet.
    mounted: bool,
    /// None where the kernel serves it, or once it has ended.
    server: Option<Child>,
}

impl Mount {
    /// Starts `command`, which serves `dir` until it is unmounted, and waits until it does.
    pub fn serve(mut command: Command, dir: &Path, log: &Path) -> anyhow::Result<Mount> {
        let printed = File::create(log)?;
        command.stdout(printed.try_clone()?).stderr(printed);
        let outside = fs::metadata(dir)?.dev();
        let server = command.spawn();
        let mut mount = Mount {
            dir: dir.to_owned(),
            log: log.to_owned(),
            mounted: true,
            server: Some(server.with_context(|| format!("{command:?}"))?),
        };
        let since = Instant::now();
        // Until it serves, asking it may fail.
        while !fs::metadata(dir).is_ok_and(|inside| inside.dev() != outside) {
            if let Some(server) = &mut mount.server
                && let Some(status) = server.try_wait()?
            {
                mount.server = None;
                bail!("{command:?} ended, {status}:\n{}", mount.said());
            }
            ensure!(
                since.elapsed() < PATIENCE,
                "{command:?} does not mount:\n{}",
                mount.said()
            );
            sleep(PAUSE);
        }
        Ok(mount)
    }

    /// Runs `command`, after which the kernel serves `dir`.
    pub fn of_kernel(command: &mut Command, dir: &Path, log: &Path) -> anyhow::Result<Mount> {
        output_of(command)?;
        Ok(Mount {
            dir: dir.to_owned(),
            log: log.to_owned(),
            mounted: true,
            server: None,
        })
    }

    /// Unmounts it, and waits until its server has ended.
    pub fn unmount(mut self) -> anyhow::Result<()> {
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

    /// What the server printed.
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Mount {
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
