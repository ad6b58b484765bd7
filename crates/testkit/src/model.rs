//! A model file system: what the operations should do, with nothing on a device.
//!
//! Nodes are shared between copies of a model, so that a copy after every operation is cheap.

use crate::external::*;
use crate::operation::{Op, split};
use crate::tree::{Entry, Tree, join};

/// The number of a node; never used twice.
pub type Id = u64;

/// What a node holds.
#[derive(Clone, Debug)]
pub enum Content {
    /// Bytes.
    File(Arc<Vec<u8>>),
    /// Names.
    Dir(BTreeMap<Vec<u8>, Id>),
    /// A target.
    Symlink(Vec<u8>),
    /// What a rename leaves that leaves a whiteout: a device file.
    Whiteout,
}

/// A file of any kind.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it holds.
    pub content: Content,
    /// Permission bits.
    pub mode: u16,
    /// Number of names, of what is not a directory.
    pub names: u32,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The step that changed the inode last.
    pub changed: usize,
    /// The step that changed the size last.
    pub resized: usize,
}

/// A tree of nodes.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: BTreeMap<Id, Arc<Node>>,
    next: Id,
    /// Number of operations applied.
    pub step: usize,
}

const ROOT: Id = 1;

type Answer<T = ()> = std::result::Result<T, Errno>;

impl Default for Model {
    fn default() -> Self {
        Model::new()
    }
}

impl Model {
    /// An empty root.
    pub fn new() -> Model {
        let mut model = Model {
            nodes: BTreeMap::new(),
            next: ROOT,
            step: 0,
        };
        model.add(Content::Dir(BTreeMap::new()), 0o755);
        model
    }

    fn add(&mut self, content: Content, mode: u16) -> Id {
        let id = self.next;
        self.next += 1;
        let node = Node {
            content,
            mode,
            names: 1,
            xattrs: BTreeMap::new(),
            changed: self.step,
            resized: self.step,
        };
        self.nodes.insert(id, Arc::new(node));
        id
    }

