//! Calls that make, remove and find names.

use crate::scene::{Answer, Scene, call, short, text};
use libc::AT_FDCWD;

/// A handle as name_to_handle_at(2) gives it: its length and type, then its bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Handle {
    len: u32,
    kind: i32,
    bytes: [u8; 128],
}

/// What open(2) gives, with nothing said.
pub fn open_quietly(path: impl AsRef<[u8]>, flags: i32, mode: u32) -> Answer<i64> {
    let path = text(path);
    call!(libc::open, path.as_ptr(), flags | libc::O_CLOEXEC, mode)
}

impl Scene {
    pub fn open(&mut self, path: impl AsRef<[u8]>, flags: i32, mode: u32) -> i32 {
        let what = format!("open({}, {flags:#o}, {mode:o})", short(&path));
        self.done(what, open_quietly(path, flags, mode))
    }

    /// A new file with some bytes in it, without a word.
    pub fn file(&mut self, path: &str, len: usize) -> i32 {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let fd = open_quietly(path, flags, 0o644).expect("makes a file") as i32;
        let data = vec![b'x'; len];
        call!(libc::pwrite, fd, data.as_ptr().cast(), len, 0).expect("writes");
        fd
    }

    pub fn openat(&mut self, dir: i32, path: &str, flags: i32, mode: u32) -> i32 {
        let name = text(path);
        let answer = call!(
            libc::openat,
            dir,
            name.as_ptr(),
            flags | libc::O_CLOEXEC,
            mode
        );
        self.done(format!("openat({path}, {flags:#o}, {mode:o})"), answer)
    }

    pub fn openat2(&mut self, dir: i32, path: &str, [flags, mode, resolve]: [u64; 3]) -> i32 {
        let (name, how) = (text(path), [flags, mode, resolve]);
        let size = size_of_val(&how);
        let answer = call!(
            libc::syscall,
            libc::SYS_openat2,
            dir,
            name.as_ptr(),
            how.as_ptr(),
            size
        );
        self.done(
            format!("openat2({path}, {flags:#o}, {mode:o}, {resolve:#x})"),
            answer,
        )
    }

    pub fn close(&mut self, fd: i32) {
        self.done("close", call!(libc::close, fd));
    }

    pub fn mkdir(&mut self, path: impl AsRef<[u8]>, mode: u32) {
        let name = text(&path);
        let answer = call!(libc::mkdir, name.as_ptr(), mode);
        self.done(format!("mkdir({}, {mode:o})", short(path)), answer);
    }

    pub fn rmdir(&mut self, path: &str) {
        let name = text(path);
        self.done(
            format!("rmdir({})", short(path)),
            call!(libc::rmdir, name.as_ptr()),
        );
    }

    pub fn unlink(&mut self, path: impl AsRef<[u8]>) {
        let name = text(&path);
        self.done(
            format!("unlink({})", short(path)),
            call!(libc::unlink, name.as_ptr()),
        );
    }

    pub fn mknod(&mut self, path: &str, mode: u32, device: (u32, u32)) {
        let name = text(path);
        let number = libc::makedev(device.0, device.1);
        let answer = call!(libc::mknod, name.as_ptr(), mode, number);
        self.done(format!("mknod({path}, {mode:o}, {device:?})"), answer);
    }

    pub fn link(&mut self, old: &str, new: impl AsRef<[u8]>) {
        let (from, to) = (text(old), text(&new));
        let answer = call!(libc::link, from.as_ptr(), to.as_ptr());
        self.done(format!("link({old}, {})", short(new)), answer);
    }

    pub fn linkat(&mut self, dir: i32, old: &str, new: &str, flags: i32) {
        let (from, to) = (text(old), text(new));
        let answer = call!(
            libc::linkat,
            dir,
            from.as_ptr(),
            AT_FDCWD,
            to.as_ptr(),
            flags
        );
        let named = if old.starts_with("/proc") {
            "(by number)"
        } else {
            old
        };
        self.done(format!("linkat({named}, {new}, {flags:#x})"), answer);
    }

    pub fn symlink(&mut self, target: impl AsRef<[u8]>, path: &str) {
        let (to, name) = (text(&target), text(path));
        let answer = call!(libc::symlink, to.as_ptr(), name.as_ptr());
        self.done(format!("symlink({}, {path})", short(target)), answer);
    }

    pub fn readlink(&mut self, path: &str, room: usize) {
        let (name, mut to) = (text(path), vec![0u8; room]);
        let answer = call!(libc::readlink, name.as_ptr(), to.as_mut_ptr().cast(), room);
        let answer = answer.map(|n| format!("{} ({n} bytes)", short(&to[..n as usize])));
        self.shown(format!("readlink({path}, {room})"), answer);
    }

