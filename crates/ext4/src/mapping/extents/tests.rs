use super::*;
use crate::fixture::*;
use crate::fs::Ext4;
use crate::inode::MapTree;
use crate::inode::reference::InodeRef;
use crate::mapping::extents::convert::Written;
use crate::mapping::extents::insert::Neighbours;
use crate::mapping::extents::remove::{Content, Restart};
use crate::mapping::extents::shift::Shift;
use uext4_ondisk::EXTENT_LEN_MAX_UNWRITTEN;

fn extent(lblk: u32, len: u16, pblk: u64) -> Extent {
    Extent {
        lblk: Lblk(lblk),
        len,
        unwritten: false,
        pblk: Pblk(pblk),
    }
}

/// What a file maps: first block, length, and whether it is unwritten.
fn mapped(fs: &Ext4, file: &InodeRef) -> Vec<(u32, u16, bool)> {
    let extents = fs.mapping.extents(file).expect("extents");
    extents
        .iter()
        .map(|e| (e.lblk.0, e.len, e.unwritten))
        .collect()
}

/// Changes the mapping of a file in a handle.
fn change(fs: &Ext4, file: &InodeRef, work: impl FnOnce(&Handle<'_>, &mut MapTree) -> Result<()>) {
    let done = fs.volume.with_handle(64, |handle| {
        let mut map = file.map.write();
        work(handle, &mut map)
    });
    done.expect("a change");
}

fn insert(fs: &Ext4, file: &InodeRef, extents: &[Extent]) {
    for e in extents {
        change(fs, file, |handle, map| {
            fs.mapping.insert_extent(handle, file, map, *e, true)
        });
    }
}

fn nodes(fs: &Ext4, file: &InodeRef) -> Vec<Arc<Buffer>> {
    fs.mapping.tree_nodes(file, 1000).expect("nodes")
}

/// A file of so many blocks, each with a hole after it: leaves hold 84 of them, and the root four nodes.
fn scattered(fs: &Ext4, blocks: u64) -> InodeRef {
    let node = file(fs, "scattered");
    allocate_apart(fs, &node, 0, blocks);
    node
}

#[test]
fn neighbours_become_one_extent_unless_they_stay_apart() {
    let (fs, _device) = small_fs();
    for (neighbours, wanted) in [
        (Neighbours::Merge, vec![(10, 4, false)]),
        (Neighbours::Apart, vec![(10, 2, false), (12, 2, false)]),
    ] {
        let node = file(&fs, &format!("{neighbours:?}"));
        insert(&fs, &node, &[extent(10, 2, 5000)]);
        change(&fs, &node, |handle, map| {
            let next = extent(12, 2, 5002);
            let mapping = &fs.mapping;
            mapping.insert_extent_as(handle, &node, map, next, neighbours, true)
        });
        assert_eq!(mapped(&fs, &node), wanted);
    }
    fs.crash();
}

#[test]
fn a_conversion_cuts_what_is_longer_than_an_unwritten_extent() {
    let device = image(64 << 20, "");
    let fs = mount(&device);
    let most = EXTENT_LEN_MAX_UNWRITTEN;
    for (len, unwritten) in [
        (most, vec![(0, most, true)]),
        (most + 1, vec![(0, most, true), (u32::from(most), 1, true)]),
    ] {
        let node = file(&fs, &format!("{len}"));
        insert(&fs, &node, &[extent(0, len, 20_000)]);
        let convert = |written| {
            change(&fs, &node, |handle, map| {
                let range = (0, u64::from(len));
                fs.mapping
                    .convert_extents(handle, &node, map, range, written, true)
            });
            mapped(&fs, &node)
        };
        assert_eq!(convert(Written::No), unwritten);
        assert_eq!(convert(Written::Yes), [(0, len, false)], "as one again");
    }
    fs.crash();
}

#[test]
fn zeroing_is_of_unwritten_extents_that_cover_the_block() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    let data = [7; 1024];
    fs.files.write(&node, 0, &data, true).expect("write");
    allocate(&fs, &node, 4..6);
    fs.files.truncate(&node, 16 << 10).expect("truncate");
    let before = mapped(&fs, &node);
    assert_eq!(before, [(0, 1, false), (4, 2, true)]);
    let zero = |at| {
        change(&fs, &node, |handle, map| {
            fs.mapping.zero_extent(handle, &node, map, Lblk(at))
        });
        mapped(&fs, &node)
    };
    for elsewhere in [0, 2, 9] {
        assert_eq!(zero(elsewhere), before, "block {elsewhere}");
    }
    let mut found = [0; 1024];
    fs.files.read(&node, 0, &mut found).expect("read");
    assert_eq!(found, data);
    assert_eq!(zero(5), [(0, 1, false), (4, 2, false)]);
}

