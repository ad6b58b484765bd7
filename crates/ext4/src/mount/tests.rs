use super::*;
use crate::fixture::*;
use crate::inode::reference::InodeRef;
use crate::options::DataMode;
use std::time::Instant;
use uext4_block::BlockOp;
use uext4_ondisk::{STATE_CLEAN, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use uext4_vfs::filesystem::FileSystem;

/// No block has a checksum.
const PLAIN: &str = "^metadata_csum,^metadata_csum_seed,^orphan_file";

fn superblock(device: &Arc<TestDevice>) -> Superblock {
    read_superblock(&**device).expect("a superblock")
}

/// Changes the superblock of an image without checksums.
fn change_superblock(device: &TestDevice, change: impl FnOnce(&mut uext4_ondisk::RawSuperblock)) {
    device.change(SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, |bytes| {
        crate::superblock::with_superblock(bytes, 0, change);
    });
}

#[test]
fn an_image_is_as_long_as_it_says() {
    for (bytes, fits) in [((8 << 20) - 1024, false), (8 << 20, true), (9 << 20, true)] {
        let device = image(8 << 20, "");
        device.set_len(bytes).expect("a length");
        let mounted = try_mount(&device, |_| {}).map(drop);
        match fits {
            true => mounted.expect("mount"),
            false => assert!(matches!(mounted, Err(Ext4Error::Format(_))), "{mounted:?}"),
        }
    }
}

/// Changes the root of the journal's extents in an image without checksums.
fn change_journal_map(
    device: &Arc<TestDevice>,
    change: impl FnOnce(&Ext4, &[Extent], &mut [u8; 60]),
) {
    let fs = mount(device);
    let journal = fs.inodes.get_inode(Ino(8)).expect("the journal");
    let extents = fs.mapping.extents(&journal).expect("extents");
    let mut root = journal.state().i_block;
    let place = fs.table.inode_place(journal.ino, false).expect("a place");
    change(&fs, &extents, &mut root);
    let offset = place.buffer.block() * 1024 + place.offset as u64 + 40;
    drop(journal);
    fs.unmount().expect("unmount");
    device.change(offset, 60, |bytes| bytes.copy_from_slice(&root));
}

/// Replaces the mapping of the journal by two runs: all but its last block, and one block elsewhere.
fn move_end_of_journal(device: &Arc<TestDevice>, to: impl FnOnce(&Ext4, Extent) -> Pblk) {
    change_journal_map(device, |fs, extents, root| {
        let mut last = *extents.last().expect("an extent");
        last.len -= 1;
        let moved = Extent {
            lblk: Lblk(last.lblk.0 + u32::from(last.len)),
            len: 1,
            pblk: to(fs, extents[0]),
            unwritten: false,
        };
        let mut node = ExtentNodeMut::new(root);
        node.set_extent(extents.len() - 1, last);
        node.insert_extent_at(extents.len(), moved).expect("room");
    });
}

#[test]
fn a_journal_with_a_damaged_map_is_refused() {
    let device = image(8 << 20, PLAIN);
    change_journal_map(&device, |_, _, root| root[0] ^= 1);
    let mounted = try_mount(&device, |_| {}).map(drop);
    let Err(Ext4Error::Corrupt(why)) = mounted else {
        panic!("{mounted:?}");
    };
    assert_eq!(
        (why.kind, why.ino),
        (CorruptKind::ExtentMagic, Some(Ino(8)))
    );
}

#[test]
fn a_journal_with_a_block_twice_is_refused() {
    let device = image(8 << 20, PLAIN);
    move_end_of_journal(&device, |_, first| first.pblk);
    let mounted = try_mount(&device, |_| {}).map(drop);
    assert!(matches!(mounted, Err(Ext4Error::Corrupt(_))), "{mounted:?}");
}

#[test]
fn a_journal_over_an_inode_table_is_refused() {
    let device = image(8 << 20, PLAIN);
    move_end_of_journal(&device, |fs, _| {
        let group = fs.volume.group(GroupNo(0)).expect("a group");
        group.inode_table()
    });
    let mounted = try_mount(&device, |_| {}).map(drop);
    assert!(matches!(mounted, Err(Ext4Error::Corrupt(_))), "{mounted:?}");
}

#[test]
fn a_log_that_is_not_needed_is_emptied_or_the_mount_fails() {
    let device = image(8 << 20, PLAIN);
    let fs = mount(&device);
    file(&fs, "f");
    fs.volume.journal().sync().expect("sync");
    let journal = fs.inodes.get_inode(Ino(8)).expect("the journal");
    let first = fs.mapping.extents(&journal).expect("extents")[0].pblk.0 << 10;
    drop(journal);
    fs.crash();
    drop(fs);
    change_superblock(&device, |raw| {
        raw.set_features(
            raw.compat(),
            raw.incompat() - Incompat::RECOVER,
            raw.ro_compat(),
        );
    });
    device.fail_once(BlockOp::Write, first..first + 1024, Errno::EIO);
    let mounted = try_mount(&device, |_| {}).map(drop);
    assert_eq!(mounted.expect_err("refused").errno(), Errno::EIO);
    mount(&device).unmount().expect("unmount");
}

#[test]
fn clean_blocks_in_memory_are_limited() {
    let device = image(8 << 20, "");
    let fs = mount_as(&device, |options| options.cache_bytes = 64 << 10);
    for block in 0..8192 {
        fs.volume.cache().get(block).expect("read");
    }
    let kept = fs.volume.cache().len();
    assert!(kept < 4096, "{kept} blocks are kept");
}

#[test]
fn an_image_without_a_journal_is_clean_unless_it_is_mounted() {
    let device = image(8 << 20, "^has_journal,^orphan_file");
    let state = || superblock(&device).raw.state.get();
    let before = state();
    assert_ne!(before & STATE_CLEAN, 0);
    let fs = mount(&device);
    assert_eq!(state(), before & !STATE_CLEAN);
    fs.unmount().expect("unmount");
    assert_eq!(state(), before);
}

#[test]
fn the_superblock_says_what_becomes_of_data() {
    const ELSE: u32 = 0x0c;
    for (bits, wanted) in [
        (0, DataMode::Ordered),
        (ELSE, DataMode::Ordered),
        (0x20 | ELSE, DataMode::Journal),
        (0x40 | ELSE, DataMode::Ordered),
        (0x60 | ELSE, DataMode::Writeback),
    ] {
        let device = image(8 << 20, PLAIN);
        change_superblock(&device, |raw| raw.default_mount_opts = bits.into());
        assert_eq!(mount(&device).volume.data(), wanted, "{bits:x}");
    }
}

/// Makes a file of ten blocks, deletes it, and returns what was discarded once that was durable.
fn discarded(fs: &Ext4, device: &TestDevice) -> Vec<(u64, u64)> {
    let node = file(fs, "f");
    allocate(fs, &node, 0..10);
    let first = fs.mapping.extents(&node).expect("extents")[0].pblk.0;
    drop(node);
    let root = fs.namei.root().expect("root").clone();
    let removed = fs.namei.unlink(&Caller::root(), &root, b"f");
    removed.expect("unlink");
    device.take_calls(BlockOp::Discard);
    fs.sync().expect("sync");
    let blocks = |(from, to)| ((from >> 10) - first, (to >> 10) - first);
    let runs = device.take_calls(BlockOp::Discard);
    runs.into_iter().map(blocks).collect()
}

#[test]
fn freed_blocks_are_discarded_while_the_option_is_set() {
    let device = image(8 << 20, "");
    let fs = mount(&device);
    let remount = |discard| {
        let wanted = MountOptions {
            discard,
            ..fs.volume.options.clone()
        };
        fs.remount(&wanted).expect("remount");
    };
    assert_eq!(discarded(&fs, &device), []);
    remount(true);
    assert_eq!(discarded(&fs, &device), [(0, 10)]);
    remount(false);
    assert_eq!(discarded(&fs, &device), []);
}

#[test]
fn runs_that_touch_are_discarded_at_once() {
    let device = image(8 << 20, "");
    let fs = mount(&device);
    device.take_calls(BlockOp::Discard);
    // Of blocks that nothing uses.
    let freed = [(6110, 10), (6100, 10), (6130, 5)];
    fs.blocks.discard_freed(&freed);
    let wanted = [(6100 << 10, 6120 << 10), (6130 << 10, 6135 << 10)];
    assert_eq!(device.take_calls(BlockOp::Discard), wanted);
}

#[test]
fn old_timestamps_are_written_after_a_remount_with_lazytime() {
    let device = image(8 << 20, "");
    let fs = mount_as(&device, |options| {
        options.lazytime_max_age = Duration::from_millis(1);
    });
    let wanted = MountOptions {
        lazytime: true,
        ..fs.volume.options.clone()
    };
    fs.remount(&wanted).expect("remount");
    let node: InodeRef = file(&fs, "f");
    let changed = fs
        .table
        .change_times(&node, |disk| disk.mtime = Timestamp::new(1, 0));
    changed.expect("a change");
    let begun = Instant::now();
    while fs.table.has_pending_times(&node) {
        assert!(begun.elapsed() < Duration::from_secs(20), "never written");
        std::thread::yield_now();
    }
}

#[test]
fn a_mount_for_reading_writes_nothing() {
    let device = image(8 << 20, "");
    device.fail(BlockOp::Write, 0..u64::MAX, Errno::EIO);
    let fs = mount_as(&device, |options| options.read_only = true);
    assert!(!fs.volume.journal().has_log());
    let made = fs
        .volume
        .with_handle(1, |handle| Ok(handle.access(&fs.volume.super_buffer)?));
    made.expect("in memory");
    fs.unmount().expect("unmount");
}

#[test]
fn the_mark_of_an_image_that_is_not_clean_stays() {
    // Errors are on record, and there is no journal to recover from them.
    let device = image(
        8 << 20,
        "^has_journal,^metadata_csum,^metadata_csum_seed,^orphan_file",
    );
    change_superblock(&device, |raw| raw.error_count = 1.into());
    mount(&device).unmount().expect("unmount");
    assert_eq!(superblock(&device).raw.state.get() & STATE_CLEAN, 0);
    // With a journal it is not for a mount to set it.
    let device = image(8 << 20, PLAIN);
    change_superblock(&device, |raw| raw.state = 0.into());
    mount(&device).unmount().expect("unmount");
    assert_eq!(superblock(&device).raw.state.get() & STATE_CLEAN, 0);
}

#[test]
fn an_unmount_counts_what_is_free() {
    let (fs, device) = small_fs();
    let before = superblock(&device).raw;
    let node = file(&fs, "f");
    allocate(&fs, &node, 0..10);
    drop(node);
    fs.unmount().expect("unmount");
    let after = superblock(&device).raw;
    assert_eq!(after.free_blocks_count(), before.free_blocks_count() - 10);
    assert_eq!(
        after.free_inodes_count.get(),
        before.free_inodes_count.get() - 1
    );
}

#[test]
fn a_mount_that_became_read_only_still_syncs_what_was_done() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    let tid = node.sync_tid(false);
    assert!(!fs.volume.journal().is_committed(tid));
    fs.volume.set_read_only();
    fs.sync().expect("sync");
    assert!(fs.volume.journal().is_committed(tid));
}

