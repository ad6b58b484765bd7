use super::*;
use crate::fixture::*;
use crate::fs::Ext4;
use uext4_block::BlockOp;

const ME: Caller = Caller::root();
const PLAIN: RenameFlags = RenameFlags::empty();

fn root(fs: &Ext4) -> InodeRef {
    fs.namei.root().expect("root").clone()
}

fn rename(fs: &Ext4, old: (&InodeRef, &str), new: (&InodeRef, &str)) -> Result<()> {
    rename_as(fs, &ME, old, new, PLAIN)
}

fn rename_as(
    fs: &Ext4,
    caller: &Caller,
    old: (&InodeRef, &str),
    new: (&InodeRef, &str),
    flags: RenameFlags,
) -> Result<()> {
    let (old_name, new_name) = (old.1.as_bytes(), new.1.as_bytes());
    fs.namei
        .rename(caller, old.0, old_name, new.0, new_name, flags)
}

#[test]
fn ancestors_are_locked_first() {
    let (fs, _device) = small_fs();
    let a = make(&fs, &root(&fs), "a", &DIR);
    let b = make(&fs, &a, "b", &DIR);
    let c = make(&fs, &b, "c", &DIR);
    let other = make(&fs, &root(&fs), "other", &DIR);
    let _renaming = fs.namei.rename.lock();
    let order = |x: &InodeRef, y: &InodeRef| fs.namei.dir_order(x, y).expect("an order");
    assert_eq!(order(&a, &c), DirOrder::FirstAbove);
    assert_eq!(order(&c, &a), DirOrder::SecondAbove);
    assert_eq!(order(&root(&fs), &b), DirOrder::FirstAbove);
    assert_eq!(order(&c, &other), DirOrder::Unrelated);
    assert_eq!(order(&other, &a), DirOrder::Unrelated);
}

#[test]
fn names_are_looked_up_by_those_that_may_search() {
    let (fs, _device) = small_fs();
    let closed = NewNode { mode: 0o700, ..DIR };
    let open = NewNode { mode: 0o777, ..DIR };
    let closed = make(&fs, &root(&fs), "closed", &closed);
    let open = make(&fs, &root(&fs), "open", &open);
    let user = Caller::user(1000, 1000);
    for (old, new) in [(&closed, &open), (&open, &closed)] {
        let done = rename_as(&fs, &user, (old, "missing"), (new, "x"), PLAIN);
        let errno = done.expect_err("refused").errno();
        assert_eq!(errno, Errno::EACCES);
    }
}

#[test]
fn a_name_that_is_too_long_is_refused_whatever_there_is() {
    let (fs, _device) = small_fs();
    let (top, long) = (root(&fs), "x".repeat(256));
    for (old, new) in [(&*long, "y"), ("missing", &*long)] {
        let done = rename(&fs, (&top, old), (&top, new));
        assert!(matches!(done, Err(Ext4Error::NameTooLong)), "{done:?}");
    }
}

#[test]
fn nothing_moves_into_a_directory_that_is_gone() {
    let (fs, _device) = small_fs();
    let top = root(&fs);
    let gone = make(&fs, &top, "gone", &DIR);
    make(&fs, &top, "f", &FILE);
    fs.namei.rmdir(&ME, &top, b"gone").expect("rmdir");
    let done = rename(&fs, (&top, "f"), (&gone, "f"));
    assert!(matches!(done, Err(Ext4Error::NotFound)), "{done:?}");
    fs.namei.lookup(&ME, &top, b"f").expect("where it was");
}

#[test]
fn a_directory_moves_only_if_its_entries_may_change() {
    let (fs, _device) = small_fs();
    let open = NewNode { mode: 0o777, ..DIR };
    let from = make(&fs, &root(&fs), "from", &open);
    let to = make(&fs, &root(&fs), "to", &open);
    make(&fs, &from, "d", &DIR);
    make(&fs, &from, "f", &FILE);
    let user = Caller::user(1000, 1000);
    let done = rename_as(&fs, &user, (&from, "d"), (&to, "d"), PLAIN);
    assert_eq!(done.expect_err("refused").errno(), Errno::EACCES);
    let within = rename_as(&fs, &user, (&from, "d"), (&from, "e"), PLAIN);
    within.expect("its parent stays");
    let done = rename_as(&fs, &user, (&from, "f"), (&to, "f"), PLAIN);
    done.expect("a file has no entries");
}

