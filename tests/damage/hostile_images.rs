//! Images that were made to deceive: blocks in two roles, trees that lead back to themselves, files over metadata.
//! Each is an error that names the place; nothing is written where it must not be.
use uext4_check::{CheckOptions, NoProgress as NoCheckProgress};
use uext4_ondisk::{CorruptKind, ExtentIdx, ExtentNodeMut, Lblk};
use uext4_testkit::prelude::*;

const BLOCK: u64 = 1024;
const SIZE: u64 = 16 << 20;
/// Where `i_block` is in an inode.
const I_BLOCK: u64 = 40;

/// An image without checksums, which would give every change away.
fn device() -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(SIZE));
    let options = MkfsOptions {
        size: Some(SIZE),
        block_size: BLOCK as u32,
        journal_size: Some(1 << 20),
        features: FeatureSet::parse("^metadata_csum,^orphan_file").expect("features"),
        ..MkfsOptions::default()
    };
    uext4_build::mkfs(&*device, &options, &NoProgress).expect("mkfs");
    device
}

fn mount(device: &Arc<MemoryDevice>) -> Result<Arc<Ext4>, Ext4Error> {
    Ext4::mount(
        Arc::clone(device) as Arc<dyn BlockDevice>,
        MountOptions::default(),
    )
}

/// Where the inode lies on the device.
fn place(fs: &Ext4, ino: Ino) -> u64 {
    let geometry = fs.volume.geometry();
    let (no, index) = geometry.group_of_ino(ino).expect("an inode");
    let (block, offset) = geometry.itable_position(index);
    (table(fs, no).0 + u64::from(block)) * BLOCK + offset as u64
}

fn table(fs: &Ext4, no: GroupNo) -> Pblk {
    let (at, within) = fs.volume.geometry().group_desc_location(no);
    let mut raw = vec![0; usize::from(fs.volume.geometry().desc_size)];
    let offset = at.0 * BLOCK + within as u64;
    fs.volume.device().read_at(offset, &mut raw).expect("read");
    GroupDesc::decode(&raw).expect("a descriptor").inode_table
}

fn make(fs: &Ext4, name: &[u8], kind: NewKind<'_>) -> InodeRef {
    let root = fs.top();
    let new = NewNode { mode: 0o755, kind };
    fs.make(&root, name, &new)
}

/// A file of one-block extents with holes between them.
fn fragments(fs: &Ext4, name: &[u8], count: u64) -> InodeRef {
    let file = make(fs, name, NewKind::Regular);
    for i in 0..count {
        fs.put(&file, i * 3 * BLOCK, &[1; BLOCK as usize]);
    }
    file
}

/// The child that the first index entry in an inode's root names.
fn first_node(device: &MemoryDevice, inode: u64) -> Pblk {
    let mut root = [0; 60];
    device.read_at(inode + I_BLOCK, &mut root).expect("read");
    let node = ExtentNodeMut::new(&mut root);
    assert_eq!(node.as_node().depth(), 1);
    node.as_node().idx(0).expect("an entry").child
}

/// Everything that follows a mapping; what it does must be an error, and is at most damage.
fn use_all(fs: &Ext4, name: &[u8]) -> Vec<(&'static str, Result<(), Ext4Error>)> {
    let me = Caller::root();
    let root = fs.top();
    let file = match fs.namei.lookup(&me, &root, name) {
        Ok(file) => file,
        Err(why) => return vec![("lookup", Err(why))],
    };
    let mut buf = [0; 4096];
    let far = 9 * BLOCK;
    let write = |at| fs.files.write(&file, at, &[7; 2048], true).map(drop);
    vec![
        ("read", fs.files.read(&file, 0, &mut buf).map(drop)),
        (
            "read, further",
            fs.files.read(&file, far, &mut buf).map(drop),
        ),
        ("extents", fs.mapping.extents(&file).map(drop)),
        ("overwrite", write(0)),
        ("write to a hole", write(BLOCK)),
        ("append", write(1 << 20)),
        (
            "punch",
            fs.files.fallocate(&file, Fallocate::PunchHole, 0, far),
        ),
        ("truncate", fs.files.truncate(&file, 0)),
        ("unlink", {
            drop(file);
            fs.namei.unlink(&me, &root, name)
        }),
    ]
}

