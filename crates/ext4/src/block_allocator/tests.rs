#[cfg(not(virtual_cpus))]
mod variants;

use super::search::find_run;
use super::*;
use crate::fixture::*;
use crate::fs::Ext4;
use crate::group::BlockBits;
use crate::kinds;
use std::sync::mpsc;
use uext4_block::{BlockOp, MemoryDevice};

const KIB: u64 = 1 << 10;

/// Bitmaps of 64 blocks of which those in `free` are.
fn bits_with(free: &[Range<u32>]) -> BlockBits {
    let cache = BufferCache::new(Arc::new(MemoryDevice::new(1 << 16)), 4096, 8);
    let bits = BlockBits::new(cache.get(0).expect("a block"), &[0xff; 8]);
    for run in free {
        bitmap::assign_run(&bits.busy, run.start, run.end - run.start, false);
    }
    bits
}

fn group_of(fs: &Ext4, no: u32) -> &Group {
    fs.volume.group(GroupNo(no)).expect("a group")
}

/// Takes all blocks but those of the runs.
fn leave_only(fs: &Ext4, runs: &[(u64, u32)]) {
    while fs.blocks.reserve_blocks(Pblk(0), 8192, true).is_ok() {}
    for &(pblk, len) in runs {
        let pblk = Pblk(pblk);
        fs.blocks.unreserve(Run { pblk, len });
    }
}

#[test]
fn the_first_of_the_longest_runs_is_found() {
    let bits = bits_with(&[3..7, 20..24, 40..41]);
    assert_eq!(find_run(&bits, 0, 64, 8, 1), Some((3, 4)));
    assert_eq!(find_run(&bits, 10, 64, 8, 1), Some((20, 4)));
    assert_eq!(find_run(&bits, 0, 64, 8, 4), Some((3, 4)), "just as many");
    assert_eq!(find_run(&bits, 0, 64, 8, 5), None);
    assert_eq!(
        find_run(&bits, 0, 64, 3, 1),
        Some((3, 3)),
        "no more than wanted"
    );
    assert_eq!(find_run(&bits, 30, 64, 1, 1), Some((40, 1)));
}

#[test]
fn blocks_of_the_superuser_are_left_to_it() {
    let (fs, _device) = small_fs();
    let total = || fs.blocks.free_blocks_total();
    let reserved = 8192 * 5 / 100;
    let at_first = total();
    assert_eq!(at_first, fs.volume.sb.raw.free_blocks_count());
    let mut taken = 0;
    while let Ok(run) = fs.blocks.reserve_blocks(Pblk(0), 16, false) {
        taken += u64::from(run.len);
        assert_eq!(total(), at_first - taken);
    }
    assert!(
        (reserved - 16..=reserved).contains(&total()),
        "{} are left",
        total()
    );
    while fs.blocks.reserve_blocks(Pblk(0), 16, true).is_ok() {}
    assert_eq!(total(), 0);
}

#[test]
fn a_run_begins_at_the_goal_or_is_the_longest_there_is() {
    let (fs, _device) = small_fs();
    let reserve = |goal, want| {
        let run = fs.blocks.reserve_blocks(Pblk(goal), want, true);
        run.map(|run| (run.pblk.0, run.len))
    };
    assert_eq!(reserve(6000, 3).expect("room"), (6000, 3));
    assert_eq!(reserve(5000, 8).expect("room"), (5000, 8));
    leave_only(&fs, &[(3000, 1), (4000, 2), (7000, 1)]);
    assert_eq!(reserve(6000, 8).expect("room"), (4000, 2));
    assert_eq!(reserve(6000, 1).expect("room"), (7000, 1));
    assert_eq!(reserve(6000, 1).expect("room"), (3000, 1));
    assert!(matches!(reserve(6000, 1), Err(Ext4Error::NoSpace)));
}

#[test]
fn nothing_is_allocated_in_a_group_that_is_left_alone() {
    let device = image(24 << 20, "");
    let fs = mount(&device);
    group_of(&fs, 1).damaged.store(true, Relaxed);
    let run = fs.blocks.reserve_blocks(Pblk(9000), 8, true).expect("room");
    let (no, _) = fs.volume.geometry().group_of_block(run.pblk).expect("one");
    assert_ne!(no, GroupNo(1));
}

