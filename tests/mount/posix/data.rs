//! Reading, writing, copying, syncing and lengths.

use crate::*;

const CASES: [Case; 9] = [
    ("data_read_write", read_write),
    ("data_refused", refused),
    ("data_vectors", vectors),
    ("data_flags", flags),
    ("data_truncate", truncate),
    ("data_copy", copy),
    ("data_splice", splice),
    ("data_sync", sync),
    ("data_file_size_limit", size_limit),
];

#[rustfmt::skip]
const ALLOWED: [Allowed; 7] = [
    // Positions are FUSE's, which knows no largest size of a file.
    ("data_read_write", "lseek(9223372036854775807, 0): EINVAL", "= 9223372036854775807"),
    ("data_read_write", "lseek(1, 1) = 10009", "lseek(1, 1): EINVAL"),
    ("data_read_write", "lseek(17592186040321, 0): EINVAL", "= 17592186040321"),
    ("data_read_write", "lseek(17592186044416, 0): EINVAL", "= 17592186044416"),
    // FUSE has neither polled nor uncached reads.
    ("data_flags", "preadv2([200], 0, 0x8) =", "EOPNOTSUPP"),
    ("data_flags", "preadv2([100], 0, 0x80) =", "EOPNOTSUPP"),
    // What the kernel answers from its cache, the server does not learn of.
    ("data_copy", "[true, false, false]", "[false, false, false]"),
];

#[test]
fn data_calls() {
    compare(&CASES, &ALLOWED);
}

fn read_write(s: &mut Scene) {
    let fd = s.open("f", O_RDWR | O_CREAT, 0o644);
    s.read(fd, 10);
    s.write(fd, b"hello");
    s.lseek(fd, 0, SEEK_CUR);
    s.lseek(fd, -5, SEEK_CUR);
    s.read(fd, 100);
    s.read(fd, 100);
    s.lseek(fd, 10_000, SEEK_END);
    s.write(fd, b"far");
    s.pread(fd, 20_000, 0);
    s.pread(fd, 10, 10_006);
    s.pread(fd, 10, 10_008);
    s.pread(fd, 10, 20_000);
    s.pwrite(fd, &[b'z'; 5000], 4000);
    s.pread(fd, 20_000, 0);
    s.lseek(fd, -1, SEEK_SET);
    s.lseek(fd, -100_000, SEEK_END);
    s.lseek(fd, i64::MAX, SEEK_SET);
    s.lseek(fd, 1, SEEK_CUR);
    s.lseek(fd, 0, 99);
    s.lseek(fd, 1 << 43, SEEK_SET);
    s.lseek(fd, (1 << 44) - 4096, SEEK_SET);
    s.lseek(fd, (1 << 44) - 4095, SEEK_SET);
    s.lseek(fd, 1 << 44, SEEK_SET);
    s.pread(fd, 0, 0);
    s.pwrite(fd, b"", 1 << 40);
    s.fstat(fd);
    let data: Vec<u8> = (0..1_000_000u32).map(|at| (at / 4096) as u8).collect();
    let big = s.open("big", O_RDWR | O_CREAT, 0o644);
    s.pwrite(big, &data, 777);
    let mut back = vec![0; 1_100_000];
    let answer = call!(pread, big, back.as_mut_ptr().cast(), back.len(), 777);
    s.line(format_args!(
        "{answer:?}, the same: {}",
        back[..1_000_000] == data[..]
    ));
}

fn refused(s: &mut Scene) {
    s.file("f", 100);
    let r = s.open("f", O_RDONLY, 0);
    let w = s.open("f", O_WRONLY, 0);
    s.write(r, b"x");
    s.pwrite(r, b"x", 0);
    s.read(w, 1);
    s.pread(w, 1, 0);
    s.ftruncate(r, 0);
    s.fallocate(r, 0, 0, 10);
    s.read(-1, 1);
    s.pread(r, 1, -1);
    s.pwrite(w, b"x", -1);
    s.pwrite(w, b"x", i64::MAX);
    s.pwrite(w, b"xyz", (1 << 44) - 4096 - 1);
    s.pwrite(w, b"x", (1 << 44) - 4096);
    s.pwrite(w, b"x", 1 << 44);
    s.fstat(w);
    let bad = std::ptr::without_provenance_mut::<c_void>(8);
    s.number("read to nowhere", call!(pread, r, bad, 10, 0));
    s.number("write from nowhere", call!(pwrite, w, bad, 10, 0));
    s.fstat(w);
    let d = s.open(".", O_RDONLY | O_DIRECTORY, 0);
    s.read(d, 10);
    s.lseek(d, 0, SEEK_SET);
}

