//! Calls for attributes: stat, mode, owner, times, extended attributes, flags.

use crate::on_names::open_quietly;
use crate::scene::{Answer, Scene, call, runs, short, text};
use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW};

pub const GETFLAGS: libc::c_ulong = 0x8008_6601;
pub const SETFLAGS: libc::c_ulong = 0x4008_6602;
pub const IMMUTABLE: i64 = 0x10;
pub const APPEND: i64 = 0x20;

/// What stat(2) says of a descriptor, or of a name with nothing followed.
pub fn stat_of(dir: i32, path: impl AsRef<[u8]>) -> Answer<libc::stat> {
    let name = text(path);
    // SAFETY: all zeros are a `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
    call!(libc::fstatat, dir, name.as_ptr(), &raw mut stat, flags)?;
    Ok(stat)
}

fn times(stat: &libc::stat) -> [(i64, i64); 3] {
    [
        (stat.st_atime, stat.st_atime_nsec),
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
    ]
}

impl Scene {
    fn show_stat(&mut self, what: &str, answer: Answer<libc::stat>) {
        let shown = answer.map(|s| {
            let is_dir = s.st_mode & libc::S_IFMT == libc::S_IFDIR;
            let device = (libc::major(s.st_rdev), libc::minor(s.st_rdev));
            format!(
                "inode {} mode {:o} nlink {} owner {}:{} size {} rdev {device:?} block {}",
                self.inode(s.st_ino),
                s.st_mode,
                s.st_nlink,
                s.st_uid,
                s.st_gid,
                // How large a directory is depends on the order in which names came.
                if is_dir { s.st_size.min(1) } else { s.st_size },
                s.st_blksize,
            )
        });
        self.shown(what, shown);
    }

    pub fn stat(&mut self, path: impl AsRef<[u8]>) {
        let answer = stat_of(AT_FDCWD, &path);
        self.show_stat(&format!("lstat({})", short(path)), answer);
    }

    pub fn fstat(&mut self, fd: i32) {
        self.show_stat("fstat", stat_of(fd, ""));
    }

    /// Space in sectors.
    pub fn blocks(&mut self, fd: i32) {
        call!(libc::fsync, fd).ok();
        self.shown("blocks", stat_of(fd, "").map(|s| s.st_blocks));
    }

    /// The attributes of statx(2), and which of what was asked for there is.
    pub fn statx(&mut self, path: &str, flags: i32, mask: u32) {
        let name = text(path);
        // SAFETY: all zeros are a `statx`.
        let mut x: libc::statx = unsafe { std::mem::zeroed() };
        let answer = call!(
            libc::statx,
            AT_FDCWD,
            name.as_ptr(),
            flags,
            mask,
            &raw mut x
        )
        .map(|_| {
            format!(
                "mask {:#x} attributes {:#x} of {:#x} mode {:o} birth {}",
                x.stx_mask & mask,
                // Not whether it is where a file system is mounted.
                x.stx_attributes & 0x74,
                x.stx_attributes_mask & 0x74,
                x.stx_mode,
                mask & 0x800 == 0 || x.stx_btime.tv_sec != 0,
            )
        });
        self.shown(format!("statx({path}, {flags:#x}, {mask:#x})"), answer);
    }

    /// Whether each of the times of access, data and attributes is changed by what `run` does.
    pub fn changes(&mut self, path: &str, run: impl FnOnce(&mut Scene)) {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let fd = open_quietly(path, flags, 0).expect("is there") as i32;
        let old = libc::timespec {
            tv_sec: 1_000_000_000,
            tv_nsec: 5,
        };
        let name = text("");
        let to = [old; 2];
        call!(
            libc::utimensat,
            fd,
            name.as_ptr(),
            to.as_ptr(),
            AT_EMPTY_PATH
        )
        .ok();
        let before = times(&stat_of(fd, "").expect("is open"));
        self.tick();
        run(self);
        let after = times(&stat_of(fd, "").expect("is open"));
        let which = [0, 1, 2].map(|at| before[at] != after[at]);
        self.line(format_args!(
            "  changed of {path}: access, data, attributes {which:?}"
        ));
        call!(libc::close, fd).ok();
    }

    /// The times of access and data as they are.
    pub fn times(&mut self, path: &str) {
        let answer = stat_of(AT_FDCWD, path).map(|stat| format!("{:?}", &times(&stat)[..2]));
        self.shown(format!("times of {path}"), answer);
    }

    pub fn utimens(&mut self, path: &str, to: [(i64, i64); 2], flags: i32) {
        let name = text(path);
        let spec = to.map(|(tv_sec, tv_nsec)| libc::timespec { tv_sec, tv_nsec });
        let answer = call!(
            libc::utimensat,
            AT_FDCWD,
            name.as_ptr(),
            spec.as_ptr(),
            flags
        );
        self.done(format!("utimensat({path}, {to:?}, {flags:#x})"), answer);
    }

