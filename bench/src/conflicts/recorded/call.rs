//! The calls that are paired: what each does to an image, and to the reference model.

use anyhow::{Result, ensure};
use std::fmt::Write as _;
use uext4_ext4::{Ext4, InodeRef};
use uext4_testkit::model::{Content, Model};
use uext4_testkit::operation::{Op, split};
use uext4_vfs::attr::{NewKind, NewNode, SetAttr, TimeSet};
use uext4_vfs::{
    Caller, Fallocate, FileSystem as _, IoFlags, RenameFlags, Timestamp, WalkFlags, XattrFlags,
    resolve,
};

use crate::aligned::AlignedBuf;

/// Bytes of a read or a write.
pub const IO_BYTES: usize = 4096;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Create,
    Unlink,
    /// Of a file that is open: it becomes an orphan.
    UnlinkOpen,
    Link,
    Rename,
    /// To another directory.
    RenameAcross,
    Lookup,
    LookupMissing,
    Stat,
    /// stat(2) by path, from the root.
    StatPath,
    Readdir,
    Mkdir,
    Rmdir,
    Read,
    ReadDirect,
    Write,
    WriteDirect,
    Append,
    Truncate,
    Fallocate,
    Chmod,
    Utimens,
    Getxattr,
    Setxattr,
    /// Of a file that is durable: the copy of the process has no thread that could commit.
    Fsync,
}

/// A call: of a file or a name in a directory, each as seen by one virtual CPU.
#[derive(Clone, Debug)]
pub struct Call {
    pub what: What,
    /// The file or name, from the root.
    pub path: Vec<u8>,
    /// The other name, of link and rename.
    pub new: Vec<u8>,
    /// Where in the file.
    pub at: u64,
}

/// The mounted image and the handles that the calls use: only [`What::StatPath`] walks a path.
pub struct World {
    pub fs: std::sync::Arc<Ext4>,
    pub nodes: std::collections::HashMap<Vec<u8>, InodeRef>,
}

impl World {
    /// The handle of a file.
    pub fn node(&self, path: &[u8]) -> Result<&InodeRef> {
        let node = self.nodes.get(path);
        node.ok_or_else(|| anyhow::anyhow!("no handle of {}", String::from_utf8_lossy(path)))
    }
}

