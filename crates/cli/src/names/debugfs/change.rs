//! Requests that change names and files: through the engine, so that what they leave is sound.
//!
//! The original changes no times of a directory whose names it changes, nor does this: scripts set them beforehand.

use super::image::{Engine, Image, NOT_FOUND, text};
use super::{Debugger, Given, words};
use crate::names::image::host_error_text;
use crate::system::{files, paths};
use anyhow::{Result, anyhow, bail};
use std::fs::File;
use std::io::Read;
use uext4::unstable::ondisk::Ino;
use uext4::unstable::{FileSystem, InodeRef, NewNode, SetAttr};
use uext4::{Caller, Errno, FileKind, NewKind, OpenOptions, TimeSet, XattrFlags};

/// Bytes that are copied at a time; a run of so many zeros becomes a hole.
const PART: usize = 64 << 10;
/// The smallest hole.
const HOLE: usize = 4096;

/// An error of the engine as e2fsprogs word it.
fn worded(e: &uext4::Error, exists: &str) -> String {
    if *e == Errno::EEXIST {
        return exists.to_owned();
    }
    if *e == Errno::ENOENT {
        return NOT_FOUND.to_owned();
    }
    if *e == Errno::ENOTDIR {
        return "Ext2 inode is not a directory".to_owned();
    }
    if *e == Errno::ENOSPC {
        return "Could not allocate block in ext2 filesystem".to_owned();
    }
    e.to_string()
}

/// Does `work`, after which an inode has the times that it had.
fn with_times<T>(
    engine: &Engine<'_>,
    node: &InodeRef,
    work: impl FnOnce() -> uext4::Result<T>,
) -> uext4::Result<T> {
    let fs = engine.fs.engine();
    let attr = fs.getattr(node)?;
    let done = work()?;
    let times = SetAttr {
        atime: Some(TimeSet::At(attr.atime)),
        mtime: Some(TimeSet::At(attr.mtime)),
        ctime: Some(TimeSet::At(attr.ctime)),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), node, &times)?;
    Ok(done)
}

/// Makes a file.
fn create(
    image: &mut Image,
    dir: Ino,
    name: &[u8],
    mode: u16,
    kind: NewKind<'_>,
) -> uext4::Result<InodeRef> {
    let engine = image.engine().map_err(of_mount)?;
    let parent = engine.node(dir)?;
    let new = NewNode { mode, kind };
    with_times(&engine, &parent, || {
        engine
            .fs
            .engine()
            .create(&Caller::root(), &parent, name, &new)
    })
}

fn of_mount(e: anyhow::Error) -> uext4::Error {
    match e.downcast::<uext4::Error>() {
        Ok(e) => e,
        Err(e) => uext4::Error::new(Errno::EIO).context(format!("{e:#}")),
    }
}

/// An error of a request.
fn failed(given: &Given, e: &uext4::Error, exists: &str) -> anyhow::Error {
    anyhow!("{}: {} ", given.called(), worded(e, exists))
}

/// The directory of a new name.
fn parent<'p>(image: &mut Image, given: &Given, path: &'p [u8]) -> Result<(Ino, &'p [u8])> {
    image
        .find_parent(path)
        .map_err(|e| anyhow!("{}: {e}", given.called()))
}

/// `write`.
pub fn write(debugger: &mut Debugger, given: &Given) -> Result<()> {
    debugger.writable(given)?;
    let [from, path] = given.exactly("write <native file> <new file>")?;
    let image = debugger.writable(given)?;
    let why = host_error_text;
    let opened = File::open(paths::word(from.to_vec()));
    let (mut file, mode) = opened
        .and_then(|file| {
            let mode = files::permissions(&file.metadata()?);
            Ok((file, mode))
        })
        .map_err(|e| {
            let (why, called) = (why(&e), given.called());
            anyhow!(
                "do_write_internal: {why} while opening \"{}\" to copy\n{called}: {why} ",
                text(from)
            )
        })?;
    let (dir, name) = parent(image, given, path)?;
    let made = create(image, dir, name, mode, NewKind::Regular);
    let node = made.map_err(|e| failed(given, &e, "Ext2 file already exists"))?;
    debugger.out = format!("Allocated inode: {}\n", node.ino.0);
    let image = debugger.writable(given)?;
    let engine = image.engine()?;
    let handle = engine.fs.engine().handle(&node);
    let to = engine
        .fs
        .open_handle(handle, &OpenOptions::new().write(true));
    let to = to.map_err(|e| failed(given, &e, ""))?;
    let copied = copy(&mut file, &to);
    if copied.is_err() {
        // Half a file is worse than none.
        let parent = engine.node(dir)?;
        drop(to);
        engine.fs.engine().unlink(&Caller::root(), &parent, name)?;
    }
    copied.map_err(|e| match e.downcast::<uext4::Error>() {
        Ok(e) => failed(given, &e, ""),
        Err(e) => anyhow!("{}: {e:#} ", given.called()),
    })
}