    pub fn chmod(&mut self, path: &str, mode: u32) {
        let name = text(path);
        self.done(
            format!("chmod({path}, {mode:o})"),
            call!(libc::chmod, name.as_ptr(), mode),
        );
    }

    pub fn fchmod(&mut self, fd: i32, mode: u32) {
        self.done(format!("fchmod({mode:o})"), call!(libc::fchmod, fd, mode));
    }

    pub fn fchmodat2(&mut self, path: &str, mode: u32, flags: i32) {
        let name = text(path);
        let number = libc::SYS_fchmodat2;
        let answer = call!(libc::syscall, number, AT_FDCWD, name.as_ptr(), mode, flags);
        self.done(format!("fchmodat2({path}, {mode:o}, {flags:#x})"), answer);
    }

    /// chown(2) with nothing followed; -1 leaves one as it is.
    pub fn chown(&mut self, path: &str, uid: i32, gid: i32) {
        let name = text(path);
        let ids = (uid.cast_unsigned(), gid.cast_unsigned());
        let answer = call!(libc::lchown, name.as_ptr(), ids.0, ids.1);
        self.done(format!("lchown({path}, {uid}, {gid})"), answer);
    }

    pub fn setxattr(&mut self, path: &str, name: &str, value: &[u8], flags: i32) {
        let (at, key) = (text(path), text(name));
        let (at, key, from) = (at.as_ptr(), key.as_ptr(), value.as_ptr().cast());
        let answer = call!(libc::lsetxattr, at, key, from, value.len(), flags);
        let what = format!(
            "lsetxattr({path}, {}, {}, {flags})",
            short(name),
            runs(value)
        );
        self.done(what, answer);
    }

    pub fn getxattr(&mut self, path: &str, name: &str, room: usize) {
        let (at, key, mut value) = (text(path), text(name), vec![0u8; room]);
        let (at, key, to) = (at.as_ptr(), key.as_ptr(), value.as_mut_ptr().cast());
        let answer = call!(libc::lgetxattr, at, key, to, room);
        let shown = answer.map(|n| match room {
            0 => n.to_string(),
            _ => runs(&value[..n as usize]),
        });
        self.shown(format!("lgetxattr({path}, {}, {room})", short(name)), shown);
    }

    pub fn removexattr(&mut self, path: &str, name: &str) {
        let (at, key) = (text(path), text(name));
        let answer = call!(libc::lremovexattr, at.as_ptr(), key.as_ptr());
        self.done(format!("lremovexattr({path}, {})", short(name)), answer);
    }

    /// The names of attributes in order, or how long they are.
    pub fn listxattr(&mut self, path: &str, room: usize) {
        let (at, mut list) = (text(path), vec![0u8; room]);
        let answer = call!(
            libc::llistxattr,
            at.as_ptr(),
            list.as_mut_ptr().cast(),
            room
        );
        let shown = answer.map(|n| {
            let mut names: Vec<_> = list[..(n as usize).min(room)].split(|b| *b == 0).collect();
            names.sort();
            let names: Vec<_> = names.into_iter().map(short).collect();
            format!("{n}: {}", names.join(" "))
        });
        self.shown(format!("llistxattr({path}, {room})"), shown);
    }

    /// The flags that chattr(1) shows.
    pub fn flags(&mut self, fd: i32) {
        let mut flags = 0i64;
        let answer = call!(libc::ioctl, fd, GETFLAGS, &raw mut flags);
        self.shown("flags", answer.map(|_| format!("{flags:#x}")));
    }

    /// Sets all of them but those that say how the file is stored.
    pub fn set_flags(&mut self, fd: i32, change: i64) {
        let mut flags = 0i64;
        let answer = call!(libc::ioctl, fd, GETFLAGS, &raw mut flags);
        flags = flags & 0x9008_0000 | change;
        let answer = answer.and_then(|_| call!(libc::ioctl, fd, SETFLAGS, &raw const flags));
        self.done(format!("set flags {change:#x}"), answer);
    }

    /// An ioctl with a number; what it gives, and what is there afterwards.
    pub fn ioctl(&mut self, what: &str, fd: i32, number: libc::c_ulong, mut value: i64) -> i64 {
        let answer = call!(libc::ioctl, fd, number, &raw mut value);
        self.shown(what, answer.map(|n| format!("{n}, {value:#x}")));
        value
    }
}

impl Scene {
    /// What an ioctl with a number leaves there, with nothing said.
    pub fn quietly(&mut self, fd: i32, number: libc::c_ulong) -> Answer<i64> {
        let mut value = 0i64;
        call!(libc::ioctl, fd, number, &raw mut value).map(|_| value)
    }
}