#[test]
fn a_group_that_cannot_be_read_is_why_there_is_no_space() {
    let (fs, device) = small_fs();
    device.fail_reads_of(&fs, group_of(&fs, 0).block_bitmap());
    let failed = fs.blocks.reserve_blocks(Pblk(5000), 1, true);
    let why = failed.map(|run| run.len).expect_err("no bitmap");
    assert!(matches!(why, Ext4Error::Device(_)), "{why}");
    group_of(&fs, 0).free_blocks.store(0, Relaxed);
    let failed = fs.blocks.reserve_blocks(Pblk(5000), 1, true);
    let why = failed.map(|run| run.len).expect_err("nothing is free");
    assert!(matches!(why, Ext4Error::NoSpace), "{why}");
    fs.crash();
}

/// Marks a used block free in the bitmap of the first group, and a free one used, so that there are as many.
fn damage_bitmap(device: &Arc<TestDevice>, used: impl FnOnce(&Ext4, &Group) -> Pblk) {
    let fs = mount(device);
    let group = group_of(&fs, 0);
    let (bitmap_at, used) = (group.block_bitmap().0 * KIB, used(&fs, group));
    fs.unmount().expect("unmount");
    device.change(bitmap_at, 1024, |bytes| {
        // The first bit is that of block 1.
        let bit = used.0 as usize - 1;
        bytes[bit / 8] &= !(1 << (bit % 8));
        assert_eq!(bytes[1000], 0, "free at first");
        bytes[1000] = 1;
    });
}

#[test]
fn a_bitmap_with_free_metadata_is_damaged() {
    let places: [fn(&Group) -> Pblk; 3] = [
        |group| group.block_bitmap(),
        |group| group.inode_bitmap(),
        |group| Pblk(group.inode_table().0 + 3),
    ];
    for place in places {
        let device = image(8 << 20, "^metadata_csum,^metadata_csum_seed,^orphan_file");
        damage_bitmap(&device, |_, group| place(group));
        let fs = mount(&device);
        let why = fs.blocks.block_bits(group_of(&fs, 0)).map(drop);
        assert!(matches!(why, Err(Ext4Error::Corrupt(_))), "{why:?}");
        assert!(fs.blocks.reserve_blocks(Pblk(5000), 1, true).is_err());
        drop(fs.unmount());
        let sb = crate::superblock::read_superblock(&*device).expect("a superblock");
        assert_ne!(sb.raw.error_count.get(), 0, "not recorded");
    }
}

#[test]
fn a_bitmap_with_a_wrong_checksum_is_damaged() {
    let device = image(8 << 20, "");
    damage_bitmap(&device, |fs, _| {
        let root = fs.namei.root().expect("root").clone();
        fs.mapping.extents(&root).expect("extents")[0].pblk
    });
    let fs = mount(&device);
    let why = fs.blocks.block_bits(group_of(&fs, 0)).map(drop);
    assert!(matches!(why, Err(Ext4Error::Corrupt(_))), "{why:?}");
}

#[test]
fn a_search_without_success_reports_that_commits_fail() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    allocate(&fs, &node, 0..100);
    drop(node);
    let root = fs.namei.root().expect("root").clone();
    fs.namei
        .unlink(&Caller::root(), &root, b"f")
        .expect("unlink");
    abort(&fs);
    let found = fs
        .blocks
        .retry_no_space(|| Err::<(), _>(Ext4Error::NoSpace));
    assert!(matches!(found, Err(Ext4Error::Journal(_))), "{found:?}");
}

