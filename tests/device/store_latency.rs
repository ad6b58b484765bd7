//! What a store of objects with round trips of 20 ms does to an image: figures for docs/BENCHMARKS.md.

use uext4_block::ObjectDevice;
use uext4_testkit::image::mount;
use uext4_testkit::object_store::HostStore;
use uext4_testkit::operation::Op;
use uext4_testkit::prelude::*;

const LATENCY: Duration = Duration::from_millis(20);

fn device(store: &Arc<HostStore>, options: &OpenOptions) -> Arc<ObjectDevice> {
    Arc::new(ObjectDevice::open(store.clone(), None, "image", options).unwrap())
}

fn make(store: &Arc<HostStore>, len: u64) {
    let device = device(store, &OpenOptions::create(len));
    let options = uext4_build::MkfsOptions {
        size: Some(len),
        ..uext4_build::MkfsOptions::default()
    };
    uext4_build::mkfs(&*device, &options, &NoProgress).unwrap();
    device.flush().unwrap();
}

#[test]
#[ignore = "measures for docs/BENCHMARKS.md"]
fn fsyncs_per_second() {
    for threads in [1, 48, 256] {
        let store = HostStore::new(&Arc::default(), 0);
        make(&store, 1 << 30);
        store.set_latency(LATENCY);
        let fs = mount(device(&store, &OpenOptions::read_write())).unwrap();
        let (done, time) = (AtomicU64::new(0), Duration::from_secs(8));
        let begin = Instant::now();
        thread::scope(|scope| {
            for thread in 0..threads {
                let (fs, done) = (&fs, &done);
                scope.spawn(move || {
                    let path = format!("f{thread}").into_bytes();
                    apply(
                        &**fs,
                        &Op::Create {
                            path: path.clone(),
                            mode: 0o644,
                        },
                    )
                    .unwrap();
                    for at in 0.. {
                        let write = Op::Write {
                            path: path.clone(),
                            at: at * 4096,
                            data: vec![7; 4096],
                            direct: false,
                        };
                        apply(&**fs, &write).unwrap();
                        apply(
                            &**fs,
                            &Op::Fsync {
                                path: path.clone(),
                                data_only: false,
                            },
                        )
                        .unwrap();
                        if begin.elapsed() > time {
                            return;
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let rate = done.into_inner() as f64 / time.as_secs_f64();
        println!("{threads} threads: {rate:.0} fsyncs/s");
    }
}

#[test]
#[ignore = "measures for docs/BENCHMARKS.md"]
fn opening_one_tebibyte() {
    let store = HostStore::new(&Arc::default(), 0);
    make(&store, 1 << 40);
    store.set_latency(LATENCY);
    let (begin, before) = (Instant::now(), store.requests());
    let device = device(&store, &OpenOptions::read_only());
    let opened = begin.elapsed();
    let fs = mount(device).unwrap();
    println!(
        "opened in {} ms, mounted in {} ms, {} requests",
        opened.as_millis(),
        begin.elapsed().as_millis(),
        store.requests() - before
    );
    drop(fs);
}
