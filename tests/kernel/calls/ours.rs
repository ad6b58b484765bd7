//! uext4's side: the inode-level operations, put together as the system calls are.

use uext4_ondisk::FileType;
use uext4_testkit::calls::call::{At, Call, Make, SLOTS, To};
use uext4_testkit::calls::person::Person;
use uext4_testkit::calls::side::{Answer, Blocks, Changed, Entry, Side, Stat, Time, Tree, Value};
use uext4_testkit::calls::values::XFLAGS;
use uext4_testkit::prelude::*;
use uext4_vfs::attr::{Attr, Timestamp};
use uext4_vfs::errno::Error;
use uext4_vfs::filesystem::open_or_create;
use uext4_vfs::permission::Access;
use uext4_vfs::{OpenFile, OpenFlags};

type Open = (OpenFile<Arc<Ext4>>, Caller);

/// Something whose times were set.
struct Aged {
    what: String,
    node: InodeRef,
    /// When, if they could be.
    at: Option<Timestamp>,
}

pub struct Ours {
    fs: Arc<Ext4>,
    name: String,
    top: InodeRef,
    open: [Option<Open>; SLOTS],
    aged: Vec<Aged>,
}

type Res<T = Value> = Result<T, Error>;

fn stat(a: &Attr) -> Stat {
    Stat {
        kind: a.kind,
        mode: a.mode,
        nlink: a.nlink,
        owner: (a.uid, a.gid),
        size: a.size,
        blocks: Blocks(a.blocks),
        rdev: (a.rdev_major, a.rdev_minor),
        times: [a.atime, a.mtime].map(|t| Time::new(t.sec, t.nsec)),
    }
}

fn time(to: To) -> Option<TimeSet> {
    match to {
        To::Stay => None,
        To::Now => Some(TimeSet::Now),
        To::At(sec) => Some(TimeSet::At(Timestamp { sec, nsec: 0 })),
    }
}

impl Ours {
    pub fn new(fs: Arc<Ext4>) -> Ours {
        let top = FileSystem::root(&*fs).expect("a root").clone();
        Ours {
            fs,
            name: String::new(),
            top,
            open: Default::default(),
            aged: Vec::new(),
        }
    }

    /// Ends the mount.
    pub fn unmount(mut self) -> uext4_ext4::Result<()> {
        self.open = Default::default();
        self.aged.clear();
        let fs = Arc::clone(&self.fs);
        drop(self);
        fs.unmount()
    }

    /// The directory that a name is in; the superuser looks.
    fn dir(&self, at: &At) -> Res<InodeRef> {
        let mut dir = self.top.clone();
        for part in at.dir.split('/').filter(|part| !part.is_empty()) {
            dir = FileSystem::lookup(&*self.fs, &Caller::root(), &dir, part.as_bytes())?;
        }
        match dir.is_dir() {
            true => Ok(dir),
            false => Err(Errno::ENOTDIR.into()),
        }
    }

    /// What a name is of, as the caller finds it.
    fn find(&self, who: &Caller, at: &At) -> Res<InodeRef> {
        FileSystem::lookup(&*self.fs, who, &self.dir(at)?, at.name.as_bytes())
    }

    fn slot(&self, slot: usize) -> Res<&Open> {
        self.open[slot].as_ref().ok_or(Errno::EBADF.into())
    }

    fn make(&self, who: &Caller, at: &At, mode: u16, kind: NewKind<'_>) -> Res {
        let new = NewNode { mode, kind };
        FileSystem::create(&*self.fs, who, &self.dir(at)?, at.name.as_bytes(), &new)?;
        Ok(Value::Nothing)
    }

    fn change(&self, who: &Caller, at: &At, change: &SetAttr) -> Res {
        let node = self.find(who, at)?;
        FileSystem::setattr(&*self.fs, who, &node, change)?;
        Ok(Value::Nothing)
    }