#[test]
fn nothing_is_allocated_or_freed_without_write_access() {
    let with = |attached: fn(&Group) -> [Option<&Arc<Buffer>>; 2],
                work: fn(&Ext4, &Handle<'_>, Run) -> Result<()>,
                is_free: bool| {
        let (fs, _device) = small_fs();
        let group = group_of(&fs, 0);
        let run = fs.blocks.reserve_blocks(Pblk(5000), 3, true).expect("room");
        if !is_free {
            fs.volume
                .with_handle(4, |handle| fs.blocks.publish_run(handle, run))
                .expect("allocated");
        }
        let attached: Vec<_> = attached(group).into_iter().flatten().collect();
        let done = on_aborted_journal(&fs, &attached, |handle| work(&fs, handle, run));
        assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
    };
    let publish =
        |fs: &Ext4, handle: &Handle<'_>, run| fs.blocks.publish_run(handle, run).map(drop);
    let claim = |fs: &Ext4, handle: &Handle<'_>, _: Run| {
        let before = fs.blocks.free_blocks_total();
        let claimed = fs.blocks.claim_blocks(handle, Pblk(6000), 1, true);
        assert_eq!(fs.blocks.free_blocks_total(), before);
        claimed.map(drop)
    };
    let claim_this = |fs: &Ext4, handle: &Handle<'_>, _: Run| {
        let at = Run {
            pblk: Pblk(6000),
            len: 2,
        };
        fs.blocks.claim_this_run(handle, at, &mut |_, _| Ok(()))
    };
    let free = |fs: &Ext4, handle: &Handle<'_>, run| fs.blocks.free_run(handle, run);
    let free_node =
        |fs: &Ext4, handle: &Handle<'_>, run: Run| fs.blocks.free_metadata(handle, run.pblk);
    with(|group| [None, bits_buffer(group)], publish, true);
    with(|group| [Some(&group.desc_buffer), None], publish, true);
    with(|group| [Some(&group.desc_buffer), None], claim, true);
    with(|group| [None, bits_buffer(group)], claim_this, true);
    with(|group| [Some(&group.desc_buffer), None], claim_this, true);
    with(|group| [None, bits_buffer(group)], free, false);
    with(|group| [Some(&group.desc_buffer), None], free, false);
    with(
        |group| [Some(&group.desc_buffer), bits_buffer(group)],
        free_node,
        false,
    );
}

fn bits_buffer(group: &Group) -> Option<&Arc<Buffer>> {
    group.block_bits().map(|bits| &bits.buffer)
}

#[test]
fn a_block_outside_is_refused_before_anything_changes() {
    let (fs, _device) = small_fs();
    let handle = fs.volume.journal().start(8).expect("start");
    let freed = fs.blocks.free_metadata(&handle, Pblk(8192));
    assert!(matches!(freed, Err(Ext4Error::Corrupt(_))), "{freed:?}");
    drop(handle);
    assert!(!fs.volume.journal().is_aborted());
}

/// Where the runs begin and end that are discarded, and how many blocks that were said to be.
fn trimmed(
    fs: &Ext4,
    device: &TestDevice,
    range: Range<u64>,
    least: u64,
) -> (Vec<(u64, u64)>, u64) {
    device.take_calls(BlockOp::Discard);
    let len = range.end - range.start;
    let bytes = fs.blocks.trim(range.start, len, least).expect("trim");
    let runs = device.take_calls(BlockOp::Discard).into_iter();
    (
        runs.map(|(from, to)| (from / KIB, to / KIB)).collect(),
        bytes / KIB,
    )
}

#[test]
fn trimming_discards_the_free_runs_of_the_range() {
    let (fs, device) = small_fs();
    leave_only(&fs, &[(1000, 3), (2000, 10), (3000, 1), (7000, 5)]);
    let trimmed = |range, least| trimmed(&fs, &device, range, least);
    let all = vec![(1000, 1003), (2000, 2010), (3000, 3001), (7000, 7005)];
    assert_eq!(trimmed(0..8192 * KIB, 0), (all.clone(), 19));
    assert_eq!(trimmed(0..u64::MAX, KIB), (all, 19));
    let large = vec![(2000, 2010), (7000, 7005)];
    assert_eq!(trimmed(0..u64::MAX, 4 * KIB + 1), (large.clone(), 15));
    assert_eq!(trimmed(0..u64::MAX, 5 * KIB), (large, 15));
    assert_eq!(
        trimmed(2004 * KIB - 1..3000 * KIB, 0),
        (vec![(2003, 2010)], 7)
    );
    assert_eq!(
        trimmed(2004 * KIB..3001 * KIB, 0),
        (vec![(2004, 2010), (3000, 3001)], 7)
    );
    assert_eq!(trimmed(8191 * KIB..u64::MAX, 0), (vec![], 0));
    assert_eq!(trimmed(0..u64::MAX, 8192 * KIB), (vec![], 0));
}

#[test]
fn a_range_to_trim_lies_in_the_file_system() {
    let (fs, _device) = small_fs();
    let refused = |start, len, least| {
        let trimmed = fs.blocks.trim(start, len, least);
        matches!(trimmed, Err(Ext4Error::Invalid(_)))
    };
    assert!(refused(0, KIB - 1, 0));
    assert!(refused(8192 * KIB, KIB, 0));
    assert!(refused(0, u64::MAX, 8192 * KIB + 1));
    assert!(!refused(8191 * KIB, KIB, 8192 * KIB));
}

