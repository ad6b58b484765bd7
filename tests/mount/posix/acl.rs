//! POSIX access control lists.

use crate::*;

const CASES: [Case; 7] = [
    ("acl_set_get", set_get),
    ("acl_refused", refused),
    ("acl_mode", mode),
    ("acl_inherited", inherited),
    ("acl_umask", umasks),
    ("acl_enforced", enforced),
    ("acl_owners", owners),
];

#[rustfmt::skip]
const ALLOWED: [Allowed; 1] = [
    // FUSE takes lists of a page.
    ("acl_set_get", "4836 bytes", "E2BIG"),
];

#[test]
fn acl_calls() {
    compare(&CASES, &ALLOWED);
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const NOBODY: u32 = u32::MAX;
const OWNER: u16 = 1;
const USER: u16 = 2;
const GROUP_OWNER: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHER: u16 = 32;

/// A list as setxattr(2) takes it, of tags, permissions and ids.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(perm.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn usual() -> Vec<u8> {
    list(&[
        (OWNER, 6, NOBODY),
        (USER, 6, 1001),
        (USER, 0, 1002),
        (GROUP_OWNER, 4, NOBODY),
        (GROUP, 7, 2001),
        (MASK, 6, NOBODY),
        (OTHER, 4, NOBODY),
    ])
}

fn show(s: &mut Scene, path: &str) {
    for name in [ACCESS, DEFAULT] {
        s.getxattr(path, name, 1000);
    }
    s.stat(path);
}

fn set_get(s: &mut Scene) {
    s.file("f", 1);
    s.mkdir("d", 0o755);
    show(s, "f");
    s.setxattr("f", ACCESS, &usual(), 0);
    show(s, "f");
    s.setxattr("f", ACCESS, &usual(), XATTR_CREATE);
    s.setxattr("f", ACCESS, &usual(), XATTR_REPLACE);
    s.setxattr("d", ACCESS, &usual(), XATTR_REPLACE);
    s.getxattr("f", ACCESS, 0);
    s.getxattr("f", ACCESS, 5);
    s.listxattr("f", 1000);
    s.setxattr("f", DEFAULT, &usual(), 0);
    s.setxattr("d", DEFAULT, &usual(), 0);
    show(s, "d");
    s.listxattr("d", 1000);
    let plain = list(&[
        (OWNER, 7, NOBODY),
        (GROUP_OWNER, 5, NOBODY),
        (OTHER, 1, NOBODY),
    ]);
    s.setxattr("f", ACCESS, &plain, 0);
    show(s, "f");
    s.setxattr("d", DEFAULT, &plain, 0);
    show(s, "d");
    s.removexattr("d", DEFAULT);
    s.removexattr("d", DEFAULT);
    s.setxattr("f", ACCESS, &usual(), 0);
    s.removexattr("f", ACCESS);
    show(s, "f");
    s.removexattr("f", ACCESS);
    s.setxattr("f", ACCESS, &usual(), 0);
    s.setxattr("f", ACCESS, &list(&[]), 0);
    show(s, "f");
    s.setxattr("f", ACCESS, b"", 0);
    s.setxattr("d", DEFAULT, &usual(), 0);
    s.setxattr("d", DEFAULT, &list(&[]), 0);
    show(s, "d");
    s.symlink("f", "l");
    s.setxattr("l", ACCESS, &usual(), 0);
    s.getxattr("l", ACCESS, 100);
    s.removexattr("l", ACCESS);
    s.mknod("p", S_IFIFO | 0o600, (0, 0));
    s.setxattr("p", ACCESS, &usual(), 0);
    show(s, "p");
    s.changes("f", |s| s.setxattr("f", ACCESS, &usual(), 0));
    s.changes("f", |s| s.setxattr("f", ACCESS, &usual(), 0));
    let most: Vec<_> = (0..600).map(|at| (USER, 4, 5000 + at)).collect();
    for count in [100, 300, 500, 600] {
        let mut all = vec![(OWNER, 6, NOBODY)];
        all.extend(&most[..count]);
        all.extend([
            (GROUP_OWNER, 4, NOBODY),
            (MASK, 4, NOBODY),
            (OTHER, 0, NOBODY),
        ]);
        s.setxattr("f", ACCESS, &list(&all), 0);
        s.getxattr("f", ACCESS, 0);
    }
}

fn refused(s: &mut Scene) {
    s.file("f", 1);
    let good = usual();
    #[rustfmt::skip]
    let bad: [Vec<u8>; 8] = [
        good[..20].to_vec(),
        good[..19].to_vec(),
        [&1u32.to_le_bytes(), &good[4..]].concat(),
        list(&[(OWNER, 6, NOBODY), (USER, 6, 1), (GROUP_OWNER, 4, NOBODY), (OTHER, 4, NOBODY)]),
        list(&[(OWNER, 6, NOBODY), (OTHER, 4, NOBODY), (GROUP_OWNER, 4, NOBODY)]),
        list(&[(OWNER, 9, NOBODY), (GROUP_OWNER, 4, NOBODY), (OTHER, 4, NOBODY)]),
        list(&[(OWNER, 6, NOBODY), (3, 4, NOBODY), (GROUP_OWNER, 4, NOBODY), (OTHER, 4, NOBODY)]),
        list(&[(OWNER, 6, NOBODY), (OWNER, 6, NOBODY), (GROUP_OWNER, 4, 1), (OTHER, 4, NOBODY)]),
    ];
    for value in bad {
        s.setxattr("f", ACCESS, &value, 0);
        show(s, "f");
    }
    s.as_user(1001, &[1001], |s| {
        s.setxattr("f", ACCESS, &good, 0);
        s.removexattr("f", ACCESS);
        s.getxattr("f", ACCESS, 100);
    });
    s.setxattr("f", ACCESS, &good, 0);
    s.as_user(1001, &[1001], |s| {
        s.getxattr("f", ACCESS, 100);
        s.removexattr("f", ACCESS);
    });
    s.chown("f", 1001, 1001);
    s.as_user(1001, &[1001], |s| {
        s.removexattr("f", ACCESS);
        s.setxattr("f", ACCESS, &good, 0);
    });
}

