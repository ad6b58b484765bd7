//! Making, removing, linking and renaming.

use crate::*;

pub const CASES: [Case; 14] = [
    ("mkdir", mkdir),
    ("rmdir", rmdir),
    ("mknod", mknod),
    ("link", link),
    ("symlink", symlink),
    ("readlink", readlink),
    ("unlink", unlink),
    ("rename_files", rename_files),
    ("rename_directories", rename_directories),
    ("rename_noreplace", noreplace),
    ("rename_exchange", exchange),
    ("rename_whiteout", whiteout),
    ("rename_open", rename_open),
    ("names_times", times),
];

#[rustfmt::skip]
const ALLOWED: [Allowed; 1] = [
    // What the kernel answers from its cache, the server does not learn of.
    ("readlink", "[true, false, false]", "[false, false, false]"),
];

#[test]
fn names_calls() {
    compare(&CASES, &ALLOWED);
}

fn mkdir(s: &mut Scene) {
    s.mkdir("d", 0o755);
    s.stat("d");
    s.stat(".");
    s.mkdir("d", 0o755);
    s.mkdir("d/", 0o755);
    s.mkdir("slash/", 0o755);
    s.mkdir("none/d", 0o755);
    s.file("f", 1);
    s.mkdir("f", 0o755);
    s.mkdir("f/d", 0o755);
    s.mkdir(".", 0o755);
    s.mkdir("d/..", 0o755);
    s.mkdir("", 0o755);
    s.symlink("none", "dangling");
    s.mkdir("dangling", 0o755);
    s.mkdir("m", 0o7777);
    s.stat("m");
    s.chown("m", -1, 2001);
    s.chmod("m", 0o2755);
    s.mkdir("m/in", 0o700);
    s.stat("m/in");
    s.file("m/file", 0);
    s.stat("m/file");
    s.as_user(1001, &[1001], |s| s.mkdir("d/no", 0o777));
    s.list(".");
    s.stat(".");
}

fn rmdir(s: &mut Scene) {
    s.mkdir("d", 0o755);
    s.mkdir("d/e", 0o755);
    s.file("f", 1);
    s.rmdir("d");
    s.rmdir("f");
    s.rmdir("none");
    s.rmdir("d/.");
    s.rmdir("d/e/..");
    s.rmdir(".");
    s.rmdir("f/x");
    s.rmdir("");
    s.symlink("d/e", "to-e");
    s.rmdir("to-e");
    s.rmdir("to-e/");
    s.rmdir("d/e/");
    s.rmdir("d");
    s.stat(".");
    s.mkdir("open", 0o755);
    let fd = s.open("open", O_DIRECTORY, 0);
    s.chdir("open");
    s.rmdir("../open");
    s.fstat(fd);
    s.open("new", O_RDWR | O_CREAT, 0o644);
    s.openat(fd, "new", O_RDWR | O_CREAT, 0o644);
    s.open(".", O_DIRECTORY, 0);
    s.open("..", O_DIRECTORY, 0);
    s.mkdir("new", 0o755);
    s.link("/bin/none", "new");
    s.list(".");
    s.stat(".");
    s.fsync(fd);
    s.fchmod(fd, 0o700);
    s.rename(".", "x");
}

