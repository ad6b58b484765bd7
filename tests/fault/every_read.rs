//! Operations that meet a block which cannot be read, or is damaged: every read of each operation in turn.
//! Either the operation fails, the tree is as before and the journal continues, or it succeeds without the block.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use uext4_block::{BlockError, BlockOp};
use uext4_ondisk::ErrorsBehaviour;
use uext4_testkit::prelude::*;
use uext4_testkit::tree::Entry;

/// What becomes of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It fails.
    Fails,
    /// It returns other bytes than the device has, where a checksum finds that out.
    Damaged,
}

/// Passes calls on, but for one read.
struct BadRead {
    inner: Arc<MemoryDevice>,
    fault: Fault,
    /// Reads until the one that goes wrong.
    left: AtomicI64,
    /// Where nothing is damaged as no checksum would find it: inode tables, and data.
    unprotected: Vec<Range<u64>>,
}

impl fmt::Debug for BadRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BadRead").finish_non_exhaustive()
    }
}

impl BadRead {
    fn protects(&self, offset: u64) -> bool {
        !self.unprotected.iter().any(|r| r.contains(&offset))
    }
}

impl BlockDevice for BadRead {
    forward_device!(self => self.inner;
        len, is_read_only, write_at, flush, discard, zero, set_len, identity);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> uext4_block::Result<()> {
        self.inner.read_at(offset, buf)?;
        let counts = self.fault == Fault::Fails || self.protects(offset);
        if counts && self.left.fetch_sub(1, SeqCst) == 1 {
            if self.fault == Fault::Fails {
                let why = rustix::io::Errno::IO;
                return Err(BlockError::io(BlockOp::Read, offset, buf.len() as u64, why));
            }
            buf.iter_mut().for_each(|byte| *byte ^= 0x55);
        }
        Ok(())
    }
}

const SMALL: Shape = Shape {
    name: "small blocks",
    bytes: 20 << 20,
    block_size: 1024,
    inodes: Some(1024),
    ..Shape::DEFAULT
};

fn shapes() -> [Shape; 3] {
    let inline = Shape {
        name: "data in inodes",
        features: "inline_data,ea_inode",
        inline_data: true,
        ..SMALL
    };
    let listed = Shape {
        name: "orphans in a list",
        features: "^orphan_file",
        ..SMALL
    };
    [SMALL, inline, listed]
}

