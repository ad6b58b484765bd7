//! What there is to see of a tree, small enough to compare two of hundreds of thousands of names.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use uext4_testkit::prelude::*;
use uext4_testkit::tree::{join, show};

/// Bytes that are compared together: less than any block.
const UNIT: usize = 512;

/// What an inode looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Print {
    kind: FileKind,
    mode: u32,
    ids: (u32, u32),
    nlink: u64,
    size: u64,
    blocks: u64,
    times: [(i64, i64); 3],
    device: (u32, u32),
    content: u64,
    xattrs: BTreeMap<Vec<u8>, u64>,
}

/// What has a name: the inode, and what it looks like.
pub type Prints = (BTreeMap<Vec<u8>, u64>, HashMap<u64, Print>);

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Adds what is not zero in `data`, which is at byte `at` of a file.
fn add(hasher: &mut DefaultHasher, at: u64, data: &[u8]) {
    for (i, unit) in data.chunks(UNIT).enumerate() {
        if unit.iter().any(|b| *b != 0) {
            (at + (i * UNIT) as u64).hash(hasher);
            let trimmed = unit.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
            unit[..trimmed].hash(hasher);
        }
    }
}

/// Calls `each` for pieces of `[from, to)` that begin where pieces of a file do.
fn pieces(from: u64, to: u64, mut each: impl FnMut(u64, usize) -> Result<()>) -> Result<()> {
    const PIECE: u64 = 1 << 16;
    let mut at = from - from % UNIT as u64;
    while at < to {
        let len = (PIECE - at % PIECE).min(to - at);
        each(at, len as usize)?;
        at += len;
    }
    Ok(())
}

/// A tree as we see it.
pub fn of_fs<F: FileSystem>(fs: &F) -> Result<Prints> {
    let caller = Caller::root();
    let (mut names, mut inodes) = (BTreeMap::new(), HashMap::new());
    let mut left = vec![(Vec::new(), fs.root()?.clone())];
    while let Some((path, dir)) = left.pop() {
        let listed = uext4_testkit::tree::names(fs, &dir, 1 << 20);
        for name in listed.with_context(|| format!("list {}", show(&path)))? {
            let at = join(&path, &name);
            let node = fs
                .lookup(&caller, &dir, &name)
                .with_context(|| format!("look up {}", show(&at)))?;
            let ino = fs.handle(&node).ino;
            if let std::collections::hash_map::Entry::Vacant(entry) = inodes.entry(ino) {
                let print = print_of(fs, &node).with_context(|| format!("read {}", show(&at)))?;
                if print.kind == FileKind::Directory {
                    left.push((at.clone(), node));
                }
                entry.insert(print);
            }
            if names.insert(at.clone(), ino).is_some() {
                bail!("{} is listed twice", show(&at));
            }
        }
    }
    Ok((names, inodes))
}

fn print_of<F: FileSystem>(fs: &F, node: &F::Node) -> Result<Print> {
    let caller = Caller::root();
    let attr = fs.getattr(node)?;
    let mut hasher = DefaultHasher::new();
    match attr.kind {
        FileKind::Regular => {
            let mut at = 0;
            while at < attr.size {
                let data = match fs.seek_data(node, at) {
                    Ok(data) => data,
                    Err(e) if e == Errno::ENXIO => break,
                    Err(e) => return Err(e.into()),
                };
                let hole = fs.seek_hole(node, data)?;
                pieces(data, hole, |at, len| {
                    let mut bytes = vec![0; len];
                    fs.read(node, at, &mut bytes)?;
                    add(&mut hasher, at, &bytes);
                    Ok(())
                })?;
                at = hole;
            }
        }
        FileKind::Symlink => fs.readlink(&caller, node)?.hash(&mut hasher),
        _ => {}
    }
    let mut xattrs = BTreeMap::new();
    for name in fs.listxattr(&caller, node)? {
        let value = fs.getxattr(&caller, node, &name)?;
        xattrs.insert(name, hash_of(&value));
    }
    let is_device = matches!(attr.kind, FileKind::CharDevice | FileKind::BlockDevice);
    Ok(Print {
        kind: attr.kind,
        mode: u32::from(attr.mode),
        ids: (attr.uid, attr.gid),
        nlink: u64::from(attr.nlink),
        size: attr.size,
        blocks: attr.blocks,
        times: [attr.mtime, attr.ctime, attr.crtime].map(|t| (t.sec, i64::from(t.nsec))),
        device: match is_device {
            true => (attr.rdev_major, attr.rdev_minor),
            false => (0, 0),
        },
        content: hasher.finish(),
        xattrs,
    })
}

