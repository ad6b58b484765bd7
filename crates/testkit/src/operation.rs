//! An operation by path, applied to a file system.

use crate::aligned::Aligned;
use crate::external::*;
use crate::tree::show;
use crate::with;
use std::fmt;
use uext4_vfs::errno::Result;

/// Directory and name of a path.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

/// The directory of a path, and the last name.
fn parent<'p, F: FileSystem>(fs: &F, path: &'p [u8]) -> Result<(F::Node, &'p [u8])> {
    let (dir, name) = split(path);
    Ok((find(fs, dir)?, name))
}

/// An operation.
#[derive(Clone)]
#[allow(missing_docs, reason = "the fields are what the system calls take")]
pub enum Op {
    Create {
        path: Vec<u8>,
        mode: u16,
    },
    Mkdir {
        path: Vec<u8>,
        mode: u16,
    },
    Symlink {
        path: Vec<u8>,
        target: Vec<u8>,
    },
    Link {
        old: Vec<u8>,
        new: Vec<u8>,
    },
    /// With `keep` the file stays open.
    Unlink {
        path: Vec<u8>,
        keep: bool,
    },
    Rmdir {
        path: Vec<u8>,
    },
    Rename {
        old: Vec<u8>,
        new: Vec<u8>,
        flags: RenameFlags,
    },
    /// With `direct`, `at` and the length are multiples of 512.
    Write {
        path: Vec<u8>,
        at: u64,
        data: Vec<u8>,
        direct: bool,
    },
    Fallocate {
        path: Vec<u8>,
        what: Fallocate,
        at: u64,
        len: u64,
    },
    Append {
        path: Vec<u8>,
        data: Vec<u8>,
    },
    Truncate {
        path: Vec<u8>,
        size: u64,
    },
    Chmod {
        path: Vec<u8>,
        mode: u16,
    },
    SetXattr {
        path: Vec<u8>,
        name: Vec<u8>,
        value: Vec<u8>,
    },
    RemoveXattr {
        path: Vec<u8>,
        name: Vec<u8>,
    },
    /// Data is journalled, or no longer (chattr(1) with `+j`, `-j`); see [`apply_to_ext4`].
    JournalData {
        path: Vec<u8>,
        on: bool,
    },
    Fsync {
        path: Vec<u8>,
        data_only: bool,
    },
    Syncfs,
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create { path, .. } => write!(f, "create {}", show(path)),
            Op::Mkdir { path, .. } => write!(f, "mkdir {}", show(path)),
            Op::Symlink { path, target } => write!(f, "symlink {} ({})", show(path), target.len()),
            Op::Link { old, new } => write!(f, "link {} {}", show(old), show(new)),
            Op::Unlink { path, keep } => write!(f, "unlink {} (keep {keep})", show(path)),
            Op::Rmdir { path } => write!(f, "rmdir {}", show(path)),
            Op::Rename { old, new, flags } => {
                write!(f, "rename {} {} {flags:?}", show(old), show(new))
            }
            Op::Write {
                path,
                at,
                data,
                direct,
            } => {
                let (path, len) = (show(path), data.len());
                write!(f, "write {path} at {at} {len} bytes (direct {direct})")
            }
            Op::Fallocate {
                path,
                what,
                at,
                len,
            } => write!(f, "{what:?} {} at {at} {len} bytes", show(path)),
            Op::Append { path, data } => write!(f, "append {} {} bytes", show(path), data.len()),
            Op::Truncate { path, size } => write!(f, "truncate {} {size}", show(path)),
            Op::Chmod { path, mode } => write!(f, "chmod {} {mode:o}", show(path)),
            Op::SetXattr { path, name, value } => {
                write!(
                    f,
                    "setxattr {} {} {} bytes",
                    show(path),
                    show(name),
                    value.len()
                )
            }
            Op::RemoveXattr { path, name } => {
                write!(f, "removexattr {} {}", show(path), show(name))
            }
            Op::JournalData { path, on } => write!(f, "journal data of {} {on}", show(path)),
            Op::Fsync { path, data_only } => write!(f, "fsync {} {data_only}", show(path)),
            Op::Syncfs => write!(f, "syncfs"),
        }
    }
}