#[test]
fn a_directory_has_so_many_subdirectories() {
    let device = image(8 << 20, "^dir_nlink");
    let fs = mount(&device);
    let full = make(&fs, &root(&fs), "full", &DIR);
    make(&fs, &root(&fs), "d", &DIR);
    make(&fs, &root(&fs), "f", &FILE);
    let links = |links| {
        let set = |handle: &Handle<'_>| {
            let change = |disk: &mut uext4_ondisk::Inode| disk.links = links;
            fs.table.update_inode(&full, handle, change)
        };
        fs.volume.with_handle(1, set).expect("a change");
    };
    links(65000);
    let done = rename(&fs, (&root(&fs), "d"), (&full, "d"));
    assert!(matches!(done, Err(Ext4Error::TooManyLinks)), "{done:?}");
    rename(&fs, (&root(&fs), "f"), (&full, "f")).expect("a file adds no link");
    links(64999);
    rename(&fs, (&root(&fs), "d"), (&full, "d")).expect("the last one");
    fs.crash();
}

#[test]
fn a_rename_from_a_directory_with_dirsync_is_durable_or_fails() {
    for what in [FILE, DIR] {
        let (fs, device) = small_fs();
        let from = make(&fs, &root(&fs), "from", &DIR);
        let to = make(&fs, &root(&fs), "to", &DIR);
        make(&fs, &from, "x", &what);
        let flags = from.flags() & InodeFlags::USER_VISIBLE | InodeFlags::DIRSYNC;
        fs.files.set_flags(&ME, &from, flags).expect("a flag");
        fs.sync().expect("sync");
        device.fail(BlockOp::Write, 0..u64::MAX, Errno::EIO);
        let done = rename(&fs, (&from, "x"), (&to, "x"));
        assert_eq!(done.expect_err("not durable").errno(), Errno::EIO);
    }
}

#[test]
fn a_rename_waits_for_the_inodes_that_it_moves() {
    let (fs, _device) = small_fs();
    let top = root(&fs);
    let [a, b] = ["a", "b"].map(|name| make(&fs, &top, name, &FILE));
    for held in [&a, &b] {
        let (done, renamed) = std::sync::mpsc::channel();
        let locked = ilock(&held.ilock, LockMode::Exclusive);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let flags = RenameFlags::EXCHANGE;
                let renamed = rename_as(&fs, &ME, (&top, "a"), (&top, "b"), flags);
                done.send(renamed.is_ok()).expect("a receiver");
            });
            let early = renamed.recv_timeout(Duration::from_millis(50));
            assert!(early.is_err(), "its lock is held");
            drop(locked);
            assert_eq!(renamed.recv(), Ok(true));
        });
    }
}

/// Two directories and what is in them, each in a block of the inode table of its own.
struct Apart {
    fs: Arc<Ext4>,
    from: InodeRef,
    to: InodeRef,
    /// In `from` and in `to`.
    moved: [InodeRef; 2],
}

fn apart(what: &NewNode) -> Apart {
    let (fs, _device) = small_fs();
    let top = root(&fs);
    let mut others = 0;
    let mut next = |dir: &InodeRef, name: &str, new: &NewNode| {
        // Four inodes are in a block.
        for _ in 0..4 {
            others += 1;
            make(&fs, &top, &format!("other {others}"), &FILE);
        }
        make(&fs, dir, name, new)
    };
    let from = next(&top, "from", &DIR);
    let to = next(&top, "to", &DIR);
    let moved = [next(&from, "a", what), next(&to, "b", what)];
    let tables = [&from, &to, &moved[0], &moved[1]].map(|node| node.itable.block());
    assert_eq!(HashSet::from(tables).len(), 4);
    for dir in [&from, &to] {
        // In the same clock tick their times would be written already.
        let old = Timestamp::new(1, 0);
        let set = |handle: &Handle<'_>| fs.table.update_inode(dir, handle, |disk| disk.mtime = old);
        fs.volume.with_handle(1, set).expect("sets the time");
    }
    Apart {
        fs,
        from,
        to,
        moved,
    }
}

