//! Empty files, FIFOs, sockets and devices, where mknodat(2) is missing or makes no sockets.

use nix::sys::stat::{Mode, SFlag, mknod};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use uext4::{FileKind, NewKind};

/// Makes one.
///
/// # Errors
/// The host's; what has another kind is an invalid argument.
pub fn make(path: &Path, mode: u16, kind: NewKind<'_>) -> io::Result<()> {
    let permissions = Mode::from_bits_truncate(mode as _);
    match kind {
        NewKind::Regular => {
            let mut options = File::options();
            options.write(true).create_new(true).mode(mode.into());
            options.open(path).map(drop)
        }
        NewKind::Fifo => Ok(nix::unistd::mkfifo(path, permissions)?),
        // The file stays when nothing listens any more.
        NewKind::Socket => UnixListener::bind(path).map(drop),
        NewKind::Device { kind, major, minor } => {
            let kind = match kind {
                FileKind::BlockDevice => SFlag::S_IFBLK,
                _ => SFlag::S_IFCHR,
            };
            Ok(mknod(
                path,
                kind,
                permissions,
                rustix::fs::makedev(major, minor),
            )?)
        }
        NewKind::Directory | NewKind::Symlink(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}