#[test]
fn a_boundary_is_where_no_extent_continues() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    allocate(&fs, &node, 3..10);
    let has_boundary = |at| fs.mapping.has_boundary(&node, at).expect("read");
    let places = [0, 3, 4, 9, 10, 11, 1 << 32];
    assert_eq!(
        places.map(has_boundary),
        [true, true, false, false, true, true, true]
    );
}

#[test]
fn extents_move_up_to_the_last_block() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    insert(&fs, &node, &[extent(u32::MAX - 10, 5, 5000)]);
    let moved = |by| fs.mapping.check_room_above(&node, by);
    assert!(moved(5).is_ok());
    assert!(matches!(moved(6), Err(Ext4Error::Invalid(_))));
    fs.crash();
}

#[test]
fn so_many_nodes_are_collected() {
    let (fs, _device) = small_fs();
    let node = scattered(&fs, 100);
    assert_eq!(fs.mapping.tree_nodes(&node, 2).expect("nodes").len(), 2);
    let more = fs.mapping.tree_nodes(&node, 1).map(drop);
    assert!(matches!(more, Err(Ext4Error::TooLarge)), "{more:?}");
    // A node above five leaves.
    fs.files.truncate(&node, 0).expect("truncate");
    allocate_apart(&fs, &node, 0, 4 * 84 + 1);
    assert_eq!(fs.mapping.tree_nodes(&node, 6).expect("nodes").len(), 6);
    for max in 0..6 {
        let more = fs.mapping.tree_nodes(&node, max).map(drop);
        assert!(matches!(more, Err(Ext4Error::TooLarge)), "{more:?}");
    }
}

#[test]
fn a_node_in_another_role_is_not_looked_up_without_a_wait() {
    let (fs, _device) = small_fs();
    let node = scattered(&fs, 100);
    let look_up = |lblk| {
        let root = node.state().i_block;
        let found = fs.mapping.find_extent_nowait(&node, &root, Lblk(lblk));
        found
            .expect("no damage")
            .map(|found| (found.pblk.is_some(), found.len))
    };
    assert_eq!(look_up(2), Some((true, 1)));
    assert_eq!(look_up(3), Some((false, 1)));
    assert_eq!(look_up(167), Some((false, 1)), "up to the next leaf");
    assert_eq!(look_up(199), Some((false, u32::MAX - 198)));
    nodes(&fs, &node)[0].set_kind(kinds::DIR_LEAF, 7);
    assert_eq!(look_up(2), None);
    fs.crash();
}

