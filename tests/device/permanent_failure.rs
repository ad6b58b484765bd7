//! Files and block devices of the host that lose writes: what a device says after that.

use std::sync::Barrier;
use uext4_block::BlockError;
use uext4_testkit::prelude::*;

/// Longer than a tick of the clock, within which the length isn't asked for again.
const TICK: Duration = Duration::from_millis(30);

const EIO: Option<i32> = Some(5);

fn run(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    out.status.success().then_some(text)
}

/// A block device that takes 64 MiB into the host's cache and has room for a few hundred KiB of it:
/// a loop device over a sparse file in a small tmpfs.
struct TooSmall {
    dir: TempDir,
    node: String,
}

impl TooSmall {
    /// None, said on stderr, where the machine or the user can't have one.
    fn new() -> Option<TooSmall> {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().to_str().unwrap();
        let made = run("mount", &["-t", "tmpfs", "-o", "size=256k", "none", at]).and_then(|_| {
            let file = dir.path().join("backing");
            std::fs::File::create(&file)
                .unwrap()
                .set_len(64 << 20)
                .unwrap();
            run("losetup", &["-f", "--show", file.to_str().unwrap()])
        });
        match made {
            Some(node) => Some(TooSmall { dir, node }),
            None => {
                eprintln!("SKIPPED: needs root, tmpfs and a loop device");
                let _ = run("umount", &[at]);
                None
            }
        }
    }

    fn open(&self) -> FileDevice {
        FileDevice::open(&self.node, &OpenOptions::read_write()).unwrap()
    }

    /// Makes room for all that is written from now on.
    fn heal(&self) {
        let at = self.dir.path().to_str().unwrap();
        run("mount", &["-o", "remount,size=80m", at]).unwrap();
    }
}

