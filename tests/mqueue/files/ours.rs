//! Our side: a namespace as a file system.

use crate::calls::{Mount, Res, Space, Stat, Xattr};
use crate::machine;
use std::cell::Cell;
use uext4_mqueue::{
    Description, IpcNamespace, Limits, MqFile, MqOpen, MqueueType, Namespace, Notification, Wait,
};
use uext4_testkit::prelude::*;
use uext4_vfs::{Access, Attr, Error, OpenFile, OpenFlags, Timestamp};

pub struct Ours {
    pub fs: IpcNamespace,
    uid: Cell<u32>,
    /// Those of root here.
    capabilities: Capabilities,
}

impl Default for Ours {
    fn default() -> Ours {
        Ours {
            fs: MqueueType::default().create(Limits::default()),
            uid: Cell::new(0),
            capabilities: Capabilities::from_bits_truncate(machine::capabilities()),
        }
    }
}

fn errno(e: Error) -> i32 {
    e.errno().0
}

fn stat(a: Attr) -> Stat {
    Stat {
        kind: a.kind,
        mode: a.mode.into(),
        nlink: a.nlink.into(),
        owner: (a.uid, a.gid),
        size: a.size,
        blocks: a.blocks,
        block_size: a.block_size.into(),
        times: [a.atime, a.mtime, a.ctime].map(|t| t.sec.into()),
    }
}

impl Ours {
    pub fn caller(&self) -> Caller {
        let mut caller = Caller::user(self.uid.get(), self.uid.get());
        caller.capabilities &= self.capabilities;
        caller
    }

    pub fn lookup(&self, name: &str) -> Res<MqFile> {
        let fs = &*self.fs;
        let found = fs.lookup(&self.caller(), &MqFile::Root, name.as_bytes());
        found.map_err(errno)
    }

    fn open(&self, name: &str, flags: OpenFlags) -> Res<OpenFile<IpcNamespace>> {
        let node = self.lookup(name)?;
        OpenFile::open(self.fs.clone(), &self.caller(), node, flags).map_err(errno)
    }

    fn set(&self, name: &str, change: SetAttr) -> Res<()> {
        let node = self.lookup(name)?;
        let set = self.fs.setattr(&self.caller(), &node, &change);
        let set = set.map_err(errno)?;
        assert_eq!(Ok(set), self.fs.getattr(&node).map_err(errno));
        Ok(())
    }

    fn mq(&self, name: &str, how: MqOpen) -> Res<Arc<Description>> {
        let name = format!("/{name}");
        let opened = self
            .fs
            .open(&self.caller(), name.as_bytes(), how, 0o600, None);
        opened.map_err(errno)
    }

    fn make_as(&self, name: &str, mode: u32, kind: NewKind<'_>) -> Res<()> {
        let mode = u16::try_from(mode).expect("a mode");
        let new = NewNode { mode, kind };
        let (fs, root) = (&*self.fs, MqFile::Root);
        let made = fs.create(&self.caller(), &root, name.as_bytes(), &new);
        made.map(drop).map_err(errno)
    }
}

impl Mount for Ours {
    fn become_user(&self, uid: u32) {
        self.uid.set(uid);
    }

    fn set_queues_max(&self, max: u32) {
        let mut limits = self.fs.limits();
        limits.queues_max = max;
        self.fs.set_limits(limits);
    }

    fn create(&self, name: &str, mode: u32) -> Res<()> {
        self.make_as(name, mode, NewKind::Regular)
    }

    fn make(&self, name: &str, kind: FileKind) -> Res<()> {
        let new = match kind {
            FileKind::Regular => NewKind::Regular,
            FileKind::Directory => NewKind::Directory,
            FileKind::Symlink => NewKind::Symlink(b"x"),
            FileKind::Fifo => NewKind::Fifo,
            FileKind::Socket => NewKind::Socket,
            FileKind::CharDevice | FileKind::BlockDevice => NewKind::Device {
                kind,
                major: 1,
                minor: 3,
            },
        };
        self.make_as(name, 0o700, new)
    }