/// A key of the tree may be smaller than what its leaf begins with.
#[test]
fn blocks_before_a_leaf_that_begins_after_its_key_are_removed() {
    let (fs, _device) = small_fs();
    let node = scattered(&fs, 100);
    let remove = |from, to| {
        let handle = fs.volume.journal().start(64).expect("start");
        let (content, restart) = (Content::Data, Restart::Allowed);
        let removed = fs
            .mapping
            .remove_blocks(handle, &node, from, to, content, restart);
        removed.expect("removed").finish();
    };
    // From the second leaf on, and the end of the first.
    remove(160, 170);
    change(&fs, &node, |handle, _| {
        fs.table.update_inode(&node, handle, |disk| {
            let mut root = ExtentNodeMut::new(&mut disk.i_block);
            assert_eq!(root.as_node().lblk(1), Some(Lblk(170)));
            root.set_lblk(1, Lblk(163));
        })
    });
    remove(140, 167);
    let lblks = mapped(&fs, &node).into_iter().map(|e| u64::from(e.0));
    let wanted = (0..200)
        .step_by(2)
        .filter(|lblk| !(140..170).contains(lblk));
    assert!(lblks.eq(wanted));
    // The first leaf has none before it.
    change(&fs, &node, |handle, _| {
        fs.table.update_inode(&node, handle, |disk| {
            ExtentNodeMut::new(&mut disk.i_block).set_lblk(1, Lblk(165));
        })
    });
    remove(0, 168);
    assert_eq!(mapped(&fs, &node).first().map(|e| e.0), Some(170));
    fs.files.truncate(&node, 0).expect("truncate");
    fs.unmount().expect("unmount");
}

/// Asserts that a change of a file's mapping fails that has write access to none but `attached` blocks.
#[track_caller]
fn fails<T>(
    fs: &Ext4,
    file: &InodeRef,
    attached: &[&Arc<Buffer>],
    work: impl FnOnce(&Handle<'_>, &mut MapTree) -> Result<T>,
) {
    let done = on_aborted_journal(fs, attached, |handle| {
        let mut map = file.map.write();
        work(handle, &mut map).map(drop)
    });
    assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
}

/// The bitmap and the descriptors of the first group.
fn group_blocks(fs: &Ext4) -> [&Arc<Buffer>; 2] {
    let group = fs.volume.group(GroupNo(0)).expect("a group");
    let bits = fs.blocks.block_bits(group).expect("bits");
    [&bits.buffer, &group.desc_buffer]
}

#[test]
fn an_insertion_without_write_access_fails() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    fails(&fs, &node, &[], |handle, map| {
        let e = extent(7, 1, 5000);
        fs.mapping.insert_extent(handle, &node, map, e, true)
    });
    // One that becomes part of the first extent of a leaf: the leaf changes, and the key above.
    for has_leaf in [true, false] {
        let (fs, _device) = small_fs();
        let node = file(&fs, "f");
        allocate_apart(&fs, &node, 10, 100);
        let first = fs.mapping.extents(&node).expect("extents")[0];
        let before = Extent {
            lblk: Lblk(9),
            pblk: Pblk(first.pblk.0 - 1),
            ..first
        };
        let leaf = &nodes(&fs, &node)[0];
        let attached = if has_leaf { leaf } else { &node.itable };
        fails(&fs, &node, &[attached], |handle, map| {
            fs.mapping.insert_extent(handle, &node, map, before, true)
        });
    }
}

/// Which of the blocks that a removal changes there is no write access to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Missing {
    Bitmap,
    Descriptors,
    /// The leaf, whose parent is the one before it.
    Leaf,
    Parent,
    Inode,
}

/// Removes `[from, to)` of a file of so many blocks without write access to one of the blocks that change.
fn removal_fails(blocks: u64, (from, to): (u64, u64), missing: &[Missing]) {
    for missing in missing {
        let (fs, _device) = small_fs();
        let node = scattered(&fs, blocks);
        let mut nodes = nodes(&fs, &node);
        let (leaf, parent) = (nodes.pop(), nodes.pop());
        let [bitmap, descriptors] = group_blocks(&fs);
        let of_change = [
            (Missing::Bitmap, Some(bitmap)),
            (Missing::Descriptors, Some(descriptors)),
            (Missing::Leaf, leaf.as_ref()),
            (Missing::Parent, parent.as_ref()),
            (Missing::Inode, Some(&node.itable)),
        ];
        let there = of_change.into_iter().filter(|(which, _)| which != missing);
        let there: Vec<_> = there.filter_map(|(_, buffer)| buffer).collect();
        fails(&fs, &node, &there, |handle, map| {
            let content = Content::Data;
            fs.mapping
                .remove_step(handle, &node, map, from, to, content)
        });
    }
}

