//! What becomes of a tree.

use super::*;

#[test]
fn a_file_is_made_whether_its_blocks_or_its_names_come_first() {
    let made = |base: &Base| base.made(NEW, |_| {});
    let (range, first, second) = (
        || add(NEW, 0, 3, FREE),
        || create(Ino::ROOT, "new", NEW),
        || link(Ino::ROOT, "second", NEW),
    );
    type Order = fn(&[FastCommitRecord; 4]) -> Vec<FastCommitRecord>;
    let orders: [Order; 3] = [
        |[inode, range, first, second]| [inode, first, range, second].map(Clone::clone).to_vec(),
        |[inode, range, first, second]| [range, inode, first, second].map(Clone::clone).to_vec(),
        |[inode, range, first, second]| [second, range, inode, first].map(Clone::clone).to_vec(),
    ];
    for order in orders {
        let base = base();
        let records = order(&[made(&base), range(), first(), second()]);
        let extents = format!(", 0+3 at {FREE}");
        let lines = ["new", "second"].map(|path| line(path, NEW, 2, 3 << 10, &extents));
        assert_eq!(base.replayed(&records), (vec![], lines.to_vec()));
    }
}

#[test]
fn a_directory_is_made_with_names_in_it() {
    let base = base();
    let records = [
        base.made(NEW, directory),
        create(Ino::ROOT, "sub", NEW),
        base.made(OTHER, |inode| inode.size = 0),
        create(NEW, "file", OTHER),
    ];
    let lines = vec![
        line("sub", NEW, 2, 1024, ""),
        line("sub/file", OTHER, 1, 0, ""),
    ];
    assert_eq!(base.replayed(&records), (vec![], lines));
}

#[test]
fn a_range_that_came_before_a_directory_is_not_the_directorys() {
    let base = base();
    let records = [
        add(NEW, 0, 1, FREE),
        base.made(NEW, directory),
        create(Ino::ROOT, "sub", NEW),
    ];
    let lines = vec![line("sub", NEW, 2, 1024, "")];
    assert_eq!(base.replayed(&records), (vec![], lines));
    let fs = mount(&base.device);
    let sub = fs.inodes.get_inode(NEW).expect("an inode");
    let extents = fs.mapping.extents(&sub).expect("extents");
    assert_ne!(extents[0].pblk, Pblk(FREE));
    assert_eq!(extents.len(), 1);
}

#[test]
fn the_first_inode_that_is_not_reserved_may_have_records() {
    let base = base();
    let kept = base.ino("kept");
    let found = Ino(11);
    let (_, more) = base.replayed(&[link(found, "kept", kept)]);
    assert!(more[0].starts_with(&format!("kept: {} links 2 ", kept.0)));
}

#[test]
fn what_loses_its_last_name_is_deleted() {
    let base = base();
    let (gone, inner) = (base.ino("gone"), base.ino("inner"));
    let (dir, empty) = (base.ino("dir"), base.ino("empty"));
    let records = [
        unlink(Ino::ROOT, "gone", gone),
        unlink(dir, "other", inner),
        unlink(Ino::ROOT, "empty", empty),
        // Of what is not there, and of another inode's.
        unlink(Ino::ROOT, "nothing", gone),
        unlink(Ino::ROOT, "kept", gone),
    ];
    let (less, more) = base.replayed(&records);
    let at = base.extent("inner").pblk.0;
    let extents = format!(", unwritten 0+2 at {at}");
    assert_eq!(more, [line("dir/inner", inner, 1, 2 << 10, &extents)]);
    assert_eq!(less.len(), 4, "{less:?}");
}

#[test]
fn a_name_that_was_anothers_is_replaced() {
    let base = base();
    let (gone, kept) = (base.ino("gone"), base.ino("kept"));
    let (less, more) = base.replayed(&[
        link(Ino::ROOT, "gone", kept),
        unlink(Ino::ROOT, "kept", kept),
        // It is there.
        link(Ino::ROOT, "gone", kept),
    ]);
    assert_eq!((less.len(), more.len()), (2, 1), "{less:?} {more:?}");
    assert!(more[0].starts_with(&format!("gone: {} links 1 ", kept.0)));
    assert!(!more[0].contains(&format!(" {} ", gone.0)));
}

