//! cat, dump, rdump and lcd: files of an image to the host.

use super::image::{self, text};
use super::{Debugger, Given};
use crate::commands::dump::View;
use crate::names::image::host_error_text;
use crate::system::{files, paths};
use anyhow::{Result, anyhow, bail};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use uext4::NewKind;
use uext4::unstable::ondisk::{FileType, Ino, Inode, InodeFlags, Pblk};
use uext4::unstable::to_stderr;

/// Bytes that are zeros, written at a time.
const ZEROS: [u8; 4096] = [0; 4096];

/// Writes the data of an inode, holes as zeros.
///
/// # Errors
/// A block can't be read; the output can't be written.
pub fn to(view: &View, ino: Ino, inode: &Inode, out: &mut dyn Write) -> Result<()> {
    let zeros = |out: &mut dyn Write, mut len: u64| -> Result<()> {
        while len > 0 {
            let part = len.min(ZEROS.len() as u64) as usize;
            out.write_all(ZEROS.get(..part).unwrap_or(&[]))?;
            len -= part as u64;
        }
        Ok(())
    };
    each_part(view, ino, inode, &mut |part| match part {
        Part::Data(bytes) => Ok(out.write_all(bytes)?),
        Part::Hole(len) => zeros(out, len),
    })
}

/// A part of a file.
enum Part<'b> {
    Data(&'b [u8]),
    Hole(u64),
}

