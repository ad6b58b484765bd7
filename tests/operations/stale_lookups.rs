//! Look-ups by stale handles beside creates, evictions and commits: no thread waits for ever.
use crate::*;

#[test]
fn stale_lookups_that_evict_beside_creates() {
    for lazytime in [true] {
        let path = image("64M", "-b 1024 -N 192");
        let fs = mount(
            &path,
            MountOptions {
                ialloc: IallocVariant::LockFree,
                icache: IcacheVariant::PerBucket,
                inodes_max: 4,
                lazytime,
                atime: AtimeUpdate::Strict,
                ..MountOptions::default()
            },
        );
        let stop = AtomicBool::new(false);
        let progress = AtomicU64::new(0);
        let top = fs.top();
        let old = fs.make(&top, b"old", &DIR);
        for i in 0..150 {
            fs.make(&old, &format!("f{i}"), &FILE);
        }
        drop(old);
        let hung = std::thread::scope(|s| {
            for t in 0..4 {
                let (fs, stop, progress) = (&fs, &stop, &progress);
                s.spawn(move || {
                    let top = fs.top();
                    let d = fs.make(&top, &format!("d{t}"), &DIR);
                    let mut n = 0u64;
                    while !stop.load(SeqCst) {
                        let name = format!("x{}", n % 8);
                        match fs.create(&Caller::root(), &d, name.as_bytes(), &FILE) {
                            Ok(f) => drop(f),
                            Err(e) => {
                                let e = e.to_string();
                                if !e.contains("inode") && !e.contains("xist") {
                                    panic!("create {e}")
                                }
                            }
                        }
                        let _ = fs.unlink(&Caller::root(), &d, name.as_bytes());
                        n += 1;
                        progress.fetch_add(1, SeqCst);
                    }
                });
            }
            for t in 0..3u64 {
                let (fs, stop) = (&fs, &stop);
                s.spawn(move || {
                    let mut r = fastrand::Rng::with_seed(t);
                    while !stop.load(SeqCst) {
                        let _ = fs.open_handle(FileHandle {
                            ino: r.u64(165..=192),
                            generation: 1,
                        });
                    }
                });
            }
            for t in 0..2u64 {
                let (fs, stop) = (&fs, &stop);
                s.spawn(move || {
                    let top = fs.top();
                    let mut r = fastrand::Rng::with_seed(t);
                    let mut b = [0; 4];
                    while !stop.load(SeqCst) {
                        let old = fs.get(&top, b"old");
                        if let Ok(f) = fs.lookup(
                            &Caller::root(),
                            &old,
                            format!("f{}", r.u32(0..150)).as_bytes(),
                        ) {
                            let _ = fs.read(&f, 0, &mut b);
                        }
                    }
                });
            }
            {
                let (fs, stop) = (&fs, &stop);
                s.spawn(move || {
                    while !stop.load(SeqCst) {
                        fs.volume.journal().sync().unwrap();
                    }
                });
            }
            let mut last = 0;
            let mut idle = 0;
            for i in 0..120 {
                std::thread::sleep(Duration::from_millis(500));
                let now = progress.load(SeqCst);
                if now == last {
                    idle += 1
                } else {
                    idle = 0
                }
                last = now;
                if i >= 7 && idle == 0 {
                    break;
                }
                if idle > 60 {
                    break;
                }
            }
            eprintln!("lazytime {lazytime}: {last} creates, idle {idle}");
            stop.store(true, SeqCst);
            if idle > 10 {
                eprintln!("HUNG pid {}", std::process::id());
                std::thread::sleep(Duration::from_secs(20));
                std::process::abort();
            }
            idle > 10
        });
        assert!(!hung);
        drop(top);
        path.end(fs);
    }
}
