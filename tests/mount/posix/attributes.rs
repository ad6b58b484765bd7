//! stat, statx, mode, owner and times.

use crate::*;

const CASES: [Case; 10] = [
    ("attr_stat", stat),
    ("attr_statx", statx),
    ("attr_chmod", chmod),
    ("attr_chown", chown),
    ("attr_setgid", setgid),
    ("attr_suid_lost", suid_lost),
    ("attr_utimens", utimens),
    ("attr_utimens_user", utimens_user),
    ("attr_times_changed", times_changed),
    ("attr_statfs", statfs),
];

#[rustfmt::skip]
const ALLOWED: [Allowed; 2] = [
    // FUSE passes no attributes of statx(2), and no alignment.
    ("attr_statx", " of 0x74 ", " of 0x0 "),
    // What the kernel answers from its cache, the server does not learn of.
    ("attr_times_changed", " [true, false, false]", "[false, false, false]"),
];

#[test]
fn attribute_calls() {
    compare(&CASES, &ALLOWED);
}

fn stat(s: &mut Scene) {
    let fd = s.file("f", 5000);
    s.mkdir("d", 0o700);
    s.symlink("f", "l");
    s.stat("f");
    s.fstat(fd);
    s.blocks(fd);
    s.stat("l");
    s.stat("none");
    s.stat("f/x");
    s.stat("f/");
    s.stat("l/x");
    s.stat("");
    s.stat("d/");
    s.stat("d/.");
    s.stat("d/..");
    s.pwrite(fd, b"x", 1 << 30);
    s.fstat(fd);
    s.blocks(fd);
    s.as_user(1001, &[1001], |s| {
        s.stat("d");
        s.stat("d/x");
        s.open("d", O_RDONLY, 0);
    });
    let device = |path: &str| crate::on_attributes::stat_of(AT_FDCWD, path).map(|s| s.st_dev);
    s.line(format_args!("one device: {}", device("f") == device("d")));
}

fn statx(s: &mut Scene) {
    const BASIC: u32 = 0x7ff;
    const BIRTH: u32 = 0x800;
    let fd = s.file("f", 100);
    s.symlink("f", "l");
    s.mkdir("d", 0o755);
    s.statx("f", 0, BASIC | BIRTH);
    s.statx("d", 0, BASIC | BIRTH);
    s.statx("l", AT_SYMLINK_NOFOLLOW, BASIC | BIRTH);
    s.statx("l", 0, BASIC | BIRTH);
    s.statx("f", AT_STATX_FORCE_SYNC, BASIC);
    s.statx("f", AT_STATX_DONT_SYNC, BASIC);
    s.statx("f", AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC, BASIC);
    s.statx("f", 0x10, BASIC);
    s.statx("f", 0, 0x8000_0000);
    s.statx("none", 0, BASIC);
    s.statx("", 0, BASIC);
    s.statx("", AT_EMPTY_PATH, BASIC);
    // Immutable, append-only and not to be dumped are attributes.
    for flags in [0x10, 0x20, 0x40, 0] {
        s.set_flags(fd, flags);
        s.statx("f", 0, BASIC);
    }
    for mask in [0x2000, 0x10000] {
        s.statx("f", 0, mask);
    }
}

fn chmod(s: &mut Scene) {
    let fd = s.file("f", 1);
    s.symlink("f", "l");
    s.mkdir("d", 0o755);
    for mode in [0o7777, 0, 0o4711, 0o1644, 0o200_644] {
        s.chmod("f", mode);
        s.stat("f");
    }
    s.chmod("l", 0o600);
    s.stat("f");
    s.stat("l");
    s.chmod("none", 0o600);
    s.chmod("f/x", 0o600);
    s.fchmod(fd, 0o640);
    s.fchmod(-1, 0o640);
    s.fchmodat2("l", 0o600, AT_SYMLINK_NOFOLLOW);
    s.fchmodat2("f", 0o604, AT_SYMLINK_NOFOLLOW);
    s.fchmodat2("f", 0o604, 1 << 20);
    s.stat("f");
    s.changes("f", |s| s.chmod("f", 0o604));
    s.chmod("d", 0o7770);
    s.stat("d");
    s.chown("f", 1001, 1001);
    s.as_user(1002, &[1001], |s| s.chmod("f", 0o777));
    s.as_user(1001, &[1001], |s| {
        s.chmod("f", 0o4755);
        s.stat("f");
        s.chmod("f", 0o2755);
        s.stat("f");
    });
}

