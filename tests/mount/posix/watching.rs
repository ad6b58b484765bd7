//! inotify, poll, select and epoll.

use crate::*;

const CASES: [Case; 3] = [
    ("watch_inotify", inotify),
    ("watch_poll", polling),
    ("watch_dnotify_and_leases", leases),
];

#[rustfmt::skip]
const ALLOWED: [Allowed; 1] = [
    // FUSE lets a file be watched by epoll.
    ("watch_poll", "epoll_ctl: EPERM", "epoll_ctl done"),
];

#[test]
fn watching_calls() {
    compare(&CASES, &ALLOWED);
}

/// What has happened, in order.
fn events(s: &mut Scene, fd: i32) {
    let mut memory = vec![0u8; 65_536];
    let n = call!(read, fd, memory.as_mut_ptr().cast(), memory.len()).unwrap_or(0) as usize;
    let (mut all, mut rest) = (Vec::new(), &memory[..n]);
    while rest.len() >= 16 {
        let four = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().expect("four"));
        let (mask, len) = (four(4), four(12) as usize);
        let name = rest[16..16 + len]
            .split(|b| *b == 0)
            .next()
            .unwrap_or_default();
        all.push(format!("{:#x} {}", mask, short(name)));
        rest = &rest[16 + len..];
    }
    s.line(format_args!("events: {}", all.join(", ")));
}

fn inotify(s: &mut Scene) {
    let fd = call!(inotify_init1, IN_NONBLOCK | IN_CLOEXEC).expect("makes one") as i32;
    let watch = |s: &mut Scene, path: &str| {
        let name = text(path);
        s.done(
            "inotify_add_watch",
            call!(inotify_add_watch, fd, name.as_ptr(), IN_ALL_EVENTS),
        );
    };
    s.mkdir("d", 0o755);
    watch(s, "d");
    let file = s.open("d/f", O_RDWR | O_CREAT, 0o644);
    s.write(file, b"x");
    s.pread(file, 1, 0);
    s.ftruncate(file, 0);
    s.fallocate(file, 0, 0, 100);
    events(s, fd);
    s.chmod("d/f", 0o600);
    s.setxattr("d/f", "user.a", b"v", 0);
    s.rename("d/f", "d/g");
    s.link("d/g", "d/h");
    s.unlink("d/h");
    s.mkdir("d/sub", 0o755);
    s.rename("d/sub", "sub");
    s.list("d");
    events(s, fd);
    watch(s, "d/g");
    s.unlink("d/g");
    s.close(file);
    events(s, fd);
    s.rmdir("d");
    events(s, fd);
    watch(s, "none");
}

fn polling(s: &mut Scene) {
    let fd = s.file("f", 1);
    let d = s.open(".", O_RDONLY | O_DIRECTORY, 0);
    for fd in [fd, d] {
        let all = POLLIN | POLLOUT | POLLPRI | POLLERR | POLLHUP;
        let mut one = pollfd {
            fd,
            events: all,
            revents: 0,
        };
        let answer = call!(poll, &raw mut one, 1, 0);
        s.shown("poll", answer.map(|n| format!("{n} {:#x}", one.revents)));
        // SAFETY: all zeros are a set, and the descriptor is below its size.
        let mut set: fd_set = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { FD_SET(fd, &raw mut set) };
        let none = std::ptr::null_mut();
        let mut time = timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        s.number(
            "select",
            call!(select, fd + 1, &raw mut set, none, none, &raw mut time),
        );
        let epoll = call!(epoll_create1, EPOLL_CLOEXEC).expect("makes one") as i32;
        let mut event = epoll_event {
            events: EPOLLIN as u32,
            u64: 0,
        };
        s.done(
            "epoll_ctl",
            call!(epoll_ctl, epoll, EPOLL_CTL_ADD, fd, &raw mut event),
        );
    }
}

fn leases(s: &mut Scene) {
    s.file("f", 1);
    let r = s.open("f", O_RDONLY, 0);
    s.fcntl(r, F_SETLEASE, F_RDLCK);
    s.fcntl(r, F_GETLEASE, 0);
    s.fcntl(r, F_SETLEASE, F_UNLCK);
    s.fcntl(r, F_GETLEASE, 0);
    let d = s.open(".", O_RDONLY | O_DIRECTORY, 0);
    s.fcntl(d, F_NOTIFY, 0);
    s.fcntl(d, F_SETLEASE, F_RDLCK);
    s.fcntl(r, F_GETPIPE_SZ, 0);
    s.fcntl(r, F_SETPIPE_SZ, 4096);
    s.fcntl(r, F_ADD_SEALS, 1);
    s.fcntl(r, F_GET_SEALS, 0);
    s.fcntl(r, F_GETOWN, 0);
    s.fcntl(r, F_GETFD, 0);
    s.fcntl(r, F_DUPFD_CLOEXEC, 100);
}