fn mknod(s: &mut Scene) {
    for (name, kind) in [("p", S_IFIFO), ("s", S_IFSOCK), ("r", S_IFREG), ("z", 0)] {
        s.mknod(name, kind | 0o640, (7, 9));
        s.stat(name);
    }
    for (name, device) in [
        ("c", (1, 3)),
        ("white", (0, 0)),
        ("large", (300, 70_000)),
        ("edge", (255, 255)),
        ("most", (4095, 1_048_575)),
    ] {
        s.mknod(name, S_IFCHR | 0o666, device);
        s.stat(name);
        let block = format!("b{name}");
        s.mknod(&block, S_IFBLK | 0o660, device);
        s.stat(&block);
    }
    s.mknod("d", S_IFDIR | 0o755, (0, 0));
    s.mknod("l", S_IFLNK | 0o755, (0, 0));
    s.mknod("x", 0o170_000, (0, 0));
    s.mknod("p", S_IFIFO, (0, 0));
    s.mknod("none/p", S_IFIFO, (0, 0));
    s.open("s", O_RDWR, 0);
    let null = s.open("c", O_RDWR, 0);
    s.write(null, b"gone");
    s.open("most", O_RDWR, 0);
    s.open("p", O_WRONLY | O_NONBLOCK, 0);
    let pipe = s.open("p", O_RDWR | O_NONBLOCK, 0);
    s.write(pipe, b"through");
    s.read(pipe, 100);
    s.read(pipe, 100);
    s.stat("p");
    s.truncate("p", 1);
    s.chmod(".", 0o777);
    s.as_user(1001, &[1001], |s| {
        s.mknod("uc", S_IFCHR | 0o666, (1, 3));
        s.mknod("uwhite", S_IFCHR | 0o666, (0, 0));
        s.mknod("up", S_IFIFO | 0o666, (0, 0));
        s.mknod("us", S_IFSOCK | 0o666, (0, 0));
        s.open("c", O_RDWR, 0);
        s.open("bwhite", O_RDWR, 0);
    });
    s.list(".");
    let answer = std::os::unix::net::UnixListener::bind("listen");
    s.done(
        "bind",
        answer
            .as_ref()
            .map(|_| 0)
            .map_err(|e| e.raw_os_error().unwrap_or(0)),
    );
    let answer = std::os::unix::net::UnixStream::connect("listen");
    s.done(
        "connect",
        answer.map(|_| 0).map_err(|e| e.raw_os_error().unwrap_or(0)),
    );
    s.stat("listen");
}

fn link(s: &mut Scene) {
    s.file("f", 1);
    s.mkdir("d", 0o755);
    s.symlink("f", "l");
    s.symlink("none", "dangling");
    s.link("f", "g");
    s.stat("g");
    s.link("f", "g");
    s.link("f", "d");
    s.link("f", "none/g");
    s.link("none", "h");
    s.link("d", "e");
    s.link("f/x", "h");
    s.link("f", "f/x");
    s.link("f", "h/");
    s.link("l", "l2");
    s.stat("l2");
    s.link("dangling", "dangling2");
    s.stat("dangling2");
    s.linkat(AT_FDCWD, "l", "followed", AT_SYMLINK_FOLLOW);
    s.stat("followed");
    s.linkat(AT_FDCWD, "dangling", "no", AT_SYMLINK_FOLLOW);
    s.linkat(AT_FDCWD, "f", "no", 0x8000);
    s.linkat(-1, "f", "no", 0);
    s.linkat(-1, "", "no", AT_EMPTY_PATH);
    s.link("/proc/self/exe", "other-file-system");
    s.mknod("p", S_IFIFO | 0o600, (0, 0));
    s.link("p", "p2");
    s.stat("p2");
    s.unlink("f");
    s.stat("g");
    s.chmod(".", 0o777);
    s.as_user(1001, &[1001], |s| {
        s.link("g", "u");
        s.link("p", "u2");
    });
    s.list(".");
}

fn symlink(s: &mut Scene) {
    for len in [1, 59, 60, 61, 255, 1000, 4000, 4094, 4095, 4096, 5000] {
        let name = format!("l{len}");
        s.symlink(vec![b't'; len], &name);
        s.stat(&name);
        s.readlink(&name, 8000);
    }
    s.symlink("", "empty");
    s.symlink("x", "l1");
    s.symlink("x", "none/l");
    s.symlink("x", "l1/l");
    s.symlink("x", "");
    s.symlink("x", "s/");
    s.symlink([0xff, 0xfe, b'/', 0x80], "bytes");
    s.readlink("bytes", 100);
    s.as_user(1001, &[1001], |s| s.readlink("bytes", 100));
}

fn readlink(s: &mut Scene) {
    s.symlink("target", "l");
    s.file("f", 1);
    s.readlink("l", 100);
    s.readlink("l", 3);
    s.readlink("l", 6);
    s.readlink("l", 0);
    s.readlink("f", 100);
    s.readlink(".", 100);
    s.readlink("none", 100);
    s.readlink("f/x", 100);
    s.readlink("l/", 100);
    s.changes("l", |s| s.readlink("l", 100));
    s.stat("l");
}