fn chown(s: &mut Scene) {
    let fd = s.file("f", 1);
    s.symlink("f", "l");
    s.chown("f", 5, 6);
    s.stat("f");
    s.chown("f", -1, 7);
    s.chown("f", 8, -1);
    s.stat("f");
    s.chown("f", 0x7fff_fffe, 0x7fff_ffff);
    s.stat("f");
    s.chown("f", -2, -2);
    s.stat("f");
    s.chown("l", 9, 10);
    s.stat("l");
    s.stat("f");
    s.done(
        "chown of a link's target",
        call!(libc::chown, c"l".as_ptr(), 11, 12),
    );
    s.stat("f");
    s.done("fchown", call!(fchown, fd, 1001, 1001));
    s.changes("f", |s| s.chown("f", -1, -1));
    s.changes("f", |s| s.chown("f", 1001, 1001));
    s.chown("none", 1, 1);
    s.as_user(1001, &[1001, 2001], |s| {
        s.chown("f", -1, 2001);
        s.chown("f", -1, 2002);
        s.chown("f", 1001, 1001);
        s.chown("f", 1002, -1);
        s.chown("f", -1, -1);
        s.stat("f");
    });
    s.as_user(1002, &[1002, 1001], |s| {
        s.chown("f", 1002, -1);
        s.chown("f", -1, 1002);
        s.chown("f", -1, -1);
    });
}

fn setgid(s: &mut Scene) {
    s.mkdir("d", 0o2777);
    s.chown("d", -1, 2001);
    s.chmod("d", 0o2777);
    s.as_user(1001, &[1001], |s| {
        s.open("d/f", O_RDWR | O_CREAT, 0o2775);
        s.stat("d/f");
        s.open("d/g", O_RDWR | O_CREAT, 0o2745);
        s.stat("d/g");
        s.mkdir("d/d", 0o755);
        s.stat("d/d");
        s.symlink("x", "d/l");
        s.stat("d/l");
        s.mknod("d/p", S_IFIFO | 0o2770, (0, 0));
        s.stat("d/p");
        s.chmod("d/f", 0o2775);
        s.stat("d/f");
        s.chmod("d/d", 0o2775);
        s.stat("d/d");
    });
    s.as_user(1001, &[1001, 2001], |s| {
        s.open("d/h", O_RDWR | O_CREAT, 0o2775);
        s.stat("d/h");
        s.chmod("d/f", 0o2775);
        s.stat("d/f");
    });
    s.open("d/root", O_RDWR | O_CREAT, 0o2775);
    s.stat("d/root");
}

fn suid_lost(s: &mut Scene) {
    for (name, mode) in [("u", 0o4755), ("g", 0o2755), ("b", 0o6777), ("n", 0o2644)] {
        let path = format!("f{name}");
        let again = |s: &mut Scene| {
            s.chown(&path, 1001, 1001);
            s.chmod(&path, mode);
        };
        let fd = s.file(&path, 10);
        again(s);
        s.write(fd, b"as root");
        s.fstat(fd);
        s.as_user(1001, &[1001], |s| {
            let own = s.open(&path, O_RDWR, 0);
            s.write(own, b"mine");
            s.fstat(own);
        });
        again(s);
        s.as_user(1001, &[1001], |s| s.truncate(&path, 5));
        s.stat(&path);
        again(s);
        s.as_user(1001, &[1001], |s| {
            let own = s.open(&path, O_RDWR, 0);
            s.fallocate(own, 0, 0, 10_000);
            s.fstat(own);
        });
        again(s);
        s.as_user(1001, &[1001], |s| {
            let own = s.open(&path, O_RDWR, 0);
            s.ftruncate(own, 7);
            s.fstat(own);
            s.chown(&path, -1, 1001);
            s.fstat(own);
        });
        again(s);
        s.chown(&path, 1001, 1002);
        s.stat(&path);
        again(s);
        s.as_user(1002, &[1002], |s| {
            s.truncate(&path, 3);
        });
        s.stat(&path);
    }
    s.mkdir("d", 0o6777);
    s.chmod("d", 0o6777);
    s.chown("d", 5, 5);
    s.stat("d");
}

fn utimens(s: &mut Scene) {
    s.file("f", 1);
    s.symlink("f", "l");
    for to in [
        [(1, 2), (3, 4)],
        [(0, 0), (0, 0)],
        [(-1, 0), (-2, 999_999_999)],
        [(i64::from(i32::MIN), 0), (i64::from(i32::MAX), 1)],
        [(i64::from(i32::MIN) - 1, 5), (i64::from(u32::MAX), 1)],
        [(15_032_385_535, 999_999_999), (15_032_385_536, 5)],
        [(i64::MAX, 0), (i64::MIN, 0)],
        [(5_000_000_000, 7), (100, UTIME_OMIT)],
        [(100, UTIME_OMIT), (77, 88)],
        [(100, UTIME_OMIT), (77, UTIME_OMIT)],
        [(1, 1_000_000_000), (1, 1)],
        [(1, -1), (1, 1)],
    ] {
        s.utimens("f", to, 0);
        s.times("f");
    }
    s.utimens("l", [(11, 12), (13, 14)], AT_SYMLINK_NOFOLLOW);
    s.times("l");
    s.utimens("l", [(21, 22), (23, 24)], 0);
    s.times("f");
    s.utimens("none", [(1, 1), (1, 1)], 0);
    s.utimens("none", [(1, UTIME_OMIT), (1, UTIME_OMIT)], 0);
    s.utimens("f", [(1, 1), (1, 1)], 0x8000);
    s.changes("f", |s| {
        s.utimens("f", [(0, UTIME_NOW), (0, UTIME_OMIT)], 0)
    });
    s.changes("f", |s| {
        s.utimens("f", [(0, UTIME_OMIT), (0, UTIME_NOW)], 0)
    });
    s.changes("f", |s| {
        s.utimens("f", [(0, UTIME_OMIT), (0, UTIME_OMIT)], 0)
    });
    s.changes("f", |s| s.utimens("f", [(0, UTIME_NOW), (0, UTIME_NOW)], 0));
}

