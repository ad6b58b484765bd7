//! Names of queues: a slash, and up to 255 bytes without one.

use uext4_vfs::{Errno, NAME_BYTES_MAX, PATH_BYTES_MAX, Result};

/// The part of a queue's name after the slash.
///
/// # Errors
/// As mq_open(3) and Linux have it. `EINVAL`: no slash at the start. `ENOENT`: nothing after it.
/// `EACCES`: another slash, `.` or `..`. `ENAMETOOLONG`: too long.
pub fn check(name: &[u8]) -> Result<&[u8]> {
    let Some((b'/', name)) = name.split_first() else {
        return Err(Errno::EINVAL.into());
    };
    if name.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    if name.len() > PATH_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG.into());
    }
    if name == b"." || name == b".." || name.iter().any(|b| matches!(b, b'/' | 0)) {
        return Err(Errno::EACCES.into());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG.into());
    }
    Ok(name)
}
