//! seq: one file written and read from beginning to end in pieces of 1 MiB, through the page cache and
//! past it.

use super::workload::Figure;
use crate::aligned::AlignedBuf;
use crate::sample::Work;
use anyhow::{Context as _, ensure};
use rustix::fs::{Advice, OFlags, fadvise};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

/// A piece.
const MIB: u64 = 1 << 20;

/// Whether the kernel's page cache is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    Buffered,
    /// O_DIRECT.
    Direct,
}

/// Writes and reads a file of `bytes` each way; an fsync is inside the time of writing, and the cache is
/// dropped before reading. Counted are MiB.
pub fn run(dir: &Path, bytes: u64) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (cache, write_op, read_op) in [
        (Cache::Buffered, "write-buffered", "read-buffered"),
        (Cache::Direct, "write-direct", "read-direct"),
    ] {
        let path = dir.join("seq");
        File::create_new(&path).with_context(|| path.display().to_string())?;
        let file = open(&path, cache)?;
        let mut timed = |op, work: &dyn Fn() -> anyhow::Result<()>| {
            let since = Instant::now();
            work()?;
            figures.push(Figure {
                op,
                threads: 1,
                work: Work {
                    ops: bytes / MIB,
                    seconds: since.elapsed().as_secs_f64(),
                    ..Work::default()
                },
            });
            anyhow::Ok(())
        };
        timed(write_op, &|| write(&file, bytes))?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        drop(file);
        let file = open(&path, cache)?;
        timed(read_op, &|| read(&file, bytes))?;
        drop(file);
        std::fs::remove_file(&path)?;
    }
    Ok(figures)
}

pub fn open(path: &Path, cache: Cache) -> anyhow::Result<File> {
    let flags = match cache {
        Cache::Buffered => OFlags::empty(),
        Cache::Direct => OFlags::DIRECT,
    };
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .with_context(|| path.display().to_string())
}

/// Writes a file from its beginning, each piece with its number in front, and fsyncs it.
pub fn write(file: &File, bytes: u64) -> anyhow::Result<()> {
    let mut piece = AlignedBuf::zeroed(MIB as usize);
    piece.bytes_mut().fill(0x55);
    for number in 0..bytes / MIB {
        piece.bytes_mut()[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all_at(piece.bytes(), number * MIB)?;
    }
    Ok(file.sync_all()?)
}

fn read(file: &File, bytes: u64) -> anyhow::Result<()> {
    let mut piece = AlignedBuf::zeroed(MIB as usize);
    for number in 0..bytes / MIB {
        file.read_exact_at(piece.bytes_mut(), number * MIB)?;
        ensure!(
            piece.bytes()[..8] == number.to_le_bytes(),
            "MiB {number} has not what was written there"
        );
    }
    Ok(())
}