    /// open(2) without following a link.
    fn open(
        &self,
        who: &Caller,
        at: &At,
        flags: OpenFlags,
        make: Make,
        directory: bool,
    ) -> Res<OpenFile<Arc<Ext4>>> {
        let (fs, name) = (Arc::clone(&self.fs), at.name.as_bytes());
        let new = |mode| NewNode {
            mode,
            kind: NewKind::Regular,
        };
        let (node, made) = match make {
            Make::No => (self.find(who, at)?, false),
            Make::New(mode) => {
                let node = FileSystem::create(&*fs, who, &self.dir(at)?, name, &new(mode))?;
                (node, true)
            }
            Make::Missing(mode) => open_or_create(&*fs, who, &self.dir(at)?, name, &new(mode))?,
        };
        if made {
            return Ok(OpenFile::new(fs, who, node, flags));
        }
        if make != Make::No && node.is_dir() {
            return Err(Errno::EISDIR.into());
        }
        if directory && !node.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        OpenFile::open(fs, who, node, flags)
    }

    fn truncate(&self, who: &Caller, at: &At, size: u64) -> Res {
        let node = self.find(who, at)?;
        match node.file_type {
            FileType::Directory => return Err(Errno::EISDIR.into()),
            FileType::Regular => {}
            _ => return Err(Errno::EINVAL.into()),
        }
        FileSystem::access(&*self.fs, who, &node, Access::WRITE)?;
        self.resize(who, &node, size)
    }

    fn resize(&self, who: &Caller, node: &InodeRef, size: u64) -> Res {
        let change = with(|o: &mut SetAttr| o.size = Some(size));
        FileSystem::setattr(&*self.fs, who, node, &change)?;
        Ok(Value::Nothing)
    }

    fn list(&self, who: &Caller, node: &InodeRef) -> Res {
        if !node.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        let mut names = Vec::new();
        FileSystem::readdir(&*self.fs, who, node, 0, &mut |entry| {
            let kind = entry.kind.map_or(0, |k| k.mode_bits() >> 12) as u8;
            names.push([entry.name, &[b' ', kind]].concat());
            true
        })?;
        names.sort();
        Ok(Value::Names(names))
    }

    fn flags_of(&self, node: &InodeRef) -> Value {
        Value::Flags(
            self.fs.files.flags(node).bits(),
            self.fs.files.project(node),
        )
    }

    fn set_project(&self, who: &Caller, node: &InodeRef, xflags: u32, project: u32) -> Res {
        let mut flags = self.fs.files.flags(node);
        // Linux sets the flags before it finds that there are no projects.
        for (bit, flag) in XFLAGS.into_iter().filter(|_| project == 0) {
            flags.set(flag, xflags & bit != 0);
        }
        let set = self
            .fs
            .files
            .set_flags_and_project(who, node, Some(flags), Some(project));
        self.fs.volume.report(set)?;
        Ok(self.flags_of(node))
    }