fn utimens_user(s: &mut Scene) {
    s.file("f", 1);
    s.file("w", 1);
    s.chmod("f", 0o644);
    s.chmod("w", 0o666);
    for path in ["f", "w"] {
        s.as_user(1001, &[1001], |s| {
            for to in [
                [(0, UTIME_NOW), (0, UTIME_NOW)],
                [(0, UTIME_NOW), (0, UTIME_OMIT)],
                [(5, 5), (6, 6)],
                [(0, UTIME_OMIT), (0, UTIME_OMIT)],
                [(0, UTIME_NOW), (6, 6)],
            ] {
                s.utimens(path, to, 0);
            }
            let name = crate::scene::text(path);
            let none = std::ptr::null();
            s.done(
                "with no times",
                call!(utimensat, AT_FDCWD, name.as_ptr(), none, 0),
            );
        });
        s.chown(path, 1001, 1001);
        s.as_user(1001, &[1001], |s| s.utimens(path, [(5, 5), (6, 6)], 0));
        s.times(path);
    }
}

fn times_changed(s: &mut Scene) {
    let fd = s.file("f", 9000);
    s.mkdir("d", 0o755);
    s.changes("f", |s| s.pread(fd, 10, 0));
    s.changes("f", |s| s.pread(fd, 10, 1 << 20));
    s.fsync(fd);
    for range in [(0, 10), (5000, 4096), (0, 10_000)] {
        // To be asked for of the server.
        call!(posix_fadvise, fd, 0, 0, POSIX_FADV_DONTNEED).ok();
        s.changes("f", |s| s.pread(fd, range.1, range.0));
    }
    s.changes("f", |s| {
        s.pwrite(fd, b"x", 0);
    });
    s.changes("f", |s| {
        s.pwrite(fd, b"", 0);
    });
    s.changes("f", |s| s.ftruncate(fd, 9000));
    s.changes("f", |s| s.ftruncate(fd, 8000));
    s.changes("f", |s| s.truncate("f", 8000));
    s.changes("f", |s| s.truncate("f", 8001));
    s.changes("f", |s| s.fallocate(fd, 0, 0, 100));
    s.changes("f", |s| s.fallocate(fd, 0, 0, 100_000));
    s.changes("f", |s| s.fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 200_000));
    s.changes("f", |s| {
        s.fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096)
    });
    s.changes("f", |s| s.fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096));
    s.changes("f", |s| s.setxattr("f", "user.x", b"v", 0));
    s.changes("f", |s| s.getxattr("f", "user.x", 10));
    s.changes("f", |s| s.setxattr("f", "user.x", b"v", 0));
    s.changes("f", |s| s.removexattr("f", "user.x"));
    s.changes("f", |s| s.removexattr("f", "user.x"));
    s.changes("f", |s| s.set_flags(fd, 0x40));
    s.changes("f", |s| s.chmod("f", 0o644));
    s.changes("f", |s| s.fsync(fd));
    s.changes("f", |s| {
        s.open("f", O_RDONLY, 0);
    });
    s.changes("d", |s| s.list("d"));
    s.changes("d", |s| s.stat("d"));
    s.changes("d", |s| {
        s.open("d/f", O_RDWR | O_CREAT, 0o644);
    });
    s.changes("f", |s| s.copy_file_range((fd, 0), (fd, 50_000), 5000));
    s.changes("f", |s| s.rename("f", "g"));
}

fn statfs(s: &mut Scene) {
    let fd = s.file("f", 1 << 20);
    s.fsync(fd);
    // SAFETY: all zeros are a `statvfs`.
    let mut before: libc::statvfs = unsafe { std::mem::zeroed() };
    s.done("fstatvfs", call!(libc::fstatvfs, fd, &raw mut before));
    s.line(format_args!(
        "block {} fragment {} blocks {} files {} name {}",
        before.f_bsize, before.f_frsize, before.f_blocks, before.f_files, before.f_namemax
    ));
    s.fallocate(fd, 0, 0, 5 << 20);
    s.mkdir("d", 0o755);
    s.fsync(fd);
    // SAFETY: all zeros are a `statvfs`.
    let mut after: libc::statvfs = unsafe { std::mem::zeroed() };
    s.done(
        "statvfs",
        call!(libc::statvfs, c"d".as_ptr(), &raw mut after),
    );
    s.line(format_args!(
        "taken: {} blocks, {} for users, {} files, {} for users",
        before.f_bfree - after.f_bfree,
        before.f_bavail - after.f_bavail,
        before.f_ffree - after.f_ffree,
        before.f_favail - after.f_favail
    ));
    s.done(
        "statvfs of nothing",
        call!(libc::statvfs, c"none".as_ptr(), &raw mut after),
    );
}
