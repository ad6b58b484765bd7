//! What devices do per second, for choosing between ways of doing it.
//!
//! `cargo bench -p uext4-block -- latency | memory | engines FILE_ON_TMPFS FILE_ON_DISK`. Each row is the
//! minimum, median and maximum of rounds; what a row is compared with runs in the same rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use uext4_block::{
    BlockDevice, FileDevice, IoEngine, LatencyDevice, MemoryDevice, OpenOptions, Result,
};

const BLOCK: usize = 4096;
const ROUNDS: usize = 5;

/// Memory that direct I/O takes as it is.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

/// What a thread works with.
struct Worker {
    rng: fastrand::Rng,
    blocks: Vec<Block>,
}

/// Blocks that `threads` read and write in a round, per second, in batches of `depth`.
fn rate(device: &dyn BlockDevice, threads: usize, depth: usize) -> f64 {
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for seed in 0..threads as u64 {
            let (stop, calls) = (&stop, &calls);
            scope.spawn(move || {
                let mut worker = Worker {
                    rng: fastrand::Rng::with_seed(seed),
                    blocks: (0..depth).map(|_| Block([7; BLOCK])).collect(),
                };
                let mut own = 0;
                while !stop.load(Relaxed) {
                    let done = match depth {
                        1 => worker.one(device),
                        _ => worker.batch(device),
                    };
                    done.expect("the device failed");
                    own += depth as u64;
                }
                calls.fetch_add(own, Relaxed);
            });
        }
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Relaxed);
    });
    calls.load(Relaxed) as f64 / start.elapsed().as_secs_f64()
}

impl Worker {
    /// Half reads, half writes.
    fn one(&mut self, device: &dyn BlockDevice) -> Result<()> {
        let at = self.rng.u64(..device.len() / BLOCK as u64) * BLOCK as u64;
        let block = &mut self.blocks[0].0;
        match self.rng.bool() {
            true => device.read_at(at, block),
            false => device.write_at(at, block),
        }
    }

    /// A batch of blocks that are not adjacent.
    fn batch(&mut self, device: &dyn BlockDevice) -> Result<()> {
        let all = device.len() / BLOCK as u64;
        let (start, step) = (self.rng.u64(..all), all / self.blocks.len() as u64 - 1);
        let at = |i: u64| (start + i * step) % all * BLOCK as u64;
        if self.rng.bool() {
            let blocks = self.blocks.iter_mut().map(|block| &mut block.0[..]);
            device.read_batch(&mut (0..).map(at).zip(blocks).collect::<Vec<_>>())
        } else {
            let blocks = self.blocks.iter().map(|block| &block.0[..]);
            device.write_batch(&(0..).map(at).zip(blocks).collect::<Vec<_>>())
        }
    }
}

fn show(name: &str, mut rates: Vec<f64>) {
    rates.sort_by(f64::total_cmp);
    let [min, median, max] = [0, rates.len() / 2, rates.len() - 1].map(|i| rates[i] / 1000.0);
    println!("{name:48} {min:9.1} {median:9.1} {max:9.1}  thousand/s");
}

fn latency() {
    let latency = Duration::from_micros(80);
    for threads in [1, 2, 4, 8, 12, 16, 24] {
        let device = LatencyDevice::new(filled(64 << 20), latency, 32);
        let rates = (0..ROUNDS).map(|_| rate(&device, threads, 1));
        show(&format!("latency, {threads} threads"), rates.collect());
        let report = device.report();
        let model = threads as f64 / latency.as_secs_f64() / 1000.0;
        println!(
            "    model {model:.1}; achieved mean {:?}, max {:?}",
            report.mean, report.max
        );
    }
}

fn filled(len: usize) -> MemoryDevice {
    MemoryDevice::from_bytes(&vec![1; len])
}

fn memory() {
    for threads in [1, 2, 4, 8, 24] {
        let device = filled(256 << 20);
        let rates = (0..ROUNDS).map(|_| rate(&device, threads, 1));
        show(&format!("memory, {threads} threads"), rates.collect());
    }
}

fn engines(path: &str, direct: bool) {
    let open = |engine| {
        let options = OpenOptions::create(1 << 30).exclusive(false);
        FileDevice::open(path, &options.engine(engine).direct(direct))
    };
    let both = [IoEngine::Plain, IoEngine::Uring].map(|engine| open(engine).map(Arc::new));
    let [Ok(plain), Ok(uring)] = both else {
        println!("{path}, direct {direct}: {both:?}");
        return;
    };
    // Blocks that were never written would be another measurement.
    let bytes = vec![1; 1 << 20];
    for at in 0..plain.len() >> 20 {
        plain.write_at(at << 20, &bytes).expect("the device failed");
    }
    for threads in [1, 2, 8, 24] {
        for depth in [1, 8, 64] {
            let mut rates = [vec![], vec![]];
            for _ in 0..ROUNDS {
                for (rates, device) in rates.iter_mut().zip([&plain, &uring]) {
                    rates.push(rate(&**device, threads, depth));
                }
            }
            for (rates, device) in rates.into_iter().zip([&plain, &uring]) {
                let engine = device.engine();
                show(
                    &format!("direct {direct} {engine}, {threads} threads, {depth} a batch"),
                    rates,
                );
            }
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["latency"] => latency(),
        ["memory"] => memory(),
        ["engines", tmpfs, disk] => {
            for (path, direct) in [(tmpfs, false), (tmpfs, true), (disk, false), (disk, true)] {
                println!("{path}");
                engines(path, direct);
            }
        }
        _ => println!("one of: latency, memory, engines FILE_ON_TMPFS FILE_ON_DISK"),
    }
}
