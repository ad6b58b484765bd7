//! open(2), openat2(2) and files without names.

use crate::*;

const CASES: [Case; 13] = [
    ("open_create", create),
    ("open_flags_refused", flags_refused),
    ("open_truncate", truncate),
    ("open_append", append),
    ("open_directory", directory),
    ("open_links", links),
    ("open_path", path),
    ("open_tmpfile", tmpfile),
    ("open_direct", direct),
    ("open_sync", sync),
    ("open_openat2", resolve),
    ("open_unlinked", unlinked),
    ("open_busy_text", busy_text),
];

#[rustfmt::skip]
const ALLOWED: [Allowed; 3] = [
    // What the kernel answers from its cache, the server does not learn of.
    ("open_links", "[true, false, false]", "[false, false, false]"),
    // FUSE copies from odd memory.
    ("open_direct", "direct write(1, 4096, 0): EINVAL", "= 4096"),
    ("open_direct", "direct read(1, 4096, 0): EINVAL", "= 4096"),
];

#[test]
fn open_calls() {
    compare(&CASES, &ALLOWED);
}

fn create(s: &mut Scene) {
    s.open("f", O_RDWR, 0);
    s.open("f", O_RDWR | O_CREAT | O_EXCL, 0o640);
    s.open("f", O_RDWR | O_CREAT | O_EXCL, 0o640);
    s.open("f", O_RDWR | O_CREAT, 0o777);
    s.stat("f");
    s.open("none/f", O_RDWR | O_CREAT, 0o640);
    s.open("f/g", O_RDWR | O_CREAT, 0o640);
    s.open("f/", O_RDWR, 0);
    s.open("g/", O_RDWR | O_CREAT, 0o644);
    s.open("", O_RDONLY, 0);
    s.open("", O_RDONLY | O_CREAT, 0o644);
    s.open(".", O_RDONLY | O_CREAT, 0o644);
    s.open("..", O_RDWR | O_CREAT, 0o644);
    s.open("e", O_RDONLY | O_CREAT | O_TRUNC, 0o000);
    s.stat("e");
    for mode in [0o7777, 0o6755, 0o1644, 0o2644] {
        let name = format!("m{mode:o}");
        let fd = s.open(&name, O_WRONLY | O_CREAT, mode);
        s.fstat(fd);
        s.read(fd, 1);
    }
    call!(umask, 0o027).ok();
    s.open("masked", O_WRONLY | O_CREAT, 0o666);
    s.stat("masked");
    s.mkdir("masked-dir", 0o777);
    s.stat("masked-dir");
    let created = call!(creat, c"created".as_ptr(), 0o644);
    s.done("creat", created);
    s.read(created.unwrap_or(-1) as i32, 1);
    s.changes(".", |s| {
        s.open("new", O_RDWR | O_CREAT, 0o644);
    });
    s.changes(".", |s| {
        s.open("new", O_RDWR | O_CREAT | O_TRUNC, 0o644);
    });
}

fn flags_refused(s: &mut Scene) {
    s.file("f", 10);
    s.mkdir("d", 0o755);
    s.open("f", O_ACCMODE, 0);
    s.open("f", O_RDONLY | O_TRUNC, 0);
    s.stat("f");
    s.open("d", O_RDWR, 0);
    s.open("d", O_WRONLY, 0);
    s.open("d", O_RDONLY | O_TRUNC, 0);
    s.open("d", O_RDONLY | O_CREAT, 0o644);
    s.open("new", O_DIRECTORY | O_CREAT, 0o644);
    s.open("d", O_DIRECTORY | O_CREAT, 0o644);
    s.open("f", O_RDONLY | O_NOATIME, 0);
    s.open("f", O_RDONLY | O_NONBLOCK, 0);
    s.open("f", O_RDONLY | O_ASYNC, 0);
    s.as_user(1001, &[1001], |s| {
        s.open("f", O_RDONLY | O_NOATIME, 0);
        s.open("f", O_RDWR, 0);
    });
}

fn truncate(s: &mut Scene) {
    let fd = s.file("f", 9000);
    s.changes("f", |s| {
        s.open("f", O_WRONLY | O_TRUNC, 0);
    });
    s.fstat(fd);
    s.blocks(fd);
    s.changes("f", |s| {
        s.open("f", O_WRONLY | O_TRUNC, 0);
    });
    s.chmod("f", 0o6755);
    s.chown("f", 1001, 1001);
    s.chmod("f", 0o6755);
    s.as_user(1001, &[1001], |s| {
        s.open("f", O_WRONLY | O_TRUNC, 0);
    });
    s.stat("f");
}

