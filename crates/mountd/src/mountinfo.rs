//! The list of mounts in `/proc/self/mountinfo` (proc(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use uext4_fuse::KernelFlags;

/// The type of our mounts.
pub const TYPE: &str = "fuse.uext4";

/// What of it is ours to say.
pub const SUBTYPE: &str = "uext4";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Its id, unique among existing mounts.
    pub id: u64,
    /// The device as `major:minor`; mounts of one superblock have the same.
    pub device: String,
    /// The directory of the file system that is mounted: `/`, unless it is a bind mount of a part.
    pub root: PathBuf,
    /// Where it is mounted.
    pub dir: PathBuf,
    /// The type of the file system.
    pub kind: String,
    /// What is mounted.
    pub source: PathBuf,
    /// The options of the mount and of its superblock, as mount(8) lists them.
    pub options: String,
    /// What the kernel does with it.
    pub flags: KernelFlags,
    /// The mounting user of a FUSE mount.
    pub user: Option<u32>,
}

impl MountEntry {
    /// The mount that is to be seen at `dir`, a path as [`Path::canonicalize`] gives it; of several over each
    /// other, the last.
    ///
    /// # Errors
    /// `/proc` can't be read.
    pub fn at(dir: &Path) -> io::Result<Option<MountEntry>> {
        let mut entries = MountEntry::all()?;
        entries.retain(|entry| entry.dir == dir);
        Ok(entries.pop())
    }

    /// Why nothing else can be mounted at `dir`, if a FUSE file system is mounted there, and what to do.
    pub fn in_the_way(dir: &Path) -> Option<String> {
        let entry = MountEntry::at(dir).ok()??;
        if !entry.kind.starts_with("fuse") {
            return None;
        }
        let umount = match entry.is_ours() {
            true => "uext4 umount",
            false => "umount",
        };
        let (dir, source) = (dir.display(), entry.source.display());
        Some(format!(
            "{dir}: {source} is mounted there already; `{umount} {dir}` first"
        ))
    }

    /// All mounts that this process sees.
    ///
    /// # Errors
    /// `/proc` can't be read.
    pub fn all() -> io::Result<Vec<MountEntry>> {
        let text = std::fs::read("/proc/self/mountinfo")?;
        Ok(text.split(|b| *b == b'\n').filter_map(parse).collect())
    }

    /// Other mounts of the same superblock.
    ///
    /// # Errors
    /// `/proc` can't be read.
    pub fn siblings(&self) -> io::Result<Vec<MountEntry>> {
        let mut entries = MountEntry::all()?;
        entries.retain(|entry| entry.device == self.device && entry.id != self.id);
        Ok(entries)
    }

    /// Whether it is this mount that is to be seen at its directory.
    pub fn is_seen(&self) -> bool {
        let seen = MountEntry::at(&self.dir).ok().flatten();
        seen.is_some_and(|entry| entry.id == self.id)
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
    let root = path(fields.next()?);
    let dir = path(fields.next()?);
    let of_mount = text(fields.next()?);
    let mut after = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = text(after.next()?);
    let source = path(after.next()?);
    let of_superblock = text(after.next()?);
    let flags = flags(&of_mount, &of_superblock);
    let options = together(&of_mount, &of_superblock);
    let user = of_superblock.split(',');
    let mut user = user.filter_map(|option| option.strip_prefix("user_id=")?.parse().ok());
    Some(MountEntry {
        id,
        device,
        root,
        dir,
        kind,
        source,
        options,
        flags,
        user: user.next_back(),
    })
}

/// Both lists of options as one, each option once.
fn together(of_mount: &str, of_superblock: &str) -> String {
    let is_new = |option: &&str| of_mount.split(',').all(|other| other != *option);
    let more = of_superblock.split(',').filter(is_new);
    // A mount that is read-only shows a superblock that is not.
    let more = more.filter(|option| *option != "rw");
    of_mount
        .split(',')
        .chain(more)
        .collect::<Vec<_>>()
        .join(",")
}

/// What the options of a mount and of its superblock are to the kernel.
fn flags(of_mount: &str, of_superblock: &str) -> KernelFlags {
    let mount = |name: &str| of_mount.split(',').any(|flag| flag == name);
    let superblock = |name: &str| of_superblock.split(',').any(|flag| flag == name);
    KernelFlags {
        read_only: mount("ro") || superblock("ro"),
        nosuid: mount("nosuid"),
        nodev: mount("nodev"),
        noexec: mount("noexec"),
        sync: superblock("sync"),
        dirsync: superblock("dirsync"),
        noatime: mount("noatime"),
        strictatime: !mount("noatime") && !mount("relatime"),
        nodiratime: mount("nodiratime"),
    }
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
        assert!(entry.is_ours());
        assert_eq!(
            (entry.root.as_path(), entry.user),
            (Path::new("/"), Some(0))
        );
        assert!(entry.flags.noatime && entry.flags.read_only && !entry.flags.nosuid);
        assert_eq!(entry.options, "rw,noatime,ro,user_id=0");
        let line = b"36 35 0:98 /a /mnt rw,nosuid,nodev,relatime - fuse.uext4 x rw,sync,user_id=7,blksize=512";
        let entry = parse(line).unwrap();
        assert_eq!(
            (entry.root.as_path(), entry.user),
            (Path::new("/a"), Some(7))
        );
        let flags = KernelFlags {
            nosuid: true,
            nodev: true,
            sync: true,
            ..KernelFlags::default()
        };
        assert_eq!(entry.flags, flags);
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
