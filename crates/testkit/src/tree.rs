//! A whole tree as it was found: of a mounted file system, or below a directory of the host.

use crate::external::*;

/// What has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u16,
    /// Number of names.
    pub nlink: u32,
    /// Content of a file, target of a link.
    pub data: Vec<u8>,
    /// Extended attributes of the `user` namespace.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Inode number, or the model's; equal for the names of one file.
    pub ino: u64,
}

impl Entry {
    /// Whether all but inode number and data are the same.
    pub fn same_attributes(&self, other: &Entry) -> bool {
        let links = self.kind == FileKind::Regular;
        (self.kind, self.nlink, &self.xattrs) == (other.kind, other.nlink, &other.xattrs)
            && (self.mode == other.mode || self.kind == FileKind::Symlink)
            && (links || self.data == other.data)
    }
}

/// Everything by its path from the root, without a slash before it.
pub type Tree = BTreeMap<Vec<u8>, Entry>;

/// `dir/name`.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir.is_empty() {
        true => name.to_vec(),
        false => [dir, name].join(&b'/'),
    }
}

/// A path for a message.
pub fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Names of a directory, without `.` and `..`.
pub fn names<F: FileSystem>(fs: &F, dir: &F::Node, entries_max: usize) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let mut seen = 0;
    fs.readdir(&Caller::root(), dir, 0, &mut |entry| {
        seen += 1;
        if entry.name != b"." && entry.name != b".." {
            names.push(entry.name.to_vec());
        }
        seen < entries_max
    })?;
    if seen >= entries_max {
        bail!("more than {entries_max} entries");
    }
    Ok(names)
}

/// Reads a mounted file system; `lost+found` is left out.
pub fn of_fs<F: FileSystem>(fs: &F) -> Result<Tree> {
    let caller = Caller::root();
    let mut tree = Tree::new();
    let mut left = vec![(Vec::new(), fs.root()?.clone())];
    while let Some((path, dir)) = left.pop() {
        let listed = names(fs, &dir, 1 << 20);
        for name in listed.with_context(|| format!("list {}", show(&path)))? {
            if path.is_empty() && name == b"lost+found" {
                continue;
            }
            let at = join(&path, &name);
            let node = fs
                .lookup(&caller, &dir, &name)
                .with_context(|| format!("look up {}", show(&at)))?;
            let entry = entry_of(fs, &node).with_context(|| format!("read {}", show(&at)))?;
            if entry.kind == FileKind::Directory {
                left.push((at.clone(), node));
            }
            if tree.insert(at.clone(), entry).is_some() {
                bail!("{} is listed twice", show(&at));
            }
        }
    }
    Ok(tree)
}

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What has a name, read whole.
pub fn entry_of<F: FileSystem>(fs: &F, node: &F::Node) -> Result<Entry> {
    let caller = Caller::root();
    let attr = fs.getattr(node)?;
    let data = match attr.kind {
        FileKind::Regular => {
            // Damage may say anything; no test writes that much.
            if attr.size > FILE_BYTES_MAX {
                bail!("a file of {} bytes", attr.size);
            }
            let mut data = vec![0; usize::try_from(attr.size)?];
            let n = fs.read(node, 0, &mut data)?;
            if n != data.len() {
                bail!("{n} bytes of {}", data.len());
            }
            data
        }
        FileKind::Symlink => fs.readlink(&caller, node)?,
        _ => Vec::new(),
    };
    let mut xattrs = BTreeMap::new();
    for name in fs.listxattr(&caller, node)? {
        let value = fs.getxattr(&caller, node, &name)?;
        xattrs.insert(name, value);
    }
    Ok(Entry {
        kind: attr.kind,
        mode: attr.mode,
        nlink: attr.nlink,
        data,
        xattrs,
        ino: attr.ino,
    })
}

/// Reads a directory of the host, such as a mount; `lost+found` is left out.
pub fn of_dir(root: &Path) -> Result<Tree> {
    let mut tree = Tree::new();
    let mut left = vec![(Vec::new(), root.to_path_buf())];
    while let Some((path, dir)) = left.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| format!("{}", dir.display()))? {
            let full = entry?.path();
            let name = full.file_name().map(OsStrExt::as_bytes).unwrap_or(b"");
            if path.is_empty() && name == b"lost+found" {
                continue;
            }
            let at = join(&path, name);
            let entry = host_entry(&full).with_context(|| format!("{}", full.display()))?;
            if entry.kind == FileKind::Directory {
                left.push((at.clone(), full.clone()));
            }
            tree.insert(at, entry);
        }
    }
    Ok(tree)
}

fn host_entry(path: &Path) -> Result<Entry> {
    let meta = std::fs::symlink_metadata(path)?;
    let kind = FileKind::from_mode_bits(meta.mode()).context("an unknown kind")?;
    let data = match kind {
        FileKind::Regular => std::fs::read(path)?,
        FileKind::Symlink => std::fs::read_link(path)?.as_os_str().as_bytes().to_vec(),
        _ => Vec::new(),
    };
    Ok(Entry {
        kind,
        mode: (meta.mode() & 0o7777) as u16,
        nlink: u32::try_from(meta.nlink())?,
        data,
        xattrs: host_xattrs(path)?,
        ino: meta.ino(),
    })
}

/// The extended attributes of a file of the host.
pub fn host_xattrs(path: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut list = vec![0; 65536];
    let n = rustix::fs::llistxattr(path, &mut list[..])?;
    let mut xattrs = BTreeMap::new();
    for name in list[..n].split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 65536];
        let n = rustix::fs::lgetxattr(path, name, &mut value[..])?;
        value.truncate(n);
        xattrs.insert(name.to_vec(), value);
    }
    Ok(xattrs)
}

/// Refuses two trees that are not the same, inode numbers aside; `what` names them both.
pub fn same(what: &str, left: &Tree, right: &Tree) -> Result<()> {
    match difference(left, right) {
        Some(difference) => bail!("{what}: {difference}"),
        None => Ok(()),
    }
}

/// The first difference between two trees, inode numbers aside.
pub fn difference(left: &Tree, right: &Tree) -> Option<String> {
    for (path, entry) in left {
        let Some(other) = right.get(path) else {
            return Some(format!("{} is missing on the right", show(path)));
        };
        if !entry.same_attributes(other) {
            return Some(format!(
                "{}: {} / {}",
                show(path),
                brief(entry),
                brief(other)
            ));
        }
        if entry.data != other.data {
            let at = entry.data.iter().zip(&other.data).position(|(a, b)| a != b);
            let sizes = (entry.data.len(), other.data.len());
            return Some(format!(
                "{}: data differs at {at:?}, sizes {sizes:?}",
                show(path)
            ));
        }
    }
    let extra = right.keys().find(|path| !left.contains_key(*path));
    extra.map(|path| format!("{} is missing on the left", show(path)))
}

/// An entry for a message.
pub fn brief(entry: &Entry) -> String {
    let xattrs = entry
        .xattrs
        .iter()
        .map(|(k, v)| format!("{}={}", show(k), v.len()));
    format!(
        "{:?} {:o} nlink {} bytes {} xattrs {:?}",
        entry.kind,
        entry.mode,
        entry.nlink,
        entry.data.len(),
        xattrs.collect::<Vec<_>>()
    )
}