fn append(s: &mut Scene) {
    let fd = s.file("f", 10);
    let end = s.open("f", O_RDWR | O_APPEND, 0);
    s.write(end, b"aaa");
    s.pwrite(end, b"bbb", 0);
    s.lseek(end, 0, SEEK_CUR);
    s.lseek(end, 2, SEEK_SET);
    s.write(end, b"ccc");
    s.lseek(end, 0, SEEK_CUR);
    s.pread(fd, 100, 0);
    s.ftruncate(end, 4);
    s.write(end, b"d");
    s.fallocate(end, 0, 0, 100);
    s.fallocate(end, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 100);
    s.fcntl(end, F_SETFL, 0);
    s.pwrite(end, b"e", 0);
    s.fcntl(end, F_GETFL, 0);
    s.fcntl(fd, F_SETFL, O_APPEND);
    s.write(fd, b"end");
    s.pread(fd, 200, 0);
    let a = s.open("f", O_WRONLY | O_APPEND, 0);
    let b = s.open("f", O_WRONLY | O_APPEND, 0);
    for at in 0..10u8 {
        s.write(if at % 2 == 0 { a } else { b }, &[b'0' + at; 7]);
    }
    s.pread(fd, 300, 0);
}

fn directory(s: &mut Scene) {
    s.file("f", 1);
    s.mkdir("d", 0o755);
    s.symlink("d", "to-d");
    s.open("f", O_DIRECTORY, 0);
    s.open("to-d", O_DIRECTORY, 0);
    s.open("to-d", O_DIRECTORY | O_NOFOLLOW, 0);
    let d = s.open("d", O_DIRECTORY, 0);
    s.read(d, 10);
    s.pread(d, 10, 0);
    s.write(d, b"x");
    s.ftruncate(d, 0);
    s.truncate("d", 0);
    s.fallocate(d, 0, 0, 1);
    s.fsync(d);
    s.done("fdatasync", call!(fdatasync, d));
    s.openat(d, "in", O_RDWR | O_CREAT, 0o644);
    s.openat(d, "..", O_RDONLY, 0);
    s.openat(d, "../f", O_RDONLY, 0);
    let f = s.open("f", O_RDONLY, 0);
    s.openat(f, "x", O_RDONLY, 0);
    s.openat(-1, "x", O_RDONLY, 0);
    s.list("d");
}

fn links(s: &mut Scene) {
    s.file("f", 1);
    s.symlink("f", "to-f");
    s.symlink("none", "dangling");
    s.symlink("loop", "loop");
    s.symlink("b", "a");
    s.symlink("a", "b");
    s.open("to-f", O_RDONLY, 0);
    s.open("to-f", O_RDONLY | O_NOFOLLOW, 0);
    s.open("to-f", O_RDWR | O_CREAT | O_EXCL, 0o644);
    s.open("dangling", O_RDONLY, 0);
    s.open("loop", O_RDONLY, 0);
    s.open("loop/x", O_RDONLY, 0);
    s.open("a", O_RDONLY, 0);
    s.open("dangling", O_RDWR | O_CREAT | O_EXCL, 0o644);
    s.open("dangling", O_RDWR | O_CREAT | O_NOFOLLOW, 0o644);
    s.open("dangling", O_RDWR | O_CREAT, 0o644);
    s.stat("none");
    let mut last = "f".to_owned();
    for at in 0..42 {
        let name = format!("l{at}");
        let target = call!(
            symlink,
            crate::scene::text(&last).as_ptr(),
            crate::scene::text(&name).as_ptr()
        );
        target.expect("makes it");
        last = name;
    }
    s.open("l39", O_RDONLY, 0);
    s.open("l40", O_RDONLY, 0);
    s.changes("to-f", |s| {
        s.open("to-f", O_RDONLY, 0);
    });
}

fn path(s: &mut Scene) {
    s.file("f", 10);
    s.symlink("f", "to-f");
    let p = s.open("f", O_PATH, 0);
    s.fstat(p);
    s.read(p, 1);
    s.write(p, b"x");
    s.fchmod(p, 0o600);
    s.ftruncate(p, 0);
    s.fsync(p);
    s.fcntl(p, F_GETFL, 0);
    s.flags(p);
    let l = s.open("to-f", O_PATH | O_NOFOLLOW, 0);
    s.fstat(l);
    s.open(format!("/proc/self/fd/{p}"), O_RDWR, 0);
    s.open(format!("/proc/self/fd/{l}"), O_RDWR, 0);
    s.linkat(p, "", "linked", AT_EMPTY_PATH);
    s.stat("linked");
    s.unlink("f");
    s.unlink("linked");
    s.fstat(p);
    s.open(format!("/proc/self/fd/{p}"), O_RDONLY, 0);
    s.linkat(p, "", "again", AT_EMPTY_PATH);
}

