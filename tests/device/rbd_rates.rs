//! Rates of images of Ceph beside Ceph's own client, and of a file system in one: figures for docs/BENCHMARKS.md.

use crate::remote_rbd::{BLOCK, open};
use uext4_block::Result as BlockResult;
use uext4_testkit::ceph::*;
use uext4_testkit::image::mount;
use uext4_testkit::operation::Op;
use uext4_testkit::prelude::*;

/// Bytes of the images.
const LEN: u64 = 256 << 20;
/// How long a round of ours is.
const ROUND: Duration = Duration::from_secs(3);
const ROUNDS: usize = 5;
const CALLERS: [Callers; 4] = [
    Callers::Threads(1),
    Callers::Threads(16),
    Callers::Threads(64),
    Callers::Batches,
];
/// Requests of a call.
const BATCH: usize = 4096;
/// Threads that create files.
const CREATORS: u64 = 8;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What keeps requests in flight.
#[derive(Clone, Copy, Debug)]
enum Callers {
    /// So many threads, each with one request at a time.
    Threads(usize),
    /// As `rbd bench` does, one thread: with calls of many requests, of which `RbdDevice` has 64 in flight.
    Batches,
}

impl Callers {
    fn depth(self) -> usize {
        match self {
            Callers::Threads(threads) => threads,
            Callers::Batches => 64,
        }
    }
}

/// Requests/s of calls with many requests each.
fn batch_rate(device: &dyn BlockDevice, writes: bool) -> f64 {
    let mut blocks = vec![vec![7; BLOCK]; BATCH];
    let (mut rng, begin, mut done) = (Rng::new(), Instant::now(), 0);
    while begin.elapsed() < ROUND {
        let mut requests: Vec<(u64, &mut [u8])> = blocks
            .iter_mut()
            .map(|block| (rng.u64(..LEN / BLOCK as u64) * BLOCK as u64, &mut block[..]))
            .collect();
        match writes {
            true => {
                let writes: Vec<_> = requests.iter().map(|(at, block)| (*at, &**block)).collect();
                device.write_batch(&writes).unwrap();
            }
            false => device.read_batch(&mut requests).unwrap(),
        }
        done += requests.len();
    }
    done as f64 / begin.elapsed().as_secs_f64()
}

