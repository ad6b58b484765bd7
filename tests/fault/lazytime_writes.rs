//! A failing device under lazytime, and entries that name their own directory.
use uext4_testkit::mke2fs;
use uext4_testkit::prelude::*;

#[test]
fn self_rename() {
    let mut bad = vec![];
    for case in 0..7 {
        let path = image("16M", "-b 1024 -O ^metadata_csum,^uninit_bg,^dir_index");
        let fs = path.mount();
        let top = fs.top();
        let d = fs.make(&top, b"d", &mke2fs::DIR);
        fs.make(&top, b"e", &mke2fs::DIR);
        fs.make(&top, b"f", &FILE);
        let ino = d.ino.0;
        drop(d);
        drop(top);
        fs.unmount().unwrap();
        drop(fs);
        debugfs(&path, &format!("ln <{ino}> /d/self"));
        debugfs(&path, "ln <2> /self");
        let fs = path.mount();
        let (tx, rx) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let me = Caller::root();
            let top = fs.top();
            let d = fs.get(&top, b"d");
            let r = match case {
                0 => fs
                    .namei
                    .rename(&me, &d, b"self", &d, b"q", RenameFlags::empty()),
                1 => fs
                    .namei
                    .rename(&me, &top, b"e", &top, b"self", RenameFlags::empty()),
                2 => fs
                    .namei
                    .rename(&me, &top, b"e", &d, b"self", RenameFlags::empty()),
                3 => fs
                    .namei
                    .rename(&me, &d, b"self", &top, b"q", RenameFlags::empty()),
                4 => fs
                    .namei
                    .rename(&me, &top, b"self", &top, b"e", RenameFlags::EXCHANGE),
                5 => fs.namei.rmdir(&me, &d, b"self"),
                _ => fs.namei.unlink(&me, &d, b"self"),
            };
            let _ = tx.send(r.map_err(|e| e.to_string()));
        });
        match rx.recv_timeout(Duration::from_secs(4)) {
            Ok(r) => eprintln!("{case}: {r:?}"),
            Err(e) => {
                eprintln!("{case}: HANG/PANIC {e}");
                bad.push(case)
            }
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn lazytime_on_a_failing_device() {
    for lazytime in [true, false] {
        for when in 0..14u64 {
            let dev = MemoryDevice::new(32 << 20);
            let o = uext4_build::MkfsOptions {
                size: Some(32 << 20),
                block_size: 1024,
                journal_size: Some(1 << 20),
                ..Default::default()
            };
            uext4_build::mkfs(&dev, &o, &uext4_build::NoProgress).unwrap();
            let plan = FaultPlan::default();
            let dev: Arc<dyn BlockDevice> = Arc::new(FaultDevice::new(dev, plan.clone()));
            let fs = Ext4::mount(
                dev,
                MountOptions {
                    lazytime,
                    atime: AtimeUpdate::Strict,
                    inodes_max: 8,
                    lazytime_max_age: Duration::from_millis(5),
                    commit_interval: Duration::from_millis(20),
                    ..MountOptions::default()
                },
            )
            .unwrap();
            let top = fs.top();
            for i in 0..50 {
                let f = fs.make(&top, &format!("f{i}"), &FILE);
                fs.put(&f, 0, &[1; 100]);
            }
            fs.sync().unwrap();
            set(&plan, when);
            let fs2 = Arc::clone(&fs);
            let r = within("work", move || {
                let me = Caller::root();
                let top = fs2.namei.root().unwrap().clone();
                let mut errs = 0;
                let mut fsync_ok_after = 0;
                for i in 0..300 {
                    if let Ok(f) = fs2
                        .namei
                        .lookup(&me, &top, format!("f{}", i % 50).as_bytes())
                    {
                        let mut b = [0; 10];
                        let _ = fs2.files.read(&f, 0, &mut b);
                        if fs2.files.write(&f, 0, b"zz", true).is_err() {
                            errs += 1
                        }
                        if fs2.files.fsync(&f, false).is_err() {
                            errs += 1
                        } else if errs > 0 {
                            fsync_ok_after += 1
                        }
                    }
                    let _ = fs2
                        .namei
                        .create(&me, &top, format!("g{i}").as_bytes(), &FILE);
                    let _ = fs2
                        .namei
                        .unlink(&me, &top, format!("g{}", i / 2).as_bytes());
                }
                (errs, fsync_ok_after)
            });
            drop(top);
            let u = within("unmount", move || {
                let u = fs.unmount().map_err(|e| e.to_string());
                drop(fs);
                u
            });
            eprintln!("lazytime {lazytime} fail after {when}: {r:?} unmount {u:?}");
        }
    }
}
fn set(plan: &FaultPlan, when: u64) {
    plan.add(match when {
        0..=5 => FaultRule::new(FaultCall::Write).from_nth(1 + when * 17),
        6..=8 => FaultRule::new(FaultCall::Flush).from_nth(1 + (when - 6) * 5),
        9 => FaultRule::new(FaultCall::Read),
        10..=11 => FaultRule::new(FaultCall::Write).nth(when * 20),
        _ => FaultRule::new(FaultCall::Flush).nth(when),
    });
}