fn vectors(s: &mut Scene) {
    let fd = s.open("f", O_RDWR | O_CREAT, 0o644);
    s.pwritev2(fd, &[b"abc", b"", b"defg", &[b'h'; 5000]], 0, 0);
    s.pwritev2(fd, &[b"at", b"position"], -1, 0);
    s.lseek(fd, 0, SEEK_CUR);
    s.preadv2(fd, &[2, 0, 5, 10_000], 0, 0);
    s.preadv2(fd, &[1, 1], -1, 0);
    s.preadv2(fd, &[], 0, 0);
    s.pwritev2(fd, &[], 0, 0);
    s.preadv2(fd, &[1], -2, 0);
    s.preadv2(fd, &[1; 1024], 0, 0);
    s.preadv2(fd, &[1; 1025], 0, 0);
    s.lseek(fd, 0, SEEK_CUR);
}

fn flags(s: &mut Scene) {
    let fd = s.file("f", 100);
    s.pwritev2(fd, &[b"end"], 0, RWF_APPEND);
    s.pwritev2(fd, &[b"end"], -1, RWF_APPEND);
    s.lseek(fd, 0, SEEK_CUR);
    s.pwritev2(fd, &[b"dsync"], 0, RWF_DSYNC);
    s.pwritev2(fd, &[b"sync"], 0, RWF_SYNC);
    s.preadv2(fd, &[200], 0, RWF_HIPRI);
    s.preadv2(fd, &[200], 0, RWF_NOWAIT);
    s.pwritev2(fd, &[b"no"], 0, RWF_NOWAIT);
    s.pwritev2(fd, &[b"no"], 0, 0x4000);
    s.preadv2(fd, &[2], 0, 0x4000);
    let end = s.open("f", O_RDWR | O_APPEND, 0);
    // RWF_NOAPPEND, RWF_ATOMIC, RWF_DONTCACHE
    s.pwritev2(end, &[b"at"], 1, 0x20);
    s.pwritev2(fd, &[&[b'a'; 4096]], 0, 0x40);
    s.preadv2(fd, &[100], 0, 0x80);
    s.pread(fd, 10_000, 0);
}

fn truncate(s: &mut Scene) {
    let fd = s.file("f", 10_000);
    s.ftruncate(fd, 5000);
    s.ftruncate(fd, 20_000);
    s.pread(fd, 30_000, 0);
    s.blocks(fd);
    s.ftruncate(fd, 0);
    s.blocks(fd);
    s.ftruncate(fd, 1 << 40);
    s.fstat(fd);
    s.ftruncate(fd, -1);
    s.ftruncate(fd, i64::MAX);
    s.ftruncate(fd, (1 << 44) - 4096);
    s.fstat(fd);
    s.ftruncate(fd, (1 << 44) - 4095);
    s.ftruncate(fd, 10);
    s.truncate("f", 4097);
    s.truncate("f", -1);
    s.truncate("none", 1);
    s.truncate("f/x", 1);
    s.truncate(".", 1);
    s.mknod("p", S_IFIFO | 0o600, (0, 0));
    s.truncate("p", 1);
    s.symlink("f", "l");
    s.truncate("l", 3);
    s.fstat(fd);
    let r = s.open("f", O_RDONLY, 0);
    s.ftruncate(r, 1);
    s.as_user(1001, &[1001], |s| {
        s.truncate("f", 1);
    });
    s.pwrite(fd, &[b'a'; 4096], 0);
    s.ftruncate(fd, 100);
    s.pwrite(fd, b"b", 5000);
    s.pread(fd, 6000, 0);
}

fn copy(s: &mut Scene) {
    let a = s.file("a", 10_000);
    let b = s.open("b", O_RDWR | O_CREAT, 0o644);
    s.copy_file_range((a, 0), (b, 0), 5000);
    s.copy_file_range((a, 9000), (b, 20_000), 5000);
    s.copy_file_range((a, 10_000), (b, 0), 10);
    s.copy_file_range((a, 0), (b, 0), 0);
    s.copy_file_range((a, 0), (a, 5000), 5001);
    s.copy_file_range((a, 0), (a, 5000), 5000);
    s.copy_file_range((a, 0), (a, 20_000), 5000);
    s.pread(b, 30_000, 0);
    s.fstat(a);
    s.copy_file_range((a, -1), (b, 0), 10);
    s.copy_file_range((a, 0), (b, i64::MAX), 10);
    s.copy_file_range((a, 0), (b, (1 << 44) - 4096), 10);
    let r = s.open("b", O_RDONLY, 0);
    let end = s.open("b", O_WRONLY | O_APPEND, 0);
    let d = s.open(".", O_RDONLY | O_DIRECTORY, 0);
    s.copy_file_range((a, 0), (r, 0), 10);
    s.copy_file_range((end, 0), (a, 0), 10);
    s.copy_file_range((a, 0), (end, 0), 10);
    s.copy_file_range((d, 0), (a, 0), 10);
    s.copy_file_range((a, 0), (-1, 0), 10);
    let (mut from, flags) = (0i64, 1u32);
    let answer = call!(
        copy_file_range,
        a,
        &raw mut from,
        b,
        &raw mut from,
        10,
        flags
    );
    s.number("copy_file_range with flags", answer);
    s.changes("b", |s| s.copy_file_range((a, 0), (b, 0), 100));
    s.changes("a", |s| s.copy_file_range((a, 0), (b, 0), 100));
    let answer = call!(ioctl, b, FICLONE, a);
    s.done("FICLONE", answer);
}