/// A tree as the kernel sees it.
pub fn of_dir(root: &Path) -> Result<Prints> {
    let (mut names, mut inodes) = (BTreeMap::new(), HashMap::new());
    let mut left = vec![Vec::new()];
    while let Some(path) = left.pop() {
        // Names from there on, as a path may be longer than the kernel takes.
        let dir = root.join(std::ffi::OsStr::from_bytes(&path));
        for entry in std::fs::read_dir(&dir).with_context(|| show(&path))? {
            let entry = entry?;
            let at = join(&path, &entry.file_name().into_vec());
            let meta = entry.metadata().with_context(|| show(&at))?;
            if let std::collections::hash_map::Entry::Vacant(vacant) = inodes.entry(meta.ino()) {
                if meta.is_dir() {
                    left.push(at.clone());
                }
                vacant.insert(kernel_print(&entry.path(), &meta).with_context(|| show(&at))?);
            }
            names.insert(at, meta.ino());
        }
    }
    Ok((names, inodes))
}

fn kernel_print(path: &Path, meta: &std::fs::Metadata) -> Result<Print> {
    let kind = meta.file_type();
    let mut hasher = DefaultHasher::new();
    let kind = if kind.is_dir() {
        FileKind::Directory
    } else if kind.is_symlink() {
        let target = std::fs::read_link(path)?;
        target.as_os_str().as_bytes().to_vec().hash(&mut hasher);
        FileKind::Symlink
    } else if kind.is_fifo() {
        FileKind::Fifo
    } else if kind.is_socket() {
        FileKind::Socket
    } else if kind.is_char_device() {
        FileKind::CharDevice
    } else if kind.is_block_device() {
        FileKind::BlockDevice
    } else {
        hash_data(&File::open(path)?, meta.len(), &mut hasher)?;
        FileKind::Regular
    };
    let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
    let birth = rustix::fs::statx(
        rustix::fs::CWD,
        path,
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        rustix::fs::StatxFlags::BTIME,
    )?;
    let has_birth = birth.stx_mask & rustix::fs::StatxFlags::BTIME.bits() != 0;
    let birth = match has_birth {
        true => (birth.stx_btime.tv_sec, i64::from(birth.stx_btime.tv_nsec)),
        false => (0, 0),
    };
    Ok(Print {
        kind,
        mode: meta.mode() & 0o7777,
        ids: (meta.uid(), meta.gid()),
        nlink: meta.nlink(),
        size: meta.len(),
        blocks: meta.blocks(),
        times: [
            (meta.mtime(), meta.mtime_nsec()),
            (meta.ctime(), meta.ctime_nsec()),
            birth,
        ],
        device: match is_device {
            true => (
                rustix::fs::major(meta.rdev()),
                rustix::fs::minor(meta.rdev()),
            ),
            false => (0, 0),
        },
        content: hasher.finish(),
        xattrs: kernel_xattrs(path)?,
    })
}

fn hash_data(file: &File, size: u64, hasher: &mut DefaultHasher) -> Result<()> {
    use rustix::fs::SeekFrom;
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(e) => return Err(e.into()),
        };
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data))?;
        pieces(data, hole, |at, len| {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, at)?;
            add(hasher, at, &bytes);
            Ok(())
        })?;
        at = hole;
    }
    Ok(())
}

fn kernel_xattrs(path: &Path) -> Result<BTreeMap<Vec<u8>, u64>> {
    let mut names = vec![0; 65536];
    let n = match rustix::fs::llistxattr(path, &mut names) {
        Ok(n) => n,
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        Err(e) => return Err(e.into()),
    };
    let mut xattrs = BTreeMap::new();
    for name in names[..n]
        .split(|b| *b == 0)
        .filter(|name| !name.is_empty())
    {
        let mut value = vec![0; 65536];
        let n = rustix::fs::lgetxattr(path, name, &mut value)?;
        xattrs.insert(name.to_vec(), hash_of(&value[..n]));
    }
    Ok(xattrs)
}

/// Compares two trees; says what differs first.
pub fn same(ours: &Prints, theirs: &Prints) -> Result<()> {
    let paths: std::collections::BTreeSet<_> = ours.0.keys().chain(theirs.0.keys()).collect();
    for path in paths {
        let (a, b) = (ours.0.get(path), theirs.0.get(path));
        if a != b {
            bail!("{}: inode {a:?}, and for the kernel {b:?}", show(path));
        }
        let look = |prints: &Prints| a.and_then(|ino| prints.1.get(ino)).cloned();
        let (mut a, b) = (look(ours), look(theirs));
        if let (Some(a), Some(b)) = (&mut a, &b)
            && b.times[2] == (0, 0)
        {
            a.times[2] = (0, 0);
        }
        if a != b {
            bail!("{}:\n{a:?}, and for the kernel\n{b:?}", show(path));
        }
    }
    Ok(())
}
