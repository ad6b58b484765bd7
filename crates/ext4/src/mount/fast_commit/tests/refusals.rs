//! What is refused, and what fails.

use super::*;
use crate::BallocVariant;

/// Takes all blocks that are free but these.
fn leave_free(device: &Arc<TestDevice>, free: &[u64]) {
    let fs = mount(device);
    while let Ok(run) = fs.blocks.reserve_blocks(Pblk(0), 8192, true) {
        for pblk in (run.pblk.0..run.pblk.0 + u64::from(run.len)).map(Pblk) {
            let run = Run { pblk, len: 1 };
            if !free.contains(&pblk.0) {
                let taken = fs
                    .volume
                    .with_handle(4, |handle| fs.blocks.publish_run(handle, run));
                taken.expect("taken");
            }
        }
    }
    fs.unmount().expect("unmount");
}

#[test]
fn a_replay_without_space_is_refused() {
    type Records = fn(&Base) -> Vec<FastCommitRecord>;
    let a_directory: Records =
        |base| vec![base.made(NEW, directory), create(Ino::ROOT, "sub", NEW)];
    // Four of them fill a block.
    let long_names: Records = |base| {
        let names = (0..6).map(|i| format!("{i}{}", "n".repeat(220)));
        let links = names.map(|name| link(Ino::ROOT, &name, base.ino("kept")));
        links.collect()
    };
    // The inode has room for four extents.
    let a_node: Records = |base| {
        let kept = base.ino("kept");
        let ranges = (0..4).map(|i| add(kept, 40 + 2 * i, 1, FREE + 2 * u64::from(i)));
        let grown = base.changed("kept", |inode| inode.size = 60 << 10);
        ranges.chain([grown]).collect()
    };
    let a_hole: Records = |base| vec![del(base.ino("kept"), 5, 1)];
    let of_ranges: Vec<u64> = (0..4).map(|i| FREE + 2 * i).collect();
    for (i, (free, records)) in [
        (&[][..], a_directory),
        (&[], long_names),
        (&of_ranges, a_node),
        (&[], a_hole),
    ]
    .into_iter()
    .enumerate()
    {
        let base = base();
        let fs = mount(&base.device);
        let kept = fs.inodes.get_inode(base.ino("kept")).expect("an inode");
        allocate_apart(&fs, &kept, 20, 3);
        drop(kept);
        fs.unmount().expect("unmount");
        leave_free(&base.device, free);
        let done = replay_on(&base.device, &records(&base));
        assert!(matches!(done, Err(Ext4Error::NoSpace)), "{i}: {done:?}");
    }
}

#[test]
fn what_is_freed_in_another_group_is_freed_or_reported() {
    for has_attribute in [true, false] {
        let device = image(24 << 20, "fast_commit");
        // Another CPU has no blocks of the group ahead.
        let fs = mount_as(&device, |options| options.balloc = BallocVariant::GroupLock);
        let filler = file(&fs, "filler");
        let group = fs.volume.group(GroupNo(0)).expect("a group");
        while group.count_free_blocks() > 0 {
            let run = fs.blocks.reserve_blocks(Pblk(1), 1, true).expect("room");
            assert!(run.pblk.0 <= 8192, "{run:?}");
            let taken = fs
                .volume
                .with_handle(4, |handle| fs.blocks.publish_run(handle, run));
            taken.expect("taken");
        }
        drop(filler);
        let far = file(&fs, "far");
        match has_attribute {
            true => fs
                .setxattr(
                    &Caller::root(),
                    &far,
                    b"user.a",
                    &[7; 500],
                    XattrFlags::empty(),
                )
                .expect("an attribute"),
            false => allocate(&fs, &far, 0..1),
        }
        let ino = far.ino;
        let bitmap = fs.volume.group(GroupNo(1)).expect("a group").block_bitmap();
        drop(far);
        fs.unmount().expect("unmount");
        let at = bitmap.0 << 10;
        device.fail(BlockOp::Read, at..at + 1024, Errno::EIO);
        let done = replay_on(&device, &[unlink(Ino::ROOT, "far", ino)]);
        assert_eq!(done.expect_err("not freed").errno(), Errno::EIO);
    }
}

