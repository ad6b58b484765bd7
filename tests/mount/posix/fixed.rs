//! Immutable and append-only files and directories against every call.

use crate::on_attributes::{APPEND, IMMUTABLE};
use crate::*;

const CASES: [Case; 4] = [
    ("fixed_file", immutable_file),
    ("fixed_appended_file", append_file),
    ("fixed_directory", immutable_directory),
    ("fixed_appended_directory", append_directory),
];

#[rustfmt::skip]
const ALLOWED: [Allowed; 12] = [
    // FUSE does not know of the flags: the server refuses what gets to it.
    ("fixed_file", "fallocate(0x8, 0, 4096): EPERM", "EOPNOTSUPP"),
    ("fixed_file", "fallocate(0x20, 0, 4096): EPERM", "EOPNOTSUPP"),
    ("fixed_file", "access(f, 2): EPERM", "access(f, 2)"),
    ("fixed_file", "open(f, 0o1, 0): EPERM", "EACCES"),
    ("fixed_appended_file", "fallocate(0x8, 0, 4096): EPERM", "EOPNOTSUPP"),
    ("fixed_appended_file", "fallocate(0x20, 0, 4096): EPERM", "EOPNOTSUPP"),
    // Nor the opener of the file before it got one: no write lies before its end.
    ("fixed_appended_file", "1xf 1xo 1xr 1xe, 0) = 11", "EPERM"),
    ("fixed_appended_file", "fcntl(4, 0o0): EPERM", "= 0"),
    ("fixed_appended_file", "copy_file_range(0, 0, 10): EBADF", "EINVAL"),
    ("fixed_appended_file", "pread(100000, 0) = 20000 bytes 1xo", "20000 bytes 5000x"),
    ("fixed_appended_file", "mmap: EACCES", "mmap done"),
    ("fixed_directory", "access(d, 2): EPERM", "access(d, 2) done"),
];

#[test]
fn fixed_calls() {
    compare(&CASES, &ALLOWED);
}

fn every_call_of_a_file(s: &mut Scene, flags: i64) {
    let before = s.file("f", 5000);
    s.mkdir("d", 0o755);
    s.setxattr("f", "user.a", b"v", 0);
    s.set_flags(before, flags);
    s.pwrite(before, b"open before", 0);
    s.ftruncate(before, 100);
    s.fallocate(before, 0, 0, 10_000);
    s.fallocate(
        before,
        FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
        0,
        10_000,
    );
    s.fallocate(before, FALLOC_FL_COLLAPSE_RANGE, 0, 4096);
    s.fallocate(before, FALLOC_FL_INSERT_RANGE, 0, 4096);
    s.fallocate(before, FALLOC_FL_ZERO_RANGE, 0, 4096);
    let none = std::ptr::null_mut();
    let prot = PROT_READ | PROT_WRITE;
    s.done("mmap", call!(mmap, none, 4096, prot, MAP_SHARED, before, 0));
    for open in [
        O_RDONLY,
        O_WRONLY,
        O_RDWR,
        O_WRONLY | O_TRUNC,
        O_RDWR | O_CREAT,
    ] {
        s.open("f", open, 0o644);
    }
    let end = s.open("f", O_RDWR | O_APPEND, 0);
    s.write(end, b"end");
    s.pwritev2(end, &[b"noappend"], 0, 0x20);
    s.fcntl(end, F_SETFL, 0);
    s.write(end, b"anywhere");
    s.copy_file_range((before, 0), (end, 0), 10);
    s.open("f", O_WRONLY | O_APPEND | O_TRUNC, 0);
    s.fallocate(end, 0, 0, 20_000);
    s.truncate("f", 10);
    s.truncate("f", 100_000);
    s.chmod("f", 0o600);
    s.chown("f", 5, 5);
    s.fchmod(before, 0o640);
    s.utimens("f", [(1, 1), (2, 2)], 0);
    s.utimens("f", [(0, UTIME_NOW), (0, UTIME_NOW)], 0);
    s.utimens("f", [(0, UTIME_OMIT), (0, UTIME_NOW)], 0);
    s.utimens("f", [(0, UTIME_OMIT), (0, UTIME_OMIT)], 0);
    s.setxattr("f", "user.a", b"w", 0);
    s.setxattr("f", "trusted.a", b"w", 0);
    s.removexattr("f", "user.a");
    s.getxattr("f", "user.a", 10);
    s.link("f", "g");
    s.rename("f", "d/f");
    s.renameat2("f", "d", RENAME_EXCHANGE);
    s.file("other", 1);
    s.rename("other", "f");
    s.unlink("f");
    s.access("f", W_OK);
    s.set_flags(before, flags | 0x40);
    s.flags(before);
    s.ioctl("SETVERSION", before, 0x4008_7602, 5);
    s.pread(before, 100_000, 0);
    s.as_user(1001, &[1001], |s| {
        s.open("f", O_WRONLY, 0);
        s.access("f", W_OK);
    });
    s.set_flags(before, 0);
    s.stat("f");
    s.unlink("f");
}

fn immutable_file(s: &mut Scene) {
    every_call_of_a_file(s, IMMUTABLE);
}

fn append_file(s: &mut Scene) {
    every_call_of_a_file(s, APPEND);
}

fn every_call_of_a_directory(s: &mut Scene, flags: i64) {
    s.mkdir("d", 0o777);
    s.file("d/f", 1);
    s.file("f", 1);
    s.mkdir("d/d", 0o755);
    let d = s.open("d", O_RDONLY, 0);
    s.set_flags(d, flags);
    s.open("d/new", O_RDWR | O_CREAT, 0o644);
    s.mkdir("d/newdir", 0o755);
    s.symlink("x", "d/newlink");
    s.mknod("d/newpipe", S_IFIFO | 0o600, (0, 0));
    s.link("f", "d/linked");
    s.link("d/f", "linked");
    s.open("d", O_TMPFILE | O_RDWR, 0o600);
    s.unlink("d/f");
    s.rmdir("d/d");
    s.rename("d/f", "moved");
    s.rename("d/f", "d/moved");
    s.rename("f", "d/moved");
    s.renameat2("f", "d/f", RENAME_EXCHANGE);
    s.renameat2("d/f", "d/white", RENAME_WHITEOUT);
    s.rename("d", "e");
    s.rmdir("d");
    s.chmod("d", 0o700);
    s.chown("d", 1, 1);
    s.utimens("d", [(1, 1), (2, 2)], 0);
    s.utimens("d", [(0, UTIME_NOW), (0, UTIME_NOW)], 0);
    s.setxattr("d", "user.a", b"v", 0);
    s.setxattr("d", "system.posix_acl_default", b"", 0);
    s.chmod("d/f", 0o600);
    let f = s.open("d/f", O_RDWR, 0);
    s.pwrite(f, b"within", 0);
    s.access("d", W_OK);
    s.list("d");
    s.fsync(d);
    s.set_flags(d, 0);
    s.stat("d");
    s.list(".");
}

fn immutable_directory(s: &mut Scene) {
    every_call_of_a_directory(s, IMMUTABLE);
}

fn append_directory(s: &mut Scene) {
    every_call_of_a_directory(s, APPEND);
}