fn tmpfile(s: &mut Scene) {
    s.mkdir("d", 0o755);
    s.file("f", 1);
    s.open("d", O_TMPFILE | O_RDONLY, 0o600);
    s.open("f", O_TMPFILE | O_RDWR, 0o600);
    s.open("none", O_TMPFILE | O_RDWR, 0o600);
    let t = s.open("d", O_TMPFILE | O_RDWR, 0o640);
    s.fstat(t);
    s.write(t, b"without a name");
    s.list("d");
    s.linkat(t, "", "d/named", AT_EMPTY_PATH);
    s.stat("d/named");
    s.linkat(t, "", "d/named", AT_EMPTY_PATH);
    s.linkat(t, "", "d/second", AT_EMPTY_PATH);
    s.fstat(t);
    let x = s.open("d", O_TMPFILE | O_RDWR | O_EXCL, 0o640);
    s.linkat(x, "", "d/never", AT_EMPTY_PATH);
    s.linkat(
        AT_FDCWD,
        &crate::on_names::path_of(x),
        "d/never",
        AT_SYMLINK_FOLLOW,
    );
    let y = s.open("d", O_TMPFILE | O_WRONLY, 0o6755);
    s.write(y, &[b'y'; 10_000]);
    s.linkat(
        AT_FDCWD,
        &crate::on_names::path_of(y),
        "d/proc",
        AT_SYMLINK_FOLLOW,
    );
    s.stat("d/proc");
    s.list("d");
    s.as_user(1001, &[1001], |s| {
        s.open("d", O_TMPFILE | O_RDWR, 0o640);
    });
    s.chmod("d", 0o2777);
    s.chown("d", 0, 2001);
    s.chmod("d", 0o2777);
    s.as_user(1001, &[1001], |s| {
        let u = s.open("d", O_TMPFILE | O_RDWR, 0o2670);
        s.fstat(u);
        s.linkat(
            AT_FDCWD,
            &crate::on_names::path_of(u),
            "d/user",
            AT_SYMLINK_FOLLOW,
        );
        s.linkat(u, "", "d/user2", AT_EMPTY_PATH);
        s.stat("d/user");
    });
}

fn direct(s: &mut Scene) {
    let fd = s.open("f", O_RDWR | O_CREAT | O_DIRECT, 0o644);
    let mut block = uext4_testkit::aligned::Aligned::filled(8192, b'd');
    let memory = block.bytes().as_ptr();
    let at = |s: &mut Scene, from: usize, len: usize, offset: i64| {
        let answer = call!(pwrite, fd, memory.wrapping_add(from).cast(), len, offset);
        s.number(format!("direct write({from}, {len}, {offset})"), answer);
    };
    at(s, 0, 4096, 0);
    at(s, 0, 8192, 4096);
    at(s, 0, 100, 0);
    at(s, 1, 4096, 0);
    at(s, 0, 4096, 7);
    at(s, 0, 512, 512);
    at(s, 0, 0, 0);
    at(s, 0, 4096, 40_960);
    s.fstat(fd);
    let plain = s.open("f", O_RDWR, 0);
    s.pread(plain, 100_000, 0);
    let memory = block.bytes_mut().as_mut_ptr();
    for (from, len, offset) in [
        (0, 8192, 0),
        (0, 100, 0),
        (1, 4096, 0),
        (0, 4096, 3),
        (0, 4096, 45_056),
        (0, 4096, 40_960),
        (0, 4096, 1 << 40),
    ] {
        let answer = call!(pread, fd, memory.wrapping_add(from).cast(), len, offset);
        s.number(format!("direct read({from}, {len}, {offset})"), answer);
    }
    s.pwrite(plain, &[b'p'; 4096], 0);
    let answer = call!(pread, fd, memory.cast(), 4096, 0);
    let seen = answer.map(|n| crate::scene::runs(&block.bytes()[..n as usize]));
    s.shown("direct read after a write", seen);
    s.fcntl(plain, F_SETFL, O_DIRECT);
    s.fcntl(plain, F_GETFL, 0);
    s.pwrite(plain, &[b'q'; 100], 1);
    s.fcntl(plain, F_SETFL, 0);
    s.pread(plain, 50_000, 0);
    s.changes("f", |s| {
        let answer = call!(pwrite, fd, memory.cast(), 4096, 0);
        s.number("direct write", answer);
    });
}