#[test]
fn trimming_reads_bitmaps_of_the_range_only() {
    let device = image(24 << 20, "");
    let fs = mount(&device);
    for no in [0, 2] {
        device.fail_reads_of(&fs, group_of(&fs, no).block_bitmap());
    }
    let (from, to) = (8193 * KIB, 16385 * KIB);
    let bytes = fs.blocks.trim(from, to - from, 0).expect("trim");
    assert_eq!(
        bytes / KIB,
        u64::from(group_of(&fs, 1).free_blocks.load(Relaxed))
    );
    assert!(fs.blocks.trim(from - KIB, to - from, 0).is_err());
}

#[test]
fn blocks_that_cannot_be_discarded_are_free_as_before() {
    let (fs, device) = small_fs();
    leave_only(&fs, &[(2000, 10)]);
    device.fail(BlockOp::Discard, 0..u64::MAX, Errno::EIO);
    let trimmed = fs.blocks.trim(0, u64::MAX, 0);
    assert!(matches!(trimmed, Err(Ext4Error::Device(_))), "{trimmed:?}");
    let run = fs.blocks.reserve_blocks(Pblk(1), 10, true).expect("room");
    assert_eq!((run.pblk, run.len), (Pblk(2000), 10));
}

/// How often the host is asked for the space of a block of metadata.
fn calls_for_space(fs: &Ext4, device: &TestDevice, pblk: u64) -> usize {
    device.take_calls(BlockOp::Allocate);
    let pblk = Pblk(pblk);
    let run = Run { pblk, len: 1 };
    fs.volume.allocate_on_host(run).expect("space");
    device.take_calls(BlockOp::Allocate).len()
}

#[test]
fn metadata_gets_space_of_the_host_again_where_blocks_were_discarded() {
    let (fs, device) = small_fs();
    let space = |pblk| calls_for_space(&fs, &device, pblk);
    leave_only(&fs, &[(1000, 300)]);
    let all = [990, 1100, 1160, 1299, 6000];
    assert_eq!(all.map(space), [1, 1, 1, 1, 1]);
    assert_eq!(all.map(space), [0, 0, 0, 0, 0]);
    fs.blocks.trim(0, u64::MAX, 0).expect("trim");
    assert_eq!(all.map(space), [1, 1, 1, 1, 0]);
}

#[test]
fn metadata_gets_space_of_the_host_again_where_freed_blocks_were_discarded() {
    let (fs, device) = small_fs();
    let space = |pblk| calls_for_space(&fs, &device, pblk);
    let all = [990, 1100, 1160, 1299, 6000];
    assert_eq!(all.map(space), [1, 1, 1, 1, 1]);
    fs.blocks.discard_freed(&[(1100, 150), (1000, 100)]);
    let discarded = device.take_calls(BlockOp::Discard);
    assert_eq!(discarded, [(1000 * KIB, 1250 * KIB)]);
    assert_eq!(all.map(space), [1, 1, 1, 0, 0]);
}

#[test]
fn data_that_cannot_be_written_is_an_error() {
    let (fs, device) = small_fs();
    let run = fs.blocks.reserve_blocks(Pblk(5000), 2, true).expect("room");
    let data = [1; 2048];
    // Whole blocks, and a part of them.
    for (within, len) in [(0, 2048), (7, 100)] {
        device.fail_once(BlockOp::Write, 0..u64::MAX, Errno::EIO);
        let filled = fs.blocks.fill_run(run, within, &data[..len]);
        assert!(matches!(filled, Err(Ext4Error::Device(_))), "{filled:?}");
        device.work();
        let filled = fs.blocks.fill_run(run, within, &data[..len]);
        assert_eq!(filled.expect("written"), len);
    }
}

#[test]
fn nothing_is_trimmed_while_an_allocation_searches() {
    let (fs, _device) = small_fs();
    leave_only(&fs, &[(2000, 10)]);
    fs.blocks.trim(0, u64::MAX, 0).expect("trim");
    let (begin, begun) = mpsc::channel();
    let (done, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        let found = fs.blocks.trims.without(|| {
            scope.spawn(|| {
                begin.send(()).expect("a receiver");
                fs.blocks.trim(0, u64::MAX, 0).expect("trim");
                done.send(()).expect("a receiver");
            });
            begun.recv().expect("a sender");
            ended.recv_timeout(Duration::from_millis(50)).is_err()
        });
        assert_eq!(found, Some(true), "it was trimmed meanwhile");
        ended.recv().expect("a sender");
    });
}

