//! tar: a tree with files as large as those of sources, unpacked by tar(1) and removed by rm(1), each with
//! the unmount inside its time.

use super::location::Location;
use super::scratch::{Scratch, output_of};
use super::workload::Figure;
use crate::sample::Work;
use anyhow::ensure;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// Half of the files have at most this.
const MEDIAN_BYTES: f64 = 3072.0;
/// The standard deviation of the logarithm of a size.
const SIGMA: f64 = 1.2;
const BYTES_MAX: usize = 256 << 10;
/// Files of a directory, and directories of one above it.
const FILES_OF_DIR: u64 = 17;
const DIRS_OF_DIR: u64 = 12;
/// The directory that all of the tree is in.
const TOP: &str = "tree";
/// Inodes in use of an image without files: those reserved, and lost+found.
const INODES_OF_EMPTY: u64 = 11;

/// The packed tree.
pub struct Tarball {
    path: PathBuf,
    /// Files and directories.
    pub entries: u64,
}

impl Tarball {
    /// Makes it, the same every time.
    pub fn make(scratch: &Scratch, files: u64) -> anyhow::Result<Tarball> {
        let top = scratch.tree();
        fs::create_dir(&top)?;
        let mut entries = 1;
        let mut random = fastrand::Rng::with_seed(files);
        let contents: Vec<u8> = (0..2 * BYTES_MAX).map(|_| random.u8(b' '..=b'~')).collect();
        for number in 0..files {
            let dir = number / FILES_OF_DIR;
            let mut path = top.clone();
            let (above, n) = (dir / DIRS_OF_DIR, DIRS_OF_DIR);
            for part in [above / n, above % n, dir % n] {
                path.push(format!("part{part}"));
                if !path.exists() {
                    fs::create_dir(&path)?;
                    entries += 1;
                }
            }
            let begin = random.usize(0..BYTES_MAX);
            let bytes = &contents[begin..begin + size(&mut random)];
            fs::write(path.join(format!("file{number}.c")), bytes)?;
            entries += 1;
        }
        let path = scratch.tar();
        output_of(
            Command::new("tar")
                .args(["--sort=name", "--mtime=@0", "-cf"])
                .arg(&path)
                .arg("-C")
                .arg(top.parent().unwrap_or(&top))
                .arg(TOP),
        )?;
        fs::remove_dir_all(&top)?;
        Ok(Tarball { path, entries })
    }

    /// Unpacks it into a location, and removes it from there.
    pub fn run(&self, location: &mut Location<'_>) -> anyhow::Result<Vec<Figure>> {
        let since = Instant::now();
        output_of(
            Command::new("tar")
                .arg("-xf")
                .arg(&self.path)
                .arg("-C")
                .arg(location.dir()),
        )?;
        location.unmount()?;
        let extract = self.figure("extract", since);
        let files = location.check()?.saturating_sub(INODES_OF_EMPTY);
        ensure!(
            files == self.entries,
            "{files} of {} files and directories are in the image",
            self.entries
        );
        location.mount()?;
        let since = Instant::now();
        output_of(Command::new("rm").arg("-r").arg(location.dir().join(TOP)))?;
        location.unmount()?;
        Ok(vec![extract, self.figure("remove", since)])
    }

    fn figure(&self, op: &'static str, since: Instant) -> Figure {
        Figure {
            op,
            threads: 1,
            work: Work {
                ops: self.entries,
                seconds: since.elapsed().as_secs_f64(),
                ..Work::default()
            },
        }
    }
}

/// The size of a file: its logarithm is spread normally.
fn size(random: &mut fastrand::Rng) -> usize {
    let (u, v) = (1.0 - random.f64(), random.f64());
    let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
    let bytes = (MEDIAN_BYTES.ln() + SIGMA * normal).exp();
    (bytes as usize).min(BYTES_MAX)
}