#[test]
fn a_removal_without_write_access_fails() {
    use Missing::*;
    // The last extent of a leaf that keeps others.
    removal_fails(100, (198, 199), &[Bitmap, Descriptors, Leaf, Inode]);
    // The only one of a leaf whose parent is a node, which had one with each of 84 blocks.
    let blocks = 4 * 84 + 1;
    removal_fails(
        blocks,
        (2 * blocks - 2, 2 * blocks - 1),
        &[Bitmap, Leaf, Parent, Inode],
    );
}

#[test]
fn a_cut_without_write_access_fails() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    allocate(&fs, &node, 0..10);
    fails(&fs, &node, &[], |handle, map| {
        let content = Content::Data;
        fs.mapping.remove_step(handle, &node, map, 3, 5, content)
    });
}

#[test]
fn moving_extents_without_write_access_fails() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    allocate(&fs, &node, 4..6);
    fs.volume.journal().sync().expect("sync");
    let handle = fs.volume.journal().start(64).expect("start");
    abort(&fs);
    let moved = fs
        .mapping
        .shift_extents(handle, &node, Lblk(4), Shift::Up(1))
        .map(drop);
    assert!(matches!(moved, Err(Ext4Error::Journal(_))), "{moved:?}");
}

#[test]
fn a_cut_without_space_for_a_node_is_refused() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    // As many as the inode itself has room for.
    for first in [0, 10, 20, 30] {
        allocate(&fs, &node, first..first + 3);
    }
    let before = mapped(&fs, &node);
    while fs.blocks.reserve_blocks(Pblk(0), 8192, true).is_ok() {}
    let cut = fs.volume.with_handle(64, |handle| {
        let mut map = node.map.write();
        let range = (11, 12);
        fs.mapping
            .convert_extents(handle, &node, &mut map, range, Written::Yes, true)
    });
    assert!(matches!(cut, Err(Ext4Error::NoSpace)), "{cut:?}");
    assert_eq!(mapped(&fs, &node), before);
    fs.crash();
}

#[test]
fn a_conversion_without_space_for_a_node_is_refused() {
    let device = image(64 << 20, "");
    let fs = mount(&device);
    let node = file(&fs, "f");
    let most = EXTENT_LEN_MAX_UNWRITTEN + 1;
    let apart = [50_000, 50_010, 50_020].map(|at| extent(at, 1, u64::from(at)));
    insert(&fs, &node, &[extent(0, most, 10_000)]);
    insert(&fs, &node, &apart);
    while fs.blocks.reserve_blocks(Pblk(0), 8192, true).is_ok() {}
    let handle = fs.volume.journal().start(64).expect("start");
    let mut map = node.map.write();
    let range = (0, u64::from(most));
    let converted = fs
        .mapping
        .convert_extents(&handle, &node, &mut map, range, Written::No, true);
    assert!(
        matches!(converted, Err(Ext4Error::NoSpace)),
        "{converted:?}"
    );
    drop((map, handle));
    fs.crash();
}

#[test]
fn an_extent_becomes_part_of_the_one_before_it_or_fails() {
    let (fs, _device) = small_fs();
    let node = scattered(&fs, 100);
    let last = *fs
        .mapping
        .extents(&node)
        .expect("extents")
        .last()
        .expect("one");
    let after = Extent {
        lblk: Lblk(last.lblk.0 + 1),
        pblk: Pblk(last.pblk.0 + 1),
        ..last
    };
    fails(&fs, &node, &[&node.itable], |handle, map| {
        fs.mapping.insert_extent(handle, &node, map, after, true)
    });
}

#[test]
fn the_first_extent_of_a_leaf_is_removed_with_its_key_or_not() {
    use Missing::*;
    let first = 2 * 4 * 84;
    removal_fails(4 * 84 + 2, (first, first + 1), &[Leaf, Parent]);
}