/// Blocks of the inode tables and below, which none of this may change but for times and counts.
fn refuses_all(device: &Arc<MemoryDevice>, name: &[u8], what: &str) {
    let fs = mount(device).expect("mount");
    // On a small stack, where a recursion without end is over soon.
    std::thread::scope(|scope| {
        let run = || {
            for (call, done) in use_all(&fs, name) {
                // What is in memory already may be used; what follows the tree may not.
                let refused = matches!(done, Err(Ext4Error::Corrupt(_)));
                let by_name = call == "unlink" && done.is_ok();
                assert!(refused || by_name, "{what}: {call}: {done:?}");
            }
        };
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        let thread = thread.spawn_scoped(scope, run).expect("a thread");
        assert!(thread.join().is_ok(), "{what}");
    });
    fs.sync().expect("the journal is alive");
}

#[test]
fn a_node_that_is_its_own_child() {
    for depth in [1u16, 2] {
        let device = device();
        let fs = mount(&device).expect("mount");
        let file = fragments(&fs, b"f", 60);
        let inode = place(&fs, file.ino);
        drop(file);
        fs.unmount().expect("unmount");
        drop(fs);
        let node = first_node(&device, inode);
        // The root is one level higher than the node, whose only child is the node.
        let mut root = [0; 60];
        let idx = ExtentIdx {
            lblk: Lblk(0),
            child: node,
        };
        assert!(
            ExtentNodeMut::init(&mut root, depth + 1)
                .insert_idx_at(0, idx)
                .is_ok()
        );
        device.write_at(inode + I_BLOCK, &root).expect("write");
        let mut block = [0; BLOCK as usize];
        assert!(
            ExtentNodeMut::init(&mut block, depth)
                .insert_idx_at(0, idx)
                .is_ok()
        );
        device.write_at(node.0 * BLOCK, &block).expect("write");
        refuses_all(&device, b"f", "its own child");
    }
}

#[test]
fn a_leaf_that_two_entries_name() {
    let device = device();
    let fs = mount(&device).expect("mount");
    let file = fragments(&fs, b"f", 60);
    let inode = place(&fs, file.ino);
    drop(file);
    fs.unmount().expect("unmount");
    drop(fs);
    let node = first_node(&device, inode);
    let mut root = [0; 60];
    let mut tree = ExtentNodeMut::init(&mut root, 1);
    for (i, lblk) in [0, 1000, 2000].into_iter().enumerate() {
        let idx = ExtentIdx {
            lblk: Lblk(lblk),
            child: node,
        };
        assert!(tree.insert_idx_at(i, idx).is_ok());
    }
    device.write_at(inode + I_BLOCK, &root).expect("write");
    let fs = mount(&device).expect("mount");
    let file = fs.get(&fs.top(), b"f");
    let extents = fs.mapping.extents(&file);
    assert!(matches!(extents, Err(Ext4Error::Corrupt(_))), "{extents:?}");
    let truncated = fs.files.truncate(&file, 0);
    assert!(
        matches!(truncated, Err(Ext4Error::Corrupt(_))),
        "{truncated:?}"
    );
    fs.sync().expect("the journal is alive");
}

#[test]
fn an_extent_over_an_inode_table() {
    for below in [false, true] {
        let device = device();
        let fs = mount(&device).expect("mount");
        let file = fragments(&fs, b"f", if below { 60 } else { 4 });
        let inode = place(&fs, file.ino);
        // Its end, which nothing else changes.
        let last = u64::from(fs.volume.geometry().itable_blocks_per_group) - 1;
        let table = Pblk(table(&fs, GroupNo(0)).0 + last);
        drop(file);
        fs.unmount().expect("unmount");
        drop(fs);
        // The first extent of the root, or of the first leaf.
        let at = match below {
            true => first_node(&device, inode).0 * BLOCK,
            false => inode + I_BLOCK,
        };
        device
            .write_at(at + 12 + 8, &(table.0 as u32).to_le_bytes())
            .expect("write");
        let mut before = vec![0; BLOCK as usize];
        device.read_at(table.0 * BLOCK, &mut before).expect("read");
        refuses_all(&device, b"f", "over an inode table");
        let mut after = vec![0; BLOCK as usize];
        device.read_at(table.0 * BLOCK, &mut after).expect("read");
        assert!(before == after, "the inode table was written");
    }
}

#[test]
fn a_block_of_two_directories() {
    let device = device();
    let fs = mount(&device).expect("mount");
    let me = Caller::root();
    let [a, b] = [b"a", b"b"].map(|name| make(&fs, name, NewKind::Directory));
    let new = NewNode {
        mode: 0o644,
        kind: NewKind::Regular,
    };
    fs.make(&a, b"x", &new);
    let (from, to) = (place(&fs, a.ino), place(&fs, b.ino));
    drop((a, b));
    fs.unmount().expect("unmount");
    drop(fs);
    let mut root = [0; 60];
    device.read_at(from + I_BLOCK, &mut root).expect("read");
    device.write_at(to + I_BLOCK, &root).expect("write");
    let fs = mount(&device).expect("mount");
    let top = fs.top();
    let a = fs.get(&top, b"a");
    let b = fs.get(&top, b"b");
    fs.get(&a, b"x");
    let made = fs.namei.create(&me, &b, b"y", &new).map(drop);
    assert!(matches!(made, Err(Ext4Error::Corrupt(_))), "{made:?}");
}

