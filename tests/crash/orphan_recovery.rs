//! Power lost while orphans are recovered.
use uext4_testkit::prelude::*;

fn make(features: &str, inodes: u32, bytes: u64) -> MemoryDevice {
    let device = MemoryDevice::new(bytes);
    let o = MkfsOptions {
        size: Some(bytes),
        block_size: 1024,
        journal_size: Some(1 << 20),
        inodes: Some(inodes),
        features: FeatureSet::parse(features).unwrap(),
        reserved_percent: Some(0.0),
        threads: 1,
        ..MkfsOptions::default()
    };
    uext4_build::mkfs(&device, &o, &NoProgress).unwrap();
    device
}

#[test]
fn crash_while_orphans_are_recovered() {
    let mut bad = std::collections::BTreeMap::new();
    for features in ["^orphan_file", ""] {
        let device = Arc::new(make(features, 3000, 64 << 20));
        let fs = Ext4::mount(
            Arc::clone(&device) as Arc<dyn BlockDevice>,
            MountOptions::default(),
        )
        .unwrap();
        let top = fs.top();
        let mut held = vec![];
        for i in 0..1500 {
            let f = fs.namei.tmpfile(&Caller::root(), &top, 0o600).unwrap();
            fs.put(&f, 0, &[i as u8; 3000]);
            held.push(f);
        }
        fs.sync().unwrap();
        fs.crash();
        drop(held);
        drop(top);
        drop(fs);
        let rec = Arc::new(RecordDevice::new((*device).clone()).unwrap());
        let fs = Ext4::mount(
            Arc::clone(&rec) as Arc<dyn BlockDevice>,
            MountOptions {
                commit_interval: Duration::from_millis(
                    std::env::var("CI")
                        .ok()
                        .and_then(|s| s.parse().ok())
                        .unwrap_or(1),
                ),
                ..MountOptions::default()
            },
        )
        .unwrap();
        fs.unmount().unwrap();
        drop(fs);
        let log = rec.log();
        let end = Arc::new(log.replay(&Cut::at(log.ops.len())));
        match oracle::check(&*end) {
            Ok(_) => (),
            Err(e) => {
                bad.insert(format!("{features}: end {e:#}"), 1);
            }
        }
        let mut r = fastrand::Rng::with_seed(5);
        let mut rep = log.replayer();
        let mut n = 0;
        let step = (log.ops.len() / 120).max(1);
        for at in (0..=log.ops.len()).step_by(step) {
            let img = Arc::new(rep.image_at(&Cut::at(at).seeded(r.u64(..))));
            n += 1;
            match Ext4::mount(
                Arc::clone(&img) as Arc<dyn BlockDevice>,
                MountOptions::default(),
            ) {
                Err(e) => {
                    *bad.entry(format!("{features}: mount {e}").chars().take(120).collect())
                        .or_insert(0) += 1;
                }
                Ok(fs) => {
                    fs.unmount().unwrap();
                    drop(fs);
                    if let Err(e) = oracle::check(&*img) {
                        *bad.entry(
                            format!("{features}: check {e:#}")
                                .chars()
                                .take(200)
                                .collect(),
                        )
                        .or_insert(0) += 1;
                    }
                }
            }
        }
        eprintln!("{features}: {n} cuts of {}", log.ops.len());
    }
    assert!(bad.is_empty(), "{bad:#?}");
}
