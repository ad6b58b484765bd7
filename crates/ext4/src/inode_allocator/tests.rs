use super::*;
use crate::fixture::*;
use crate::fs::Ext4;
use crate::inode::reference::InodeRef;
use crate::kinds;

/// Without checksums the bits of inodes that were never used are claimed in any order.
const PLAIN: &str = "^metadata_csum,^metadata_csum_seed,^orphan_file";

/// Four groups of 1024 inodes.
fn four_groups(change: impl FnOnce(&mut crate::options::MountOptions)) -> Arc<Ext4> {
    let device = image_as(32 << 20, PLAIN, |options| options.inodes = Some(4096));
    let fs = mount_as(&device, change);
    let geometry = fs.volume.geometry();
    assert_eq!(
        (geometry.groups_count, geometry.inodes_per_group),
        (4, 1024)
    );
    fs
}

fn group_of(fs: &Ext4, no: u32) -> &Group {
    fs.volume.group(GroupNo(no)).expect("a group")
}

fn bits_of(fs: &Ext4, no: u32) -> &InodeBits {
    fs.numbers.inode_bits(group_of(fs, no)).expect("bits")
}

fn place_of(fs: &Ext4, ino: Ino) -> (u32, u32) {
    let (no, index) = fs.volume.geometry().group_of_ino(ino).expect("a group");
    (no.0, index)
}

fn root(fs: &Ext4) -> InodeRef {
    fs.namei.root().expect("root").clone()
}

#[test]
fn a_cpu_without_a_line_claims_in_the_next_group() {
    let fs = four_groups(|_| {});
    for line in 0..2 {
        bits_of(&fs, 0).give_to_another_cpu(line);
    }
    let made = file(&fs, "f");
    let (no, _) = place_of(&fs, made.ino);
    assert_ne!(no, 0);
    assert_eq!(root(&fs).alloc_group(), Some(GroupNo(no)));
}

#[test]
fn a_cpu_claims_in_a_line_of_its_own() {
    let fs = four_groups(|_| {});
    bits_of(&fs, 1).give_to_another_cpu(0);
    let late = LazyHandle::new(fs.volume.journal(), 8);
    let (share, rest) = (false, None);
    let claimed = fs
        .numbers
        .claim_in_group(&late, GroupNo(1), false, 0, share, rest);
    let ino = late.end(claimed).expect("no error").expect("a number");
    assert_eq!(place_of(&fs, ino), (1, LINE_BITS));
}

#[test]
fn a_goal_may_be_any_inode() {
    for (goal, wanted) in [(4096, 4096), (2000, 2000), (4097, 12)] {
        let fs = four_groups(|options| {
            options.inode_goal = goal;
            options.ialloc = IallocVariant::RetryUnlocked;
        });
        assert_eq!(file(&fs, "f").ino, Ino(wanted), "goal {goal}");
    }
}

#[test]
fn files_return_to_the_group_of_their_directory_when_it_has_room() {
    let fs = four_groups(|_| {});
    let root = root(&fs);
    root.set_alloc_group(GroupNo(2));
    let made = file(&fs, "f");
    assert_eq!(place_of(&fs, made.ino).0, 0);
    bitmap::assign_run(&bits_of(&fs, 0).words, 0, 1024, true);
    bits_of(&fs, 0).note_full(1024);
    let made = file(&fs, "g");
    assert_eq!(place_of(&fs, made.ino).0, 2);
    fs.crash();
}

#[test]
fn a_search_goes_from_flex_group_to_probes_to_all() {
    let device = image_as(
        2 << 20,
        "^has_journal,^orphan_file,^flex_bg,^resize_inode",
        |options| {
            options.blocks_per_group = Some(256);
            options.inodes = Some(128);
        },
    );
    let fs = mount(&device);
    assert_eq!(fs.volume.geometry().groups_count, 8);
    let order = |start, parent| {
        let groups = fs.numbers.groups_after(GroupNo(start), Ino(parent));
        groups.map(|no| no.0).collect::<Vec<_>>()
    };
    // From (0 + 12) % 8 on 1, 3 and 7 groups further.
    assert_eq!(order(0, 12), [0, 5, 7, 3, 1, 2, 3, 4, 5, 6, 7, 0]);
    assert_eq!(order(5, 12), [5, 2, 4, 0, 6, 7, 0, 1, 2, 3, 4, 5]);
    group_of(&fs, 7).free_blocks.store(0, Relaxed);
    assert_eq!(order(0, 12), [0, 5, 3, 1, 2, 3, 4, 5, 6, 7, 0]);
    fs.crash();
}