#[test]
fn a_file_with_attributes_in_inodes_is_not_deleted() {
    let base = base_as("fast_commit,ea_inode");
    let fs = mount(&base.device);
    let gone = base.ino("gone");
    let node = fs.inodes.get_inode(gone).expect("an inode");
    let flags = XattrFlags::empty();
    fs.setxattr(&Caller::root(), &node, b"user.a", &[7; 5000], flags)
        .expect("an attribute");
    drop(node);
    fs.unmount().expect("unmount");
    let unlinked = [unlink(Ino::ROOT, "gone", gone)];
    let again = base.made(gone, |_| {});
    for records in [&unlinked[..], &[unlinked[0].clone(), again]] {
        let refused = replay_on(&base.device, records).expect_err("not possible");
        assert!(matches!(refused, Ext4Error::Unsupported(_)), "{refused}");
        assert_eq!(shown(&base.device), base.shown);
    }
}

#[test]
fn blocks_that_something_else_has_are_refused() {
    let base = base();
    let (kept, gone) = (base.ino("kept"), base.ino("gone"));
    let others = base.extent("inner").pblk.0;
    base.refuses(&[add(kept, 10, 1, others)], kept, "something else has");
    base.refuses(&[add(kept, 10, 2, others - 1)], kept, "something else has");
    base.refuses(&[add(kept, 10, 1, 3)], kept, "something else has");
    base.refuses(&[add(kept, 10, 1, 1)], kept, "in a fast commit");
    base.refuses(&[add(kept, 10, 1, 1 << 40)], kept, "in a fast commit");
    let both = [add(kept, 10, 1, FREE), add(gone, 10, 1, FREE)];
    let grown = |name| base.changed(name, |inode| inode.size = 11 << 10);
    let both = [&both[..], &[grown("kept"), grown("gone")]].concat();
    base.refuses(&both, kept.max(gone), "to two files");
}

#[test]
fn names_that_cannot_be_are_refused() {
    let base = base();
    let (kept, dir) = (base.ino("kept"), base.ino("dir"));
    let cannot = "a name that cannot be";
    for text in [".", "..", "a/b"] {
        base.refuses(&[link(dir, text, kept)], dir, cannot);
        base.refuses(&[unlink(dir, text, kept)], dir, cannot);
    }
    base.refuses(&[link(dir, "itself", dir)], dir, cannot);
    base.refuses(&[unlink(dir, "root", Ino::ROOT)], dir, cannot);
    let gone = base.ino("gone");
    base.refuses(&[link(kept, "in", gone)], kept, "a name in no directory");
    base.refuses(
        &[link(Ino::ROOT, "twice", dir)],
        dir,
        "names a directory twice",
    );
    base.refuses(
        &[unlink(Ino::ROOT, "dir", dir)],
        dir,
        "removes a directory with names",
    );
    base.refuses(&[link(Ino(7), "reserved", kept)], Ino(7), "reserved");
    let empty = base.ino("empty");
    let again = [
        unlink(Ino::ROOT, "empty", empty),
        link(Ino::ROOT, "again", empty),
        base.changed("empty", |_| {}),
    ];
    base.refuses(&again, empty, "names a directory twice");
    let over = [link(Ino::ROOT, "dir", kept)];
    base.refuses(&over, dir, "removes a directory with names");
}

#[test]
fn inodes_that_cannot_be_are_refused() {
    let base = base();
    let (kept, dir) = (base.ino("kept"), base.ino("dir"));
    let changed = |change: fn(&mut Inode)| base.changed("kept", change);
    let without = changed(|inode| inode.flags = InodeFlags::empty());
    base.refuses(&[without], kept, "an inode without extents");
    let unknown = base.made(NEW, |inode| inode.mode = 0o644);
    base.refuses(&[unknown], NEW, "an inode without extents");
    let attributes = changed(|inode| inode.file_acl = Pblk(FREE));
    base.refuses(&[attributes], kept, "changes its attributes");
    let of_new = base.made(NEW, |inode| inode.file_acl = Pblk(FREE));
    base.refuses(&[of_new], NEW, "as none can be");
    let of_root = base.made(Ino::ROOT, directory);
    base.refuses(&[of_root], Ino::ROOT, "as none can be");
    base.refuses(&[add(dir, 0, 1, FREE)], dir, "what has no extents");
}