    pub fn rename(&mut self, old: &str, new: impl AsRef<[u8]>) {
        self.renameat2(old, new, 0);
    }

    pub fn renameat2(&mut self, old: &str, new: impl AsRef<[u8]>, flags: u32) {
        let (from, to) = (text(old), text(&new));
        let (from, to) = (from.as_ptr(), to.as_ptr());
        let number = libc::SYS_renameat2;
        let answer = call!(libc::syscall, number, AT_FDCWD, from, AT_FDCWD, to, flags);
        self.done(format!("renameat2({old}, {}, {flags})", short(new)), answer);
    }

    pub fn access(&mut self, path: &str, mode: i32) {
        let name = text(path);
        self.done(
            format!("access({path}, {mode})"),
            call!(libc::access, name.as_ptr(), mode),
        );
    }

    pub fn faccessat2(&mut self, path: &str, mode: i32, flags: i32) {
        let name = text(path);
        let number = libc::SYS_faccessat2;
        let answer = call!(libc::syscall, number, AT_FDCWD, name.as_ptr(), mode, flags);
        self.done(format!("faccessat2({path}, {mode}, {flags:#x})"), answer);
    }

    pub fn chdir(&mut self, path: &str) {
        let name = text(path);
        self.done(format!("chdir({path})"), call!(libc::chdir, name.as_ptr()));
    }

    /// The handle of a name.
    pub fn handle(&mut self, path: &str, flags: i32) -> Handle {
        let mut handle = Handle {
            len: 128,
            kind: 0,
            bytes: [0; 128],
        };
        let (name, mut mount) = (text(path), 0);
        let (number, at) = (libc::SYS_name_to_handle_at, &raw mut handle);
        let name = name.as_ptr();
        let answer = call!(
            libc::syscall,
            number,
            AT_FDCWD,
            name,
            at,
            &raw mut mount,
            flags
        );
        self.done(format!("name_to_handle_at({path}, {flags:#x})"), answer);
        handle
    }

    /// Opens by a handle; `.` names the file system.
    pub fn open_handle(&mut self, handle: &Handle, flags: i32) -> i32 {
        let mount = open_quietly(".", libc::O_RDONLY | libc::O_DIRECTORY, 0).expect("is there");
        let number = libc::SYS_open_by_handle_at;
        let answer = call!(
            libc::syscall,
            number,
            mount as i32,
            &raw const *handle,
            flags
        );
        call!(libc::close, mount as i32).ok();
        self.done(format!("open_by_handle_at({flags:#o})"), answer)
    }

    /// The names in a directory with their types, in order.
    pub fn list(&mut self, path: &str) {
        let answer = open_quietly(path, libc::O_RDONLY | libc::O_DIRECTORY, 0);
        let answer = answer.and_then(|fd| {
            let entries = entries(fd as i32);
            call!(libc::close, fd as i32).ok();
            entries
        });
        let answer = answer.map(|mut entries| {
            entries.sort();
            let one = |e: &Entry| format!("{}:{}", short(&e.name), e.kind);
            entries.iter().map(one).collect::<Vec<_>>().join(" ")
        });
        self.shown(format!("names of {path}"), answer);
    }
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub name: Vec<u8>,
    pub kind: u8,
    pub inode: u64,
    pub next: i64,
}

/// Some entries from where a directory's descriptor is; none at its end.
pub fn some_entries(fd: i32, room: usize) -> Answer<Vec<Entry>> {
    let mut memory = vec![0u8; room];
    let to = memory.as_mut_ptr();
    let n = call!(libc::syscall, libc::SYS_getdents64, fd, to, room)? as usize;
    let (mut found, mut rest) = (Vec::new(), &memory[..n]);
    while !rest.is_empty() {
        let eight = |at: usize| rest[at..at + 8].try_into().expect("eight bytes");
        let len = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
        let name = rest[19..len].split(|b| *b == 0).next().expect("one");
        found.push(Entry {
            name: name.to_vec(),
            kind: rest[18],
            inode: u64::from_ne_bytes(eight(0)),
            next: i64::from_ne_bytes(eight(8)),
        });
        rest = &rest[len..];
    }
    Ok(found)
}

/// All entries from where a directory's descriptor is.
pub fn entries(fd: i32) -> Answer<Vec<Entry>> {
    let mut all = Vec::new();
    loop {
        let some = some_entries(fd, 8192)?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(some);
    }
}

/// A descriptor of a path by which an open file can be linked.
pub fn path_of(fd: i32) -> String {
    format!("/proc/self/fd/{fd}")
}
