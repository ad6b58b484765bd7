//! Records on the image of a small tree: what becomes of it, and what is refused.

use super::*;
use crate::fixture::*;
use crate::mount::journal::find_log;
use crate::superblock::read_superblock;
use uext4_block::BlockOp;
use uext4_check::{CheckOptions, NoProgress};
use uext4_ondisk::Inode;
use uext4_vfs::attr::XattrFlags;
use uext4_vfs::filesystem::FileSystem;
use uext4_vfs::{Caller, Errno};

/// Numbers that no inode of the tree has.
const NEW: Ino = Ino(40);
const OTHER: Ino = Ino(41);
/// The first of many blocks that nothing uses.
const FREE: u64 = 6000;

/// An image with `kept` (ten blocks), `gone` (four), `dir/inner` (two, and the name `dir/other`) and `empty`, a directory.
struct Base {
    device: Arc<TestDevice>,
    /// The tree, a line for each name.
    shown: Vec<String>,
    params: InodeParams,
    inodes: BTreeMap<&'static str, (Ino, Vec<u8>, Vec<Extent>)>,
}

/// What the table has of an inode.
fn raw_of(fs: &Ext4, node: &InodeRef) -> Vec<u8> {
    let place = fs.table.inode_place(node.ino, false).expect("a place");
    let size = usize::from(fs.volume.params.inode_size);
    place.buffer.read().data()[place.offset..place.offset + size].to_vec()
}

fn base_as(features: &str) -> Base {
    let device = image(8 << 20, features);
    let fs = mount(&device);
    let root = fs.namei.root().expect("root");
    let dir = make(&fs, &root, "dir", &DIR);
    let made = [
        ("kept", file(&fs, "kept"), 10),
        ("gone", file(&fs, "gone"), 4),
        ("inner", make(&fs, &dir, "inner", &FILE), 2),
        ("empty", make(&fs, &root, "empty", &DIR), 0),
        ("dir", dir, 0),
    ];
    for (_, node, blocks) in &made[..3] {
        allocate(&fs, node, 0..*blocks);
    }
    let linked = fs.link(&Caller::root(), &made[2].1, &made[4].1, b"other");
    linked.expect("link");
    fs.sync().expect("sync");
    let inodes = made.iter().map(|(name, node, _)| {
        let extents = match node.is_inline() {
            true => Vec::new(),
            false => fs.mapping.extents(node).expect("extents"),
        };
        (*name, (node.ino, raw_of(&fs, node), extents))
    });
    let inodes = inodes.collect();
    let params = fs.volume.params;
    drop((made, root));
    fs.unmount().expect("unmount");
    let shown = shown(&device);
    Base {
        device,
        shown,
        params,
        inodes,
    }
}

fn base() -> Base {
    base_as("fast_commit")
}

/// A line for each name below a directory.
fn show(fs: &Ext4, dir: &InodeRef, path: &str, lines: &mut Vec<String>) {
    let mut names = Vec::new();
    let listed = fs.readdir(&Caller::root(), dir, 0, &mut |entry| {
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        true
    });
    listed.expect("readdir");
    names.retain(|name| !matches!(name.as_str(), "." | ".." | "lost+found"));
    names.sort();
    for name in names {
        let node = fs.namei.lookup(&Caller::root(), dir, name.as_bytes());
        let node = node.expect("lookup");
        let path = format!("{path}{name}");
        let attr = fs.getattr(&node).expect("getattr");
        let mut line = format!(
            "{path}: {} links {} size {}",
            node.ino.0, attr.nlink, attr.size
        );
        match node.is_dir() {
            true => lines.push(line),
            false => {
                for e in fs.mapping.extents(&node).expect("extents") {
                    let kind = if e.unwritten { "unwritten " } else { "" };
                    line += &format!(", {kind}{}+{} at {}", e.lblk.0, e.len, e.pblk.0);
                }
                lines.push(line);
                continue;
            }
        }
        show(fs, &node, &format!("{path}/"), lines);
    }
}

/// The tree of a clean image.
fn shown(device: &Arc<TestDevice>) -> Vec<String> {
    let fs = mount(device);
    let mut lines = Vec::new();
    show(&fs, &fs.namei.root().expect("root"), "", &mut lines);
    fs.unmount().expect("unmount");
    let report = uext4_check::check(&**device, &CheckOptions::default(), &NoProgress);
    let report = report.expect("a report");
    assert!(report.is_clean(), "{:?}", report.faults);
    lines
}

/// Replays records on a clean image, whose log is empty.
fn replay_on(device: &Arc<TestDevice>, records: &[FastCommitRecord]) -> Result<()> {
    let device = Arc::clone(device) as Arc<dyn BlockDevice>;
    let sb = read_superblock(&*device)?;
    let options = MountOptions::default();
    let map = find_log(&sb, &device, None, &options)?.expect("a log");
    replay(&device, &sb, &map, &options, records)
}

impl Base {
    fn ino(&self, name: &str) -> Ino {
        self.inodes[name].0
    }