#[test]
fn a_link_that_came_early_and_was_removed_is_not_made() {
    let base = base();
    let kept = base.ino("kept");
    let records = [
        link(base.ino("dir"), "over", NEW),
        link(base.ino("dir"), "over", kept),
        link(Ino::ROOT, "early", NEW),
        unlink(Ino::ROOT, "early", NEW),
        link(Ino::ROOT, "taken", NEW),
        link(Ino::ROOT, "taken", OTHER),
        base.made(NEW, |inode| inode.size = 0),
        create(Ino::ROOT, "new", NEW),
        base.made(OTHER, |inode| inode.size = 0),
    ];
    let (less, more) = base.replayed(&records);
    assert!(
        less.iter().all(|line| line.starts_with("kept: ")),
        "{less:?}"
    );
    let made: Vec<_> = more.iter().filter(|line| !line.contains("kept")).collect();
    let over = format!("dir/over: {} links 2 ", kept.0);
    assert!(made[0].starts_with(&over), "{made:?}");
    assert_eq!(
        made[1..],
        [&line("new", NEW, 1, 0, ""), &line("taken", OTHER, 1, 0, "")]
    );
}

#[test]
fn ranges_that_are_added_removed_and_cut_off_make_the_mapping() {
    let base = base();
    let kept = base.ino("kept");
    let at = base.extent("kept").pblk.0;
    let (_, more) = base.replayed(&[
        add(kept, 4, 2, FREE),
        del(kept, 1, 2),
        // Past the end that the size says.
        add(kept, 20, 5, FREE + 10),
        base.changed("kept", |inode| inode.size = 8 << 10),
        del(NEW, 0, 5),
    ]);
    let extents = format!(
        ", unwritten 0+1 at {at}, unwritten 3+1 at {}, 4+2 at {FREE}, unwritten 6+4 at {}",
        at + 3,
        at + 6
    );
    assert_eq!(more, [line("kept", kept, 1, 8 << 10, &extents)]);
}

#[test]
fn a_block_moves_from_one_file_to_another() {
    let base = base();
    let (gone, kept) = (base.ino("gone"), base.ino("kept"));
    let from = base.extent("gone").pblk.0;
    let (_, more) = base.replayed(&[
        del(gone, 1, 3),
        add(kept, 10, 2, from + 1),
        base.changed("kept", |inode| inode.size = 12 << 10),
    ]);
    let at = base.extent("kept").pblk.0;
    let lines = [
        line(
            "gone",
            gone,
            1,
            4 << 10,
            &format!(", unwritten 0+1 at {from}"),
        ),
        line(
            "kept",
            kept,
            1,
            12 << 10,
            &format!(", unwritten 0+10 at {at}, 10+2 at {}", from + 1),
        ),
    ];
    assert_eq!(more, lines);
}

#[test]
fn a_number_that_is_used_again_is_another_file() {
    let base = base();
    let (gone, dir) = (base.ino("gone"), base.ino("dir"));
    let records = [
        unlink(Ino::ROOT, "gone", gone),
        base.made(gone, |inode| inode.size = 1 << 10),
        create(dir, "new", gone),
        add(gone, 0, 1, base.extent("gone").pblk.0),
    ];
    let (less, more) = base.replayed(&records);
    let extents = format!(", 0+1 at {}", base.extent("gone").pblk.0);
    assert_eq!(more, [line("dir/new", gone, 1, 1 << 10, &extents)]);
    assert_eq!(less.len(), 1, "{less:?}");
}

#[test]
fn ranges_of_a_number_are_those_of_the_file_that_has_it_then() {
    let base = base();
    let (gone, dir) = (base.ino("gone"), base.ino("dir"));
    let (less, more) = base.replayed(&[
        add(gone, 10, 1, FREE),
        unlink(Ino::ROOT, "gone", gone),
        add(gone, 0, 2, FREE + 10),
        base.made(gone, |inode| inode.size = 2 << 10),
        create(dir, "new", gone),
    ]);
    let extents = format!(", 0+2 at {}", FREE + 10);
    assert_eq!(more, [line("dir/new", gone, 1, 2 << 10, &extents)]);
    assert_eq!(less.len(), 1, "{less:?}");
}