#[test]
fn a_log_without_space_on_the_host_is_not_mounted() {
    let device = image(8 << 20, "");
    device.fail(BlockOp::Allocate, 0..u64::MAX, Errno::ENOSPC);
    let mounted = try_mount(&device, |_| {}).map(drop);
    assert_eq!(mounted.expect_err("refused").errno(), Errno::ENOSPC);
    mount_as(&device, |options| options.read_only = true);
}

#[test]
fn a_damaged_descriptor_is_found_when_mounting() {
    let device = image(8 << 20, "");
    // After the block of the superblock; the count of directories.
    device.change(2048, 64, |bytes| bytes[16] ^= 1);
    let mounted = try_mount(&device, |_| {}).map(drop);
    assert!(matches!(mounted, Err(Ext4Error::Corrupt(_))), "{mounted:?}");
}

/// Remounts for reading or for writing.
fn remounted_as(fs: &Ext4, read_only: bool) -> Result<()> {
    let wanted = MountOptions {
        read_only,
        ..fs.volume.options.clone()
    };
    fs.remount(&wanted)
}

#[test]
fn a_file_without_a_name_is_no_reason_against_other_options() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    let root = fs.namei.root().expect("root").clone();
    let removed = fs.namei.unlink(&Caller::root(), &root, b"f");
    removed.expect("unlink");
    let remount = |read_only| {
        let wanted = MountOptions {
            read_only,
            nodiratime: true,
            ..fs.volume.options.clone()
        };
        fs.remount(&wanted)
    };
    remount(false).expect("another option");
    let refused = remount(true);
    assert!(matches!(refused, Err(Ext4Error::Busy(_))), "{refused:?}");
    drop(node);
    remount(true).expect("no such file any more");
}

