//! As much as there may be: names, paths, links, space, inodes.

use crate::transcript::compare_on;
use crate::*;
use uext4_testkit::mounted_dir::Shape;

const CASES: [Case; 4] = [
    ("limit_names", names),
    ("limit_paths", paths),
    ("limit_links", links),
    ("limit_subdirectories", subdirectories),
];

#[test]
fn limit_calls() {
    compare(&CASES, &[]);
}

/// Each fills what there is.
const FULL: [Case; 2] = [("full_inodes", no_inodes), ("full_space", no_space)];

#[test]
fn full_calls() {
    let small = Shape {
        args: "-t ext4 -b 1024 -I 256 -J size=1 -N 64",
        bytes: 8 << 20,
    };
    compare_on(&small, &FULL, &[]);
}

fn names(s: &mut Scene) {
    for len in [254, 255, 256, 1000] {
        let name = "n".repeat(len);
        s.open(&name, O_RDWR | O_CREAT, 0o644);
        s.mkdir(format!("d{}", &name[1..]), 0o755);
        s.stat(&name);
        s.symlink("x", &format!("l{}", &name[1..]));
        s.rename(&name, format!("r{}", &name[1..]));
        s.link(&format!("r{}", &name[1..]), &name);
        s.unlink(&name);
        s.open(format!("none/{name}"), O_RDONLY, 0);
    }
    let odd: [&[u8]; 7] = [
        b"\xff\xfe\x80",
        b" ",
        b"\n",
        b"a\tb",
        "\u{e9}".as_bytes(),
        b"e\xcc\x81",
        b"...",
    ];
    for name in odd {
        s.open(name, O_RDWR | O_CREAT | O_EXCL, 0o644);
        s.stat(name);
    }
    s.open("UPPER", O_RDWR | O_CREAT | O_EXCL, 0o644);
    s.open("upper", O_RDWR | O_CREAT | O_EXCL, 0o644);
    s.list(".");
}

fn paths(s: &mut Scene) {
    let part = format!("{}/", "p".repeat(99));
    for _ in 0..45 {
        call!(mkdir, crate::scene::text(&part).as_ptr(), 0o755).expect("makes it");
        call!(chdir, crate::scene::text(&part).as_ptr()).expect("is there");
    }
    s.file("f", 1);
    s.stat("f");
    s.list("..");
    for _ in 0..45 {
        call!(chdir, c"..".as_ptr()).expect("is there");
    }
    for parts in [40, 41] {
        let path = part.repeat(parts);
        s.stat(path.trim_end_matches('/'));
    }
    let dots = "./".repeat(2047);
    s.stat(format!("{dots}."));
    s.stat(format!("{dots}.."));
}

fn links(s: &mut Scene) {
    s.file("f", 1);
    s.mkdir("d", 0o755);
    let mut last = Ok(0);
    let mut made = 1;
    while made < 65_010 && last.is_ok() {
        let to = crate::scene::text(format!("d/{made}"));
        last = call!(link, c"f".as_ptr(), to.as_ptr());
        made += i32::from(last.is_ok());
    }
    s.done(format!("link after {made}"), last);
    s.stat("f");
    s.renameat2("d/1", "d/2", 0);
    s.unlink("d/2");
    s.link("f", "one more");
    s.link("f", "and another");
    s.stat("f");
}

fn subdirectories(s: &mut Scene) {
    for at in 0..2000 {
        let name = crate::scene::text(format!("d{at}"));
        call!(mkdir, name.as_ptr(), 0o755).expect("makes it");
    }
    s.stat(".");
    for at in 0..1990 {
        let name = crate::scene::text(format!("d{at}"));
        call!(rmdir, name.as_ptr()).expect("removes it");
    }
    s.stat(".");
    s.list(".");
}

fn no_space(s: &mut Scene) {
    let fd = s.file("f", 0);
    let mut at = 0;
    let block = [7u8; 65_536];
    let end = loop {
        // Where the kernel keeps written data for a while, it does not learn that there is no room.
        if at > 16 << 20 {
            break Ok(());
        }
        match call!(pwrite, fd, block.as_ptr().cast(), block.len(), at) {
            Ok(n) => at += n,
            Err(e) => break Err(e),
        }
    };
    s.done("fills it", end.map(|()| 0));
    let synced = call!(fsync, fd);
    s.done("fsync", synced);
    s.line(format_args!("megabytes: {}", at >> 20));
    s.pwrite(fd, &[8; 100], 0);
    s.fallocate(fd, 0, 0, 100 << 20);
    s.pread(fd, 200, 0);
    s.mkdir("d", 0o755);
    s.symlink("y".repeat(200), "l");
    s.unlink("f");
    s.close(fd);
    let again = s.open("g", O_RDWR | O_CREAT, 0o644);
    s.pwrite(again, &[8; 5000], 0);
    s.fsync(again);
    s.list(".");
}

fn no_inodes(s: &mut Scene) {
    let (mut made, mut all) = (0, Vec::new());
    let end = loop {
        let name = crate::scene::text(format!("f{made}"));
        match call!(open, name.as_ptr(), O_CREAT | O_RDWR | O_CLOEXEC, 0o644) {
            Ok(fd) => {
                all.push(fd as i32);
                made += 1;
            }
            Err(e) => break Err(e),
        }
    };
    s.done(format!("after {made}"), end.map(|()| 0));
    s.mkdir("d", 0o755);
    s.symlink("x", "l");
    s.mknod("p", S_IFIFO | 0o600, (0, 0));
    s.open(".", O_TMPFILE | O_RDWR, 0o600);
    s.rename("f0", "g0");
    s.unlink("g0");
    all.into_iter().for_each(|fd| s.close(fd));
    for at in 1..made {
        let name = crate::scene::text(format!("f{at}"));
        call!(unlink, name.as_ptr()).expect("removes it");
    }
    s.list(".");
}
