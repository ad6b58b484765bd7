//! What differs between the variants, and what does not.

use super::*;

/// Three groups of 8,192 blocks.
const BYTES: u64 = 24 << 20;

fn mounted(variant: BallocVariant) -> Arc<Ext4> {
    mount_as(&image(BYTES, ""), |options| options.balloc = variant)
}

fn group_no(fs: &Ext4, run: Run) -> u32 {
    let place = fs.volume.geometry().group_of_block(run.pblk);
    place.expect("in a group").0.0
}

/// Blocks of a group that the allocator may not give out.
fn busy(fs: &Ext4, no: u32) -> u32 {
    let bits = fs.blocks.block_bits(group_of(fs, no)).expect("bits");
    8192 - bitmap::count_clear(&bits.busy)
}

fn reserve(fs: &Ext4, goal: impl Into<Goal>, want: u32) -> Run {
    fs.blocks.reserve_blocks(goal, want, true).expect("room")
}

/// The next block of a file that has so many, the last before `pblk`.
fn next_of(ino: u32, pblk: u64, blocks: u32) -> Goal {
    Goal::from(Pblk(pblk)).of_file(Ino(ino), Lblk(blocks))
}

#[test]
fn a_run_is_freed_once_in_every_variant() {
    for variant in BallocVariant::ALL {
        let fs = mounted(variant);
        let total = || fs.blocks.free_blocks_total();
        let at_first = total();
        let run = reserve(&fs, Pblk(5000), 70);
        let part = Run {
            pblk: Pblk(run.pblk.0 + 60),
            len: 20,
        };
        let free = |run| {
            let handle = fs.volume.journal().start(8).expect("start");
            let freed = fs.blocks.free_run(&handle, run);
            handle.finish();
            freed
        };
        fs.volume
            .with_handle(4, |handle| fs.blocks.publish_run(handle, run))
            .expect("published");
        assert!(
            matches!(free(part), Err(Ext4Error::Corrupt(_))),
            "{variant}"
        );
        assert_eq!(total(), at_first - 70, "nothing is freed in part");
        assert_eq!(group_of(&fs, 0).count_free_blocks() as u64, {
            let bits = fs.blocks.block_bits(group_of(&fs, 0)).expect("bits");
            u64::from(bitmap::count_clear(&bits.on_disk))
        });
        free(run).expect("freed");
        assert_eq!(total(), at_first);
        let twice = free(run);
        assert!(matches!(twice, Err(Ext4Error::Corrupt(_))), "{variant}");
        assert_eq!(total(), at_first);
        // It is busy until the transaction is durable.
        let bits = fs.blocks.block_bits(group_of(&fs, 0)).expect("bits");
        let first = (run.pblk.0 - 1) as u32;
        assert!(bitmap::run_is(&bits.busy, first, 70, true), "{variant}");
        fs.volume.journal().sync().expect("sync");
        assert!(bitmap::run_is(&bits.busy, first, 70, false), "{variant}");
        fs.crash();
    }
}

#[test]
fn a_group_that_is_locked_is_passed_over_by_one_variant() {
    let fs = mounted(BallocVariant::TryLock);
    (0..3).for_each(|no| assert!(busy(&fs, no) < 8192));
    let held = group_of(&fs, 0).changes.lock();
    assert_eq!(group_no(&fs, reserve(&fs, Pblk(1), 4)), 1);
    drop(held);
    assert_eq!(group_no(&fs, reserve(&fs, Pblk(1), 4)), 0);
}

#[test]
fn a_large_file_goes_on_where_the_last_found_room() {
    for variant in [BallocVariant::GroupLock, BallocVariant::TryLock] {
        let fs = mounted(variant);
        while fs
            .blocks
            .reserve_together(Pblk(1).into(), 4096, 4096)
            .is_ok_and(|run| run.is_some_and(|run| group_no(&fs, run) == 0))
        {}
        let take_all_of = |no: u32, pblk: u64| {
            while fs.blocks.free_blocks_total() > 0 {
                let run = reserve(&fs, Pblk(pblk), 1);
                if group_no(&fs, run) != no {
                    fs.blocks.unreserve(run);
                    break;
                }
            }
        };
        take_all_of(0, 1);
        take_all_of(1, 8193);
        let large = |ino| group_no(&fs, reserve(&fs, next_of(ino, 1, 100), 4));
        assert_eq!(large(12), 2, "{variant}");
        let freed = Pblk(8193 + 4000);
        fs.blocks.unreserve(Run {
            pblk: freed,
            len: 50,
        });
        assert_eq!(large(12), 2, "{variant}");
        let small = reserve(&fs, next_of(12, 1, 1), 4);
        assert_eq!(group_no(&fs, small), 1, "{variant}");
    }
}