#[test]
fn the_loser_of_a_race_continues_after_the_bit_that_it_lost() {
    for ialloc in [IallocVariant::RetryUnlocked, IallocVariant::RetryLocked] {
        let fs = four_groups(|options| {
            options.ialloc = ialloc;
            options.inode_goal = 20;
        });
        let (root, bits) = (root(&fs), bits_of(&fs, 0));
        let journal = fs.volume.journal();
        let locked = group_of(&fs, 0).changes.lock();
        let claimed = std::thread::scope(|scope| {
            let claiming = scope.spawn(|| {
                let late = LazyHandle::new(journal, 8);
                let claimed = fs.numbers.claim_ino(&late, &root, false);
                late.end(claimed)
            });
            // It has found the bit when it has write access.
            while bits.buffer.tid() != journal.running_tid() && !claiming.is_finished() {
                std::thread::yield_now();
            }
            assert!(bitmap::set(&bits.words, 19), "before the other");
            drop(locked);
            claiming.join().expect("no panic")
        });
        assert_eq!(claimed.expect("a number"), Ino(21));
        fs.crash();
    }
}

#[test]
fn no_inode_is_claimed_without_write_access() {
    for ialloc in IallocVariant::ALL {
        for has_bitmap in [true, false] {
            let fs = four_groups(|options| options.ialloc = ialloc);
            let (group, bits) = (group_of(&fs, 1), bits_of(&fs, 1));
            fs.volume.journal().sync().expect("sync");
            let late = LazyHandle::new(fs.volume.journal(), 8);
            let attached = match has_bitmap {
                true => &bits.buffer,
                false => &group.desc_buffer,
            };
            let handle = late.get().expect("a handle");
            handle.access_native(attached).expect("access");
            abort(&fs);
            let claimed = fs.numbers.claim_bit(&late, group, bits, 0, true, None);
            assert!(matches!(claimed, Err(Ext4Error::Journal(_))), "{claimed:?}");
        }
    }
}

#[test]
fn a_bitmap_that_is_damaged_is_not_used() {
    // A reserved inode is free; the checksum is of other bits.
    for (features, used) in [(PLAIN, 4), ("", 10)] {
        let device = image(8 << 20, features);
        let fs = mount(&device);
        let place = group_of(&fs, 0).inode_bitmap().0 << 10;
        fs.unmount().expect("unmount");
        device.change(place, 64, |bytes| {
            assert_ne!(bytes[used / 8] & 1 << (used % 8), 0);
            bytes[used / 8] &= !(1 << (used % 8));
            assert_eq!(bytes[20], 0, "free at first");
            bytes[20] = 1;
        });
        let fs = mount(&device);
        let why = fs.numbers.inode_bits(group_of(&fs, 0)).map(drop);
        assert!(matches!(why, Err(Ext4Error::Corrupt(_))), "{why:?}");
    }
}

#[test]
fn no_inode_is_made_in_a_group_that_is_left_alone() {
    let fs = four_groups(|_| {});
    group_of(&fs, 0).damaged.store(true, Relaxed);
    assert_ne!(place_of(&fs, file(&fs, "f").ino).0, 0);
}

#[test]
fn no_inode_is_claimed_or_released_without_write_access() {
    let fails = |has_bitmap, work: fn(&Ext4, &Handle<'_>, Ino) -> Result<()>| {
        let fs = four_groups(|_| {});
        let (node, group) = (file(&fs, "f"), group_of(&fs, 0));
        let attached = match has_bitmap {
            true => &bits_of(&fs, 0).buffer,
            false => &group.desc_buffer,
        };
        let done = on_aborted_journal(&fs, &[attached], |handle| work(&fs, handle, node.ino));
        assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
    };
    for has_bitmap in [true, false] {
        fails(has_bitmap, |fs, handle, ino| {
            fs.numbers.release_ino(handle, ino, false)
        });
        fails(has_bitmap, |fs, handle, ino| {
            let next = Ino(ino.0 + 1);
            fs.numbers.claim_this_ino(handle, next, false).map(drop)
        });
    }
}

/// Two groups of 16 inodes, the first one without a free inode.
fn full_first_group(features: &str, ialloc: IallocVariant) -> (Arc<Ext4>, Arc<TestDevice>) {
    let device = image_as(16 << 20, features, |options| options.inodes = Some(32));
    let fs = mount_as(&device, |options| options.ialloc = ialloc);
    assert_eq!(fs.volume.geometry().inodes_per_group, 16);
    for i in 0.. {
        if fs
            .numbers
            .inode_bits(group_of(&fs, 0))
            .is_ok_and(|bits| bitmap::count_clear(&bits.words) == 0)
        {
            break;
        }
        drop(file(&fs, &format!("{i}")));
    }
    (fs, device)
}