fn path(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn write(to: &str, at: u64, len: usize) -> Op {
    Op::Write {
        path: path(to),
        at,
        data: vec![b'w'; len],
        direct: false,
    }
}

fn fallocate(of: &str, what: Fallocate, at: u64, len: u64) -> Op {
    Op::Fallocate {
        path: path(of),
        what,
        at,
        len,
    }
}

fn setxattr(of: &str, name: &str, len: usize) -> Op {
    Op::SetXattr {
        path: path(of),
        name: path(name),
        value: vec![b'v'; len],
    }
}

fn rename(old: &str, new: &str, flags: RenameFlags) -> Op {
    Op::Rename {
        old: path(old),
        new: path(new),
        flags,
    }
}

fn create(at: &str) -> Op {
    Op::Create {
        path: path(at),
        mode: 0o644,
    }
}

fn mkdir(at: &str) -> Op {
    Op::Mkdir {
        path: path(at),
        mode: 0o755,
    }
}

/// A name that fills a directory soon.
fn long(dir: &str, i: usize) -> String {
    format!("{dir}/{i:0>120}")
}

/// What there is before each operation.
fn prepare(fs: &Ext4) {
    let mut ops = vec![
        mkdir("a"),
        mkdir("a/d"),
        mkdir("a/e"),
        mkdir("b"),
        mkdir("full"),
    ];
    // Two leaves and more, the next name splits one of them now and then; one block that is just full.
    ops.extend((0..40).map(|i| create(&long("a", i))));
    ops.extend((0..7).map(|i| create(&long("full", i))));
    // Mappings with nodes below the inode.
    for file in ["fragments", "b/other"] {
        ops.push(create(file));
        ops.extend((0..12).map(|i| write(file, i * 3 * 1024, 1024)));
    }
    ops.push(create("plain"));
    ops.push(write("plain", 0, 20_000));
    ops.push(create("prepared"));
    ops.push(fallocate("prepared", Fallocate::Allocate, 0, 64 << 10));
    ops.push(create("named"));
    ops.push(setxattr("named", "user.big", 600));
    ops.push(setxattr("named", "user.small", 10));
    for i in 0..4 {
        ops.push(create(&format!("b/{i}")));
        ops.push(write(&format!("b/{i}"), 0, 100));
    }
    for op in ops {
        apply(fs, &op).unwrap_or_else(|e| panic!("{op:?}: {e}"));
    }
}

fn operations() -> Vec<Op> {
    let none = RenameFlags::empty();
    let symlink = |target: usize| Op::Symlink {
        path: path("b/link"),
        target: vec![b't'; target],
    };
    let unlink = |at: &str, keep| Op::Unlink {
        path: path(at),
        keep,
    };
    let truncate = |of: &str, size| Op::Truncate {
        path: path(of),
        size,
    };
    let mut ops = vec![
        create("b/new"),
        create(&long("full", 99)),
        mkdir("a/new"),
        symlink(10),
        symlink(200),
        Op::Link {
            old: path("plain"),
            new: long("full", 98).into_bytes(),
        },
        unlink("plain", false),
        unlink("plain", true),
        unlink("fragments", false),
        unlink("named", false),
        unlink(&long("a", 3), false),
        Op::Rmdir { path: path("a/e") },
        rename("plain", "b/moved", none),
        rename("plain", "b/0", none),
        rename("plain", "fragments", none),
        rename("plain", &long("full", 97), none),
        rename("a/d", "b/d", none),
        rename("a/d", "a/e", none),
        rename("a/d", &long("full", 96), none),
        rename("a/d", "b/3", RenameFlags::EXCHANGE),
        rename("a/d", "full", RenameFlags::EXCHANGE),
        rename("plain", "b/1", RenameFlags::EXCHANGE),
        rename("b/2", "b/gone", RenameFlags::NOREPLACE),
        rename("b/2", &long("full", 95), RenameFlags::WHITEOUT),
        truncate("fragments", 10_000),
        truncate("fragments", 0),
        truncate("plain", 5_000),
        truncate("plain", 50_000),
        truncate("b/0", 5_000),
        Op::Append {
            path: path("fragments"),
            data: vec![b'a'; 3000],
        },
        write("fragments", 1024, 2048),
        write("fragments", 1 << 20, 10),
        write("prepared", 10_240, 2048),
        write("b/1", 1024, 5000),
        fallocate("fragments", Fallocate::Allocate, 0, 100 << 10),
        fallocate("fragments", Fallocate::PunchHole, 3 << 10, 20 << 10),
        fallocate("plain", Fallocate::PunchHole, 3 << 10, 2 << 10),
        fallocate("fragments", Fallocate::ZeroRange, 1 << 10, 20 << 10),
        fallocate("fragments", Fallocate::CollapseRange, 3 << 10, 9 << 10),
        fallocate("fragments", Fallocate::InsertRange, 3 << 10, 9 << 10),
        setxattr("plain", "user.new", 20),
        setxattr("plain", "user.large", 700),
        setxattr("named", "user.big", 650),
        setxattr("named", "user.more", 100),
        setxattr("b/0", "user.value", 60),
        Op::RemoveXattr {
            path: path("named"),
            name: path("user.big"),
        },
        Op::Chmod {
            path: path("named"),
            mode: 0o600,
        },
    ];
    ops.extend([2048, 64 << 10].map(|at| Op::Write {
        path: path("prepared"),
        at,
        data: vec![b'd'; 4096],
        direct: true,
    }));
    ops
}

/// An image, and what is in it.
struct Prepared {
    bytes: Vec<u8>,
    tree: Tree,
    unprotected: Vec<Range<u64>>,
}

fn prepared(shape: &Shape) -> Prepared {
    let device = Arc::new(shape.make().expect("an image"));
    let fs = Ext4::mount(device.clone(), MountOptions::default()).expect("mounts");
    prepare(&fs);
    fs.sync().expect("sync");
    let tree = tree::of_fs(&*fs).expect("the tree");
    let geometry = fs.volume.geometry();
    let block = u64::from(geometry.block_size);
    let tables = (0..geometry.groups_count).map(|no| {
        let (at, within) = geometry.group_desc_location(GroupNo(no));
        let mut raw = vec![0; usize::from(geometry.desc_size)];
        let offset = at.0 * block + within as u64;
        fs.volume
            .device()
            .read_at(offset, &mut raw)
            .expect("a descriptor");
        let first = GroupDesc::decode(&raw).expect("a descriptor").inode_table.0;
        first * block..(first + u64::from(geometry.itable_blocks_per_group)) * block
    });
    let mut unprotected: Vec<_> = tables.collect();
    for name in tree.keys() {
        let node = uext4_testkit::operation::find(&*fs, name).expect("find");
        if node.is_dir() || node.size() == 0 {
            continue;
        }
        for e in fs.mapping.extents(&node).unwrap_or_default() {
            let first = e.pblk.0 * block;
            unprotected.push(first..first + u64::from(e.len) * block);
        }
    }
    fs.unmount().expect("unmount");
    let mut bytes = vec![0; shape.bytes as usize];
    device.read_at(0, &mut bytes).expect("read");
    Prepared {
        bytes,
        tree,
        unprotected,
    }
}

/// What must not change by halves: all but which inode it is, and how a directory that lost a name counts.
fn essence(tree: &Tree) -> BTreeMap<Vec<u8>, Entry> {
    let entries = tree.iter().map(|(name, entry)| {
        let entry = Entry {
            ino: 0,
            ..entry.clone()
        };
        (name.clone(), entry)
    });
    entries.collect()
}

/// What a run came to.
struct Outcome {
    /// The read that was to go wrong came.
    hit: bool,
    /// The operation succeeded.
    ok: bool,
    found: BTreeMap<Vec<u8>, Entry>,
}

/// An operation whose `k`th read goes wrong, and what is found after.
fn run(from: &Prepared, op: &Op, fault: Fault, k: i64) -> Result<Outcome> {
    let memory = Arc::new(MemoryDevice::new(from.bytes.len() as u64));
    memory.write_at(0, &from.bytes)?;
    let device = Arc::new(BadRead {
        inner: Arc::clone(&memory),
        fault,
        left: AtomicI64::new(0),
        unprotected: from.unprotected.clone(),
    });
    let options = with(|o: &mut MountOptions| o.errors = Some(ErrorsBehaviour::Continue));
    let fs = Ext4::mount(Arc::clone(&device) as Arc<dyn BlockDevice>, options)?;
    device.left.store(k, SeqCst);
    let done = apply(&*fs, op).map(drop);
    let hit = device.left.swap(0, SeqCst) <= 0;
    fs.sync()
        .with_context(|| format!("the journal is aborted, {done:?}"))?;
    fs.unmount().context("unmount")?;
    drop(fs);
    // What could not be deleted is an orphan, which this mount deletes.
    let fs = Ext4::mount(memory.clone(), MountOptions::default())?;
    let found = essence(&tree::of_fs(&*fs)?);
    fs.unmount()?;
    oracle::check(&*memory).with_context(|| format!("{done:?}"))?;
    Ok(Outcome {
        hit,
        ok: done.is_ok(),
        found,
    })
}

/// All runs of one operation; what went wrong.
fn sweep(from: &Prepared, op: &Op) -> Result<()> {
    let before = essence(&from.tree);
    let whole = run(from, op, Fault::Fails, 0)?;
    for fault in [Fault::Fails, Fault::Damaged] {
        for k in 1.. {
            let outcome = run(from, op, fault, k).with_context(|| format!("read {k} {fault:?}"))?;
            let wanted = match outcome.ok {
                true => &whole.found,
                false => &before,
            };
            if outcome.found != *wanted {
                let ok = outcome.ok;
                bail!("read {k} {fault:?}: half of it is done, Ok: {ok}");
            }
            if !outcome.hit {
                break;
            }
        }
    }
    Ok(())
}

#[test]
fn no_read_that_goes_wrong_leaves_half_of_an_operation() {
    let mut wrong = Vec::new();
    for shape in shapes() {
        let from = prepared(&shape);
        for op in operations() {
            if let Err(why) = sweep(&from, &op) {
                wrong.push(format!("{}, {op:?}: {why:#}", shape.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}