fn mode(s: &mut Scene) {
    s.file("f", 1);
    s.setxattr("f", ACCESS, &usual(), 0);
    for mode in [0o600, 0o670, 0o607, 0o4777, 0] {
        s.chmod("f", mode);
        show(s, "f");
    }
    s.chown("f", 1001, 2002);
    s.chmod("f", 0o2770);
    s.as_user(1001, &[1001], |s| s.setxattr("f", ACCESS, &usual(), 0));
    show(s, "f");
    s.chmod("f", 0o2770);
    s.as_user(1001, &[1001, 2002], |s| {
        s.setxattr("f", ACCESS, &usual(), 0)
    });
    show(s, "f");
}

fn inherited(s: &mut Scene) {
    s.mkdir("d", 0o755);
    s.setxattr("d", DEFAULT, &usual(), 0);
    for mode in [0o777, 0o644, 0o600, 0] {
        let name = |kind: &str| format!("d/{kind}{mode:o}");
        s.open(name("f"), O_RDWR | O_CREAT, mode);
        show(s, &name("f"));
        s.mkdir(name("d"), mode);
        show(s, &name("d"));
        s.mknod(&name("p"), S_IFIFO | mode, (0, 0));
        show(s, &name("p"));
    }
    s.symlink("x", "d/l");
    s.stat("d/l");
    s.open("d/d777/deep", O_RDWR | O_CREAT, 0o666);
    show(s, "d/d777/deep");
    let t = s.open("d", O_TMPFILE | O_RDWR, 0o666);
    s.linkat(t, "", "d/tmp", AT_EMPTY_PATH);
    show(s, "d/tmp");
    s.file("moved", 1);
    s.rename("moved", "d/moved");
    show(s, "d/moved");
    let plain = list(&[
        (OWNER, 7, NOBODY),
        (GROUP_OWNER, 5, NOBODY),
        (OTHER, 1, NOBODY),
    ]);
    s.setxattr("d", DEFAULT, &plain, 0);
    s.open("d/plain", O_RDWR | O_CREAT, 0o666);
    show(s, "d/plain");
    s.mkdir("d/plain-dir", 0o777);
    show(s, "d/plain-dir");
}

fn umasks(s: &mut Scene) {
    s.mkdir("plain", 0o755);
    s.mkdir("d", 0o755);
    s.setxattr("d", DEFAULT, &usual(), 0);
    for mask in [0o022, 0o077, 0o777] {
        call!(umask, mask).ok();
        for dir in ["plain", "d"] {
            let name = |kind: &str| format!("{dir}/{kind}{mask:o}");
            s.open(name("f"), O_RDWR | O_CREAT, 0o666);
            show(s, &name("f"));
            s.mkdir(name("d"), 0o777);
            show(s, &name("d"));
            s.mknod(&name("n"), S_IFREG | 0o666, (0, 0));
            show(s, &name("n"));
            let t = s.open(dir, O_TMPFILE | O_RDWR, 0o666);
            s.fstat(t);
        }
    }
}

fn enforced(s: &mut Scene) {
    s.file("f", 1);
    s.chown("f", 1005, 2005);
    s.setxattr("f", ACCESS, &usual(), 0);
    let people: [(u32, &[u32]); 7] = [
        (1001, &[1001]),
        (1002, &[1002]),
        (1002, &[1002, 2001]),
        (1003, &[2001]),
        (1003, &[1003, 2005]),
        (1003, &[1003]),
        (1005, &[1005]),
    ];
    for mode in [None, Some(0o640), Some(0o604), Some(0o070)] {
        if let Some(mode) = mode {
            s.chmod("f", mode);
        }
        for (uid, groups) in people {
            s.as_user(uid, groups, |s| {
                s.open("f", O_RDONLY, 0);
                s.open("f", O_WRONLY, 0);
                s.access("f", X_OK);
                s.access("f", R_OK | W_OK);
            });
        }
    }
    s.mkdir("d", 0o700);
    s.file("d/f", 1);
    let search = list(&[
        (OWNER, 7, NOBODY),
        (USER, 1, 1001),
        (USER, 7, 1002),
        (GROUP_OWNER, 0, NOBODY),
        (MASK, 7, NOBODY),
        (OTHER, 0, NOBODY),
    ]);
    s.setxattr("d", ACCESS, &search, 0);
    for (uid, groups) in people {
        s.as_user(uid, groups, |s| {
            s.list("d");
            s.stat("d/f");
            s.open("d/new", O_RDWR | O_CREAT, 0o644);
            s.unlink("d/new");
        });
    }
}

fn owners(s: &mut Scene) {
    s.file("f", 1);
    s.setxattr("f", ACCESS, &usual(), 0);
    s.chown("f", 1001, 2001);
    show(s, "f");
    s.link("f", "g");
    show(s, "g");
    s.truncate("f", 0);
    show(s, "f");
    s.unlink("f");
    show(s, "g");
}