#[test]
fn a_leaf_is_split_with_a_block_that_the_inode_counts_or_not() {
    let (fs, _device) = small_fs();
    let node = scattered(&fs, 4 * 84 + 1);
    let nodes = nodes(&fs, &node);
    let (parent, leaf) = (&nodes[0], &nodes[1]);
    let [bitmap, descriptors] = group_blocks(&fs);
    // One of those becomes the new leaf.
    let near = leaf.block() + 1..leaf.block() + 1000;
    let near: Vec<_> = near.map(|at| fs.volume.cache().get_unread(at)).collect();
    let mut attached = vec![parent, leaf, bitmap, descriptors];
    attached.extend(near.iter().filter(|new| !Arc::ptr_eq(new, &node.itable)));
    fails(&fs, &node, &attached, |handle, map| {
        let e = extent(1, 1, 8000);
        fs.mapping.insert_extent(handle, &node, map, e, true)
    });
}

#[test]
fn a_node_is_freed_with_write_access_to_its_bitmap() {
    let device = image(24 << 20, "");
    let fs = mount(&device);
    let node = scattered(&fs, 84);
    // The only one of a second leaf, with its block in another group.
    change(&fs, &node, |handle, map| {
        let run = fs.blocks.claim_blocks(handle, Pblk(10_000), 1, true)?;
        let e = extent(1000, 1, run.pblk.0);
        fs.mapping.insert_extent(handle, &node, map, e, true)
    });
    let leaves = nodes(&fs, &node);
    let group = |pblk| {
        let no = fs
            .volume
            .geometry()
            .group_of_block(Pblk(pblk))
            .expect("one")
            .0;
        fs.volume.group(no).expect("a group")
    };
    let bits = |pblk| &fs.blocks.block_bits(group(pblk)).expect("bits").buffer;
    assert_ne!(group(leaves[1].block()).no, group(10_000).no);
    let descriptors = &group(10_000).desc_buffer;
    let attached = [&leaves[1], &node.itable, bits(10_000), descriptors];
    fails(&fs, &node, &attached, |handle, map| {
        let content = Content::Data;
        fs.mapping
            .remove_step(handle, &node, map, 1000, 1001, content)
    });
}

#[test]
fn blocks_of_a_directory_are_removed_with_write_access_to_them() {
    let (fs, _device) = small_fs();
    let root = fs.namei.root().expect("root").clone();
    let dir = make(&fs, &root, "d", &DIR);
    let [bitmap, descriptors] = group_blocks(&fs);
    fails(
        &fs,
        &dir,
        &[&dir.itable, bitmap, descriptors],
        |handle, map| {
            let content = Content::Metadata;
            fs.mapping.remove_step(handle, &dir, map, 0, 1, content)
        },
    );
}

#[test]
fn a_leaf_that_begins_before_its_key_is_damage() {
    let (fs, _device) = small_fs();
    let node = scattered(&fs, 100);
    let mut root = node.state().i_block;
    let find = |root, lblk| fs.mapping.find_extent(&node, root, Lblk(lblk));
    assert_eq!(find(root, 172).expect("mapped").len, 1);
    ExtentNodeMut::new(&mut root).set_lblk(1, Lblk(170));
    let found = find(root, 172).map(drop);
    assert!(matches!(found, Err(Ext4Error::Corrupt(_))), "{found:?}");
}

#[test]
fn a_new_block_goes_where_the_file_would_continue() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    let goal = |lblk| {
        fs.mapping
            .data_goal(&node, Lblk(lblk))
            .expect("a goal")
            .pblk
    };
    assert_eq!(goal(7), Pblk(1), "the group of the inode");
    insert(&fs, &node, &[extent(10, 2, 5000), extent(50, 1, 7000)]);
    assert_eq!(goal(20), Pblk(5010));
    assert_eq!(goal(60), Pblk(7010));
    assert_eq!(goal(3), Pblk(4993), "before all that there is");
    fs.crash();
}

