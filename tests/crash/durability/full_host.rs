//! A checkpoint that finds the host full: the log keeps what was committed, until there is space.

use super::{SIZE, device, mount};
use uext4_testkit::device::FaultErrno;
use uext4_testkit::prelude::*;

#[test]
fn what_was_committed_stays_in_the_log_until_the_host_has_space() {
    for ends_well in [true, false] {
        let me = Caller::root();
        let memory = device();
        let plan = FaultPlan::new();
        let faulty = FaultDevice::new(Arc::clone(&memory), plan.clone());
        let fs = Ext4::mount(Arc::new(faulty), MountOptions::default()).expect("mount");
        let root = fs.top();
        let file = fs.make(&root, b"file", &FILE);
        let journal = fs.inodes.get_inode(Ino::JOURNAL).expect("the journal");
        let journal = fs.mapping.extents(&journal).expect("its extents");
        let [log] = journal[..] else {
            panic!("a journal in one piece")
        };
        let start = log.pblk.0 * 4096;
        let end = start + u64::from(log.len) * 4096;
        for range in [0..start, end..SIZE] {
            let rule = FaultRule::new(FaultCall::Write).within(range);
            plan.add(rule.errno(FaultErrno::NoSpace));
        }
        let create = |i: u32| {
            fs.namei
                .create(&me, &root, format!("{i}").as_bytes(), &FILE)
        };
        let mut synced = 0;
        let refused = loop {
            match create(synced) {
                Ok(_) => synced += 1,
                Err(why) => break why.errno(),
            }
            fs.sync().expect("the log has room for what was accepted");
            assert!(synced < 10_000, "the log never ran full");
        };
        assert_eq!(refused, Errno::ENOSPC);
        // A CPU that the thread has moved to may have room in the log that it reserved before.
        let mut made: Vec<u32> = (0..synced).collect();
        for i in synced..synced + 100 {
            match create(i) {
                Ok(_) => made.push(i),
                Err(why) => assert_eq!(why.errno(), Errno::ENOSPC),
            }
        }
        assert!(made.len() < synced as usize + 50, "the host is full");
        let flags = fs.files.flags(&file) | InodeFlags::JOURNAL_DATA;
        let emptied = fs
            .files
            .set_flags(&me, &file, flags)
            .expect_err("needs an empty log");
        assert_eq!(emptied.errno(), Errno::ENOSPC);
        fs.sync().expect("the journal is alive");
        if ends_well {
            plan.clear();
            create(u32::MAX).expect("there is space again");
        }
        drop((file, root));
        assert_eq!(fs.unmount().is_ok(), ends_well);
        drop(fs);
        // What was synced is in place, or in the log for the next mount.
        let fs = mount(&memory);
        let root = fs.top();
        for i in made {
            let found = fs.namei.lookup(&me, &root, format!("{i}").as_bytes());
            assert!(found.is_ok(), "{i}, {synced} before the first was refused");
        }
        drop(root);
        fs.unmount().expect("unmount");
        oracle::check(&*memory).expect("clean");
    }
}