#[test]
fn a_directory_block_that_is_a_node_of_a_file() {
    let device = device();
    let fs = mount(&device).expect("mount");
    let file = fragments(&fs, b"f", 60);
    let dir = make(&fs, b"d", NewKind::Directory);
    let (file_at, dir_at) = (place(&fs, file.ino), place(&fs, dir.ino));
    let block = fs.mapping.map_block(&dir, Lblk(0)).expect("maps").pblk;
    let block = block.expect("has a block");
    drop((file, dir));
    fs.unmount().expect("unmount");
    drop(fs);
    assert_ne!(file_at, dir_at);
    // The node of the file is where the directory's entries are.
    let mut root = [0; 60];
    let idx = ExtentIdx {
        lblk: Lblk(0),
        child: block,
    };
    assert!(
        ExtentNodeMut::init(&mut root, 1)
            .insert_idx_at(0, idx)
            .is_ok()
    );
    device.write_at(file_at + I_BLOCK, &root).expect("write");
    let fs = mount(&device).expect("mount");
    let top = fs.top();
    let dir = fs.get(&top, b"d");
    let new = NewNode {
        mode: 0o644,
        kind: NewKind::Regular,
    };
    fs.make(&dir, b"x", &new);
    drop(dir);
    for (call, done) in use_all(&fs, b"f") {
        let refused = matches!(done, Err(Ext4Error::Corrupt(_)));
        assert!(refused || call == "unlink", "{call}: {done:?}");
    }
}

#[test]
fn a_journal_that_is_elsewhere_too() {
    for over in ["the inode table", "itself"] {
        let device = device();
        let fs = mount(&device).expect("mount");
        let inode = place(&fs, Ino::JOURNAL);
        let table = table(&fs, GroupNo(0));
        fs.unmount().expect("unmount");
        drop(fs);
        let mut root = [0; 60];
        device.read_at(inode + I_BLOCK, &mut root).expect("read");
        {
            let mut node = ExtentNodeMut::new(&mut root);
            assert_eq!(node.as_node().depth(), 0);
            let mut last = node.as_node().extents().next_back().expect("an extent");
            let end = last.end() as u32;
            let at = usize::from(node.as_node().len());
            last.lblk = Lblk(end);
            last.len = 16;
            if over == "the inode table" {
                last.pblk = table;
            }
            assert!(node.insert_extent_at(at, last).is_ok());
        }
        device.write_at(inode + I_BLOCK, &root).expect("write");
        let mounted = mount(&device).map(drop);
        assert!(
            matches!(mounted, Err(Ext4Error::Corrupt(_))),
            "{over}: {mounted:?}"
        );
    }
}

/// Renames wait for the one that climbs: the way up is bounded.
#[test]
fn a_directory_that_is_too_deep_or_in_a_loop() {
    let device = Arc::new(MemoryDevice::new(160 << 20));
    let options = MkfsOptions {
        size: Some(160 << 20),
        block_size: BLOCK as u32,
        inodes: Some(70_000),
        ..MkfsOptions::default()
    };
    uext4_build::mkfs(&*device, &options, &NoProgress).expect("mkfs");
    let fs = mount(&device).expect("mount");
    let me = Caller::root();
    let new = NewNode {
        mode: 0o755,
        kind: NewKind::Directory,
    };
    let top = make(&fs, b"top", NewKind::Directory);
    let mut at = top.clone();
    for depth in 0..(1 << 16) + 10 {
        let below = fs.make(&at, b"d", &new);
        if depth == 1000 || depth == (1 << 16) + 5 {
            // A file that moves changes no way up, so its rename does not climb.
            let file = NewNode {
                mode: 0o644,
                kind: NewKind::Regular,
            };
            fs.make(&below, b"file", &file);
            let rename = |name: &[u8]| {
                fs.namei
                    .rename(&me, &below, name, &top, name, RenameFlags::empty())
            };
            rename(b"file").expect("a file moves");
            fs.remove(&top, "file");
            fs.make(&below, b"moved", &new);
            let renamed = rename(b"moved");
            match depth {
                1000 => renamed.expect("rename"),
                _ => assert_eq!(renamed.expect_err("too deep").errno(), Errno::ELOOP),
            }
        }
        at = below;
    }
}