fn splice(s: &mut Scene) {
    let a = s.file("a", 10_000);
    let b = s.open("b", O_RDWR | O_CREAT, 0o644);
    let mut from = 100i64;
    s.number("sendfile", call!(sendfile, b, a, &raw mut from, 5000));
    s.line(from);
    let end = s.open("b", O_WRONLY | O_APPEND, 0);
    s.number(
        "sendfile to the end",
        call!(sendfile, end, a, &raw mut from, 50),
    );
    let mut pipe = [0; 2];
    call!(pipe2, pipe.as_mut_ptr(), O_CLOEXEC).expect("a pipe");
    let none = std::ptr::null_mut();
    let mut at = 9000i64;
    s.number(
        "splice from",
        call!(libc::splice, a, &raw mut at, pipe[1], none, 5000, 0),
    );
    at = 8000;
    s.number(
        "splice to",
        call!(libc::splice, pipe[0], none, b, &raw mut at, 5000, 0),
    );
    s.pread(b, 10_000, 0);
    s.number(
        "splice past the end",
        call!(libc::splice, a, &raw mut at, pipe[1], none, 5000, 0),
    );
    at = 20_000;
    s.number(
        "splice nothing",
        call!(libc::splice, a, &raw mut at, pipe[1], none, 5000, 0),
    );
    s.number(
        "sendfile from a pipe",
        call!(sendfile, b, pipe[0], std::ptr::null_mut(), 10),
    );
    s.number(
        "splice to an appender",
        call!(libc::splice, pipe[0], none, end, none, 5000, 0),
    );
    s.fstat(b);
}

fn sync(s: &mut Scene) {
    let fd = s.file("f", 100_000);
    s.fsync(fd);
    s.done("fdatasync", call!(fdatasync, fd));
    s.done("syncfs", call!(syncfs, fd));
    s.done("fsync of nothing", call!(fsync, -1));
    let range = |at, len, flags| call!(sync_file_range, fd, at, len, flags);
    s.done("sync_file_range", range(0, 4096, 7));
    s.done("sync_file_range all", range(0, 0, 7));
    s.done("sync_file_range, flags", range(0, 0, 8));
    s.done("sync_file_range, negative", range(-1, 10, 2));
    for advice in 0..7 {
        let answer = call!(posix_fadvise, fd, 0, 0, advice);
        s.number(format!("posix_fadvise({advice})"), answer);
    }
    s.number("readahead", call!(readahead, fd, 0, 50_000));
    let r = s.open("f", O_RDONLY, 0);
    s.fsync(r);
    let d = s.open(".", O_RDONLY, 0);
    s.fsync(d);
    s.done("syncfs of a directory", call!(syncfs, d));
    s.pread(fd, 10, 0);
}

fn size_limit(s: &mut Scene) {
    s.in_child(|s| {
        let limit = rlimit {
            rlim_cur: 10_000,
            rlim_max: 10_000,
        };
        let fd = s.open("f", O_RDWR | O_CREAT, 0o644);
        call!(libc::signal, SIGXFSZ, SIG_IGN).ok();
        s.done(
            "setrlimit",
            call!(setrlimit, RLIMIT_FSIZE, &raw const limit),
        );
        s.pwrite(fd, &[1; 20_000], 0);
        s.pwrite(fd, &[2; 100], 9950);
        s.pwrite(fd, &[2; 100], 10_000);
        s.pwrite(fd, &[], 10_000);
        s.ftruncate(fd, 10_000);
        s.ftruncate(fd, 10_001);
        s.truncate("f", 20_000);
        s.fallocate(fd, 0, 0, 10_001);
        s.fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 10_001);
        let from = s.file("from", 500);
        s.copy_file_range((from, 0), (fd, 9990), 100);
        s.copy_file_range((from, 0), (fd, 10_000), 100);
        s.fstat(fd);
    });
    s.in_child(|s| {
        let limit = rlimit {
            rlim_cur: 100,
            rlim_max: 100,
        };
        let fd = s.open("g", O_RDWR | O_CREAT, 0o644);
        s.done(
            "setrlimit",
            call!(setrlimit, RLIMIT_FSIZE, &raw const limit),
        );
        s.pwrite(fd, &[1; 200], 0);
        s.pwrite(fd, &[1; 200], 100);
    });
    s.in_child(|s| {
        let limit = rlimit {
            rlim_cur: 100,
            rlim_max: 100,
        };
        s.done(
            "setrlimit",
            call!(setrlimit, RLIMIT_FSIZE, &raw const limit),
        );
        s.truncate("g", 1000);
    });
}