    fn tmpfile(&self) -> Res<()> {
        let made = self.fs.tmpfile(&self.caller(), &MqFile::Root, 0);
        made.map(drop).map_err(errno)
    }

    fn unlink(&self, name: &str) -> Res<()> {
        let gone = FileSystem::unlink(&*self.fs, &self.caller(), &MqFile::Root, name.as_bytes());
        gone.map_err(errno)
    }

    fn rmdir(&self, name: &str) -> Res<()> {
        let gone = self
            .fs
            .rmdir(&self.caller(), &MqFile::Root, name.as_bytes());
        gone.map_err(errno)
    }

    fn rename(&self, old: &str, new: &str, flags: u32) -> Res<()> {
        let flags = RenameFlags::from_bits_retain(flags);
        let (dir, who) = (&MqFile::Root, &self.caller());
        let (old, new) = (old.as_bytes(), new.as_bytes());
        self.fs
            .rename(who, dir, old, dir, new, flags)
            .map_err(errno)
    }

    fn link(&self, old: &str, new: &str) -> Res<()> {
        let node = self.lookup(old)?;
        let (dir, who) = (&MqFile::Root, &self.caller());
        self.fs.link(who, &node, dir, new.as_bytes()).map_err(errno)
    }

    fn stat(&self, name: &str) -> Res<Stat> {
        self.fs
            .getattr(&self.lookup(name)?)
            .map(stat)
            .map_err(errno)
    }

    fn chmod(&self, name: &str, mode: u32) -> Res<()> {
        let mode = Some(u16::try_from(mode).expect("a mode"));
        self.set(name, with(|o: &mut SetAttr| o.mode = mode))
    }

    fn chown(&self, name: &str, uid: Option<u32>, gid: Option<u32>) -> Res<()> {
        self.set(name, with(|o: &mut SetAttr| (o.uid, o.gid) = (uid, gid)))
    }

    fn truncate(&self, name: &str, size: u64) -> Res<()> {
        let node = self.lookup(name)?;
        if matches!(node, MqFile::Queue(_)) {
            let granted = self.fs.access(&self.caller(), &node, Access::WRITE);
            granted.map_err(errno)?;
        }
        let size = Some(size);
        self.set(name, with(|o: &mut SetAttr| o.size = size))
    }

    fn open_truncate(&self, name: &str) -> Res<()> {
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::TRUNCATE;
        self.open(name, flags).map(drop)
    }

    fn utimes(&self, name: &str, to: Option<(i64, i64)>) -> Res<()> {
        let at = |sec: Option<i64>| {
            Some(match sec {
                Some(sec) => TimeSet::At(Timestamp { sec, nsec: 0 }),
                None => TimeSet::Now,
            })
        };
        let change =
            with(|o: &mut SetAttr| (o.atime, o.mtime) = (at(to.map(|t| t.0)), at(to.map(|t| t.1))));
        self.set(name, change)
    }

    fn list(&self) -> Res<Vec<(String, FileKind)>> {
        let mut names = Vec::new();
        let mut emit = |entry: &uext4_vfs::DirEntry<'_>| {
            let name = String::from_utf8_lossy(entry.name).into_owned();
            names.push((name, entry.kind.expect("says so")));
            true
        };
        let (dir, who) = (&MqFile::Root, &self.caller());
        self.fs.readdir(who, dir, 0, &mut emit).map_err(errno)?;
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(names)
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> Res<String> {
        let file = self.open(name, OpenFlags::READ)?;
        let mut data = vec![0; len];
        let n = file.read_at(offset, &mut data).map_err(errno)?;
        Ok(String::from_utf8_lossy(&data[..n]).into_owned())
    }

    fn write(&self, name: &str, len: usize) -> Res<usize> {
        let file = self.open(name, OpenFlags::WRITE)?;
        file.write_at(0, &vec![0; len]).map_err(errno)
    }

    fn read_nowait(&self, name: &str) -> Res<usize> {
        let file = self.open(name, OpenFlags::READ)?;
        let read = file.read_at_with(0, &mut [0; 10], IoFlags::NOWAIT);
        read.map_err(errno)
    }