fn unlink(s: &mut Scene) {
    s.file("f", 1);
    s.link("f", "g");
    s.mkdir("d", 0o755);
    s.symlink("d", "to-d");
    s.unlink("d");
    s.unlink("none");
    s.unlink("f/x");
    s.unlink("f/");
    s.unlink("to-d/");
    s.unlink(".");
    s.unlink("");
    let fd = s.open("g", O_RDONLY, 0);
    s.changes("g", |s| s.unlink("f"));
    s.fstat(fd);
    s.unlink("g");
    s.fstat(fd);
    s.unlink("to-d");
    s.list(".");
    let at = call!(unlinkat, AT_FDCWD, c"d".as_ptr(), AT_REMOVEDIR);
    s.done("unlinkat, a directory", at);
    s.done(
        "unlinkat, flags",
        call!(unlinkat, AT_FDCWD, c"d".as_ptr(), 0x1),
    );
}

fn rename_files(s: &mut Scene) {
    s.file("a", 1);
    s.file("b", 2);
    s.mkdir("d", 0o755);
    s.stat("a");
    s.stat("b");
    s.rename("a", "b");
    s.stat("b");
    s.stat("a");
    s.rename("none", "b");
    s.rename("b", "d");
    s.rename("d", "b");
    s.rename("b", "b");
    s.link("b", "c");
    s.rename("b", "c");
    s.stat("b");
    s.stat("c");
    s.rename("c", "none/x");
    s.rename("c", "b/x");
    s.rename("c", "x/");
    s.rename("c/", "x");
    s.rename("c", "");
    s.rename("", "c");
    s.rename(".", "x");
    s.rename("d", ".");
    s.rename("d/..", "x");
    s.rename("c", "d/moved");
    s.stat("d/moved");
    s.symlink("d", "to-d");
    s.rename("to-d", "l");
    s.readlink("l", 10);
    s.rename("l", "d/moved");
    s.stat("d/moved");
    s.rename("d/moved", "/dev/shm/elsewhere");
    s.rename("/proc/self/exe", "x");
    s.list(".");
    s.list("d");
}

fn rename_directories(s: &mut Scene) {
    for dir in ["a", "a/b", "a/b/c", "e", "full"] {
        s.mkdir(dir, 0o755);
    }
    s.file("full/f", 1);
    s.stat(".");
    s.rename("a", "a/b/c/d");
    s.rename("a", "a");
    s.rename("a", "a/");
    s.rename("a/b/c", "a");
    s.rename("a/b", "a");
    s.rename("a", "full");
    s.rename("full", "a");
    s.rename("a/b", "e");
    s.stat(".");
    s.stat("a");
    s.stat("e");
    s.stat("e/c");
    s.chdir("e/c");
    s.rename("../../e/c", "../../c");
    s.stat("..");
    s.list("..");
    s.rename("../c", "../full/c");
    s.stat("..");
    s.list("..");
    s.chdir("../..");
    s.as_user(1001, &[1001], |s| s.rename("full", "mine"));
    s.mkdir("shared", 0o777);
    s.mkdir("shared/theirs", 0o755);
    s.mkdir("shared/to", 0o777);
    s.as_user(1001, &[1001], |s| {
        s.rename("shared/theirs", "shared/to/theirs");
        s.rename("shared/theirs", "shared/other");
    });
    s.list("shared");
}

fn noreplace(s: &mut Scene) {
    s.file("a", 1);
    s.file("b", 2);
    s.mkdir("d", 0o755);
    s.renameat2("a", "b", RENAME_NOREPLACE);
    s.renameat2("a", "d", RENAME_NOREPLACE);
    s.renameat2("a", "a", RENAME_NOREPLACE);
    s.renameat2("a", "c", RENAME_NOREPLACE);
    s.renameat2("d", "e", RENAME_NOREPLACE);
    s.renameat2("none", "e", RENAME_NOREPLACE);
    s.renameat2("c", ".", RENAME_NOREPLACE);
    s.renameat2("c", "x", 0x10);
    s.renameat2("c", "x", 0x8000_0000);
    s.list(".");
}