/// Calls `work` with the parts of a file in their order.
fn each_part(
    view: &View,
    ino: Ino,
    inode: &Inode,
    work: &mut dyn FnMut(Part<'_>) -> Result<()>,
) -> Result<()> {
    let size = inode.size;
    let is_inline = inode.flags.contains(InodeFlags::INLINE_DATA);
    if is_inline || inode.is_fast_symlink() {
        let bytes = image::data(view, ino, inode)?;
        let len = usize::try_from(size).unwrap_or(usize::MAX).min(bytes.len());
        return work(Part::Data(bytes.get(..len).unwrap_or(&[])));
    }
    let block_size = u64::from(view.sb.geometry.block_size);
    let mut runs = image::runs(view, ino, inode);
    runs.sort_by_key(|run| run.lblk);
    let mut at = 0;
    for run in runs {
        let start = run.lblk.saturating_mul(block_size);
        if start >= size {
            break;
        }
        if start > at {
            work(Part::Hole(start - at))?;
            at = start;
        }
        for block in 0..run.len {
            if at >= size {
                break;
            }
            let len = block_size.min(size - at);
            if run.unwritten {
                work(Part::Hole(len))?;
            } else {
                let bytes = view.block(Pblk(run.pblk + block))?;
                work(Part::Data(bytes.get(..len as usize).unwrap_or(&bytes)))?;
            }
            at += len;
        }
    }
    if at < size {
        work(Part::Hole(size - at))?;
    }
    Ok(())
}

/// Writes a file of the host, with its holes.
fn to_file(view: &View, ino: Ino, inode: &Inode, file: &mut File) -> Result<()> {
    let mut end = 0;
    each_part(view, ino, inode, &mut |part| {
        match part {
            Part::Data(bytes) => {
                file.write_all(bytes)?;
                end += bytes.len() as u64;
            }
            Part::Hole(len) => {
                end += len;
                file.seek(SeekFrom::Start(end))?;
            }
        }
        Ok(())
    })?;
    Ok(file.set_len(end)?)
}

fn host(path: &[u8]) -> PathBuf {
    PathBuf::from(paths::word(path.to_vec()))
}

/// `cat`.
pub fn cat(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let [path] = given.exactly("cat <file>")?;
    let image = debugger.image(given)?;
    let ino = image.find(path)?;
    let view = image.view()?;
    let inode = view.inode(ino)?.inode;
    let mut out = std::io::stdout().lock();
    to(view, ino, &inode, &mut out)?;
    Ok(out.flush()?)
}

/// `dump`.
pub fn dump(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let (options, operands) = given.options("p", "[-p] <file> <output_file>")?;
    let [path, to] = operands.as_slice() else {
        bail!(
            "{}: Usage: dump_inode [-p] <file> <output_file>",
            given.called()
        );
    };
    let image = debugger.image(given)?;
    let ino = image.find(path)?;
    let view = image.view()?;
    let inode = view.inode(ino)?.inode;
    let mut file = File::create(host(to)).map_err(|e| {
        let (why, to) = (host_error_text(&e), text(to));
        anyhow!(
            "{}: {why} while opening {to} for dump_inode",
            given.called()
        )
    })?;
    to_file(view, ino, &inode, &mut file)?;
    if options.contains(&'p') {
        keep_attributes(&inode, &host(to));
    }
    Ok(())
}

/// Gives a file of the host the owner, the mode and the times of an inode; what can't be set is reported.
fn keep_attributes(inode: &Inode, path: &Path) {
    let told = |what: &str, done: std::io::Result<()>| {
        if let Err(e) = done {
            to_stderr(format_args!(
                "dump_file: {} while {what} {}",
                host_error_text(&e),
                path.display()
            ));
        }
    };
    told(
        "changing ownership of",
        files::set_owner(path, inode.uid, inode.gid),
    );
    told(
        "setting permissions of",
        files::set_mode(path, inode.mode & 0o7777),
    );
    let time = |t: uext4::unstable::ondisk::Timestamp| {
        let since = Duration::new(t.sec.max(0).cast_unsigned(), 0);
        SystemTime::UNIX_EPOCH + since
    };
    let times = std::fs::FileTimes::new()
        .set_accessed(time(inode.atime))
        .set_modified(time(inode.mtime));
    let done = File::open(path).and_then(|file| file.set_times(times));
    told("setting times of", done);
}

/// `rdump`.
pub fn rdump(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let Some((to, from)) = given
        .operands()
        .split_last()
        .filter(|(_, from)| !from.is_empty())
    else {
        bail!(
            "{}: Usage: rdump <directory>... <native directory>",
            given.called()
        );
    };
    let called = given.called();
    let to = host(to);
    let there = std::fs::metadata(&to).map_err(|e| {
        anyhow!(
            "{called}: {} while statting {}",
            host_error_text(&e),
            to.display()
        )
    })?;
    if !there.is_dir() {
        bail!("{called}: {} is not a directory", to.display());
    }
    let image = debugger.image(given)?;
    for path in from {
        let ino = image.find(path)?;
        let view = image.view()?;
        let name = path
            .split(|byte| *byte == b'/')
            .rfind(|name| !name.is_empty());
        let at = match name {
            Some(name) if !name.starts_with(b"<") => to.join(paths::path(name)),
            _ => to.clone(),
        };
        tree(view, ino, &at, 0)?;
    }
    Ok(())
}

/// Directories that are followed within each other: a damaged image may have a ring.
const DEPTH_MAX: u32 = 512;

fn tree(view: &View, ino: Ino, to: &Path, depth: u32) -> Result<()> {
    let inode = view.inode(ino)?.inode;
    let told = |what: &str, done: std::io::Result<()>| {
        if let Err(e) = &done {
            to_stderr(format_args!(
                "rdump: {} while {what} {}",
                host_error_text(e),
                to.display()
            ));
        }
        done.is_ok()
    };
    match inode.file_type() {
        FileType::Symlink => {
            let mut target = image::data(view, ino, &inode)?;
            target.truncate(usize::try_from(inode.size).unwrap_or(usize::MAX));
            let made = files::make(to, 0o777, NewKind::Symlink(&target));
            told("creating symlink", made);
        }
        FileType::Regular => match File::create(to) {
            Ok(mut file) => {
                to_file(view, ino, &inode, &mut file)?;
                keep_attributes(&inode, to);
            }
            Err(e) => drop(told("opening", Err(e))),
        },
        FileType::Directory => {
            if depth > DEPTH_MAX {
                bail!("rdump: {}: directories are in a ring", to.display());
            }
            let made = match std::fs::create_dir(to) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && depth == 0 => Ok(()),
                made => made,
            };
            if !told("making directory", made) {
                return Ok(());
            }
            for entry in image::entries(view, ino, false)? {
                let is_dots = matches!(&*entry.name, b"." | b"..");
                let is_legal = !entry.name.is_empty() && !entry.name.contains(&b'/');
                if entry.ino != 0 && !is_dots && is_legal {
                    let below = to.join(paths::path(&entry.name));
                    if let Err(e) = tree(view, Ino(entry.ino), &below, depth + 1) {
                        to_stderr(format_args!("rdump: {}: {e:#}", below.display()));
                    }
                }
            }
            keep_attributes(&inode, to);
        }
        _ => to_stderr(format_args!(
            "rdump: skipping special file: {}",
            to.display()
        )),
    }
    Ok(())
}

/// `lcd`.
pub fn lcd(_: &mut Debugger, given: &Given) -> Result<()> {
    let [path] = given.exactly("lcd <native dir>")?;
    std::env::set_current_dir(host(path)).map_err(|e| {
        let (why, path) = (host_error_text(&e), text(path));
        anyhow!(
            "{}: {why} while trying to change native directory to {path}",
            given.called()
        )
    })
}