fn copy(from: &mut File, to: &uext4::File) -> Result<()> {
    let mut buf = vec![0; PART];
    let mut at = 0;
    loop {
        let mut len = 0;
        while let Some(rest) = buf.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match from.read(rest)? {
                0 => break,
                read => len += read,
            }
        }
        if len == 0 {
            break;
        }
        let part = buf.get(..len).unwrap_or(&[]);
        let mut start = 0;
        while start < len {
            let block = part.get(start..(start + HOLE).min(len)).unwrap_or(&[]);
            if block.iter().all(|byte| *byte == 0) {
                start += block.len();
                continue;
            }
            let rest = part.get(start..).unwrap_or(&[]);
            let runs = rest.chunks(HOLE);
            let data: usize = runs
                .take_while(|block| block.iter().any(|byte| *byte != 0))
                .map(<[u8]>::len)
                .sum();
            to.write_all_at(rest.get(..data).unwrap_or(&[]), at + start as u64)?;
            start += data;
        }
        at += len as u64;
    }
    to.set_len(at)?;
    Ok(())
}

/// `mkdir`.
pub fn mkdir(debugger: &mut Debugger, given: &Given) -> Result<()> {
    debugger.writable(given)?;
    let [path] = given.exactly("mkdir <filename>")?;
    let image = debugger.writable(given)?;
    let (dir, name) = parent(image, given, path)?;
    let made = create(image, dir, name, 0o755, NewKind::Directory);
    made.map_err(|e| {
        let why = worded(&e, "Ext2 directory already exists");
        anyhow!(
            "ext2fs_mkdir: {why} while creating directory \"{}\"\n{}: {why} ",
            text(name),
            given.called()
        )
    })?;
    Ok(())
}

/// `symlink`.
pub fn symlink(debugger: &mut Debugger, given: &Given) -> Result<()> {
    debugger.writable(given)?;
    let [path, target] = given.exactly("symlink <filename> <target>")?;
    let image = debugger.writable(given)?;
    let (dir, name) = parent(image, given, path)?;
    let made = create(image, dir, name, 0o777, NewKind::Symlink(target));
    made.map_err(|e| {
        let why = worded(&e, "Ext2 file already exists");
        anyhow!(
            "ext2fs_symlink: {why} while creating symlink \"{}\"\n{}: {why} ",
            text(name),
            given.called()
        )
    })?;
    Ok(())
}

/// `mknod`.
pub fn mknod(debugger: &mut Debugger, given: &Given) -> Result<()> {
    debugger.writable(given)?;
    let called = given.called();
    let usage = || anyhow!("{called}: Usage: mknod <name> [p| [c|b] <major> <minor>]");
    let number = |word: &[u8]| {
        let number = words::number(word).and_then(|n| u32::try_from(n).ok());
        number.ok_or_else(usage)
    };
    let (path, kind) = match given.operands() {
        [path, kind] if kind == b"p" => (path, NewKind::Fifo),
        [path, kind, major, minor] if kind == b"c" || kind == b"b" => {
            let device = NewKind::Device {
                kind: match kind.as_slice() {
                    b"c" => FileKind::CharDevice,
                    _ => FileKind::BlockDevice,
                },
                major: number(major)?,
                minor: number(minor)?,
            };
            (path, device)
        }
        _ => return Err(usage()),
    };
    let image = debugger.writable(given)?;
    let (dir, name) = parent(image, given, path)?;
    let made = create(image, dir, name, 0, kind);
    let node = made.map_err(|e| failed(given, &e, "Ext2 file already exists"))?;
    debugger.out = format!("Allocated inode: {}\n", node.ino.0);
    Ok(())
}

/// `ln`. The links are counted, which the original leaves to set_inode_field.
pub fn ln(debugger: &mut Debugger, given: &Given) -> Result<()> {
    debugger.writable(given)?;
    let [from, path] = given.exactly("link <source_file> <dest_name>")?;
    let image = debugger.writable(given)?;
    let ino = image.find(from)?;
    let (dir, name) = parent(image, given, path).map_err(|e| anyhow!("{e}"))?;
    let (dir, name) = match image.find_directory(path) {
        // As ln(1): into a directory.
        Ok(into) => (
            into,
            from.rsplit(|byte| *byte == b'/').next().unwrap_or(from),
        ),
        Err(_) => (dir, name),
    };
    let engine = image.engine()?;
    let link = || -> uext4::Result<()> {
        let (node, parent) = (engine.node(ino)?, engine.node(dir)?);
        with_times(&engine, &parent, || {
            with_times(&engine, &node, || {
                engine
                    .fs
                    .engine()
                    .link(&Caller::root(), &node, &parent, name)
            })
        })
    };
    link().map_err(|e| match e == Errno::EPERM {
        true => anyhow!(
            "make_link: {} is a directory, which has one name ",
            text(from)
        ),
        false => anyhow!("make_link: {} ", worded(&e, "Ext2 file already exists")),
    })
}

/// What is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removed {
    File,
    Directory,
    /// A name alone: an inode that has no other is kept while the image is open.
    Name,
}