#[test]
fn reading_a_directory_changes_its_access_time_unless_an_option_forbids_it() {
    for nodiratime in [false, true] {
        let device = image(8 << 20, "");
        let fs = mount_as(&device, |options| {
            options.atime = crate::options::AtimeUpdate::Strict;
            options.nodiratime = nodiratime;
        });
        let root = fs.namei.root().expect("root").clone();
        let old = fs
            .table
            .change_times(&root, |disk| disk.atime = Timestamp::new(1, 0));
        old.expect("a change");
        fs.readdir(&Caller::root(), &root, 0, &mut |_| true)
            .expect("read");
        let is_old = root.state().atime == Timestamp::new(1, 0);
        assert_eq!(is_old, nodiratime);
    }
}

#[test]
fn features_that_the_log_brings_are_checked() {
    let (fs, device) = small_fs();
    let unknown = Incompat::from_bits_retain(0x800);
    let changed = fs.volume.with_handle(1, |handle| {
        fs.volume.change_superblock(handle, |raw| {
            raw.set_features(raw.compat(), raw.incompat() | unknown, raw.ro_compat());
        })
    });
    changed.expect("a change");
    fs.volume.journal().sync().expect("sync");
    fs.crash();
    drop(fs);
    assert!(
        !superblock(&device).incompat.contains(unknown),
        "in the log only"
    );
    let mounted = try_mount(&device, |_| {}).map(drop);
    assert!(matches!(mounted, Err(Ext4Error::Format(_))), "{mounted:?}");
}

