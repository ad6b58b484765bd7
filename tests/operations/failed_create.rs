//! Creates that fail beside look-ups by stale handles leave nothing behind.
use crate::*;

#[test]
fn failing_creates_beside_stale_handles() {
    let path = image("8M", "-b 1024 -N 128 -m 0");
    let fs = path.mount();
    let top = fs.top();
    let f = fs.make(&top, b"fill", &FILE);
    while FileSystem::append(&*fs, &f, &[7; 65536]).is_ok() {}
    while FileSystem::append(&*fs, &f, &[7; 1024]).is_ok() {}
    drop(f);
    fs.sync().unwrap();
    let stop = AtomicBool::new(false);
    let n = AtomicU64::new(0);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let mut r = fastrand::Rng::new();
                while !stop.load(SeqCst) {
                    let _ = fs.open_handle(FileHandle {
                        ino: r.u64(11..=40),
                        generation: 1,
                    });
                }
            });
        }
        s.spawn(|| {
            let end = Instant::now() + Duration::from_secs(3);
            while Instant::now() < end {
                let e = fs.create(&Caller::root(), &top, b"newdir", &DIR);
                if let Err(e) = &e
                    && e.to_string().contains("inode")
                {
                    eprintln!("{e}");
                    break;
                }
                assert!(e.is_err());
                let e = fs.create(
                    &Caller::root(),
                    &top,
                    b"ln",
                    &NewNode {
                        mode: 0o777,
                        kind: NewKind::Symlink(&[b'x'; 100]),
                    },
                );
                if let Err(e) = &e
                    && e.to_string().contains("inode")
                {
                    eprintln!("{e}");
                    break;
                }
                n.fetch_add(1, SeqCst);
            }
            stop.store(true, SeqCst);
        });
    });
    eprintln!("{} failed creates", n.load(SeqCst));
    drop(top);
    path.end(fs);
}
