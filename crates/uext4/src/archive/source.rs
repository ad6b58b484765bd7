//! An open image as the source of another.

use super::options::ExportError;
use super::tree::{Tree, Visited};
use crate::filesystem::Filesystem;
use std::io;
use std::iter;
use std::time::{Duration, SystemTime};
use uext4_build::{SourceFile, SourceKind, TreeSource};
use uext4_ondisk::InodeFlags;
use uext4_vfs::{FileKind, FileSystem, Timestamp};

/// The files of an image; an empty `lost+found` of its root is left out, and flags of names without case are not kept.
impl TreeSource for Filesystem {
    fn files(&self) -> Box<dyn Iterator<Item = io::Result<SourceFile>> + '_> {
        match Tree::new(self, b"/", false) {
            Ok(mut tree) => Box::new(iter::from_fn(move || {
                next(&mut tree).map_err(io::Error::other).transpose()
            })),
            Err(e) => Box::new(iter::once(Err(io::Error::other(e)))),
        }
    }

    fn read(&self, id: u64, at: u64, data: &mut [u8]) -> io::Result<usize> {
        let node = self.session.mount.fs().inode_by_number(id)?;
        let mut done = 0;
        while done < data.len() {
            match self
                .vfs()
                .read(&node, at + done as u64, &mut data[done..])?
            {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }
}

/// The next file of a tree.
fn next(tree: &mut Tree<'_>) -> Result<Option<SourceFile>, ExportError> {
    let Some(visited) = tree.next()? else {
        return Ok(None);
    };
    let attr = &visited.attr;
    let device = (attr.rdev_major, attr.rdev_minor);
    let kind = match attr.kind {
        FileKind::Regular => SourceKind::Regular {
            len: attr.size,
            segments: segments(tree, &visited)?,
        },
        FileKind::Directory => SourceKind::Directory,
        FileKind::Symlink => SourceKind::Symlink(tree.target(&visited)?),
        FileKind::CharDevice => SourceKind::CharDevice(device.0, device.1),
        FileKind::BlockDevice => SourceKind::BlockDevice(device.0, device.1),
        FileKind::Fifo => SourceKind::Fifo,
        FileKind::Socket => SourceKind::Socket,
    };
    let mut file = SourceFile::new(visited.path.clone(), attr.ino, kind);
    file.permissions = attr.mode;
    (file.uid, file.gid) = (attr.uid, attr.gid);
    file.atime = system_time(attr.atime);
    file.mtime = system_time(attr.mtime);
    file.ctime = system_time(attr.ctime);
    file.crtime = Some(system_time(attr.crtime));
    file.xattrs = tree.xattrs(&visited)?;
    file.flags = InodeFlags::from_bits_retain(attr.flags);
    file.project = tree.project(&visited);
    file.fsverity = tree.verity_descriptor(&visited)?;
    Ok(Some(file))
}

/// The parts of a file that are data; `None` for all of it.
fn segments(
    tree: &Tree<'_>,
    file: &Visited,
) -> Result<Option<Vec<std::ops::Range<u64>>>, ExportError> {
    let found = tree.segments(file)?;
    let is_all = found == [(0, file.attr.size)];
    let ranges = found.into_iter().map(|(at, len)| at..at + len);
    Ok((!is_all).then(|| ranges.collect()))
}

fn system_time(time: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.sec.unsigned_abs());
    let whole = match time.sec {
        0.. => SystemTime::UNIX_EPOCH + seconds,
        _ => SystemTime::UNIX_EPOCH - seconds,
    };
    whole + Duration::from_nanos(time.nsec.into())
}