#[test]
fn a_group_that_was_searched_in_vain_counts_as_full() {
    let features = "^has_journal,^metadata_csum,^metadata_csum_seed,^orphan_file";
    let (fs, device) = full_first_group(features, IallocVariant::RetryUnlocked);
    let made = file(&fs, "f");
    assert_eq!(place_of(&fs, made.ino).0, 1);
    drop(made);
    let has_free = |fs: &Ext4| [0, 1].map(|no| group_of(fs, no).has_free_inode());
    assert_eq!(has_free(&fs), [false, true]);
    fs.unmount().expect("unmount");
    assert_eq!(
        has_free(&mount(&device)),
        [false, true],
        "by its descriptor"
    );
}

#[test]
fn a_search_in_vain_leaves_the_journal_as_it_is() {
    let (fs, device) = full_first_group(PLAIN, IallocVariant::LockFree);
    device.fail_reads_of(&fs, group_of(&fs, 1).inode_bitmap());
    let made = fs
        .namei
        .create(&Caller::root(), &root(&fs), b"f", &FILE)
        .map(drop);
    assert!(matches!(made, Err(Ext4Error::Device(_))), "{made:?}");
    fs.volume.journal().sync().expect("the journal continues");
    device.work();
    file(&fs, "f");
}

#[test]
fn a_goal_in_a_full_part_of_a_group_is_followed_by_the_rest_of_it() {
    let fs = four_groups(|options| options.inode_goal = 1024);
    let made = ["f", "g"].map(|name| file(&fs, name).ino);
    assert_eq!(made[0], Ino(1024));
    assert_eq!(place_of(&fs, made[1]).0, 0);
}

#[test]
fn lock_free_releases_a_number_without_the_lock_of_the_group() {
    let fs = four_groups(|_| {});
    let (node, group) = (file(&fs, "f"), group_of(&fs, 0));
    let handle = fs.volume.journal().start(8).expect("start");
    handle.access_native(&group.desc_buffer).expect("access");
    let buffer = &bits_of(&fs, 0).buffer;
    handle.access_native(buffer).expect("access");
    let locked = group.changes.lock();
    let released = fs.numbers.release_ino(&handle, node.ino, false);
    released.expect("in use");
    drop(locked);
    handle.finish();
    fs.crash();
}

#[test]
fn a_block_of_the_inode_table_that_was_never_used_is_not_read() {
    let device = image_as(32 << 20, "", |options| options.inodes = Some(4096));
    let fs = mount_as(&device, |options| {
        options.inode_goal = 1025;
        options.ialloc = IallocVariant::RetryUnlocked;
    });
    device.fail_reads_of(&fs, group_of(&fs, 1).inode_table());
    assert_eq!(place_of(&fs, file(&fs, "f").ino), (1, 0));
}

#[test]
fn the_rest_of_a_flex_group_is_searched_first() {
    let device = image_as(32 << 20, PLAIN, |options| options.flex_bg_size = 2);
    let fs = mount(&device);
    let groups = fs.numbers.groups_after(GroupNo(3), Ino(11));
    let order: Vec<_> = groups.map(|no| no.0).collect();
    // From (3 + 11) % 4 on 1 and 3 groups further.
    assert_eq!(order, [2, 3, 3, 1, 0, 1, 2, 3]);
}

#[test]
fn inodes_deleted_just_now_are_passed_over_and_remembered() {
    let features = "^has_journal,^metadata_csum,^metadata_csum_seed,^orphan_file";
    let device = image_as(16 << 20, features, |options| options.inodes = Some(32));
    let fs = mount(&device);
    let rest = fs.numbers.rest().expect("without a journal");
    let (group, bits) = (group_of(&fs, 0), bits_of(&fs, 0));
    assert!(rest.may_admit(group));
    for index in 11..16 {
        assert!(bitmap::set(&bits.words, index));
    }
    assert!(!rest.note_none(bits, 16), "none is free");
    assert!(rest.may_admit(group));
    bits.note_deleted(12);
    bitmap::clear(&bits.words, 12);
    assert!(rest.note_none(bits, 16), "one is free, and rests");
    assert!(!rest.may_admit(group));
    fs.crash();
}

#[test]
fn a_block_in_two_roles_is_no_bitmap() {
    let fs = four_groups(|_| {});
    let group = group_of(&fs, 2);
    let other = fs.volume.cache().get_unread(group.inode_bitmap().0);
    other.set_kind(kinds::EXTENT_NODE, 7);
    let why = fs.numbers.inode_bits(group).map(drop);
    assert!(matches!(why, Err(Ext4Error::Corrupt(_))), "{why:?}");
}
