//! Permissions.

use crate::*;

const CASES: [Case; 5] = [
    ("may_access", access),
    ("may_files", files),
    ("may_directories", directories),
    ("may_sticky", sticky),
    ("may_groups", groups),
];

#[test]
fn permission_calls() {
    compare(&CASES, &[]);
}

const PEOPLE: [(u32, &[u32]); 4] = [
    (1001, &[1001]),
    (1002, &[1002, 1001]),
    (1003, &[1003]),
    (1003, &[1003, 2001, 1001]),
];

fn access(s: &mut Scene) {
    s.file("f", 1);
    s.mkdir("d", 0o755);
    s.symlink("f", "l");
    s.symlink("none", "dangling");
    for mode in [0o000, 0o400, 0o644, 0o755, 0o070, 0o007, 0o111] {
        s.chown("f", 1001, 1001);
        s.chmod("f", mode);
        for want in 0..8 {
            s.access("f", want);
        }
        for (uid, groups) in PEOPLE {
            s.as_user(uid, groups, |s| (0..8).for_each(|want| s.access("f", want)));
        }
    }
    for path in ["d", "l", "dangling", "none", "f/x", ""] {
        s.access(path, R_OK);
        s.faccessat2(path, W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW);
    }
    s.access("f", 8);
    s.faccessat2("f", 0, 0x8000);
    s.faccessat2("", 0, AT_EMPTY_PATH);
}

fn files(s: &mut Scene) {
    for mode in [
        0o000, 0o200, 0o400, 0o600, 0o604, 0o060, 0o640, 0o006, 0o777,
    ] {
        let name = format!("f{mode:o}");
        s.file(&name, 100);
        s.chown(&name, 1001, 1001);
        s.chmod(&name, mode);
        s.setxattr(&name, "user.x", b"v", 0);
        for (uid, groups) in PEOPLE {
            s.as_user(uid, groups, |s| {
                let r = s.open(&name, O_RDONLY, 0);
                s.pread(r, 10, 0);
                let w = s.open(&name, O_WRONLY, 0);
                s.pwrite(w, b"x", 0);
                s.open(&name, O_RDWR, 0);
                s.open(&name, O_WRONLY | O_TRUNC, 0);
                s.open(&name, O_RDWR | O_CREAT, 0o644);
                s.truncate(&name, 50);
                s.getxattr(&name, "user.x", 10);
                s.setxattr(&name, "user.y", b"v", 0);
                s.listxattr(&name, 100);
                s.removexattr(&name, "user.y");
                s.chown(&name, -1, 1001);
                s.chmod(&name, mode);
            });
        }
    }
}

fn directories(s: &mut Scene) {
    let top = s.open(".", O_RDONLY | O_DIRECTORY, 0);
    for mode in [
        0o000, 0o100, 0o300, 0o400, 0o500, 0o700, 0o073, 0o755, 0o777,
    ] {
        let name = format!("d{mode:o}");
        let within = |file: &str| format!("{name}/{file}");
        s.mkdir(&name, 0o755);
        s.file(&within("f"), 1);
        s.mkdir(within("d"), 0o777);
        s.chown(&name, 1001, 1001);
        s.chmod(&name, mode);
        for (uid, groups) in PEOPLE {
            s.as_user(uid, groups, |s| {
                s.list(&name);
                s.stat(within("f"));
                s.stat(within("none"));
                s.open(within("f"), O_RDONLY, 0);
                s.open(within("new"), O_RDWR | O_CREAT, 0o644);
                s.mkdir(within("newdir"), 0o755);
                s.symlink("x", &within("newlink"));
                s.link(&within("f"), within("newname"));
                s.rename(&within("f"), within("moved"));
                s.rename(&within("moved"), within("f"));
                s.unlink(within("new"));
                s.rmdir(&within("newdir"));
                s.unlink(within("newlink"));
                s.unlink(within("newname"));
                s.chdir(&within("d"));
                call!(fchdir, top).expect("may be entered");
            });
        }
        s.list(&name);
    }
}

fn sticky(s: &mut Scene) {
    s.mkdir("t", 0o1777);
    s.mkdir("own", 0o1777);
    s.chown("own", 1002, 1002);
    for dir in ["t", "own"] {
        let within = |file: &str| format!("{dir}/{file}");
        s.as_user(1001, &[1001], |s| {
            s.open(within("f"), O_RDWR | O_CREAT, 0o666);
            s.open(within("h"), O_RDWR | O_CREAT, 0o666);
            s.mkdir(within("d"), 0o777);
            s.mknod(&within("p"), S_IFIFO | 0o666, (0, 0));
        });
        s.as_user(1003, &[1003], |s| {
            s.open(within("mine"), O_RDWR | O_CREAT, 0o666);
            s.open(within("f"), O_RDWR | O_CREAT, 0o666);
            s.open(within("f"), O_RDWR, 0);
            s.unlink(within("f"));
            s.rename(&within("f"), within("g"));
            s.rename(&within("mine"), within("f"));
            s.renameat2(&within("mine"), within("f"), RENAME_EXCHANGE);
            s.rmdir(&within("d"));
            s.link(&within("f"), within("linked"));
            s.unlink(within("linked"));
            s.unlink(within("mine"));
        });
        s.as_user(1002, &[1002], |s| {
            s.unlink(within("f"));
            s.rmdir(&within("d"));
        });
        s.as_user(1001, &[1001], |s| {
            s.rename(&within("h"), within("i"));
            s.unlink(within("i"));
        });
        s.list(dir);
    }
}

fn groups(s: &mut Scene) {
    s.file("f", 1);
    s.chown("f", 0, 2040);
    s.chmod("f", 0o640);
    let many: Vec<u32> = (2000..2041).collect();
    s.as_user(1001, &many, |s| {
        s.open("f", O_RDONLY, 0);
        s.open("f", O_RDWR, 0);
    });
    s.as_user(1001, &many[..40], |s| {
        s.open("f", O_RDONLY, 0);
    });
    s.mkdir("d", 0o2770);
    s.chown("d", 0, 2040);
    s.chmod("d", 0o2770);
    s.as_user(1001, &many, |s| {
        s.open("d/f", O_RDWR | O_CREAT, 0o2770);
        s.stat("d/f");
        s.chmod("d/f", 0o2770);
        s.stat("d/f");
        s.chown("d/f", -1, 2039);
        s.stat("d/f");
    });
}
