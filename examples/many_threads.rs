//! Uses one image from many threads: each makes files in a directory of its own, and all write their part of one
//! file. No lock is needed around the image or the file.
//!
//! ```sh
//! cargo run --release --example many_threads -- [THREADS]
//! ```

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use uext4::{
    Filesystem, ImageOptions, MemoryDevice, MkfsOptions, NoProgress, OpenOptions, Result, mkfs_on,
};

const FILES: usize = 1000;
const PART_BYTES: usize = 64 << 10;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let threads = match std::env::args().nth(1) {
        Some(count) => count.parse()?,
        None => 8,
    };
    let device = Arc::new(MemoryDevice::new(256 << 20));
    mkfs_on(&*device, &MkfsOptions::new(), &NoProgress)?;
    let fs = Filesystem::open_device(device, &ImageOptions::read_write())?;
    let options = OpenOptions::new().read(true).write(true).create(true);
    let shared = options.open(&fs, "/shared")?;

    let start = Instant::now();
    thread::scope(|scope| -> Result<()> {
        let work = |thread: usize| {
            let directory = fs.root()?.mkdir(format!("{thread}"), 0o755)?;
            for number in 0..FILES {
                directory.create_new(format!("file-{number}"), 0o644)?;
            }
            let part = vec![thread as u8; PART_BYTES];
            shared.write_all_at(&part, (thread * PART_BYTES) as u64)
        };
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        for worker in workers {
            worker.join().expect("a worker panicked")?;
        }
        Ok(())
    })?;
    fs.sync()?;
    println!(
        "{} files by {threads} threads in {:?}",
        threads * FILES,
        start.elapsed()
    );

    let mut part = vec![0; PART_BYTES];
    for thread in 0..threads {
        shared.read_exact_at(&mut part, (thread * PART_BYTES) as u64)?;
        assert!(part.iter().all(|byte| *byte == thread as u8));
        assert_eq!(fs.read_dir(format!("/{thread}"))?.count(), FILES);
    }
    drop(shared);
    fs.unmount()?;
    Ok(())
}