    fn on_names(&mut self, who: &Caller, call: &Call) -> Res {
        let fs = Arc::clone(&self.fs);
        match call {
            Call::Open {
                slot,
                at,
                flags,
                make,
                directory,
            } => {
                let file = self.open(who, at, *flags, *make, *directory)?;
                self.open[*slot] = Some((file, who.clone()));
            }
            Call::Close(slot) => self.open[*slot] = None,
            Call::Mkdir(at, mode) => return self.make(who, at, *mode, NewKind::Directory),
            Call::Mknod(at, kind, mode, (major, minor)) => {
                let kind = match kind {
                    FileKind::Regular => NewKind::Regular,
                    FileKind::Fifo => NewKind::Fifo,
                    FileKind::Socket => NewKind::Socket,
                    kind => NewKind::Device {
                        kind: *kind,
                        major: *major,
                        minor: *minor,
                    },
                };
                return self.make(who, at, *mode, kind);
            }
            Call::Symlink(at, len) => {
                return self.make(who, at, 0, NewKind::Symlink(&vec![b'x'; *len]));
            }
            Call::Link(old, new) => {
                let node = self.find(who, old)?;
                FileSystem::link(&*fs, who, &node, &self.dir(new)?, new.name.as_bytes())?;
            }
            Call::LinkOpen(slot, at) => {
                let node = self.slot(*slot)?.0.node();
                FileSystem::link(&*fs, who, node, &self.dir(at)?, at.name.as_bytes())?;
            }
            Call::Unlink(at) => {
                FileSystem::unlink(&*fs, who, &self.dir(at)?, at.name.as_bytes())?;
            }
            Call::Rmdir(at) => FileSystem::rmdir(&*fs, who, &self.dir(at)?, at.name.as_bytes())?,
            Call::Rename(old, new, flags) => {
                let (from, to) = (self.dir(old)?, self.dir(new)?);
                let flags = RenameFlags::from_bits_retain(*flags);
                let (old, new) = (old.name.as_bytes(), new.name.as_bytes());
                FileSystem::rename(&*fs, who, &from, old, &to, new, flags)?;
            }
            Call::Tmpfile {
                slot,
                dir,
                flags,
                mode,
            } => {
                let node = FileSystem::tmpfile(&*fs, who, &self.dir(dir)?, *mode)?;
                let file = OpenFile::new(Arc::clone(&fs), who, node, *flags);
                self.open[*slot] = Some((file, who.clone()));
            }
            Call::Readdir(at) => return self.list(who, &self.find(who, at)?),
            Call::Readlink(at) => {
                let target = FileSystem::readlink(&*fs, who, &self.find(who, at)?)?;
                return Ok(Value::Bytes(target));
            }
            _ => unreachable!("of attributes or of open files"),
        }
        Ok(Value::Nothing)
    }

    fn on_attributes(&mut self, who: &Caller, call: &Call) -> Res {
        let fs = &*self.fs;
        let none = SetAttr::default();
        match call {
            Call::Chmod(at, mode) => {
                let mode = Some(*mode);
                return self.change(who, at, &SetAttr { mode, ..none });
            }
            Call::Chown(at, uid, gid) => {
                let (uid, gid) = (*uid, *gid);
                return self.change(who, at, &SetAttr { uid, gid, ..none });
            }
            Call::Truncate(at, size) => return self.truncate(who, at, *size),
            Call::Utimens(at, atime, mtime) => {
                let (atime, mtime) = (time(*atime), time(*mtime));
                return self.change(
                    who,
                    at,
                    &SetAttr {
                        atime,
                        mtime,
                        ..none
                    },
                );
            }
            Call::Get(at, name) => {
                let node = self.find(who, at)?;
                let value = FileSystem::getxattr(fs, who, &node, name.as_bytes())?;
                return Ok(Value::Bytes(value));
            }
            Call::Set(at, name, value, flags) => {
                let node = self.find(who, at)?;
                let flags = XattrFlags::from_bits_retain(*flags);
                FileSystem::setxattr(fs, who, &node, name.as_bytes(), value, flags)?;
            }
            Call::List(at) => {
                let mut names = FileSystem::listxattr(fs, who, &self.find(who, at)?)?;
                names.sort();
                return Ok(Value::Names(names));
            }
            Call::Remove(at, name) => {
                let node = self.find(who, at)?;
                FileSystem::removexattr(fs, who, &node, name.as_bytes())?;
            }
            Call::Access(at, want) => {
                let node = self.find(who, at)?;
                FileSystem::access(fs, who, &node, Access::from_bits_truncate(*want))?;
            }
            Call::Stat(at) => {
                return Ok(Value::Stat(stat(
                    &fs.attributes.attr(&*self.find(who, at)?),
                )));
            }
            Call::Flags(at) => return Ok(self.flags_of(&self.find(&Caller::root(), at)?)),
            Call::SetFlags(at, change) => {
                let node = self.find(&Caller::root(), at)?;
                let change = InodeFlags::from_bits_retain(*change);
                fs.volume.report(self.fs.files.set_flags(
                    who,
                    &node,
                    fs.files.flags(&node) ^ change,
                ))?;
                return Ok(self.flags_of(&node));
            }
            Call::SetProject(at, xflags, project) => {
                let node = self.find(&Caller::root(), at)?;
                return self.set_project(who, &node, *xflags, *project);
            }
            _ => return self.on_names(who, call),
        }
        Ok(Value::Nothing)
    }

