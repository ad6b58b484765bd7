use super::*;
use crate::fixture::*;
use crate::options::MountOptions;
use uext4_block::{BlockOp, RangeDevice};
use uext4_check::{CheckOptions, NoProgress};
use uext4_vfs::filesystem::FileSystem;

const OLD: u64 = 20 << 10;
const NEW: u64 = 60 << 10;

fn check(device: &Arc<TestDevice>) {
    let report = uext4_check::check(&**device, &CheckOptions::default(), &NoProgress);
    let report = report.expect("a report");
    assert!(report.is_clean(), "{:?}", report.faults);
}

fn refused(fs: &Ext4, blocks: u64) -> Errno {
    let before = *fs.volume.geometry();
    let why = fs.grow(blocks).expect_err("refused");
    assert_eq!(*fs.volume.geometry(), before);
    why.errno()
}

#[test]
fn new_blocks_and_inodes_are_used() {
    let device = image_as(OLD << 10, "", |options| options.inodes = Some(300));
    let fs = mount(&device);
    assert_eq!(fs.grow(NEW).expect("grow"), NEW);
    let inodes = fs.volume.geometry().inodes_count;
    assert!(inodes > 700 && fs.statfs().expect("statfs").inodes == u64::from(inodes));
    let mut highest = Ino(0);
    for number in 0..inodes - 20 {
        highest = highest.max(file(&fs, &number.to_string()).ino);
    }
    assert!(highest.0 > 700);
    let large = file(&fs, "large");
    allocate(&fs, &large, 0..OLD + 5000);
    drop(large);
    fs.unmount().expect("unmount");
    check(&device);
}

#[test]
fn what_was_borrowed_before_remains() {
    let device = image(OLD << 10, "");
    let fs = mount(&device);
    let (geometry, groups) = (fs.volume.geometry(), fs.volume.groups());
    for blocks in [OLD + 1, OLD + 2, NEW] {
        fs.grow(blocks).expect("grow");
    }
    assert_eq!(geometry.blocks_count, OLD);
    let now = fs.volume.groups();
    assert!(groups.len() < now.len());
    for (before, after) in groups.iter().zip(now) {
        assert!(Arc::ptr_eq(before, after));
    }
    fs.unmount().expect("unmount");
    check(&device);
}

#[test]
fn damage_and_read_only_mounts_are_refused() {
    let device = image(OLD << 10, "");
    let fs = mount_as(&device, |o| o.errors = Some(ErrorsBehaviour::Continue));
    let _ = fs.volume.report::<()>(Err(CorruptKind::BlockRange.into()));
    assert_eq!(refused(&fs, NEW), Errno::EUCLEAN);
    fs.unmount().expect("unmount");
    let fs = mount_as(&device, |o| o.read_only = true);
    assert_eq!(refused(&fs, NEW), Errno::EROFS);
}

#[test]
fn a_device_of_a_fixed_size_must_be_long_enough() {
    let device = image(OLD << 10, "");
    let range = RangeDevice::new(Arc::clone(&device) as Arc<dyn BlockDevice>, 0, None);
    let range = Arc::new(range.expect("a range"));
    let fs = Ext4::mount(range, MountOptions::default()).expect("mount");
    assert_eq!(refused(&fs, NEW), Errno::EINVAL);
    fs.unmount().expect("unmount");
    drop(fs);
    device.set_len(NEW << 10).expect("longer");
    let range = RangeDevice::new(Arc::clone(&device) as Arc<dyn BlockDevice>, 0, None);
    let range = Arc::new(range.expect("a range"));
    let fs = Ext4::mount(range, MountOptions::default()).expect("mount");
    assert_eq!(fs.grow(NEW).expect("grow"), NEW);
    fs.unmount().expect("unmount");
    check(&device);
}

#[test]
fn a_size_without_room_for_descriptors_is_refused() {
    let device = image(OLD << 10, "^resize_inode");
    let fs = mount(&device);
    assert_eq!(refused(&fs, 200 << 10), Errno::EOPNOTSUPP);
    fs.unmount().expect("unmount");
    check(&device);
}

#[test]
fn only_one_grows_at_a_time() {
    let device = image(OLD << 10, "");
    let fs = mount(&device);
    let growth = fs.volume.generations.begin_growth().expect("the first");
    assert_eq!(refused(&fs, NEW), Errno::EBUSY);
    drop(growth);
    fs.freeze().expect("freeze");
    assert_eq!(refused(&fs, NEW), Errno::EBUSY);
    fs.thaw().expect("thaw");
    fs.grow(NEW).expect("grow");
}

/// Calls fail in turn: an error, and after a remount the old size or the new one.
#[test]
fn a_device_call_that_fails_leaves_the_old_size_or_the_new() {
    for features in ["", "^resize_inode,meta_bg", "^has_journal,^orphan_file"] {
        for op in [BlockOp::Write, BlockOp::Zero, BlockOp::Flush, BlockOp::Read] {
            let mut failures = 0;
            for before in 0.. {
                let device = image(OLD << 10, features);
                let fs = mount(&device);
                allocate(&fs, &file(&fs, "kept"), 0..100);
                fs.sync().expect("sync");
                device.fail_after(op, before);
                let grown = fs.grow(200 << 10);
                let was_reached = device.work();
                match grown {
                    Ok(_) if !was_reached => break,
                    // Backups are not worth an error.
                    Ok(_) => {}
                    Err(why) => {
                        assert_eq!(why.errno(), Errno::EIO, "{features} {op:?} {before}");
                        failures += 1;
                    }
                }
                let is_aborted = fs.volume.journal().is_aborted();
                let blocks = fs.volume.geometry().blocks_count;
                match is_aborted {
                    true => fs.crash(),
                    false => fs.unmount().expect("unmount"),
                }
                drop(fs);
                if is_aborted && features.contains("^has_journal") {
                    continue;
                }
                let fs = mount(&device);
                let now = fs.volume.geometry().blocks_count;
                assert!(now == blocks || (is_aborted && now == 200 << 10));
                let root = fs.namei.root().expect("root").clone();
                drop(fs.lookup(&Caller::root(), &root, b"kept").expect("kept"));
                drop(root);
                fs.unmount().expect("unmount");
                check(&device);
            }
            assert!(failures > 0 || op == BlockOp::Read, "{features} {op:?}");
        }
    }
}