impl Drop for TooSmall {
    fn drop(&mut self) {
        let _ = run("losetup", &["-d", &self.node]);
        let at = self.dir.path().to_str().unwrap();
        for _ in 0..100 {
            if run("umount", &[at]).is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = run("umount", &["-l", at]);
    }
}

fn refuses_everything_but_reads(device: &FileDevice) {
    for (what, result) in [
        ("flush", device.flush()),
        ("write", device.write_at(0, &[1; 512])),
        (
            "batch",
            device.write_batch(&[(0, &[1; 512]), (8192, &[1; 512])]),
        ),
        ("fua", device.write_fua(0, &[1; 512])),
        ("zero", device.zero(0, 512)),
        ("discard", device.discard(0, 512)),
    ] {
        let error = result.expect_err(what);
        assert_eq!(error.raw_os_error(), EIO, "{what}: {error}");
        assert!(
            matches!(error, BlockError::Failed { .. }),
            "{what}: {error}"
        );
    }
    device.read_at(0, &mut [0; 4096]).expect("a read");
}

/// The host reports lost writes once. A device that forgets it takes the next flush for a good one.
#[test]
fn a_lost_write_is_reported_for_good() {
    let Some(small) = TooSmall::new() else { return };
    let device = small.open();
    device.write_at(0, &vec![7; 4 << 20]).unwrap();
    let error = device.flush().expect_err("4 MiB fit into 256 KiB");
    assert!(error.raw_os_error().is_some(), "{error}");
    small.heal();
    refuses_everything_but_reads(&device);
}

/// The same of a write that is durable when it returns.
#[test]
fn a_lost_durable_write_is_reported_for_good() {
    let Some(small) = TooSmall::new() else { return };
    let device = small.open();
    device
        .write_fua(0, &vec![7; 4 << 20])
        .expect_err("4 MiB fit into 256 KiB");
    small.heal();
    refuses_everything_but_reads(&device);
}

/// The host reports a lost write once for each open file description, and any thread may be the one
/// that hears of it. Of threads that each write and flush, none may hear that all is well once writes
/// were lost.
#[test]
fn no_thread_hears_that_all_is_well_after_a_loss() {
    const THREADS: usize = 8;
    for _ in 0..10 {
        let Some(small) = TooSmall::new() else { return };
        let device = small.open();
        let (all_have_written, lied) = (Barrier::new(THREADS), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let (device, all_have_written, lied) = (&device, &all_have_written, &lied);
                scope.spawn(move || {
                    device.write_at(thread << 20, &vec![7; 1 << 20]).unwrap();
                    // Each has written more than there is room for.
                    all_have_written.wait();
                    if device.flush().is_ok() {
                        lied.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(lied.load(Ordering::Relaxed), 0, "flushes that returned Ok");
        small.heal();
        refuses_everything_but_reads(&device);
    }
}

fn image(len: u64) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, vec![5; len as usize]).unwrap();
    (dir, path)
}

fn truncate(path: &Path, len: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
    std::thread::sleep(TICK);
}

#[test]
fn a_truncated_image_is_not_extended_again() {
    type Change = fn(&FileDevice) -> uext4_block::Result<()>;
    let changes: [(&str, Change); 6] = [
        ("write", |d| d.write_at(65536, &[1; 4096])),
        ("last block", |d| d.write_at((1 << 20) - 4096, &[1; 4096])),
        ("batch", |d| {
            d.write_batch(&[(65536, &[1; 4096]), (4096, &[1; 4096])])
        }),
        ("fua", |d| d.write_fua(65536, &[1; 4096])),
        ("zero", |d| d.zero(65536, 4096)),
        ("flush", |d| d.flush()),
    ];
    for (what, change) in changes {
        for direct in [false, true] {
            let (_dir, path) = image(1 << 20);
            let options = OpenOptions::read_write().direct(direct);
            let device = match FileDevice::open(&path, &options) {
                Err(error @ BlockError::NoDirect { .. }) => {
                    eprintln!("SKIPPED: {error}");
                    continue;
                }
                other => other.unwrap(),
            };
            device.write_at(8192, &[1; 4096]).unwrap();
            truncate(&path, 40_000);
            let error = change(&device).expect_err(what);
            assert_eq!(error.raw_os_error(), EIO, "{what}: {error}");
            assert!(error.to_string().contains("40000"), "{what}: {error}");
            refuses_everything_but_reads(&device);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 40_000, "{what}");
        }
    }
}

/// Ends a writer, also when its test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writers run on while the file is cut: they don't make it as long as it was.
#[test]
fn a_truncated_image_is_never_taken_for_whole() {
    let (_dir, path) = image(1 << 20);
    let device = FileDevice::open(&path, &OpenOptions::read_write()).unwrap();
    let stop = AtomicBool::new(false);
    let ends = StopAtEnd(&stop);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut at = 0;
            while !stop.load(Ordering::Relaxed) {
                at = (at + 4096) % (1 << 20);
                if device.write_at(at, &[9; 4096]).is_err() {
                    return true;
                }
            }
            false
        });
        std::thread::sleep(Duration::from_millis(5));
        let _ends = ends;
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(0).unwrap();
        std::thread::sleep(TICK);
        device.flush().expect_err("a flush of what is gone");
        device.write_fua(0, &[1; 512]).expect_err("a durable write");
        assert!(writer.join().unwrap(), "the writer ends with an error");
    });
    assert!(std::fs::metadata(&path).unwrap().len() < 1 << 20);
}

/// Our own changes of the length are none of that: each of these writes reaches the end of the short image, so that it asks
/// for the file's length.
#[test]
fn set_len_is_no_failure() {
    const SHORT: u64 = 32 << 10;
    let (_dir, path) = image(1 << 20);
    let device = FileDevice::open(&path, &OpenOptions::read_write()).unwrap();
    std::thread::scope(|scope| {
        let writers = [0; 4].map(|_| {
            scope.spawn(|| {
                for _ in 0..40_000 {
                    device.write_at(SHORT - 512, &[3; 512]).unwrap();
                }
            })
        });
        let mut len = 1 << 20;
        while !writers.iter().all(|writer| writer.is_finished()) {
            len = if len == 1 << 20 { SHORT } else { 1 << 20 };
            device.set_len(len).unwrap();
            device.flush().unwrap();
        }
    });
    let mut bytes = Vec::new();
    std::fs::File::open(&path)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    assert_eq!(bytes.len() as u64, device.len());
}
