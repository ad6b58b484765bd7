//! What is free can't be known: that is not a full file system.

use super::device;
use uext4_testkit::prelude::*;

#[test]
fn bitmaps_that_cannot_be_read_are_no_lack_of_space() {
    let plan = FaultPlan::new();
    let faulty = FaultDevice::new(device(), plan.clone());
    let fs = Ext4::mount(Arc::new(faulty), MountOptions::default()).expect("mount");
    let root = fs.top();
    let file = fs.make(&root, b"file", &FILE);
    plan.add(FaultRule::new(FaultCall::Read));
    let written = fs.files.write(&file, 0, &[7; 4096], false).map(|_| ());
    assert_eq!(written.expect_err("where to?").errno(), Errno::EIO);
    plan.clear();
    fs.files
        .write(&file, 0, &[7; 4096], false)
        .expect("they can be read again");
    drop((file, root));
    fs.unmount().expect("unmount");
}