fn remove(debugger: &mut Debugger, given: &Given, usage: &str, what: Removed) -> Result<()> {
    debugger.writable(given)?;
    let [path] = given.exactly(usage)?;
    let called = given.called();
    let image = debugger.writable(given)?;
    let while_resolving = |_| anyhow!("{called}: {NOT_FOUND} while trying to resolve filename");
    let ino = match what {
        Removed::Name => image
            .find(path)
            .map_err(|_| anyhow!("unlink_file_by_name: No free space in the directory "))?,
        _ => image.find(path).map_err(while_resolving)?,
    };
    let (dir, name) = match path.strip_suffix(b"/") {
        Some(path) => parent(image, given, path)?,
        None => parent(image, given, path)?,
    };
    let mut engine = image.engine()?;
    let failed = |e: uext4::Error| failed(given, &e, "");
    let node = engine.node(ino).map_err(failed)?;
    let above = engine.node(dir).map_err(failed)?;
    let fs = engine.fs.engine();
    let attr = fs.getattr(&node).map_err(failed)?;
    let is_dir = attr.kind == FileKind::Directory;
    match (what, is_dir) {
        (Removed::Directory, false) => bail!("{called}: file is not a directory"),
        (Removed::File, true) => bail!("{called}: file is a directory"),
        (Removed::Name, true) => bail!("{called}: file is a directory, which has one name"),
        _ => {}
    }
    let removed = with_times(&engine, &above, || match is_dir {
        true => fs.rmdir(&Caller::root(), &above, name),
        false => fs.unlink(&Caller::root(), &above, name),
    });
    removed.map_err(|e| match e == Errno::ENOTEMPTY {
        true => anyhow!("{called}: directory not empty"),
        false => failed(e),
    })?;
    let is_last = is_dir || attr.nlink <= 1;
    if what == Removed::Name {
        engine.keep(node);
    } else if is_last {
        debugger.out.push('\n');
    }
    Ok(())
}

/// `rm`.
pub fn rm(debugger: &mut Debugger, given: &Given) -> Result<()> {
    remove(debugger, given, "rm <filename>", Removed::File)
}

/// `rmdir`.
pub fn rmdir(debugger: &mut Debugger, given: &Given) -> Result<()> {
    remove(debugger, given, "rmdir <filename>", Removed::Directory)
}

/// `unlink`. The links are counted, which the original leaves to set_inode_field.
pub fn unlink(debugger: &mut Debugger, given: &Given) -> Result<()> {
    remove(debugger, given, "unlink <pathname>", Removed::Name)
}

/// `ea_set`.
pub fn ea_set(debugger: &mut Debugger, given: &Given) -> Result<()> {
    debugger.writable(given)?;
    let mut words = given.operands().iter().peekable();
    let mut file = None;
    while let Some(option) = words.next_if(|word| word.starts_with(b"-") && word.len() == 2) {
        match option.as_slice() {
            b"-f" => file = words.next(),
            b"-r" => {}
            _ => bail!("{}: invalid option -- '{}'", given.called(), text(option)),
        }
    }
    let rest: Vec<&Vec<u8>> = words.collect();
    let (path, name, value) = match (rest.as_slice(), file) {
        ([path, name, value], None) => (path, name, (*value).clone()),
        ([path, name], Some(file)) => {
            let value = std::fs::read(paths::word(file.to_vec())).map_err(|e| {
                let why = host_error_text(&e);
                anyhow!("{}: {why} while opening {}", given.called(), text(file))
            })?;
            (path, name, value)
        }
        _ => {
            "Usage:\tea_set [-r] <file> <attr> <value>\n\tea_set -f <value_file> [-r] <file> <attr>\n"
                .clone_into(&mut debugger.out);
            return Ok(());
        }
    };
    let image = debugger.writable(given)?;
    let ino = image.find(path)?;
    let engine = image.engine()?;
    let set = || -> uext4::Result<()> {
        let node = engine.node(ino)?;
        with_times(&engine, &node, || {
            let fs = engine.fs.engine();
            fs.setxattr(&Caller::root(), &node, name, &value, XattrFlags::empty())
        })
    };
    set().map_err(|e| anyhow!("{}: {e} while setting extended attribute", given.called()))
}

/// `ea_rm`.
pub fn ea_rm(debugger: &mut Debugger, given: &Given) -> Result<()> {
    debugger.writable(given)?;
    let Some((path, names)) = given
        .operands()
        .split_first()
        .filter(|(_, names)| !names.is_empty())
    else {
        debugger.out = format!("{}: Usage: ea_rm <file> <attrs>...\n", given.called());
        return Ok(());
    };
    let image = debugger.writable(given)?;
    let ino = image.find(path)?;
    let engine = image.engine()?;
    for name in names {
        let remove = || -> uext4::Result<()> {
            let node = engine.node(ino)?;
            let fs = engine.fs.engine();
            with_times(&engine, &node, || {
                match fs.removexattr(&Caller::root(), &node, name) {
                    // The original has nothing to say of one that is not there.
                    Err(e) if e == Errno::ENODATA => Ok(()),
                    done => done,
                }
            })
        };
        remove()
            .map_err(|e| anyhow!("{}: {e} while removing extended attribute", given.called()))?;
    }
    Ok(())
}