#[test]
fn data_in_an_inode_that_cannot_be_is_refused() {
    let (base, small, raw) = with_small();
    let kept = base.ino("kept");
    // The inode of a file that has blocks.
    let mut inode = Inode::decode(&raw, &base.params).expect("an inode");
    let old = Inode::decode(&base.inodes["kept"].1, &base.params).expect("an inode");
    inode.generation = old.generation;
    let mut over = raw.clone();
    inode.encode_into(&mut over, &base.params);
    let record = |ino, raw: &[u8]| FastCommitRecord::Inode {
        ino,
        raw: raw.into(),
    };
    base.refuses(&[record(kept, &over)], kept, "a file that has blocks");
    let mut damaged = raw.clone();
    let end = 128 + usize::from(inode.extra_isize);
    // The first attribute is that of the data: its value is longer than the inode.
    damaged[end + 4 + 8] = 0xff;
    let why = "attribute";
    base.refuses(&[record(small, &damaged)], small, why);
    base.refuses(&[record(NEW, &damaged)], NEW, why);
}

/// Records of every kind.
fn many(base: &Base) -> Vec<FastCommitRecord> {
    let (gone, kept) = (base.ino("gone"), base.ino("kept"));
    let (dir, empty) = (base.ino("dir"), base.ino("empty"));
    let freed = base.extent("gone").pblk.0;
    vec![
        link(Ino::ROOT, "early", NEW),
        add(NEW, 0, 3, FREE),
        base.made(NEW, |_| {}),
        create(dir, "new", NEW),
        unlink(Ino::ROOT, "gone", gone),
        base.made(gone, directory),
        create(Ino::ROOT, "sub", gone),
        link(gone, "kept", kept),
        add(kept, 10, 2, freed),
        del(kept, 0, 2),
        base.changed("kept", |inode| inode.size = 11 << 10),
        unlink(Ino::ROOT, "empty", empty),
        unlink(dir, "other", base.ino("inner")),
        unlink(dir, "inner", base.ino("inner")),
    ]
}

/// Each read, write and flush of a replay fails in turn.
#[test]
fn a_device_call_that_fails_is_reported() {
    let wanted = {
        let base = base();
        base.replayed(&many(&base));
        shown(&base.device)
    };
    for op in [BlockOp::Read, BlockOp::Write, BlockOp::Flush] {
        let mut failed = 0;
        loop {
            let base = base();
            base.device.fail_after(op, failed);
            let done = replay_on(&base.device, &many(&base));
            if !base.device.work() {
                done.expect("no call failed");
                assert_eq!(shown(&base.device), wanted, "{op:?} {failed}");
                break;
            }
            let why = done.expect_err("a call failed");
            assert_eq!(why.errno(), Errno::EIO, "{op:?} {failed}");
            failed += 1;
        }
        assert!(failed > 2, "{op:?}: only {failed}");
    }
}

#[test]
fn a_read_only_feature_refuses_a_replay() {
    let base = base();
    let device = Arc::clone(&base.device) as Arc<dyn BlockDevice>;
    let mut sb = read_superblock(&*device).expect("a superblock");
    let options = MountOptions::default();
    let map = find_log(&sb, &device, None, &options).expect("mapped");
    sb.ro_compat |= RoCompat::from_bits_retain(1 << 30);
    let writing = replay(&device, &sb, &map.expect("a log"), &options, &[]);
    assert!(writing.is_err(), "{writing:?}");
    assert_eq!(shown(&base.device), base.shown);
}