fn sync(s: &mut Scene) {
    for flag in [O_SYNC, O_DSYNC, O_RSYNC] {
        let name = format!("f{flag:o}");
        let fd = s.open(&name, O_RDWR | O_CREAT | flag, 0o644);
        s.write(fd, &[b's'; 5000]);
        s.pwrite(fd, b"more", 20_000);
        s.fcntl(fd, F_GETFL, 0);
        s.fstat(fd);
        s.pread(fd, 30_000, 0);
    }
}

fn resolve(s: &mut Scene) {
    const BENEATH: u64 = 0x8;
    const IN_ROOT: u64 = 0x10;
    const NO_SYMLINKS: u64 = 0x4;
    const NO_XDEV: u64 = 0x1;
    const CACHED: u64 = 0x20;
    s.mkdir("d", 0o755);
    s.file("f", 1);
    s.symlink("../f", "d/out");
    s.symlink("in", "d/to-in");
    s.file("d/in", 1);
    let d = s.open("d", O_DIRECTORY, 0);
    let create = (O_RDWR | O_CREAT) as u64;
    for resolve in [0, BENEATH, IN_ROOT, NO_SYMLINKS, NO_XDEV] {
        for path in ["in", "to-in", "out", "../f", "/", "."] {
            s.openat2(d, path, [0, 0, resolve]);
        }
    }
    s.openat2(d, "new", [create, 0o600, BENEATH]);
    s.openat2(d, "mode", [0, 0o600, 0]);
    s.openat2(d, "mode", [create, 0o17777, 0]);
    s.openat2(d, "unknown", [1 << 40, 0, 0]);
    s.openat2(d, "in", [O_TMPFILE as u64 | O_RDWR as u64, 0o600, CACHED]);
    s.list("d");
}

fn unlinked(s: &mut Scene) {
    let fd = s.file("f", 10_000);
    s.unlink("f");
    s.fstat(fd);
    s.pwrite(fd, b"still", 20_000);
    s.pread(fd, 30_000, 0);
    s.ftruncate(fd, 5);
    s.fsync(fd);
    s.fchmod(fd, 0o6711);
    s.done("fchown", call!(fchown, fd, 5, 6));
    s.done(
        "fsetxattr",
        call!(
            fsetxattr,
            fd,
            c"user.a".as_ptr(),
            c"b".as_ptr().cast(),
            1,
            0
        ),
    );
    s.flags(fd);
    s.fstat(fd);
    s.linkat(
        AT_FDCWD,
        &crate::on_names::path_of(fd),
        "back",
        AT_SYMLINK_FOLLOW,
    );
    s.open(crate::on_names::path_of(fd), O_RDWR, 0);
    s.open("f", O_RDWR, 0);
    let a = s.file("a", 3);
    s.file("b", 5);
    s.rename("b", "a");
    s.fstat(a);
    s.pread(a, 10, 0);
    s.stat("a");
    s.list(".");
}

fn busy_text(s: &mut Scene) {
    let program = std::fs::read("/bin/true").expect("there is one");
    let fd = s.open("prog", O_RDWR | O_CREAT, 0o755);
    s.number(
        "copies it",
        Ok(call!(write, fd, program.as_ptr().cast(), program.len())
            .map_or(0, |n| i64::from(n == program.len() as i64))),
    );
    let run = |s: &mut Scene| {
        let arguments = [c"prog".as_ptr(), std::ptr::null()];
        let answer = call!(execv, c"prog".as_ptr(), arguments.as_ptr());
        s.done("execv", answer);
    };
    s.in_child(run);
    s.close(fd);
    s.in_child(run);
    s.chmod("prog", 0o644);
    s.in_child(run);
    s.chmod("prog", 0o755);
    std::fs::copy("/bin/sleep", "sleep").expect("copies");
    let child = std::process::Command::new("./sleep").arg("20").spawn();
    match child {
        Ok(mut child) => {
            s.open("sleep", O_RDWR, 0);
            s.open("sleep", O_WRONLY | O_TRUNC, 0);
            s.truncate("sleep", 5);
            s.open("sleep", O_RDONLY, 0);
            s.unlink("sleep");
            child.kill().expect("runs");
            child.wait().expect("ends");
        }
        Err(error) => s.line(format_args!("does not run: {error}")),
    }
}