/// Requests/s of so many threads, each with one request at a time.
fn thread_rate(device: &dyn BlockDevice, depth: usize, writes: bool) -> f64 {
    let done = AtomicU64::new(0);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..depth {
            scope.spawn(|| {
                let (mut rng, mut block) = (Rng::new(), vec![7; BLOCK]);
                while begin.elapsed() < ROUND {
                    let at = rng.u64(..LEN / BLOCK as u64) * BLOCK as u64;
                    match writes {
                        true => device.write_at(at, &block).unwrap(),
                        false => device.read_at(at, &mut block).unwrap(),
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    done.into_inner() as f64 / begin.elapsed().as_secs_f64()
}

/// Requests/s of `rbd bench`, which runs for about the time of a round of so many requests/s, with the options of `RbdDevice`: that requests
/// have a timeout costs librbd itself about a tenth of its reads.
fn peer_rate(image: &str, depth: usize, writes: bool, like: f64) -> f64 {
    let bytes = (like * ROUND.as_secs_f64()) as u64 * BLOCK as u64;
    let kind = if writes { "write" } else { "read" };
    let (depth, bytes) = (depth.to_string(), format!("{bytes}B"));
    let mut arguments = vec!["bench", image, "--io-type", kind, "--rbd-cache=false"];
    arguments.extend([
        "--rados-osd-op-timeout=60",
        "--rbd-disable-zero-copy-writes=true",
    ]);
    arguments.extend(["--io-pattern", "rand", "--io-size", "4096"]);
    arguments.extend(["--io-threads", &depth, "--io-total", &bytes]);
    let printed = rbd(&arguments);
    let rate = printed.split("ops/sec: ").nth(1);
    let rate = rate.and_then(|rest| rest.split_whitespace().next());
    rate.and_then(|rate| rate.parse().ok()).expect("a rate")
}

#[test]
#[ignore = "measures for docs/BENCHMARKS.md"]
fn requests_per_second() {
    require!(is_client("rbd_rates::requests_per_second"));
    let (ours, peers) = (new_image(LEN), new_image(LEN));
    for image in [&ours, &peers] {
        let device = open(image).unwrap();
        for at in (0..LEN).step_by(4 << 20) {
            device.write_at(at, &vec![1; 4 << 20]).unwrap();
        }
    }
    for writes in [false, true] {
        for callers in CALLERS {
            let (mut our_rates, mut peer_rates, mut ratios) = (vec![], vec![], vec![]);
            for _ in 0..ROUNDS {
                let device = open(&ours).unwrap();
                let our_rate = match callers {
                    Callers::Threads(depth) => thread_rate(&*device, depth, writes),
                    Callers::Batches => batch_rate(&*device, writes),
                };
                drop(device);
                let peer_rate = peer_rate(&peers, callers.depth(), writes, our_rate);
                our_rates.push(our_rate);
                peer_rates.push(peer_rate);
                ratios.push(our_rate / peer_rate);
            }
            println!(
                "{} {callers:?}: {:.0}/s, rbd bench {:.0}/s, median of the ratios {:.2} of {ratios:.2?}",
                if writes { "writes" } else { "reads" },
                median(our_rates),
                median(peer_rates),
                median(ratios.clone()),
            );
        }
    }
}

/// A device whose flushes take the time of those of another.
#[derive(Debug)]
struct SlowFlush {
    inner: FileDevice,
    latency: Duration,
}

impl BlockDevice for SlowFlush {
    forward_device!(self => self.inner; len, is_read_only, logical_block_size, set_len, identity);
    forward_device!(self => self.inner; read_at, read_vectored_at, read_batch, discard, zero);
    forward_device!(self => self.inner; write_at, write_vectored_at, write_batch);

    fn flush(&self) -> BlockResult<()> {
        thread::sleep(self.latency);
        self.inner.flush()
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> BlockResult<()> {
        self.inner.write_at(offset, buf)?;
        self.flush()
    }
}

/// Creates/s of several threads, each in a directory of its own, with the sync at the end.
fn creates(device: Arc<dyn BlockDevice>) -> f64 {
    let options = MkfsOptions::default();
    uext4_build::mkfs(&*device, &options, &NoProgress).unwrap();
    let fs = mount(device).unwrap();
    let done = AtomicU64::new(0);
    let begin = Instant::now();
    thread::scope(|scope| {
        for thread in 0..CREATORS {
            let (fs, done) = (&*fs, &done);
            scope.spawn(move || {
                let dir = format!("d{thread}");
                let (path, mode) = (dir.clone().into_bytes(), 0o755);
                apply(fs, &Op::Mkdir { path, mode }).unwrap();
                for number in 0..5000 {
                    let path = format!("{dir}/f{number}").into_bytes();
                    apply(fs, &Op::Create { path, mode: 0o644 }).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    fs.sync().unwrap();
    let rate = done.into_inner() as f64 / begin.elapsed().as_secs_f64();
    fs.unmount().unwrap();
    rate
}

#[test]
#[ignore = "measures for docs/BENCHMARKS.md"]
fn creates_per_second() {
    require!(is_client("rbd_rates::creates_per_second"));
    let image = new_image(1 << 30);
    let mut flushes = Vec::new();
    let device = open(&image).unwrap();
    for number in 0..200 {
        device.write_at(number * 65536, &[1; BLOCK]).unwrap();
        let begin = Instant::now();
        device.flush().unwrap();
        flushes.push(begin.elapsed().as_secs_f64());
    }
    drop(device);
    let latency = Duration::from_secs_f64(median(flushes));
    let (mut ours, mut peers, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let dir = tempfile::tempdir().unwrap();
        let file = FileDevice::open(dir.path().join("image"), &OpenOptions::create(1 << 30));
        let inner = file.unwrap();
        let local = creates(Arc::new(SlowFlush { inner, latency }));
        let remote = creates(open(&image).unwrap());
        ours.push(remote);
        peers.push(local);
        ratios.push(remote / local);
    }
    println!(
        "creates: {:.0}/s, a file whose flush takes {} us {:.0}/s, median of the ratios {:.2} of {ratios:.2?}",
        median(ours),
        latency.as_micros(),
        median(peers),
        median(ratios.clone()),
    );
}