#[test]
fn a_descriptor_that_points_past_the_end_is_damage() {
    let without_journal = format!("^has_journal,{PLAIN}");
    for features in [PLAIN, &without_journal] {
        let device = image(8 << 20, features);
        // The block of the inode table.
        device.change(2048, 64, |bytes| bytes[8..12].fill(0x7f));
        let mounted = try_mount(&device, |_| {}).map(drop);
        let kind = match &mounted {
            Err(Ext4Error::Corrupt(why)) => Some(why.kind),
            _ => None,
        };
        let wanted = CorruptKind::GroupDescInodeTable;
        assert_eq!(kind, Some(wanted), "{mounted:?}");
    }
}

#[test]
fn an_unmount_waits_for_writers() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    let (done, unmounted) = std::sync::mpsc::channel();
    let writing = ilock(&node.ilock, LockMode::Exclusive);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            fs.unmount().expect("unmount");
            done.send(()).expect("a receiver");
        });
        let early = unmounted.recv_timeout(Duration::from_millis(50));
        assert!(early.is_err(), "a write is under way");
        drop(writing);
        unmounted.recv().expect("a sender");
    });
}

#[test]
fn damage_is_counted_in_the_superblock() {
    let device = image(8 << 20, PLAIN);
    let fs = mount_as(&device, |options| {
        options.errors = Some(ErrorsBehaviour::Continue);
    });
    for place in [100, 200, 300] {
        let why = Corrupt::new(CorruptKind::BlockRange).pblk(Pblk(place));
        let reported = fs.volume.report::<()>(Err(why.into()));
        assert_eq!(reported.expect_err("damage").errno(), Errno::EUCLEAN);
    }
    let missing = fs.volume.report::<()>(Err(Ext4Error::NotFound));
    assert_eq!(missing.expect_err("an answer").errno(), Errno::ENOENT);
    fs.unmount().expect("unmount");
    assert_eq!(superblock(&device).raw.error_count.get(), 3);
}

