//! What is written past the kernel's cache, several writes at a time, and read through it meanwhile.

use super::transports::{can_run, on_each_transport};
use io_uring::{IoUring, opcode, types};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::Ordering::Relaxed;
use uext4_testkit::prelude::*;

const BLOCK: usize = 4096;
const BLOCKS: usize = 64;
const ROUNDS: u8 = 60;

/// How long what is read may be old after the writes have returned.
const PATIENCE: Duration = Duration::from_secs(5);

/// A block's worth of a byte where direct I/O can take it from.
#[repr(C, align(4096))]
struct Page([u8; BLOCK]);

fn write_all_at_once(ring: &mut IoUring, file: &File, page: &Page) -> Result<()> {
    for block in 0..BLOCKS {
        let at = types::Fd(file.as_raw_fd());
        let write = opcode::Write::new(at, page.0.as_ptr(), BLOCK as u32);
        let write = write.offset((block * BLOCK) as u64).build();
        // SAFETY: the page and the file outlive the wait below.
        unsafe { ring.submission().push(&write)? };
    }
    ring.submit_and_wait(BLOCKS)?;
    for done in ring.completion() {
        ensure!(done.result() == BLOCK as i32, "{}", done.result());
    }
    Ok(())
}

fn settles(cached: &File, round: u8) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    let mut data = vec![0; BLOCKS * BLOCK];
    loop {
        cached.read_exact_at(&mut data, 0)?;
        let Some(old) = data.iter().position(|byte| *byte != round) else {
            return Ok(());
        };
        let (block, byte) = (old / BLOCK, data[old]);
        ensure!(
            Instant::now() < end,
            "block {block} stays {byte}, not {round}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn written_and_read(dir: &Path) -> Result<()> {
    let path = dir.join("file");
    std::fs::write(&path, vec![0; BLOCKS * BLOCK])?;
    let direct = File::options()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(&path)?;
    let cached = File::open(&path)?;
    let mut ring = IoUring::new(BLOCKS as u32)?;
    let ended = AtomicBool::new(false);
    for round in 1..=ROUNDS {
        ended.store(false, Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut data = [0; BLOCK];
                while !ended.load(Relaxed) {
                    for block in 0..BLOCKS {
                        // The reads afterwards show what failed.
                        let _ = cached.read_at(&mut data, (block * BLOCK) as u64);
                    }
                }
            });
            let written = write_all_at_once(&mut ring, &direct, &Page([round; BLOCK]));
            ended.store(true, Relaxed);
            written
        })?;
        settles(&cached, round)?;
    }
    Ok(())
}

#[test]
fn the_cache_does_not_keep_what_direct_writes_replaced() -> Result<()> {
    if !can_run(&[]) {
        return Ok(());
    }
    on_each_transport("", |mount| written_and_read(mount.dir()))
}