#[test]
fn a_name_in_a_directory_that_is_gone_is_passed_over() {
    let base = base();
    let (kept, empty) = (base.ino("kept"), base.ino("empty"));
    let (less, more) = base.replayed(&[
        unlink(Ino::ROOT, "empty", empty),
        link(empty, "first", kept),
        link(empty, "second", kept),
        unlink(empty, "second", kept),
    ]);
    assert_eq!((less.len(), more), (1, vec![]), "{less:?}");
}

#[test]
fn an_inode_that_changes_keeps_its_links_and_its_blocks() {
    let base = base();
    let (kept, dir) = (base.ino("kept"), base.ino("dir"));
    let records = [
        base.changed("kept", |inode| {
            (inode.links, inode.blocks, inode.dtime) = (9, 77, 5);
            (inode.mode, inode.uid) = (0o100_600, 1000);
        }),
        base.changed("dir", |inode| {
            (inode.links, inode.size, inode.gid) = (7, 99 << 10, 1001);
            inode.flags |= InodeFlags::INDEX;
        }),
    ];
    assert_eq!(base.replayed(&records), (vec![], vec![]));
    let fs = mount(&base.device);
    let of = |ino| fs.getattr(&fs.inodes.get_inode(ino).expect("an inode"));
    let (file, dir) = (of(kept).expect("a file"), of(dir).expect("a directory"));
    assert_eq!((file.mode, file.uid, file.blocks), (0o600, 1000, 20));
    assert_eq!((dir.mode, dir.gid), (0o755, 1001));
}

#[test]
fn data_in_an_inode_changes_and_comes_with_a_new_file() {
    let (base, small, raw) = with_small();
    let at = raw.windows(5).position(|w| w == b"hello").expect("data");
    let mut changed = raw.clone();
    changed[at..at + 5].copy_from_slice(b"world");
    let record = |ino, raw: &[u8]| FastCommitRecord::Inode {
        ino,
        raw: raw.into(),
    };
    let (less, more) = base.replayed(&[
        record(small, &changed),
        record(NEW, &raw),
        create(Ino::ROOT, "new", NEW),
    ]);
    assert_eq!((less, more), (vec![], vec![line("new", NEW, 1, 5, "")]));
    assert_eq!(data_of(&base, small), b"world");
    assert_eq!(data_of(&base, NEW), b"hello");
}

#[test]
fn a_file_without_blocks_has_its_data_in_the_inode_from_a_record_on() {
    let (base, _, raw) = with_small();
    let mut inode = Inode::decode(&raw, &base.params).expect("an inode");
    inode.generation = Generation(7);
    let mut within = raw.clone();
    inode.encode_into(&mut within, &base.params);
    let within = FastCommitRecord::Inode {
        ino: NEW,
        raw: within.into(),
    };
    let made = [
        base.made(NEW, |inode| inode.size = 0),
        create(Ino::ROOT, "new", NEW),
    ];
    let with_range = [&made[..], &[add(NEW, 0, 1, FREE), within.clone()]].concat();
    base.refuses(&with_range, NEW, "a file that has blocks");
    let (less, more) = base.replayed(&[&made[..], &[within]].concat());
    assert_eq!((less, more), (vec![], vec![line("new", NEW, 1, 5, "")]));
    assert_eq!(data_of(&base, NEW), b"hello");
}

#[test]
fn data_leaves_an_inode_for_blocks() {
    let (base, small, raw) = with_small();
    let mut inode = Inode::decode(&raw, &base.params).expect("an inode");
    inode.flags = InodeFlags::EXTENTS;
    inode.size = 2 << 10;
    ExtentNodeMut::init(&mut inode.i_block, 0);
    let (less, more) = base.replayed(&[add(small, 0, 2, FREE), base.inode(small, &inode)]);
    let extents = format!(", 0+2 at {FREE}");
    assert_eq!(more, [line("small", small, 1, 2 << 10, &extents)]);
    assert_eq!(less.len(), 1, "{less:?}");
}