fn exchange(s: &mut Scene) {
    s.file("a", 1);
    s.mkdir("d", 0o755);
    s.mkdir("d/in", 0o755);
    s.stat("a");
    s.stat("d");
    s.renameat2("a", "none", RENAME_EXCHANGE);
    s.renameat2("none", "a", RENAME_EXCHANGE);
    s.renameat2("a", "d", RENAME_EXCHANGE);
    s.stat("a");
    s.stat("d");
    s.list("a");
    s.renameat2("a", "a/in", RENAME_EXCHANGE);
    s.renameat2("a/in", "a", RENAME_EXCHANGE);
    s.renameat2("d", "a/in", RENAME_EXCHANGE);
    s.stat("a");
    s.stat(".");
    s.stat("a/in");
    s.list(".");
    s.renameat2("d", "d", RENAME_EXCHANGE);
    s.renameat2("d", "a", RENAME_EXCHANGE | RENAME_NOREPLACE);
    s.renameat2("d", "a", RENAME_EXCHANGE | RENAME_WHITEOUT);
    s.changes("a", |s| s.renameat2("d", "a", RENAME_EXCHANGE));
    s.changes(".", |s| s.renameat2("d", "a", RENAME_EXCHANGE));
}

fn whiteout(s: &mut Scene) {
    s.file("a", 1);
    s.file("b", 2);
    s.mkdir("d", 0o755);
    s.renameat2("a", "c", RENAME_WHITEOUT);
    s.stat("a");
    s.stat("c");
    s.renameat2("b", "c", RENAME_WHITEOUT);
    s.stat("b");
    s.renameat2("d", "e", RENAME_WHITEOUT);
    s.stat("d");
    s.stat(".");
    s.renameat2("c", "f", RENAME_WHITEOUT | RENAME_NOREPLACE);
    s.renameat2("f", "a", RENAME_WHITEOUT | RENAME_NOREPLACE);
    s.renameat2("none", "x", RENAME_WHITEOUT);
    s.list(".");
    s.chmod(".", 0o777);
    s.chown("f", 1001, 1001);
    s.as_user(1001, &[1001], |s| s.renameat2("f", "u", RENAME_WHITEOUT));
    s.list(".");
}

fn rename_open(s: &mut Scene) {
    let fd = s.file("f", 10);
    s.mkdir("d", 0o755);
    s.rename("f", "d/g");
    s.fstat(fd);
    s.pwrite(fd, b"moved", 10);
    s.stat("d/g");
    let dir = s.open("d", O_DIRECTORY, 0);
    s.rename("d", "e");
    s.openat(dir, "g", O_RDONLY, 0);
    s.openat(dir, "h", O_RDWR | O_CREAT, 0o644);
    s.list("e");
    s.mkdir("victim", 0o755);
    let victim = s.open("victim", O_DIRECTORY, 0);
    s.mkdir("new", 0o755);
    s.rename("new", "victim");
    s.openat(victim, "x", O_RDWR | O_CREAT, 0o644);
    s.openat(victim, "..", O_DIRECTORY, 0);
    s.list(".");
}

fn times(s: &mut Scene) {
    s.file("f", 1);
    s.mkdir("d", 0o755);
    s.mkdir("e", 0o755);
    s.changes(".", |s| s.mkdir("new", 0o755));
    s.changes(".", |s| s.rmdir("new"));
    s.changes(".", |s| s.mkdir("d", 0o755));
    s.changes(".", |s| s.symlink("x", "l"));
    s.changes("f", |s| s.link("f", "g"));
    s.changes(".", |s| s.link("f", "h"));
    s.changes("f", |s| s.unlink("g"));
    s.changes(".", |s| s.unlink("h"));
    s.changes("f", |s| s.rename("f", "d/f"));
    s.changes(".", |s| s.rename("d/f", "f"));
    s.changes("d", |s| s.rename("f", "d/f"));
    s.changes("e", |s| s.rename("d/f", "e/f"));
    s.changes("e", |s| s.rename("e/f", "e/f"));
    s.changes("d", |s| s.rename("d", "e/d"));
    s.changes(".", |s| s.unlink("none"));
    s.changes("l", |s| s.link("l", "l2"));
}