#[test]
fn the_first_revision_becomes_the_second_with_its_first_feature() {
    let (fs, _device) = small_fs();
    let (_, at) = superblock_place(1024);
    let raw = |work: &dyn Fn(&mut uext4_ondisk::RawSuperblock)| {
        let changed = fs.volume.with_handle(1, |handle| {
            let mut content = handle.modify(&fs.volume.super_buffer)?;
            crate::superblock::with_superblock(content.data_mut(), at, |raw| work(raw));
            Ok(())
        });
        changed.expect("a change");
    };
    let add = || {
        let added = fs.volume.with_handle(1, |handle| {
            let features = (Compat::empty(), RoCompat::LARGE_FILE);
            fs.volume.add_features(handle, features.0, features.1)
        });
        added.expect("a change");
    };
    raw(&|raw| {
        raw.rev_level = 0.into();
        raw.first_ino = 0.into();
        raw.inode_size = 0.into();
    });
    add();
    raw(&|raw| {
        assert_eq!(raw.rev_level.get(), 1);
        assert_eq!((raw.first_ino.get(), raw.inode_size.get()), (11, 256));
        assert!(raw.ro_compat().contains(RoCompat::LARGE_FILE));
        raw.first_ino = 15.into();
    });
    add();
    raw(&|raw| {
        assert_eq!(raw.first_ino.get(), 15, "its own value stays");
        assert!(raw.compat().contains(Compat::HAS_JOURNAL));
        assert!(raw.ro_compat().contains(RoCompat::METADATA_CSUM));
    });
    fs.crash();
}

#[test]
fn a_mount_for_reading_has_nothing_to_sync_and_becomes_none() {
    let device = image(8 << 20, "");
    let fs = mount_as(&device, |options| options.read_only = true);
    device.fail(BlockOp::Flush, 0..u64::MAX, Errno::EIO);
    fs.sync().expect("nothing is flushed");
    device.work();
    drop(fs);
    let fs = mount(&device);
    let remounted = |read_only| remounted_as(&fs, read_only);
    remounted(true).expect("for reading");
    device.fail(BlockOp::Flush, 0..u64::MAX, Errno::EIO);
    fs.sync().expect("nothing is flushed");
    device.work();
    remounted(false).expect("for writing");
    file(&fs, "f");
    fs.unmount().expect("unmount");
}

#[test]
fn a_mount_for_reading_records_no_damage() {
    let device = image(8 << 20, "");
    let fs = mount_as(&device, |options| options.read_only = true);
    let before = superblock(&device).raw.error_count.get();
    let damage = Ext4Error::from(Corrupt::new(CorruptKind::BlockRange));
    let reported = fs.volume.report::<()>(Err(damage));
    assert_eq!(reported.expect_err("damage").errno(), Errno::EUCLEAN);
    drop(fs);
    assert_eq!(superblock(&device).raw.error_count.get(), before);
}

#[test]
fn a_mount_is_marked_in_the_superblock_or_fails() {
    let (fs, device) = small_fs();
    fs.unmount().expect("unmount");
    drop(fs);
    device.fail_once(BlockOp::Write, SUPERBLOCK_OFFSET..2048, Errno::EIO);
    let mounted = try_mount(&device, |_| {}).map(drop);
    assert_eq!(mounted.expect_err("refused").errno(), Errno::EIO);
}

#[test]
fn a_remount_for_writing_is_marked_in_the_superblock_or_fails() {
    let fails = |features: &str, fault: fn(&Ext4, &TestDevice)| {
        let device = image(8 << 20, features);
        let fs = mount(&device);
        let remount = |read_only| remounted_as(&fs, read_only);
        remount(true).expect("for reading");
        fault(&fs, &device);
        let remounted = remount(false);
        assert_eq!(remounted.expect_err("refused").errno(), Errno::EIO);
        assert!(fs.volume.is_read_only() && !fs.volume.is_mounted());
    };
    for features in ["", "^has_journal"] {
        fails(features, |fs, _| abort(fs));
        fails(features, |_, device| {
            device.fail_once(BlockOp::Write, SUPERBLOCK_OFFSET..2048, Errno::EIO);
        });
    }
}

#[test]
fn what_an_aborted_journal_lost_is_not_durable_after_the_unmount() {
    let (fs, _device) = small_fs();
    file(&fs, "f");
    abort(&fs);
    assert_eq!(fs.unmount().expect_err("lost").errno(), Errno::EIO);
    assert_eq!(fs.sync().expect_err("lost").errno(), Errno::EIO);
}