    fn open_direct(&self, name: &str) -> Res<()> {
        let file = self.open(name, OpenFlags::READ | OpenFlags::DIRECT)?;
        file.read_at(0, &mut [0; 10]).map(drop).map_err(errno)
    }

    fn readlink(&self, name: &str) -> Res<()> {
        let read = self.fs.readlink(&self.caller(), &self.lookup(name)?);
        read.map(drop).map_err(errno)
    }

    fn fsync(&self, name: &str) -> Res<()> {
        self.fs.fsync(&self.lookup(name)?, false).map_err(errno)
    }

    fn syncfs(&self) -> Res<()> {
        self.fs.syncfs().map_err(errno)
    }

    fn statfs(&self) -> Res<Space> {
        let s = self.fs.statfs().map_err(errno)?;
        Ok(Space {
            block_size: s.block_size.into(),
            blocks: [s.blocks, s.blocks_free, s.blocks_available],
            inodes: [s.inodes, s.inodes_free],
            name_bytes_max: s.name_bytes_max.into(),
        })
    }

    fn fallocate(&self, name: &str, what: Fallocate, offset: u64, len: u64) -> Res<()> {
        let file = self.open(name, OpenFlags::READ | OpenFlags::WRITE)?;
        file.fallocate(what, offset, len).map_err(errno)
    }

    fn seek(&self, name: &str, hole: bool, offset: u64) -> Res<u64> {
        let node = self.lookup(name)?;
        if hole {
            self.fs.seek_hole(&node, offset).map_err(errno)
        } else {
            self.fs.seek_data(&node, offset).map_err(errno)
        }
    }

    fn xattr(&self, name: &str, call: Xattr<'_>) -> Res<usize> {
        let (fs, node, who) = (&self.fs, &self.lookup(name)?, &self.caller());
        match call {
            Xattr::Set(attr, len) => {
                let (attr, value) = (attr.as_bytes(), vec![0; len]);
                let set = fs.setxattr(who, node, attr, &value, XattrFlags::empty());
                set.map(|()| 0)
            }
            Xattr::Get(attr) => fs.getxattr(who, node, attr.as_bytes()).map(|v| v.len()),
            Xattr::Remove(attr) => fs.removexattr(who, node, attr.as_bytes()).map(|()| 0),
            Xattr::List => fs.listxattr(who, node).map(|names| names.len()),
        }
        .map_err(errno)
    }

    fn handle(&self, name: &str) -> Res<()> {
        let handle = self.fs.handle(&self.lookup(name)?);
        self.fs.open_handle(handle).map(drop).map_err(errno)
    }

    fn mq_open(&self, name: &str, create: bool, exclusive: bool) -> Res<()> {
        let mut how = MqOpen::READ | MqOpen::WRITE;
        how.set(MqOpen::CREATE, create);
        how.set(MqOpen::EXCLUSIVE, exclusive);
        self.mq(name, how).map(drop)
    }

    fn mq_unlink(&self, name: &str) -> Res<()> {
        let name = format!("/{name}");
        let namespace: &Namespace = &self.fs;
        namespace
            .unlink(&self.caller(), name.as_bytes())
            .map_err(errno)
    }

    fn mq_send(&self, name: &str, bytes: &[u8]) -> Res<()> {
        let queue = self.mq(name, MqOpen::WRITE)?;
        queue.send(bytes, 0, &Wait::default()).map_err(errno)
    }

    fn mq_receive(&self, name: &str) -> Res<usize> {
        let queue = self.mq(name, MqOpen::READ)?;
        let got = queue.receive(&mut [0; 8192], &Wait::default());
        got.map(|got| got.len).map_err(errno)
    }

    fn unlink_open(&self, name: &str) -> Res<Stat> {
        let node = self.lookup(name)?;
        self.unlink(name)?;
        self.fs.getattr(&node).map(stat).map_err(errno)
    }

    fn notified(&self, name: &str, look: &mut dyn FnMut()) {
        let queue = self.mq(name, MqOpen::READ).expect("opens");
        let registered = queue.notify(std::process::id(), Some(Notification::None));
        registered.expect("registers");
        look();
    }
}