/// The first block of a directory.
fn entries_of(fs: &Ext4, dir: &InodeRef) -> Arc<Buffer> {
    let extents = fs.mapping.extents(dir).expect("extents");
    fs.volume
        .cache()
        .peek(extents[0].pblk.0)
        .expect("in memory")
}

#[track_caller]
fn assert_lost(done: Result<()>) {
    assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
}

#[test]
fn a_rename_without_write_access_to_a_block_fails() {
    let block_of: [fn(&Apart) -> Arc<Buffer>; 5] = [
        |at| entries_of(&at.fs, &at.from),
        |at| entries_of(&at.fs, &at.to),
        |at| Arc::clone(&at.from.itable),
        |at| Arc::clone(&at.to.itable),
        |at| Arc::clone(&at.moved[0].itable),
    ];
    for (name, flags) in [("new", PLAIN), ("b", PLAIN), ("new", RenameFlags::WHITEOUT)] {
        for block_of in block_of {
            let at = apart(&FILE);
            let (fs, block) = (&at.fs, block_of(&at));
            assert_lost(losing_the_journal_at(fs, &block, || {
                rename_as(fs, &ME, (&at.from, "a"), (&at.to, name), flags)
            }));
        }
    }
    // A directory has an entry for its parent.
    for name in ["new", "b"] {
        let at = apart(&DIR);
        let (fs, block) = (&at.fs, entries_of(&at.fs, &at.moved[0]));
        assert_lost(losing_the_journal_at(fs, &block, || {
            rename(fs, (&at.from, "a"), (&at.to, name))
        }));
    }
}

#[test]
fn an_exchange_without_write_access_to_a_block_fails() {
    let block_of: [fn(&Apart) -> Arc<Buffer>; 8] = [
        |at| Arc::clone(&at.from.itable),
        |at| Arc::clone(&at.to.itable),
        |at| entries_of(&at.fs, &at.from),
        |at| entries_of(&at.fs, &at.to),
        |at| entries_of(&at.fs, &at.moved[0]),
        |at| entries_of(&at.fs, &at.moved[1]),
        |at| Arc::clone(&at.moved[0].itable),
        |at| Arc::clone(&at.moved[1].itable),
    ];
    for block_of in block_of {
        let at = apart(&DIR);
        let (fs, block) = (&at.fs, block_of(&at));
        assert_lost(losing_the_journal_at(fs, &block, || {
            let flags = RenameFlags::EXCHANGE;
            rename_as(fs, &ME, (&at.from, "a"), (&at.to, "b"), flags)
        }));
    }
}

#[test]
fn names_that_are_not_there_are_not_exchanged() {
    let (fs, _device) = small_fs();
    let top = root(&fs);
    make(&fs, &top, "a", &FILE);
    let done = rename_as(&fs, &ME, (&top, "a"), (&top, "b"), RenameFlags::EXCHANGE);
    assert!(matches!(done, Err(Ext4Error::NotFound)), "{done:?}");
    fs.namei.lookup(&ME, &top, b"a").expect("where it was");
}

#[test]
fn a_directory_whose_parent_entry_cannot_be_read_does_not_move() {
    let (fs, device) = small_fs();
    let [from, to] = ["from", "to"].map(|name| make(&fs, &root(&fs), name, &DIR));
    let moved = make(&fs, &from, "d", &DIR);
    let entries = Pblk(entries_of(&fs, &moved).block());
    drop((moved, from, to));
    fs.unmount().expect("unmount");
    let fs = mount(&device);
    let get = |name: &[u8]| fs.namei.lookup(&ME, &root(&fs), name).expect("there");
    let (from, to) = (get(b"from"), get(b"to"));
    device.fail_reads_of(&fs, entries);
    let done = rename(&fs, (&from, "d"), (&to, "d"));
    assert!(matches!(done, Err(Ext4Error::Device(_))), "{done:?}");
    fs.volume.journal().sync().expect("the journal continues");
    device.work();
    rename(&fs, (&from, "d"), (&to, "d")).expect("readable again");
}