fn new_node(kind: NewKind<'_>) -> NewNode<'_> {
    NewNode { mode: 0o644, kind }
}

impl Call {
    /// Whether it allocates or frees blocks of the image.
    pub fn allocates(&self) -> bool {
        matches!(
            self.what,
            What::Mkdir | What::Rmdir | What::Append | What::Truncate | What::Fallocate
        )
    }

    /// Whether it changes or reads the names of its directory.
    pub fn names(&self) -> bool {
        matches!(
            self.what,
            What::Create
                | What::Unlink
                | What::UnlinkOpen
                | What::Link
                | What::Rename
                | What::RenameAcross
                | What::Lookup
                | What::LookupMissing
                | What::StatPath
                | What::Readdir
                | What::Mkdir
                | What::Rmdir
        )
    }

    /// Whether it changes nothing.
    pub fn only_reads(&self) -> bool {
        matches!(
            self.what,
            What::Lookup
                | What::LookupMissing
                | What::Stat
                | What::StatPath
                | What::Readdir
                | What::Read
                | What::ReadDirect
                | What::Getxattr
        )
    }

    /// Its directory.
    pub fn directory(&self) -> &[u8] {
        match self.what {
            What::Readdir => &self.path,
            _ => split(&self.path).0,
        }
    }

    /// What memory the caller brings, which is not the call's.
    pub fn buffer(&self) -> AlignedBuf {
        AlignedBuf::zeroed(IO_BYTES)
    }

    /// Does it.
    ///
    /// # Errors
    /// Those of the engine: the initial state allows every call.
    pub fn run(&self, world: &World, buffer: &mut AlignedBuf) -> Result<()> {
        let (fs, root) = (&*world.fs, &Caller::root());
        let (dir, name) = split(&self.path);
        let (new_dir, new_name) = split(&self.new);
        match self.what {
            What::Create => {
                let made = fs.create(root, world.node(dir)?, name, &new_node(NewKind::Regular))?;
                // As close(2) does.
                drop(made);
            }
            What::Mkdir => {
                drop(fs.create(root, world.node(dir)?, name, &new_node(NewKind::Directory))?)
            }
            What::Unlink | What::UnlinkOpen => fs.unlink(root, world.node(dir)?, name)?,
            What::Rmdir => fs.rmdir(root, world.node(dir)?, name)?,
            What::Link => fs.link(
                root,
                world.node(&self.path)?,
                world.node(new_dir)?,
                new_name,
            )?,
            What::Rename | What::RenameAcross => {
                let (from, to) = (world.node(dir)?, world.node(new_dir)?);
                fs.rename(root, from, name, to, new_name, RenameFlags::empty())?;
            }
            What::Lookup => drop(fs.lookup(root, world.node(dir)?, name)?),
            What::LookupMissing => ensure!(fs.lookup(root, world.node(dir)?, name).is_err()),
            What::Stat => drop(fs.getattr(world.node(&self.path)?)?),
            What::StatPath => {
                let node = resolve(fs, root, None, &self.path, WalkFlags::FOLLOW_LAST)?;
                fs.getattr(&node)?;
            }
            What::Readdir => fs.readdir(root, world.node(&self.path)?, 0, &mut |_| true)?,
            What::Read | What::ReadDirect => {
                let node = world.node(&self.path)?;
                fs.read_with(node, self.at, buffer.bytes_mut(), self.flags())?;
            }
            What::Write | What::WriteDirect => {
                let node = world.node(&self.path)?;
                fs.write_with(node, self.at, buffer.bytes(), self.flags())?;
            }
            What::Append => drop(fs.append(world.node(&self.path)?, buffer.bytes())?),
            What::Truncate => self.set(world, |set| set.size = Some(1000))?,
            What::Fallocate => fs.fallocate(
                world.node(&self.path)?,
                Fallocate::Allocate,
                1 << 20,
                IO_BYTES as u64,
            )?,
            What::Chmod => self.set(world, |set| set.mode = Some(0o600))?,
            What::Utimens => {
                let time = Timestamp { sec: 1, nsec: 2 };
                self.set(world, |set| set.mtime = Some(TimeSet::At(time)))?;
            }
            What::Fsync => fs.fsync(world.node(&self.path)?, false)?,
            What::Getxattr => drop(fs.getxattr(root, world.node(&self.path)?, b"user.x")?),
            What::Setxattr => {
                let node = world.node(&self.path)?;
                fs.setxattr(root, node, b"user.x", b"other", XattrFlags::empty())?;
            }
        }
        Ok(())
    }

    fn flags(&self) -> IoFlags {
        match self.what {
            What::ReadDirect | What::WriteDirect => IoFlags::DIRECT,
            _ => IoFlags::empty(),
        }
    }

    fn set(&self, world: &World, change: impl FnOnce(&mut SetAttr)) -> Result<()> {
        let mut set = SetAttr::default();
        change(&mut set);
        let node = world.node(&self.path)?;
        world.fs.setattr(&Caller::root(), node, &set)?;
        Ok(())
    }

    /// Does it to the model; gives what the caller learns.
    pub fn on_model(&self, model: &mut Model, writer: u8) -> String {
        let path = self.path.clone();
        let data = vec![writer; IO_BYTES];
        let op = match self.what {
            What::Create => Op::Create { path, mode: 0o644 },
            What::Mkdir => Op::Mkdir { path, mode: 0o644 },
            What::Unlink | What::UnlinkOpen => Op::Unlink { path, keep: false },
            What::Rmdir => Op::Rmdir { path },
            What::Link => Op::Link {
                old: path,
                new: self.new.clone(),
            },
            What::Rename | What::RenameAcross => Op::Rename {
                old: path,
                new: self.new.clone(),
                flags: RenameFlags::empty(),
            },
            What::Write | What::WriteDirect => Op::Write {
                path,
                at: self.at,
                data,
                direct: false,
            },
            What::Append => Op::Append { path, data },
            What::Truncate => Op::Truncate { path, size: 1000 },
            What::Fallocate => Op::Fallocate {
                path,
                what: Fallocate::Allocate,
                at: 1 << 20,
                len: IO_BYTES as u64,
            },
            What::Chmod => Op::Chmod { path, mode: 0o600 },
            // The model has no times that are set: they are an attribute with a name of its own.
            What::Utimens => Op::SetXattr {
                path,
                name: b"user.mtime".to_vec(),
                value: b"1.2".to_vec(),
            },
            What::Setxattr => Op::SetXattr {
                path,
                name: b"user.x".to_vec(),
                value: b"other".to_vec(),
            },
            _ => return self.learned(model),
        };
        format!("{:?}", model.apply(&op))
    }

    /// What a call learns that changes nothing.
    fn learned(&self, model: &Model) -> String {
        let id = match model.find(&self.path) {
            Ok(id) => id,
            Err(errno) => return format!("{errno:?}"),
        };
        let Some(node) = model.node(id) else {
            return String::new();
        };
        let mut learned = String::new();
        let _ = match (self.what, &node.content) {
            (What::Readdir, Content::Dir(names)) => write!(learned, "{:?}", names.keys()),
            (What::Read | What::ReadDirect, Content::File(data)) => {
                let from = data.len().min(self.at as usize);
                let to = data.len().min(from + IO_BYTES);
                write!(learned, "{:?}", &data[from..to])
            }
            (What::Getxattr, _) => write!(learned, "{:?}", node.xattrs.get(&b"user.x"[..])),
            (What::Stat | What::StatPath, content) => {
                let size = match content {
                    Content::File(data) => data.len(),
                    _ => 0,
                };
                let (mode, names) = (node.mode, node.names);
                write!(
                    learned,
                    "{size} {mode:o} {names} {:?} {}",
                    node.xattrs, node.changed
                )
            }
            _ => write!(learned, "{id}"),
        };
        learned
    }
}