#[test]
fn directories_above_each_other() {
    let device = device();
    let fs = mount(&device).expect("mount");
    let me = Caller::root();
    let new = NewNode {
        mode: 0o755,
        kind: NewKind::Directory,
    };
    let a = make(&fs, b"a", NewKind::Directory);
    let b = fs.make(&a, b"b", &new);
    fs.make(&b, b"c", &new);
    let block = fs.mapping.map_block(&a, Lblk(0)).expect("maps").pblk;
    let (block, b) = (block.expect("a block"), b.ino);
    drop(a);
    fs.unmount().expect("unmount");
    drop(fs);
    // The parent of `a` is its child.
    let at = block.0 * BLOCK + 12;
    device.write_at(at, &b.0.to_le_bytes()).expect("write");
    let fs = mount(&device).expect("mount");
    let top = fs.top();
    let b = fs.namei.lookup(&me, &fs.get(&top, b"a"), b"b");
    let b = b.expect("b");
    let renamed = fs
        .namei
        .rename(&me, &b, b"c", &top, b"c", RenameFlags::empty());
    assert!(matches!(renamed, Err(Ext4Error::Corrupt(_))), "{renamed:?}");
    fs.sync().expect("the journal is alive");
}

/// Writes `bytes` into an inode.
fn change_inode(device: &MemoryDevice, inode: u64, offset: u64, bytes: &[u8]) {
    device.write_at(inode + offset, bytes).expect("write");
}

fn set_size(device: &MemoryDevice, inode: u64, size: u64) {
    change_inode(device, inode, 4, &(size as u32).to_le_bytes());
    change_inode(device, inode, 0x6c, &((size >> 32) as u32).to_le_bytes());
}

/// The verifier's report, as text.
fn faults(device: &MemoryDevice) -> Vec<String> {
    let report = uext4_check::check(device, &CheckOptions::default(), &NoCheckProgress);
    let report = report.expect("the verifier reads the image");
    report.faults.iter().map(ToString::to_string).collect()
}

/// Neither what reads a range nor what frees blocks takes time in proportion to a size that is only claimed.
#[test]
fn a_file_of_8_eib() {
    for size in [i64::MAX as u64, 1 << 63, u64::MAX, (1 << 32) * BLOCK + 1] {
        let device = device();
        let fs = mount(&device).expect("mount");
        let file = fragments(&fs, b"f", 3);
        let inode = place(&fs, file.ino);
        drop(file);
        fs.unmount().expect("unmount");
        drop(fs);
        set_size(&device, inode, size);
        let found = faults(&device);
        assert!(
            found.iter().any(|fault| fault.contains("size")),
            "{size:#x}: {found:?}"
        );
        let fs = mount(&device).expect("mount");
        for (call, done) in use_all(&fs, b"f") {
            let corrupt = matches!(done, Err(Ext4Error::Corrupt(_)));
            let reads = call.starts_with("read") || call == "extents";
            assert!(corrupt || !reads, "{size:#x}: {call}: {done:?}");
        }
        fs.sync().expect("the journal is alive");
    }
}

