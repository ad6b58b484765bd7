//! Threads that use a mount as hard as they can, each by its seed.

use crate::durable::DurableFiles;
use rustix::fs::XattrFlags;
use std::fs::OpenOptions;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use uext4_testkit::prelude::*;

/// Names of a directory that several threads share.
const NAMES: u32 = 60;
/// The most bytes of a file.
const BYTES_MAX: u64 = 300_000;

/// Threads at work on a directory.
pub struct Workers {
    stop: Arc<AtomicBool>,
    /// Calls that went well.
    pub calls: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `noisy` threads that do anything, and `careful` ones that note what they were guaranteed.
    pub fn start(
        dir: &Path,
        durable: &Arc<DurableFiles>,
        noisy: u64,
        careful: u64,
        seed: u64,
    ) -> Workers {
        let stop = Arc::new(AtomicBool::new(false));
        let calls = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        for number in 0..noisy + careful {
            let (dir, durable) = (dir.to_owned(), Arc::clone(durable));
            let (stop, calls) = (Arc::clone(&stop), Arc::clone(&calls));
            let mut rng = Rng::with_seed(seed.wrapping_mul(1000) + number);
            threads.push(thread::spawn(move || {
                while !stop.load(Relaxed) {
                    let done = match number < noisy {
                        true => anything(&dir, &mut rng),
                        false => guaranteed(&dir, &durable, number, &mut rng),
                    };
                    match done {
                        Ok(()) => _ = calls.fetch_add(1, Relaxed),
                        // Where the server has been killed there is no more to do.
                        Err(e) if is_gone(&e) => return,
                        Err(_) => {}
                    }
                }
            }));
        }
        Workers {
            stop,
            calls,
            threads,
        }
    }

    /// Waits until all are done with what they do.
    pub fn stop(self) -> u64 {
        self.stop.store(true, Relaxed);
        for thread in self.threads {
            thread.join().expect("no panic");
        }
        self.calls.load(Relaxed)
    }
}

/// Whether the server does not answer any more.
fn is_gone(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::ENOTCONN | libc::ECONNABORTED | libc::ENODEV)
    )
}

fn pick(dir: &Path, rng: &mut Rng) -> PathBuf {
    dir.join(format!("shared-{}", rng.u32(..3)))
        .join(format!("n{}", rng.u32(..NAMES)))
}

/// One call or a few; most refusals are as likely as success.
fn anything(dir: &Path, rng: &mut Rng) -> io::Result<()> {
    let path = pick(dir, rng);
    match rng.u32(..20) {
        0..5 => {
            let mut file = OpenOptions::new();
            let mut file = file
                .create(true)
                .append(rng.bool())
                .write(true)
                .open(&path)?;
            file.write_all(&vec![rng.u8(..); rng.usize(..20_000)])
        }
        5..7 => {
            let file = OpenOptions::new().write(true).open(&path)?;
            let data = vec![rng.u8(..); rng.usize(1..9000)];
            file.write_all_at(&data, rng.u64(..BYTES_MAX))
        }
        7 => OpenOptions::new()
            .write(true)
            .open(&path)?
            .set_len(rng.u64(..BYTES_MAX)),
        8 => File::open(&path)?.sync_all(),
        9..11 => fs::rename(&path, pick(dir, rng)),
        11 => fs::hard_link(&path, pick(dir, rng)),
        12 => std::os::unix::fs::symlink("target", &path),
        13 => fs::create_dir(&path),
        14 => fs::remove_dir(&path),
        15 | 16 => fs::remove_file(&path),
        17 => {
            let value = vec![7; rng.usize(..3000)];
            let name = format!("user.n{}", rng.u32(..4));
            Ok(rustix::fs::setxattr(
                &path,
                name,
                &value,
                XattrFlags::empty(),
            )?)
        }
        18 => {
            fs::read_dir(path.parent().unwrap_or(dir))?.try_for_each(|e| e?.metadata().map(|_| ()))
        }
        _ => {
            let file = OpenOptions::new().write(true).open(&path)?;
            let punch =
                rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            let (flags, at) = match rng.bool() {
                true => (punch, rng.u64(..BYTES_MAX)),
                false => (rustix::fs::FallocateFlags::empty(), rng.u64(..BYTES_MAX)),
            };
            Ok(rustix::fs::fallocate(&file, flags, at, 10_000)?)
        }
    }
}

/// Makes a file, makes it durable and notes that; later moves or removes some.
fn guaranteed(dir: &Path, durable: &DurableFiles, worker: u64, rng: &mut Rng) -> io::Result<()> {
    let own = dir.join(format!("own-{worker}"));
    if rng.u32(..4) == 0
        && let Some((path, content)) = durable.take(worker, rng)
    {
        if rng.bool() {
            return fs::remove_file(path);
        }
        let moved = own.join(format!("m{}", rng.u64(..)));
        fs::rename(&path, &moved)?;
        File::open(&own)?.sync_all()?;
        durable.make(worker, moved, content);
        return Ok(());
    }
    let content = (rng.u64(..), rng.u64(1..60_000));
    let path = own.join(format!("f{}", rng.u64(..)));
    let mut file = File::create_new(&path)?;
    file.write_all(&DurableFiles::bytes(content))?;
    if rng.bool() {
        file.sync_all()?;
    } else {
        file.sync_data()?;
    }
    durable.make(worker, path, content);
    Ok(())
}
