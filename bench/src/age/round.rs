//! A round and what it measures.

use super::files::Files;
use crate::memory::resident_bytes;
use crate::workers;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use uext4_block::{BlockDevice, FileDevice, OpenOptions};
use uext4_build::{MkfsOptions, NoProgress};
use uext4_ext4::{Ext4, MountOptions};
use uext4_vfs::filesystem::FileSystem;

/// Shares of the image in percent: where creates are measured, where it ages, and what is left of it.
const MEASURED: u64 = 40;
const FULL: u64 = 90;
const LEFT: u64 = 10;

/// It ages below this share.
const CROWDED: u64 = 93;

/// It is emptied wholly every so many rounds.
const WHOLLY_EVERY: u64 = 8;

/// Files of a worker whose creation is measured, things that it does to a full image, and files whose extents are counted.
const CREATES: usize = 20_000;
const CHANGES: usize = 100_000;
const COUNTED: usize = 2000;

/// What a worker needs of an image, that the creates which are measured fit into less than a half of it.
pub const WORKER_BYTES: u64 = 256 << 20;

/// A round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// Which run of the program, and the round in it, from 0.
    pub run: u64,
    pub round: u64,
    /// Since the round began, e2fsck included.
    pub seconds: f64,
    /// Creates of small files, at equal fullness.
    pub creates_per_s: f64,
    /// Changes of the full image.
    pub changes_per_s: f64,
    /// Extents of a file, on the full image.
    pub extents_per_file: f64,
    /// Mean length of a free run, on the full image, in KiB.
    pub free_run_kib: f64,
    /// Files on the full image.
    pub files: u64,
    /// Of the process, with nothing mounted.
    pub resident_bytes: u64,
    pub date: String,
    pub commit: String,
}

/// The columns of [`Round::cells`].
pub const HEADER: &str =
    "round|seconds|creates/s|changes/s, full|extents per file|free run, KiB|files|resident, MiB";

impl Round {
    pub fn cells(&self) -> Vec<String> {
        vec![
            self.round.to_string(),
            format!("{:.0}", self.seconds),
            format!("{:.0}", self.creates_per_s),
            format!("{:.0}", self.changes_per_s),
            format!("{:.2}", self.extents_per_file),
            format!("{:.0}", self.free_run_kib),
            self.files.to_string(),
            (self.resident_bytes >> 20).to_string(),
        ]
    }

    /// For a run that is watched.
    pub fn line(&self) -> String {
        format!("round {}", self.cells().join(" "))
    }
}

/// The image, and what each worker has in it.
pub struct Image {
    path: PathBuf,
    workers: Vec<Mutex<Files>>,
}

impl Image {
    pub fn make(path: &Path, bytes: u64, workers: u16) -> anyhow::Result<Image> {
        let device = FileDevice::open(path, &OpenOptions::create(bytes))?;
        let options = MkfsOptions {
            size: Some(bytes),
            inode_ratio: 8192,
            reserved_percent: Some(0.0),
            ..MkfsOptions::default()
        };
        uext4_build::mkfs(&device, &options, &NoProgress)?;
        let files = (0..usize::from(workers)).map(|worker| Mutex::new(Files::new(worker)));
        Ok(Image {
            path: path.to_owned(),
            workers: files.collect(),
        })
    }

    /// Lets each worker do something; gives the results, and the seconds.
    fn each<T: Send>(
        &self,
        work: impl Fn(&mut Files) -> anyhow::Result<T> + Sync,
    ) -> anyhow::Result<(Vec<T>, f64)> {
        let since = Instant::now();
        let done = workers::run(self.workers.len(), None, |worker, _| {
            let files = self.workers[worker].lock();
            let mut files = files.unwrap_or_else(PoisonError::into_inner);
            work(&mut files)
        })?;
        Ok((done.results, since.elapsed().as_secs_f64()))
    }

    /// Runs a round.
    pub fn round(&mut self, run: u64, round: u64) -> anyhow::Result<Round> {
        let since = Instant::now();
        let fs = self.mount()?;
        let used = || used_percent(&fs);
        self.each(|files| files.fill(&fs, || used() >= MEASURED))?;
        self.each(|files| files.empty(&fs, || used() <= MEASURED))?;
        fs.syncfs()?;
        let (_, creating) = self.each(|files| files.create_small(&fs, CREATES))?;
        self.each(|files| files.fill(&fs, || used() >= FULL))?;
        let (_, changing) = self.each(|files| files.age(&fs, CHANGES, || used() >= CROWDED))?;
        // e2freefrag reads the device, which has all of it only now.
        fs.unmount()?;
        drop(fs);
        let free_run_kib = self.free_run_kib()?;
        let fs = self.mount()?;
        let used = || used_percent(&fs);
        let (counted, _) = self.each(|files| files.extents(&fs, COUNTED))?;
        let sampled: u64 = counted.iter().map(|(files, _)| files).sum();
        let extents: u64 = counted.iter().map(|(_, extents)| extents).sum();
        let (files, _) = self.each(|files| Ok(files.len() as u64))?;
        let left = if (round + 1).is_multiple_of(WHOLLY_EVERY) {
            0
        } else {
            LEFT
        };
        self.each(|files| files.empty(&fs, || left > 0 && used() <= left))?;
        fs.unmount()?;
        drop(fs);
        self.check()?;
        let workers = self.workers.len() as f64;
        Ok(Round {
            run,
            round,
            seconds: since.elapsed().as_secs_f64(),
            creates_per_s: workers * CREATES as f64 / creating,
            changes_per_s: workers * CHANGES as f64 / changing,
            extents_per_file: extents as f64 / sampled.max(1) as f64,
            free_run_kib,
            files: files.iter().sum(),
            resident_bytes: resident_bytes(),
            date: said("date", &["-u", "+%Y-%m-%d"]),
            commit: said(
                "git",
                &[
                    "describe",
                    "--always",
                    "--dirty",
                    "--abbrev=10",
                    "--exclude=*",
                ],
            ),
        })
    }

    fn mount(&self) -> anyhow::Result<Arc<Ext4>> {
        let device = Arc::new(FileDevice::open(&self.path, &OpenOptions::read_write())?);
        let fs = Ext4::mount(device as Arc<dyn BlockDevice>, MountOptions::default())?;
        Ok(fs)
    }

    /// The mean length of a free run, as e2freefrag(8) says.
    fn free_run_kib(&self) -> anyhow::Result<f64> {
        let out = Command::new("e2freefrag").arg(&self.path).output();
        let out = out.context("e2freefrag, of e2fsprogs")?;
        let text = String::from_utf8_lossy(&out.stdout);
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix("Avg. free extent:"));
        let number = line.and_then(|rest| rest.split_whitespace().next());
        number
            .and_then(|n| n.parse().ok())
            .with_context(|| format!("e2freefrag printed no average: {text}"))
    }

    fn check(&self) -> anyhow::Result<()> {
        let out = Command::new("e2fsck").arg("-fn").arg(&self.path).output();
        let out = out.context("e2fsck")?;
        if !out.status.success() {
            bail!("e2fsck: {}", String::from_utf8_lossy(&out.stdout));
        }
        Ok(())
    }
}

fn used_percent(fs: &Ext4) -> u64 {
    fs.statfs().map_or(100, |stat| {
        (stat.blocks - stat.blocks_free) * 100 / stat.blocks.max(1)
    })
}

fn said(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output();
    out.map_or_else(
        |_| "unknown".to_owned(),
        |out| String::from_utf8_lossy(&out.stdout).trim().to_owned(),
    )
}
