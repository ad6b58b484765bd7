//! Errors of the host by their numbers on Linux, which errors of images have.

use std::io;

/// The last number that all systems of Unix have in common, and the one before it that they have not.
const COMMON_MAX: i32 = 34;
const EAGAIN: i32 = 11;

/// The number of an error, if it has one; on other systems that of the same meaning, if Linux has one.
pub fn errno_of(e: &io::Error) -> Option<i32> {
    let code = e.raw_os_error()?;
    let is_common = cfg!(unix) && code <= COMMON_MAX && code != EAGAIN;
    match cfg!(target_os = "linux") || is_common {
        true => Some(code),
        // Errors that are made of a number of Linux keep it, unless the system has a kind for that number.
        false => Some(of_kind(e.kind()).unwrap_or(code)),
    }
}

/// The number of Linux for a kind of error, if that has one number.
fn of_kind(kind: io::ErrorKind) -> Option<i32> {
    use io::ErrorKind;
    Some(match kind {
        ErrorKind::NotFound => 2,
        ErrorKind::Interrupted => 4,
        ErrorKind::WouldBlock => 11,
        ErrorKind::OutOfMemory => 12,
        ErrorKind::PermissionDenied => 13,
        ErrorKind::ResourceBusy => 16,
        ErrorKind::AlreadyExists => 17,
        ErrorKind::CrossesDevices => 18,
        ErrorKind::NotADirectory => 20,
        ErrorKind::IsADirectory => 21,
        ErrorKind::InvalidInput => 22,
        ErrorKind::ExecutableFileBusy => 26,
        ErrorKind::FileTooLarge => 27,
        ErrorKind::StorageFull => 28,
        ErrorKind::NotSeekable => 29,
        ErrorKind::ReadOnlyFilesystem => 30,
        ErrorKind::TooManyLinks => 31,
        ErrorKind::BrokenPipe => 32,
        ErrorKind::Deadlock => 35,
        ErrorKind::InvalidFilename => 36,
        ErrorKind::DirectoryNotEmpty => 39,
        ErrorKind::Unsupported => 95,
        ErrorKind::AddrInUse => 98,
        ErrorKind::ConnectionReset => 104,
        ErrorKind::TimedOut => 110,
        ErrorKind::ConnectionRefused => 111,
        ErrorKind::HostUnreachable => 113,
        ErrorKind::QuotaExceeded => 122,
        _ => return None,
    })
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    /// On Linux the numbers are those that the kinds are made of.
    #[test]
    #[cfg(target_os = "linux")]
    fn kinds_have_the_numbers_of_linux() {
        let known = (1..200).filter_map(|code| {
            let kind = io::Error::from_raw_os_error(code).kind();
            of_kind(kind).map(|of_kind| (code, of_kind, kind))
        });
        let mut seen = 0;
        for (code, of_kind, kind) in known {
            let same = io::Error::from_raw_os_error(of_kind).kind();
            assert_eq!(same, kind, "{code}");
            seen += 1;
        }
        assert!(seen >= 28, "{seen}");
    }
}