/// Finds a path; links are not followed.
pub fn find<F: FileSystem>(fs: &F, path: &[u8]) -> Result<F::Node> {
    let mut node = fs.root()?.clone();
    for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
        node = fs.lookup(&Caller::root(), &node, name)?;
    }
    Ok(node)
}

/// Applies an operation. Gives the node of a file that stays open without this name.
pub fn apply<F: FileSystem>(fs: &F, op: &Op) -> Result<Option<F::Node>> {
    let root = Caller::root();
    let create = |path: &[u8], mode, kind| {
        let (dir, name) = parent(fs, path)?;
        fs.create(&root, &dir, name, &NewNode { mode, kind })
            .map(drop)
    };
    let change = |path: &[u8], size, mode| {
        let change = with(|o: &mut SetAttr| (o.size, o.mode) = (size, mode));
        fs.setattr(&root, &find(fs, path)?, &change).map(drop)
    };
    match op {
        Op::Create { path, mode } => create(path, *mode, NewKind::Regular)?,
        Op::Mkdir { path, mode } => create(path, *mode, NewKind::Directory)?,
        Op::Symlink { path, target } => create(path, 0o777, NewKind::Symlink(target))?,
        Op::Link { old, new } => {
            let node = find(fs, old)?;
            let (dir, name) = parent(fs, new)?;
            fs.link(&root, &node, &dir, name)?;
        }
        Op::Unlink { path, keep } => {
            let (dir, name) = parent(fs, path)?;
            let node = keep.then(|| fs.lookup(&root, &dir, name)).transpose()?;
            fs.unlink(&root, &dir, name)?;
            return Ok(node);
        }
        Op::Rmdir { path } => {
            let (dir, name) = parent(fs, path)?;
            fs.rmdir(&root, &dir, name)?;
        }
        Op::Rename { old, new, flags } => {
            let ((old_dir, old_name), (new_dir, new_name)) = (parent(fs, old)?, parent(fs, new)?);
            fs.rename(&root, &old_dir, old_name, &new_dir, new_name, *flags)?;
        }
        Op::Write {
            path,
            at,
            data,
            direct,
        } => write(fs, path, *at, data, *direct)?,
        Op::Fallocate {
            path,
            what,
            at,
            len,
        } => fs.fallocate(&find(fs, path)?, *what, *at, *len)?,
        Op::Append { path, data } => {
            fs.append(&find(fs, path)?, data)?;
        }
        Op::Truncate { path, size } => change(path, Some(*size), None)?,
        Op::Chmod { path, mode } => change(path, None, Some(*mode))?,
        Op::SetXattr { path, name, value } => {
            fs.setxattr(&root, &find(fs, path)?, name, value, XattrFlags::empty())?;
        }
        Op::RemoveXattr { path, name } => fs.removexattr(&root, &find(fs, path)?, name)?,
        Op::JournalData { .. } => return Err(Errno::EOPNOTSUPP.into()),
        Op::Fsync { path, data_only } => fs.fsync(&find(fs, path)?, *data_only)?,
        Op::Syncfs => fs.syncfs()?,
    }
    Ok(None)
}

/// As [`apply`], of ext4, which also has what no other file system has.
pub fn apply_to_ext4(fs: &Ext4, op: &Op) -> Result<Option<InodeRef>> {
    let Op::JournalData { path, on } = op else {
        return apply(fs, op);
    };
    let node = find(fs, path)?;
    let mut flags = fs.files.flags(&node);
    flags.set(InodeFlags::JOURNAL_DATA, *on);
    fs.volume
        .report(fs.files.set_flags(&Caller::root(), &node, flags))?;
    Ok(None)
}

fn write<F: FileSystem>(fs: &F, path: &[u8], at: u64, data: &[u8], direct: bool) -> Result<()> {
    let node = find(fs, path)?;
    let n = match direct {
        true => {
            let data = Aligned::of(data);
            fs.write_with(&node, at, data.bytes(), IoFlags::DIRECT)?.len
        }
        false => fs.write(&node, at, data)?,
    };
    match n < data.len() {
        true => Err(Errno::ENOSPC.into()),
        false => Ok(()),
    }
}
