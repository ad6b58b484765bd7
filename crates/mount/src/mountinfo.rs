//! What is mounted where, as `/proc/self/mountinfo` tells (proc(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The type of our mounts.
pub const TYPE: &str = "fuse.uext4";

/// What of it is ours to say.
pub const SUBTYPE: &str = "uext4";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Its number, which no other mount has as long as it lives.
    pub id: u64,
    /// The device as `major:minor`.
    pub device: String,
    /// Where it is mounted.
    pub dir: PathBuf,
    /// The type of the file system.
    pub kind: String,
    /// What is mounted.
    pub source: PathBuf,
    /// Whether it can't be written.
    pub read_only: bool,
}

impl MountEntry {
    /// The mount that is to be seen at `dir`, a path as [`Path::canonicalize`] gives it; of several over each
    /// other, the last.
    ///
    /// # Errors
    /// `/proc` can't be read.
    pub fn at(dir: &Path) -> io::Result<Option<MountEntry>> {
        let text = std::fs::read("/proc/self/mountinfo")?;
        let mut entries = text.split(|b| *b == b'\n').filter_map(parse);
        Ok(entries.rfind(|entry| entry.dir == dir))
    }

    /// Whether it is one of ours.
    pub fn is_ours(&self) -> bool {
        self.kind == TYPE
    }
}

/// Symbolic links that are followed, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// The absolute path of a mount's directory. It is not looked up itself, as its server may be gone, or hang.
///
/// # Errors
/// The directory that it lies in can't be found.
pub fn absolute(dir: &Path) -> io::Result<PathBuf> {
    let mut dir = std::path::absolute(dir)?;
    for _ in 0..LINKS_MAX {
        let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
            return dir.canonicalize();
        };
        let parent = parent.canonicalize()?;
        let found = parent.join(name);
        match std::fs::read_link(&found) {
            Ok(target) => dir = parent.join(target),
            Err(_) => return Ok(found),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|b| *b == b' ');
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let id = text(fields.next()?).parse().ok()?;
    let device = text(fields.nth(1)?);
    let dir = path(fields.nth(1)?);
    let flags = text(fields.next()?);
    let mut after = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = text(after.next()?);
    let source = path(after.next()?);
    let super_flags = text(after.next()?);
    let is_ro = |flags: &str| flags.split(',').any(|flag| flag == "ro");
    Some(MountEntry {
        id,
        device,
        dir,
        kind,
        source,
        read_only: is_ro(&flags) || is_ro(&super_flags),
    })
}

/// A path in which blanks and backslashes are octal numbers.
fn path(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let number = match (first, after.get(..3)) {
            (b'\\', Some(digits)) => std::str::from_utf8(digits).ok(),
            _ => None,
        };
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo() {
        let line = br"36 35 0:98 / /mnt/two\040words rw,noatime shared:1 - fuse.uext4 /tmp/a\134b.img ro,user_id=0";
        let entry = parse(line).unwrap();
        assert_eq!(entry.id, 36);
        assert_eq!(entry.device, "0:98");
        assert_eq!(entry.dir, Path::new("/mnt/two words"));
        assert_eq!(entry.source, Path::new(r"/tmp/a\b.img"));
        assert!(entry.is_ours() && entry.read_only);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 0:98 / /mnt rw"), None);
    }

    #[test]
    fn the_root_is_a_mount_and_not_ours() {
        let root = MountEntry::at(Path::new("/")).unwrap().unwrap();
        assert!(!root.is_ours());
        assert_eq!(MountEntry::at(Path::new("/etc/passwd")).unwrap(), None);
    }
}