    fn on_open(&mut self, who: &Caller, call: &Call) -> Res {
        match call {
            Call::Write(slot, offset, data) => {
                let n = self.slot(*slot)?.0.write_at(*offset, data)?;
                Ok(Value::Number(n as u64))
            }
            Call::Read(slot, offset, len) => {
                let mut data = vec![0; *len];
                let n = self.slot(*slot)?.0.read_at(*offset, &mut data)?;
                data.truncate(n);
                Ok(Value::Bytes(data))
            }
            Call::Ftruncate(slot, size) => {
                let (file, opener) = self.slot(*slot)?;
                if !file.flags().contains(OpenFlags::WRITE) {
                    return Err(Errno::EINVAL.into());
                }
                self.resize(opener, file.node(), *size)
            }
            Call::Fallocate(slot, what, offset, len) => {
                self.slot(*slot)?.0.fallocate(*what, *offset, *len)?;
                Ok(Value::Nothing)
            }
            Call::Seek(slot, hole, offset) => {
                let node = self.slot(*slot)?.0.node();
                let found = match hole {
                    true => FileSystem::seek_hole(&*self.fs, node, *offset)?,
                    false => FileSystem::seek_data(&*self.fs, node, *offset)?,
                };
                Ok(Value::Number(found))
            }
            Call::ListOpen(slot) => {
                let (file, opener) = self.slot(*slot)?;
                let here = FileSystem::lookup(&*self.fs, opener, file.node(), b".")?;
                match self.list(opener, &here) {
                    // The C library's readdir(3), and Rust's, take it for the end.
                    Err(e) if e == Errno::ENOENT => Ok(Value::Names(Vec::new())),
                    listed => listed,
                }
            }
            Call::StatOpen(slot) => {
                let attr = self.fs.attributes.attr(self.slot(*slot)?.0.node());
                Ok(Value::Stat(stat(&attr)))
            }
            _ => self.on_attributes(who, call),
        }
    }

    fn entry(&self, path: &str, node: &InodeRef, first: &mut HashMap<u64, Vec<u8>>) -> Entry {
        let (fs, root) = (&*self.fs, Caller::root());
        let attr = fs.attributes.attr(node);
        let names = FileSystem::listxattr(fs, &root, node).expect("lists");
        let value = |name: &Vec<u8>| FileSystem::getxattr(fs, &root, node, name).expect("reads");
        let plain = matches!(attr.kind, FileKind::Regular | FileKind::Directory);
        let data = match attr.kind {
            FileKind::Regular => {
                let mut data = vec![0; attr.size as usize];
                FileSystem::read(fs, node, 0, &mut data).expect("reads");
                data
            }
            FileKind::Symlink => FileSystem::readlink(fs, &root, node).expect("reads"),
            _ => Vec::new(),
        };
        let name = || path.as_bytes().to_vec();
        Entry {
            stat: stat(&attr),
            data,
            xattrs: names.into_iter().map(|n| (n.clone(), value(&n))).collect(),
            flags: plain.then(|| self.flags_of(node)),
            first_name: first.entry(attr.ino).or_insert_with(name).clone(),
        }
    }

    /// Everything below, each directory before what is in it, and names in order.
    fn walk(&self, path: &str, dir: &InodeRef, meet: &mut dyn FnMut(&str, &InodeRef, &InodeRef)) {
        let mut names = uext4_testkit::tree::names(&*self.fs, dir, 1000).expect("lists");
        names.sort();
        for name in names {
            let node = FileSystem::lookup(&*self.fs, &Caller::root(), dir, &name).expect("there");
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            meet(&path, dir, &node);
            if node.is_dir() {
                self.walk(&path, &node, meet);
            }
        }
    }
}

