//! Empty files, FIFOs, sockets and devices.

use rustix::fs::{CWD, Dev, FileType, Mode};
use std::io;
use std::path::Path;
use uext4::{FileKind, NewKind};

/// Makes one.
///
/// # Errors
/// The host's; what has another kind is an invalid argument.
pub fn make(path: &Path, mode: u16, kind: NewKind<'_>) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode.into());
    let node = |kind: FileType, dev: Dev| rustix::fs::mknodat(CWD, path, kind, mode, dev);
    match kind {
        NewKind::Regular => node(FileType::RegularFile, 0),
        NewKind::Fifo => node(FileType::Fifo, 0),
        NewKind::Socket => node(FileType::Socket, 0),
        NewKind::Device { kind, major, minor } => {
            let kind = match kind {
                FileKind::BlockDevice => FileType::BlockDevice,
                _ => FileType::CharacterDevice,
            };
            node(kind, rustix::fs::makedev(major, minor))
        }
        NewKind::Directory | NewKind::Symlink(_) => Err(rustix::io::Errno::INVAL),
    }?;
    Ok(())
}