#[test]
fn a_file_stays_in_its_project() {
    let device = image(8 << 20, "project");
    let fs = mount(&device);
    let [a, b, apart] = ["a", "b", "apart"].map(|name| make(&fs, &root(&fs), name, &DIR));
    make(&fs, &a, "f", &FILE);
    make(&fs, &apart, "g", &FILE);
    let flags = apart.flags() & InodeFlags::USER_VISIBLE | InodeFlags::PROJINHERIT;
    fs.files
        .set_flags_and_project(&ME, &apart, Some(flags), Some(7))
        .expect("a project");
    let crosses = |done: Result<()>| done.is_err_and(|why| why.errno() == Errno::EXDEV);
    assert!(crosses(rename(&fs, (&a, "f"), (&apart, "f"))));
    let exchange = |old, new| rename_as(&fs, &ME, old, new, RenameFlags::EXCHANGE);
    assert!(crosses(exchange((&a, "f"), (&apart, "g"))));
    assert!(crosses(exchange((&apart, "g"), (&a, "f"))));
    rename(&fs, (&a, "f"), (&b, "f")).expect("of the same project");
}

#[test]
fn what_cannot_be_renamed_stays() {
    let (fs, _device) = small_fs();
    let top = root(&fs);
    let a = make(&fs, &top, "a", &DIR);
    let b = make(&fs, &a, "b", &DIR);
    let node = make(&fs, &top, "f", &FILE);
    let inside = rename(&fs, (&top, "a"), (&b, "c"));
    assert!(matches!(inside, Err(Ext4Error::Invalid(_))), "{inside:?}");
    let above = rename(&fs, (&b, "x"), (&top, "a"));
    assert!(matches!(above, Err(Ext4Error::NotFound)), "{above:?}");
    make(&fs, &b, "x", &DIR);
    let above = rename(&fs, (&b, "x"), (&top, "a"));
    assert!(matches!(above, Err(Ext4Error::NotEmpty)), "{above:?}");
    for (old, new) in [((&node, "x"), (&top, "y")), ((&top, "f"), (&node, "y"))] {
        let done = rename(&fs, old, new);
        assert!(matches!(done, Err(Ext4Error::NotDirectory)), "{done:?}");
    }
    for (old, new) in [(".", "y"), ("..", "y"), ("f", "."), ("f", "..")] {
        let done = rename(&fs, (&top, old), (&top, new));
        assert!(
            matches!(done, Err(Ext4Error::Busy(_))),
            "{old} {new}: {done:?}"
        );
    }
    for other in [RenameFlags::NOREPLACE, RenameFlags::WHITEOUT] {
        let flags = RenameFlags::EXCHANGE | other;
        let done = rename_as(&fs, &ME, (&top, "a"), (&top, "f"), flags);
        assert!(matches!(done, Err(Ext4Error::Invalid(_))), "{done:?}");
    }
    let user = Caller::user(1000, 1000);
    let done = rename_as(&fs, &user, (&top, "f"), (&top, "g"), PLAIN);
    assert_eq!(done.expect_err("not its directory").errno(), Errno::EACCES);
}

#[test]
fn a_whiteout_is_left_where_the_flags_say_so() {
    let (fs, _device) = small_fs();
    let top = root(&fs);
    make(&fs, &top, "f", &FILE);
    rename_as(&fs, &ME, (&top, "f"), (&top, "g"), RenameFlags::WHITEOUT).expect("rename");
    let left = fs.namei.lookup(&ME, &top, b"f").expect("a whiteout");
    assert_eq!(left.file_type, FileType::CharDevice);
    rename(&fs, (&top, "g"), (&top, "h")).expect("rename");
    assert!(fs.namei.lookup(&ME, &top, b"g").is_err());
}

#[test]
fn nothing_is_renamed_in_a_mount_for_reading() {
    let device = image(8 << 20, "");
    let fs = mount_as(&device, |options| options.read_only = true);
    let done = rename(&fs, (&root(&fs), "missing"), (&root(&fs), "x"));
    assert!(matches!(done, Err(Ext4Error::ReadOnly)), "{done:?}");
}