impl Side for Ours {
    fn begin(&mut self, name: &str) {
        let new = NewNode {
            mode: 0o777,
            kind: NewKind::Directory,
        };
        let root = FileSystem::root(&*self.fs).expect("a root").clone();
        name.clone_into(&mut self.name);
        let caller = Caller::root();
        self.top =
            FileSystem::create(&*self.fs, &caller, &root, name.as_bytes(), &new).expect("makes it");
    }

    fn call(&mut self, who: &Person, call: &Call) -> Answer {
        self.on_open(&who.caller(), call).map_err(|e| e.errno().0)
    }

    fn kind(&self, at: &At) -> Option<FileKind> {
        let node = self.find(&Caller::root(), at).ok()?;
        Some(self.fs.attributes.attr(&node).kind)
    }

    fn age(&mut self, call: &Call, sec: i64) {
        let mut nodes = Vec::new();
        for at in call.places() {
            nodes.extend(self.dir(at).map(|d| (format!("{}/", at.dir), d)));
            nodes.extend(self.find(&Caller::root(), at).map(|n| (at.path(), n)));
        }
        if let Some(Ok((file, _))) = call.slot().map(|slot| self.slot(slot)) {
            nodes.push(("the open file".to_owned(), file.node().clone()));
        }
        let old = Timestamp { sec, nsec: 0 };
        let set = Some(TimeSet::At(old));
        let change = SetAttr {
            atime: set,
            mtime: set,
            ctime: set,
            ..SetAttr::default()
        };
        let age = |(what, node): (String, InodeRef)| {
            let aged = FileSystem::setattr(&*self.fs, &Caller::root(), &node, &change);
            Aged {
                what,
                node,
                at: aged.is_ok().then_some(old),
            }
        };
        self.aged = nodes.into_iter().map(age).collect();
    }

    fn changed(&mut self) -> Vec<(String, Option<Changed>)> {
        let changed = |aged: Aged| {
            let attr = self.fs.attributes.attr(&aged.node);
            let now = [attr.atime, attr.mtime, attr.ctime];
            (aged.what, aged.at.map(|at| now.map(|t| t != at)))
        };
        std::mem::take(&mut self.aged)
            .into_iter()
            .map(changed)
            .collect()
    }

    fn tree(&mut self) -> Tree {
        let (mut tree, mut first) = (Tree::new(), HashMap::new());
        self.walk("", &self.top, &mut |path, _, node| {
            tree.insert(path.as_bytes().to_vec(), self.entry(path, node, &mut first));
        });
        tree
    }

    fn end(&mut self) {
        self.open = Default::default();
        let (fs, root) = (&*self.fs, Caller::root());
        let mut found = Vec::new();
        let free = |node: &InodeRef| {
            let fixing = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
            if fs.files.flags(node).intersects(fixing) {
                fs.files
                    .set_flags(&root, node, fs.files.flags(node) - fixing)
                    .expect("released");
            }
        };
        free(&self.top);
        self.walk("", &self.top, &mut |path, dir, node| {
            free(node);
            found.push((path.to_owned(), dir.clone(), node.is_dir()));
        });
        for (path, dir, is_dir) in found.into_iter().rev() {
            let name = path.rsplit('/').next().expect("a name").as_bytes();
            match is_dir {
                true => FileSystem::rmdir(fs, &root, &dir, name),
                false => FileSystem::unlink(fs, &root, &dir, name),
            }
            .expect("removes it");
        }
        let top = FileSystem::root(fs).expect("a root").clone();
        FileSystem::rmdir(fs, &root, &top, self.name.as_bytes()).expect("removes it");
        self.top = top;
    }
}