#[test]
fn a_node_with_a_wrong_checksum_is_damage() {
    let (fs, device) = small_fs();
    let node = scattered(&fs, 10);
    let (ino, leaf) = (node.ino, nodes(&fs, &node)[0].block());
    drop(node);
    fs.unmount().expect("unmount");
    // Its last four bytes.
    device.change((leaf << 10) + 1020, 4, |bytes| bytes[0] ^= 1);
    let fs = mount(&device);
    let node = fs.inodes.get_inode(ino).expect("an inode");
    let found = fs.mapping.extents(&node).map(drop);
    let Err(Ext4Error::Corrupt(why)) = found else {
        panic!("{found:?}");
    };
    assert_eq!((why.ino, why.pblk), (Some(ino), Some(Pblk(leaf))));
}

#[test]
fn an_extent_at_the_end_of_a_leaf_moves() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    // One block each, and none follows the one before it on the device.
    let extents: Vec<_> = (0..200)
        .map(|i| extent(i, 1, 5000 + 2 * u64::from(i)))
        .collect();
    insert(&fs, &node, &extents);
    assert!(nodes(&fs, &node).len() > 2);
    let lblks = || mapped(&fs, &node).into_iter().map(|e| e.0);
    for from in 0..200 {
        for (first, shift) in [(from, Shift::Up(5)), (from + 5, Shift::Down(5))] {
            let handle = fs.volume.journal().start(64).expect("start");
            let moved = fs.mapping.shift_extents(handle, &node, Lblk(first), shift);
            moved.expect("moved").finish();
            let gap = if first == from { 5 } else { 0 };
            let wanted = (0..200).map(|at| if at < from { at } else { at + gap });
            assert!(lblks().eq(wanted), "{from}");
        }
    }
    fs.crash();
}

#[test]
fn extents_of_every_leaf_move() {
    let (fs, _device) = small_fs();
    let node = scattered(&fs, 300);
    let lblks = || mapped(&fs, &node).into_iter().map(|e| e.0);
    let shift = |from, shift| {
        let handle = fs.volume.journal().start(64).expect("start");
        let moved = fs.mapping.shift_extents(handle, &node, Lblk(from), shift);
        moved.expect("moved").finish();
    };
    let before: Vec<_> = lblks().collect();
    shift(100, Shift::Up(7));
    let up = before.iter().map(|at| if *at < 100 { *at } else { at + 7 });
    assert!(lblks().eq(up));
    shift(107, Shift::Down(7));
    assert!(lblks().eq(before));
}

#[test]
fn a_conversion_without_write_access_fails() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    allocate(&fs, &node, 0..10);
    fails(&fs, &node, &[], |handle, map| {
        let range = (0, 10);
        fs.mapping
            .convert_extents(handle, &node, map, range, Written::Yes, true)
    });
}

#[test]
fn an_extent_up_to_the_size_is_zeroed_or_stays_unwritten() {
    let (fs, device) = small_fs();
    let node = file(&fs, "f");
    allocate(&fs, &node, 4..6);
    let zero = || {
        fs.volume.with_handle(4, |handle| {
            let mut map = node.map.write();
            fs.mapping.zero_extent(handle, &node, &mut map, Lblk(4))
        })
    };
    let size = |size| {
        fs.volume
            .with_handle(1, |handle| {
                fs.table
                    .update_inode(&node, handle, |disk| disk.size = size)
            })
            .expect("a change");
    };
    size(5 << 10);
    let past = zero();
    assert!(matches!(past, Err(Ext4Error::NoSpace)), "{past:?}");
    assert_eq!(mapped(&fs, &node), [(4, 2, true)]);
    size((5 << 10) + 1);
    zero().expect("within the size");
    assert_eq!(mapped(&fs, &node), [(4, 2, false)]);
    fs.files.truncate(&node, 0).expect("truncate");
    allocate(&fs, &node, 4..6);
    device.fail(uext4_block::BlockOp::Zero, 0..u64::MAX, Errno::EIO);
    let failed = fs.volume.journal().start(4).map(|handle| {
        let mut map = node.map.write();
        fs.mapping.zero_extent(&handle, &node, &mut map, Lblk(4))
    });
    let failed = failed.expect("a handle");
    assert!(matches!(failed, Err(Ext4Error::Device(_))), "{failed:?}");
    assert_eq!(mapped(&fs, &node), [(4, 2, true)]);
}
