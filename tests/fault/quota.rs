//! Quotas on a device that fails: what recovery finds of usage is what the inodes add up to.
use uext4_testkit::prelude::*;

fn work(fs: &Ext4) -> uext4_vfs::errno::Result<()> {
    let top = fs.top();
    let root = Caller::root();
    for id in 0..20u32 {
        let name = format!("f{id}");
        let file = fs.create(&root, &top, name.as_bytes(), &FILE)?;
        fs.write(&file, 0, &vec![1; 5000 * id as usize + 1])?;
        let owner = uext4_vfs::attr::SetAttr {
            uid: Some(id * 77),
            gid: Some(id + 500),
            ..Default::default()
        };
        fs.setattr(&root, &file, &owner)?;
        if id % 5 == 4 {
            fs.syncfs()?;
        }
        if id % 3 == 2 {
            fs.unlink(&root, &top, name.as_bytes())?;
        }
    }
    fs.unmount()
        .map_err(|why| fs.volume.report::<()>(Err(why)).expect_err("it failed"))
}

/// Runs the work with one call of a kind failing; whether it was made.
fn fails_at(call: FaultCall, number: u64, image: &[u8]) -> Result<bool> {
    let device = Arc::new(MemoryDevice::from_bytes(image));
    let plan = FaultPlan::new();
    let faulty = Arc::new(FaultDevice::new(Arc::clone(&device), plan.clone()));
    plan.add(FaultRule::new(call).nth(number));
    let mounted = Ext4::mount(faulty, MountOptions::default());
    if let Ok(fs) = mounted {
        let _ = work(&fs);
        fs.crash();
    }
    let failed = plan.failed() > 0;
    let fs = Ext4::mount(Arc::clone(&device) as Arc<_>, MountOptions::default())?;
    ensure!(!fs.volume.is_read_only(), "the quota files are damaged");
    fs.unmount()?;
    drop(fs);
    oracle::check(&*device)?;
    if number.is_multiple_of(16) {
        oracle::fsck_device(&device)?;
    }
    Ok(failed)
}

#[test]
fn usage_is_right_after_a_device_failed() {
    let made = image("32M", "-O quota,project -I 256 -b 4096 -J size=4");
    let image = std::fs::read(&made).expect("reads");
    for (call, step) in [(FaultCall::Write, 3), (FaultCall::Flush, 1)] {
        let mut failed = 0;
        for number in (1..200).step_by(step) {
            match fails_at(call, number, &image) {
                Ok(true) => failed += 1,
                Ok(false) => break,
                Err(why) => panic!("{call:?} {number}: {why:#}"),
            }
        }
        assert!(failed > 5, "{call:?}: {failed}");
    }
}