#[test]
fn a_block_in_two_roles_is_no_bitmap() {
    let device = image(24 << 20, "");
    let fs = mount(&device);
    let group = group_of(&fs, 1);
    let other = fs.volume.cache().get_unread(group.block_bitmap().0);
    other.set_kind(kinds::EXTENT_NODE, 7);
    let why = fs.blocks.block_bits(group).map(drop);
    assert!(matches!(why, Err(Ext4Error::Corrupt(_))), "{why:?}");
}

#[test]
fn nothing_is_trimmed_in_a_mount_for_reading() {
    let device = image(8 << 20, "");
    let fs = mount_as(&device, |options| options.read_only = true);
    device.take_calls(BlockOp::Discard);
    let trimmed = fs.blocks.trim(0, u64::MAX, 0);
    assert!(matches!(trimmed, Err(Ext4Error::ReadOnly)), "{trimmed:?}");
    assert_eq!(device.take_calls(BlockOp::Discard), []);
}

#[test]
fn an_allocation_waits_for_the_blocks_that_are_being_trimmed() {
    let (fs, device) = small_fs();
    leave_only(&fs, &[(2000, 10)]);
    let (release, released) = mpsc::channel::<()>();
    let begun = device.hold_discards(released);
    std::thread::scope(|scope| {
        scope.spawn(|| fs.blocks.trim(0, u64::MAX, 0).expect("trim"));
        begun.recv().expect("a discard");
        let (searched, search) = mpsc::channel();
        scope.spawn(move || {
            // The search before it waits has ended, and the one after that too if it does not wait.
            search.recv().expect("a search");
            let _ = search.recv_timeout(Duration::from_millis(50));
            drop(release);
        });
        let found = fs.blocks.retry_no_space(|| {
            let found = fs.blocks.reserve_blocks(Pblk(1), 1, true);
            let _ = searched.send(());
            found
        });
        assert_eq!(found.expect("room").pblk, Pblk(2000));
    });
}

#[test]
fn a_run_is_free_again_unless_the_journal_may_have_it() {
    let (fs, _device) = small_fs();
    let total = || fs.blocks.free_blocks_total();
    let run = fs.blocks.reserve_blocks(Pblk(5000), 3, true).expect("room");
    let reserved = total();
    let lost = JournalError::Aborted("by a test".into());
    fs.blocks.unreserve_after(&lost.into(), run);
    assert_eq!(total(), reserved);
    fs.blocks.unreserve_after(&Ext4Error::NoSpace, run);
    assert_eq!(total(), reserved + 3);
}

#[test]
fn the_first_blocks_of_an_inode_go_to_its_group() {
    let device = image_as(24 << 20, "", |options| options.inodes = Some(3072));
    let fs = mount(&device);
    let goals = [1, 1024, 1025, 3072].map(|ino| fs.blocks.goal_of(Ino(ino)));
    assert_eq!(goals, [1, 1, 8193, 16385].map(Pblk));
}

#[test]
fn a_search_is_repeated_only_if_blocks_were_released() {
    let (fs, _device) = small_fs();
    let attempts = |releases: bool| {
        let mut attempts = 0;
        let found = fs.blocks.retry_no_space(|| {
            attempts += 1;
            if releases && attempts == 1 {
                fs.blocks.release_runs(&[]);
            }
            Err::<(), _>(Ext4Error::NoSpace)
        });
        assert!(matches!(found, Err(Ext4Error::NoSpace)), "{found:?}");
        attempts
    };
    assert_eq!(attempts(false), 1);
    assert_eq!(attempts(true), 2);
}

#[test]
fn a_group_with_as_many_free_blocks_as_wanted_is_trimmed() {
    let (fs, device) = small_fs();
    leave_only(&fs, &[(2000, 10)]);
    group_of(&fs, 0).free_blocks.store(10, Relaxed);
    let (runs, blocks) = trimmed(&fs, &device, 0..u64::MAX, 10 * KIB);
    assert_eq!((runs, blocks), (vec![(2000, 2010)], 10));
    fs.crash();
}