#[test]
fn an_unknown_feature_is_refused() {
    let device = image(8 << 20, PLAIN);
    change_superblock(&device, |raw| {
        let incompat = raw.incompat() | Incompat::from_bits_retain(0x800);
        raw.set_features(raw.compat(), incompat, raw.ro_compat());
    });
    let mounted = try_mount(&device, |_| {}).map(drop);
    assert!(matches!(mounted, Err(Ext4Error::Format(_))), "{mounted:?}");
    // One that concerns writers only makes the mount one for reading.
    let device = image(8 << 20, PLAIN);
    change_superblock(&device, |raw| {
        let ro_compat = raw.ro_compat() | RoCompat::from_bits_retain(0x80);
        raw.set_features(raw.compat(), raw.incompat(), ro_compat);
    });
    assert!(mount(&device).volume.is_read_only());
}

#[test]
fn what_becomes_of_data_is_asked_of_writers_only_without_a_journal() {
    let device = image(8 << 20, "^has_journal");
    for read_only in [false, true] {
        let mounted = try_mount(&device, |options| {
            options.data = Some(DataMode::Ordered);
            options.read_only = read_only;
        });
        assert_eq!(mounted.is_ok(), read_only);
    }
}

#[test]
fn a_remount_changes_what_it_can_or_fails() {
    let device = image(8 << 20, "");
    let fs = mount_as(&device, |options| options.barrier = false);
    let before = fs.volume.options.clone();
    let other = MountOptions {
        inodes_max: 7,
        ..before.clone()
    };
    let refused = fs.remount(&other);
    assert!(matches!(refused, Err(Ext4Error::Invalid(_))), "{refused:?}");
    let strict = MountOptions {
        errors: Some(ErrorsBehaviour::Panic),
        ..before.clone()
    };
    fs.remount(&strict).expect("remount");
    assert_eq!(fs.errors_behaviour(), ErrorsBehaviour::Panic);
    device.fail(BlockOp::Flush, 0..u64::MAX, Errno::EIO);
    let barrier = MountOptions {
        barrier: true,
        ..before
    };
    let failed = fs
        .remount(&barrier)
        .expect_err("what was committed is not flushed");
    assert_eq!(failed.errno(), Errno::EIO);
}

#[test]
fn pending_timestamps_are_written_when_lazytime_ends() {
    let device = image(8 << 20, "");
    let fs = mount_as(&device, |options| options.lazytime = true);
    let node: InodeRef = file(&fs, "f");
    let changed = fs
        .table
        .change_times(&node, |disk| disk.mtime = Timestamp::new(1, 0));
    changed.expect("a change");
    let remount = |lazytime, nodiratime| {
        let wanted = MountOptions {
            lazytime,
            nodiratime,
            ..fs.volume.options.clone()
        };
        fs.remount(&wanted).expect("remount");
        fs.table.has_pending_times(&node)
    };
    assert!(remount(true, true), "another option");
    assert!(!remount(false, true));
}

#[test]
fn a_log_on_a_device_for_reading_is_not_recovered() {
    let (fs, device) = small_fs();
    file(&fs, "f");
    fs.volume.journal().sync().expect("sync");
    fs.crash();
    drop(fs);
    let sb = superblock(&device);
    let device: Arc<dyn BlockDevice> = device;
    let found = find_log(&sb, &device, None, &MountOptions::default());
    let map = found.expect("read").expect("a log");
    let log = TestDevice::new(device.len());
    let mut bytes = vec![0; device.len() as usize];
    device.read_at(0, &mut bytes).expect("read");
    log.write_at(0, &bytes).expect("write");
    log.is_read_only.store(true, Ordering::Relaxed);
    let map = LogMap::new(log, 1024, map.runs().to_vec());
    let recovered = recover_log(&map, &device, &sb, false).map(drop);
    assert!(
        matches!(recovered, Err(Ext4Error::Unsupported(_))),
        "{recovered:?}"
    );
}

#[test]
fn a_file_system_that_is_dropped_is_unmounted() {
    let (fs, device) = small_fs();
    file(&fs, "f");
    assert!(superblock(&device).incompat.contains(Incompat::RECOVER));
    drop(fs);
    assert!(!superblock(&device).incompat.contains(Incompat::RECOVER));
}