/// A directory whose size claims 2^32 - 1 blocks, and one whose hash tree claims more entries than a block holds.
#[test]
fn a_directory_of_claimed_entries() {
    let device = device();
    let fs = mount(&device).expect("mount");
    let large = make(&fs, b"large", NewKind::Directory);
    let hashed = make(&fs, b"hashed", NewKind::Directory);
    let new = NewNode {
        mode: 0o644,
        kind: NewKind::Regular,
    };
    for number in 0..200 {
        let name = format!("{number}{}", "n".repeat(60));
        fs.make(&hashed, name.as_bytes(), &new);
    }
    fs.make(&large, b"file", &new);
    let inode = place(&fs, large.ino);
    let root = fs.mapping.map_block(&hashed, Lblk(0)).expect("maps").pblk;
    let root = root.expect("a block").0 * BLOCK;
    drop((large, hashed));
    fs.unmount().expect("unmount");
    drop(fs);
    set_size(&device, inode, u64::from(u32::MAX) * BLOCK);
    // The limit and the count of the root, after two entries and the header of the index.
    device.write_at(root + 32, &[0xff; 4]).expect("write");
    let found = faults(&device);
    for what in ["directory has a hole", "hash tree limit is wrong"] {
        assert!(found.iter().any(|f| f.contains(what)), "{what}: {found:?}");
    }
    let me = Caller::root();
    for name in [&b"large"[..], b"hashed"] {
        // An error makes the mount read-only, so each is mounted by itself.
        let fs = mount(&device).expect("mount");
        let called = name.escape_ascii();
        let dir = match fs.namei.lookup(&me, &fs.top(), name) {
            Ok(dir) => dir,
            Err(why) => {
                assert!(matches!(why, Ext4Error::Corrupt(_)), "{called}: {why:?}");
                continue;
            }
        };
        let missed = fs.namei.lookup(&me, &dir, b"missing").map(drop);
        assert!(
            matches!(missed, Err(Ext4Error::Corrupt(_))),
            "{called}: {missed:?}"
        );
        let made = fs.namei.create(&me, &dir, b"new", &new).map(drop);
        assert!(made.is_err(), "{called}: {made:?}");
    }
    // What is read past damage takes no more time.
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let fs = Ext4::mount(device.clone(), options).expect("mount");
    let dir = fs.namei.lookup(&me, &fs.top(), b"large").expect("a name");
    let found = fs.namei.lookup(&me, &dir, b"missing").map(drop);
    assert!(matches!(found, Err(Ext4Error::Corrupt(_))), "{found:?}");
    let (names, faults) = fs.list_readable(&dir).expect("a directory");
    assert_eq!((names, faults.len()), (vec![b"file".to_vec()], 1));
}

/// A directory whose size leaves out blocks that it has: what grows it must not map them a second time.
#[test]
fn regression_a_directory_with_blocks_beyond_its_size() {
    let device = device();
    let fs = mount(&device).expect("mount");
    let short = make(&fs, b"short", NewKind::Directory);
    let inode = place(&fs, short.ino);
    drop(short);
    fs.unmount().expect("unmount");
    drop(fs);
    set_size(&device, inode, 0);
    let fs = mount(&device).expect("mount");
    let me = Caller::root();
    let short = fs.namei.lookup(&me, &fs.top(), b"short").expect("a name");
    let new = NewNode {
        mode: 0o644,
        kind: NewKind::Regular,
    };
    let made = fs.namei.create(&me, &short, b"new", &new).map(drop);
    let Err(Ext4Error::Corrupt(why)) = made else {
        panic!("{made:?}");
    };
    assert_eq!((why.kind, why.ino), (CorruptKind::DirSize, Some(short.ino)));
}

/// A directory with two names: neither path makes a loop or frees it under the other.
#[test]
fn a_directory_with_two_names() {
    let device = device();
    let fs = mount(&device).expect("mount");
    let a = make(&fs, b"a", NewKind::Directory);
    let b = make(&fs, b"b", NewKind::Directory);
    let new = NewNode {
        mode: 0o755,
        kind: NewKind::Directory,
    };
    fs.make(&b, b"alias", &new);
    let block = fs.mapping.map_block(&b, Lblk(0)).expect("maps").pblk;
    let block = block.expect("a block").0 * BLOCK;
    let ino = a.ino;
    drop((a, b));
    fs.unmount().expect("unmount");
    drop(fs);
    // After the entries `.` and `..`.
    device
        .write_at(block + 24, &ino.0.to_le_bytes())
        .expect("write");
    let found = faults(&device);
    let named = format!("inode {ino}");
    assert!(
        found.iter().any(|fault| fault.contains(&named)),
        "{named}: {found:?}"
    );
    let fs = mount(&device).expect("mount");
    let me = Caller::root();
    let top = fs.top();
    let b = fs.get(&top, b"b");
    let alias = fs.get(&b, b"alias");
    assert_eq!(alias.ino, ino);
    // Into itself, by the other name.
    let rename = |from: &InodeRef, name: &[u8], into: &InodeRef| {
        let flags = RenameFlags::empty();
        fs.namei.rename(&me, from, name, into, b"below", flags)
    };
    let into_itself = rename(&top, b"a", &alias);
    assert_eq!(into_itself.expect_err("a loop").errno(), Errno::EINVAL);
    let below = fs.make(&alias, b"d", &new);
    let into_below = rename(&b, b"alias", &below);
    assert_eq!(into_below.expect_err("a loop").errno(), Errno::EINVAL);
    drop(below);
    fs.namei.rmdir(&me, &alias, b"d").expect("rmdir");
    drop(alias);
    fs.namei.rmdir(&me, &b, b"alias").expect("rmdir");
    // What the other name leads to is gone.
    let stale = fs.namei.lookup(&me, &top, b"a").map(drop);
    assert!(matches!(stale, Err(Ext4Error::Corrupt(_))), "{stale:?}");
}