    fn extent(&self, name: &str) -> Extent {
        self.inodes[name].2[0]
    }

    /// The record of an inode of the tree, changed.
    fn changed(&self, name: &str, change: impl FnOnce(&mut Inode)) -> FastCommitRecord {
        let (ino, raw, _) = &self.inodes[name];
        let mut inode = Inode::decode(raw, &self.params).expect("an inode");
        change(&mut inode);
        self.inode(*ino, &inode)
    }

    /// The record of an inode that is new: a file of three blocks, unless `change` makes it another.
    fn made(&self, ino: Ino, change: impl FnOnce(&mut Inode)) -> FastCommitRecord {
        let mut inode = Inode {
            mode: 0o100_644,
            links: 1,
            size: 3 << 10,
            flags: InodeFlags::EXTENTS,
            generation: Generation(7),
            ..Inode::default()
        };
        ExtentNodeMut::init(&mut inode.i_block, 0);
        change(&mut inode);
        self.inode(ino, &inode)
    }

    fn inode(&self, ino: Ino, inode: &Inode) -> FastCommitRecord {
        let mut raw = vec![0; usize::from(self.params.inode_size)];
        inode.encode_into(&mut raw, &self.params);
        let raw = raw.into();
        FastCommitRecord::Inode { ino, raw }
    }

    /// Replays records: the lines of the tree that are not there any more, and the new ones.
    fn replayed(&self, records: &[FastCommitRecord]) -> (Vec<String>, Vec<String>) {
        replay_on(&self.device, records).expect("a replay");
        let after = shown(&self.device);
        let less = |a: &[String], b: &[String]| -> Vec<String> {
            let missing = a.iter().filter(|line| !b.contains(line));
            missing.cloned().collect()
        };
        (less(&self.shown, &after), less(&after, &self.shown))
    }

    /// Records that are refused, for that inode, with the image left as it was.
    fn refuses(&self, records: &[FastCommitRecord], ino: Ino, why: &str) {
        let refused = replay_on(&self.device, records).expect_err(why);
        let Ext4Error::Corrupt(corrupt) = &refused else {
            panic!("{why}: {refused:?}");
        };
        assert_eq!(corrupt.ino, Some(ino), "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
        assert_eq!(shown(&self.device), self.shown, "{why}");
    }
}

fn name(parent: Ino, name: &str, ino: Ino) -> FastCommitName {
    FastCommitName {
        parent,
        ino,
        name: name.as_bytes().into(),
    }
}

fn create(parent: Ino, text: &str, ino: Ino) -> FastCommitRecord {
    FastCommitRecord::Create(name(parent, text, ino))
}

fn link(parent: Ino, text: &str, ino: Ino) -> FastCommitRecord {
    FastCommitRecord::Link(name(parent, text, ino))
}

fn unlink(parent: Ino, text: &str, ino: Ino) -> FastCommitRecord {
    FastCommitRecord::Unlink(name(parent, text, ino))
}

fn add(ino: Ino, lblk: u32, len: u16, pblk: u64) -> FastCommitRecord {
    let extent = Extent {
        lblk: Lblk(lblk),
        len,
        pblk: Pblk(pblk),
        unwritten: false,
    };
    FastCommitRecord::AddRange { ino, extent }
}

fn del(ino: Ino, lblk: u32, len: u32) -> FastCommitRecord {
    let lblk = Lblk(lblk);
    FastCommitRecord::DelRange { ino, lblk, len }
}

/// The line of a name.
fn line(path: &str, ino: Ino, links: u32, size: u64, extents: &str) -> String {
    format!("{path}: {} links {links} size {size}{extents}", ino.0)
}

fn directory(inode: &mut Inode) {
    inode.mode = 0o040_755;
    inode.links = 2;
    inode.size = 1024;
}

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
        link(empty, "in", kept),
        unlink(empty, "in", kept),
    ]);
    assert_eq!((less.len(), more), (1, vec![]), "{less:?}");
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

/// An image with `small`, a file whose data is in its inode, and what the table has of that.
fn with_small() -> (Base, Ino, Vec<u8>) {
    let mut base = base_as("fast_commit,inline_data");
    let fs = mount(&base.device);
    let small = file(&fs, "small");
    FileSystem::write(&*fs, &small, 0, b"hello").expect("write");
    fs.sync().expect("sync");
    let (ino, raw) = (small.ino, raw_of(&fs, &small));
    assert!(small.is_inline());
    drop(small);
    fs.unmount().expect("unmount");
    base.shown = shown(&base.device);
    (base, ino, raw)
}

/// What the file holds that the records leave.
fn data_of(base: &Base, ino: Ino) -> Vec<u8> {
    let fs = mount(&base.device);
    let node = fs.inodes.get_inode(ino).expect("an inode");
    let mut data = vec![0; 9];
    let n = FileSystem::read(&*fs, &node, 0, &mut data).expect("read");
    data.truncate(n);
    data
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