    /// A node by its number.
    pub fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(&id).map(Arc::as_ref)
    }

    /// The bytes of a file.
    pub fn data(&self, id: Id) -> Option<&Arc<Vec<u8>>> {
        match &self.node(id)?.content {
            Content::File(data) => Some(data),
            _ => None,
        }
    }

    /// Finds a path; links are not followed.
    pub fn find(&self, path: &[u8]) -> Answer<Id> {
        let mut at = ROOT;
        for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
            at = *self.entries(at)?.get(name).ok_or(Errno::ENOENT)?;
        }
        Ok(at)
    }

    fn entries(&self, id: Id) -> Answer<&BTreeMap<Vec<u8>, Id>> {
        match &self.node(id).ok_or(Errno::ENOENT)?.content {
            Content::Dir(entries) => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn change(&mut self, id: Id) -> Answer<&mut Node> {
        let step = self.step;
        let node = Arc::make_mut(self.nodes.get_mut(&id).ok_or(Errno::ENOENT)?);
        node.changed = step;
        Ok(node)
    }

    fn entries_mut(&mut self, id: Id) -> Answer<&mut BTreeMap<Vec<u8>, Id>> {
        match &mut self.change(id)?.content {
            Content::Dir(entries) => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn insert(&mut self, path: &[u8], content: Content, mode: u16) -> Answer {
        let (dir, name) = split(path);
        let dir = self.find(dir)?;
        if self.entries(dir)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let id = self.add(content, mode);
        self.entries_mut(dir)?.insert(name.to_vec(), id);
        Ok(())
    }

    fn drop_name(&mut self, id: Id) -> Answer {
        let node = self.change(id)?;
        node.names -= 1;
        if node.names == 0 {
            self.nodes.remove(&id);
        }
        Ok(())
    }

    /// Applies an operation, or says why it must fail; then nothing has changed.
    pub fn apply(&mut self, op: &Op) -> Answer {
        self.step += 1;
        let done = self.apply_inner(op);
        if done.is_err() {
            self.step -= 1;
        }
        done
    }

    fn apply_inner(&mut self, op: &Op) -> Answer {
        match op {
            Op::Create { path, mode } => self.insert(path, Content::File(Arc::default()), *mode),
            Op::Mkdir { path, mode } => self.insert(path, Content::Dir(BTreeMap::new()), *mode),
            Op::Symlink { path, target } => {
                self.insert(path, Content::Symlink(target.clone()), 0o777)
            }
            Op::Link { old, new } => self.link(old, new),
            Op::Unlink { path, .. } => self.unlink(path),
            Op::Rmdir { path } => self.rmdir(path),
            Op::Rename { old, new, flags } => self.rename(old, new, *flags),
            Op::Write { path, at, data, .. } => self.write(path, *at as usize, data),
            Op::Fallocate {
                path,
                what,
                at,
                len,
            } => self.fallocate(path, *what, *at as usize, (*at + *len) as usize),
            Op::Append { path, data } => {
                let id = self.find(path)?;
                let at = self.data(id).ok_or(Errno::EISDIR)?.len();
                self.write(path, at, data)
            }
            Op::Truncate { path, size } => {
                self.with_data(path, |data| data.resize(*size as usize, 0))
            }
            Op::Chmod { path, mode } => {
                let id = self.find(path)?;
                self.change(id)?.mode = *mode;
                Ok(())
            }
            Op::SetXattr { path, name, value } => {
                let id = self.find(path)?;
                if !matches!(self.nodes[&id].content, Content::File(_) | Content::Dir(_)) {
                    return Err(Errno::EPERM);
                }
                // The value that is there is not written again, so that an fsync has nothing of it to make durable.
                if self.nodes[&id].xattrs.get(name) != Some(value) {
                    self.change(id)?.xattrs.insert(name.clone(), value.clone());
                }
                Ok(())
            }
            Op::RemoveXattr { path, name } => {
                let id = self.find(path)?;
                if !self.nodes[&id].xattrs.contains_key(name) {
                    return Err(Errno::ENODATA);
                }
                self.change(id)?.xattrs.remove(name);
                Ok(())
            }
            Op::JournalData { path, .. } => {
                let id = self.find(path)?;
                match self.change(id)?.content {
                    Content::File(_) | Content::Dir(_) => Ok(()),
                    _ => Err(Errno::ENOTTY),
                }
            }
            Op::Fsync { path, .. } => self.find(path).map(|_| ()),
            Op::Syncfs => Ok(()),
        }
    }

    fn fallocate(&mut self, path: &[u8], what: Fallocate, at: usize, end: usize) -> Answer {
        let size = self.data(self.find(path)?).map_or(0, |data| data.len());
        match what {
            Fallocate::CollapseRange if end >= size => return Err(Errno::EINVAL),
            Fallocate::InsertRange if at >= size => return Err(Errno::EINVAL),
            _ => {}
        }
        self.with_data(path, |data| {
            match what {
                Fallocate::CollapseRange => return drop(data.drain(at..end)),
                Fallocate::InsertRange => {
                    return drop(data.splice(at..at, std::iter::repeat_n(0, end - at)));
                }
                _ => {}
            }
            let zeroes = !matches!(what, Fallocate::Allocate | Fallocate::AllocateKeepSize);
            let stop = end.min(data.len());
            if zeroes && at < stop {
                data[at..stop].fill(0);
            }
            if !what.keeps_size() && end > data.len() {
                data.resize(end, 0);
            }
        })
    }

    fn write(&mut self, path: &[u8], at: usize, bytes: &[u8]) -> Answer {
        self.with_data(path, |data| {
            if !bytes.is_empty() {
                data.resize(data.len().max(at + bytes.len()), 0);
                data[at..at + bytes.len()].copy_from_slice(bytes);
            }
        })
    }

    fn with_data(&mut self, path: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Answer {
        let id = self.find(path)?;
        let step = self.step;
        let before = self.node(id).map_or(0, |node| node.changed);
        let node = self.change(id)?;
        match &mut node.content {
            Content::File(data) => {
                let old = data.len();
                change(Arc::make_mut(data));
                if data.len() != old {
                    node.resized = step;
                } else {
                    // Within one tick of the clock overwriting changes nothing of the inode.
                    node.changed = before;
                }
            }
            Content::Dir(_) => return Err(Errno::EISDIR),
            Content::Symlink(_) | Content::Whiteout => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    fn link(&mut self, old: &[u8], new: &[u8]) -> Answer {
        let id = self.find(old)?;
        let (dir, name) = split(new);
        let dir = self.find(dir)?;
        if self.entries(dir)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        if matches!(self.nodes[&id].content, Content::Dir(_)) {
            return Err(Errno::EPERM);
        }
        self.change(id)?.names += 1;
        self.entries_mut(dir)?.insert(name.to_vec(), id);
        Ok(())
    }

    fn unlink(&mut self, path: &[u8]) -> Answer {
        let id = self.find(path)?;
        if matches!(self.nodes[&id].content, Content::Dir(_)) {
            return Err(Errno::EISDIR);
        }
        let (dir, name) = split(path);
        let dir = self.find(dir)?;
        self.entries_mut(dir)?.remove(name);
        self.drop_name(id)
    }

    fn rmdir(&mut self, path: &[u8]) -> Answer {
        let id = self.find(path)?;
        if !self.entries(id)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        let (dir, name) = split(path);
        let dir = self.find(dir)?;
        self.entries_mut(dir)?.remove(name);
        self.drop_name(id)
    }

    fn rename(&mut self, old: &[u8], new: &[u8], flags: RenameFlags) -> Answer {
        let id = self.find(old)?;
        let ((old_dir, old_name), (new_dir, new_name)) = (split(old), split(new));
        let (old_dir, new_dir) = (self.find(old_dir)?, self.find(new_dir)?);
        let there = self.entries(new_dir)?.get(new_name).copied();
        let is_dir = |id: Id| matches!(self.nodes[&id].content, Content::Dir(_));
        let below =
            |path: &[u8], top: &[u8]| path.starts_with(top) && path.get(top.len()) == Some(&b'/');
        if flags.contains(RenameFlags::NOREPLACE) && there.is_some() {
            return Err(Errno::EEXIST);
        }
        if flags.contains(RenameFlags::EXCHANGE) {
            let other = there.ok_or(Errno::ENOENT)?;
            if below(new, old) || below(old, new) {
                return Err(Errno::EINVAL);
            }
            self.entries_mut(old_dir)?.insert(old_name.to_vec(), other);
            self.entries_mut(new_dir)?.insert(new_name.to_vec(), id);
            return Ok(());
        }
        if there == Some(id) {
            return Ok(());
        }
        if below(new, old) {
            return Err(Errno::EINVAL);
        }
        if let Some(there) = there {
            match (is_dir(id), is_dir(there)) {
                (false, true) if below(old, new) => return Err(Errno::ENOTEMPTY),
                (false, true) => return Err(Errno::EISDIR),
                (true, false) => return Err(Errno::ENOTDIR),
                (true, true) if !self.entries(there)?.is_empty() => return Err(Errno::ENOTEMPTY),
                _ => self.drop_name(there)?,
            }
        }
        self.entries_mut(old_dir)?.remove(old_name);
        self.entries_mut(new_dir)?.insert(new_name.to_vec(), id);
        if flags.contains(RenameFlags::WHITEOUT) {
            let whiteout = self.add(Content::Whiteout, 0);
            let entries = self.entries_mut(old_dir)?;
            entries.insert(old_name.to_vec(), whiteout);
        }
        Ok(())
    }

    /// Everything by path.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        self.walk(ROOT, b"", &mut |path, id| {
            tree.insert(path, self.entry(id));
        });
        tree
    }

    /// The paths of what is of a kind, or of everything, in their order.
    pub fn paths(&self, kind: Option<FileKind>) -> Vec<Vec<u8>> {
        let mut paths = Vec::new();
        self.walk(ROOT, b"", &mut |path, id| {
            if kind.is_none_or(|kind| kind == self.nodes[&id].kind()) {
                paths.push(path);
            }
        });
        paths.sort_unstable();
        paths
    }

    /// What is found of a node.
    pub fn entry(&self, id: Id) -> Entry {
        let node = &self.nodes[&id];
        let is_dir = |id: &&Id| self.nodes[*id].kind() == FileKind::Directory;
        let (nlink, data) = match &node.content {
            Content::File(data) => (node.names, data.to_vec()),
            Content::Symlink(target) => (node.names, target.clone()),
            Content::Whiteout => (node.names, Vec::new()),
            Content::Dir(entries) => {
                let subdirs = entries.values().filter(is_dir).count() as u32;
                (2 + subdirs, Vec::new())
            }
        };
        Entry {
            kind: node.kind(),
            mode: node.mode,
            nlink,
            data,
            xattrs: node.xattrs.clone(),
            ino: id,
        }
    }

    fn walk(&self, dir: Id, path: &[u8], visit: &mut impl FnMut(Vec<u8>, Id)) {
        for (name, id) in self.entries(dir).into_iter().flatten() {
            let at = join(path, name);
            if self.nodes[id].kind() == FileKind::Directory {
                self.walk(*id, &at, visit);
            }
            visit(at, *id);
        }
    }

    /// A model of what was found; the directories above a path precede it.
    pub fn of_tree(tree: &Tree) -> Answer<Model> {
        let mut model = Model::new();
        let mut known: HashMap<u64, Id> = HashMap::new();
        for (path, entry) in tree {
            let (dir, name) = split(path);
            let dir = model.find(dir)?;
            let id = match known.get(&entry.ino) {
                Some(&id) if entry.kind != FileKind::Directory => {
                    model.change(id)?.names += 1;
                    id
                }
                _ => {
                    let content = match entry.kind {
                        FileKind::Regular => Content::File(Arc::new(entry.data.clone())),
                        FileKind::Directory => Content::Dir(BTreeMap::new()),
                        FileKind::Symlink => Content::Symlink(entry.data.clone()),
                        _ => Content::Whiteout,
                    };
                    let id = model.add(content, entry.mode);
                    model.change(id)?.xattrs.clone_from(&entry.xattrs);
                    known.insert(entry.ino, id);
                    id
                }
            };
            model.entries_mut(dir)?.insert(name.to_vec(), id);
        }
        Ok(model)
    }
}

impl Node {
    fn kind(&self) -> FileKind {
        match self.content {
            Content::File(_) => FileKind::Regular,
            Content::Dir(_) => FileKind::Directory,
            Content::Symlink(_) => FileKind::Symlink,
            Content::Whiteout => FileKind::CharDevice,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_of_a_tree_has_that_tree() {
        let mut model = Model::new();
        let path = |text: &str| text.as_bytes().to_vec();
        let ops = [
            Op::Mkdir {
                path: path("d"),
                mode: 0o755,
            },
            Op::Create {
                path: path("d/a"),
                mode: 0o600,
            },
            Op::Append {
                path: path("d/a"),
                data: vec![7; 100],
            },
            Op::Link {
                old: path("d/a"),
                new: path("b"),
            },
            Op::Symlink {
                path: path("s"),
                target: path("d"),
            },
        ];
        for op in &ops {
            model.apply(op).unwrap();
        }
        let again = Model::of_tree(&model.tree()).unwrap();
        assert_eq!(crate::tree::difference(&model.tree(), &again.tree()), None);
        assert_eq!(
            model.paths(Some(FileKind::Regular)),
            [path("b"), path("d/a")]
        );
    }
}
