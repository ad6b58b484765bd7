//! Records on the image of a small tree.
//!
//! | module | holds |
//! | --- | --- |
//! | `replays` | what becomes of the tree |
//! | `refusals` | what is refused, and what fails |

mod refusals;
mod replays;

use super::*;
use crate::fixture::*;
use crate::mount::journal::find_log;
use crate::run::Run;
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
    let root = fs.namei.root().expect("root").clone();
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
    show(&fs, fs.namei.root().expect("root"), "", &mut lines);
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