#[test]
fn a_cpu_has_blocks_ahead_that_count_as_free() {
    let fs = mounted(BallocVariant::PerCpu);
    let (total, used) = (fs.blocks.free_blocks_total(), busy(&fs, 1));
    let goal = Pblk(8193);
    let first = reserve(&fs, goal, 2);
    assert_eq!(first.len, 2);
    assert_eq!(fs.blocks.free_blocks_total(), total - 2);
    assert!(busy(&fs, 1) > used + 2, "nothing is ahead");
    fs.blocks.unreserve(first);
    assert_eq!(fs.blocks.free_blocks_total(), total);
    assert!(fs.blocks.release_ahead());
    assert!(!fs.blocks.release_ahead());
    assert_eq!(busy(&fs, 1), used);
}

#[test]
fn files_in_turn_get_blocks_of_their_own() {
    let fs = mounted(BallocVariant::PerCpu);
    let mut ends = [12, 13].map(|ino| (ino, reserve(&fs, Pblk(8193), 1).pblk.0 + 1, 1));
    let mut moves = 0;
    for _ in 0..60 {
        for (ino, end, blocks) in &mut ends {
            let run = reserve(&fs, next_of(*ino, *end, *blocks), 1);
            moves += u32::from(run.pblk.0 != *end);
            (*end, *blocks) = (run.pblk.0 + 1, *blocks + 1);
        }
    }
    assert!(moves <= 8, "{moves} moves of 120");
    // One that loses blocks has nothing ahead.
    let used = busy(&fs, 1);
    fs.blocks.forget_file(Ino(12));
    assert!(busy(&fs, 1) < used);
    fs.blocks.release_ahead();
    assert_eq!(fs.blocks.free_blocks_total(), {
        let busy: u32 = (0..3).map(|no| busy(&fs, no)).sum();
        u64::from(3 * 8192 - busy)
    });
}

#[test]
fn nothing_is_ahead_where_little_is_free() {
    let fs = mounted(BallocVariant::PerCpu);
    while fs.blocks.free_blocks_total() > 1200 {
        reserve(&fs, Pblk(1), 64);
    }
    fs.blocks.release_ahead();
    reserve(&fs, Pblk(8193), 1);
    reserve(&fs, next_of(12, 8300, 100), 1);
    assert!(!fs.blocks.release_ahead());
}

#[test]
fn blocks_that_are_ahead_are_found_when_nothing_else_is_free() {
    let fs = mounted(BallocVariant::PerCpu);
    let first = reserve(&fs, Pblk(8193), 1);
    let all = 3 * 8192;
    while let Some(run) = fs
        .blocks
        .reserve_together(Pblk(1).into(), all, 1)
        .expect("bitmaps")
    {
        assert!(run.len > 0);
    }
    let left = fs.blocks.free_blocks_total();
    assert!(left > 0, "nothing is ahead");
    for _ in 0..left {
        // Elsewhere than where the chunk is asked for.
        assert_eq!(reserve(&fs, Pblk(700), 1).len, 1);
    }
    assert_eq!(fs.blocks.free_blocks_total(), 0);
    assert!(fs.blocks.reserve_blocks(first.pblk, 1, true).is_err());
}

#[test]
fn what_is_not_used_is_released_after_a_while() {
    let fs = mounted(BallocVariant::PerCpu);
    let used = busy(&fs, 1);
    reserve(&fs, Pblk(8193), 1);
    let has_ahead = || busy(&fs, 1) > used + 1;
    assert!(has_ahead());
    // At first, when it was used, and not again so soon.
    for _ in 0..3 {
        fs.blocks.age_ahead_at(100);
        assert!(has_ahead());
    }
    fs.blocks.age_ahead_at(104);
    assert!(has_ahead());
    fs.blocks.age_ahead_at(105);
    assert!(!has_ahead());
}
