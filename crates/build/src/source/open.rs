//! Opening files of the source tree by paths of any length, without leaving a mark on them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Paths from here on are opened in pieces: the host takes less than 4096 bytes at once.
const PIECE_MAX: usize = 3072;

/// Opens without a change of the access time where the host allows that.
pub(crate) fn open_at(dir: impl AsFd, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(&dir, name, flags | OFlags::NOATIME, Mode::empty()) {
        // Only the owner and root may.
        Err(Errno::PERM) => rustix::fs::openat(&dir, name, flags, Mode::empty()),
        other => other,
    }
}

/// Opens a directory by its path below `root`; an empty path is the root.
pub(crate) fn open_dir(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY;
    if path.is_empty() {
        return open_at(root, b".", flags);
    }
    let mut rest = path;
    let mut at: Option<OwnedFd> = None;
    while rest.len() > PIECE_MAX {
        let cut = rest.get(..PIECE_MAX).unwrap_or(rest);
        // Names have at most 255 bytes, so there is a slash.
        let slash = cut
            .iter()
            .rposition(|b| *b == b'/')
            .ok_or(Errno::NAMETOOLONG)?;
        let (piece, tail) = rest.split_at(slash);
        let dir = at.as_ref().map_or(root, |fd| fd.as_fd());
        at = Some(open_at(dir, piece, flags)?);
        rest = tail.get(1..).unwrap_or(&[]);
    }
    open_at(at.as_ref().map_or(root, |fd| fd.as_fd()), rest, flags)
}
