//! Extended attributes.

use crate::*;

pub const CASES: [Case; 7] = [
    ("xattr_set_get", set_get),
    ("xattr_sizes", sizes),
    ("xattr_names", names),
    ("xattr_namespaces", namespaces),
    ("xattr_users", users),
    ("xattr_kinds", kinds),
    ("xattr_capability", capability),
];

#[test]
fn xattr_calls() {
    compare(&CASES, &[]);
}

fn set_get(s: &mut Scene) {
    s.file("f", 1);
    s.getxattr("f", "user.a", 100);
    s.setxattr("f", "user.a", b"value", XATTR_REPLACE);
    s.setxattr("f", "user.a", b"value", XATTR_CREATE);
    s.setxattr("f", "user.a", b"value", XATTR_CREATE);
    s.setxattr("f", "user.a", b"longer value", XATTR_REPLACE);
    s.setxattr("f", "user.a", b"x", XATTR_CREATE | XATTR_REPLACE);
    s.setxattr("f", "user.b", b"x", XATTR_CREATE | XATTR_REPLACE);
    s.setxattr("f", "user.a", b"x", 4);
    s.getxattr("f", "user.a", 0);
    s.getxattr("f", "user.a", 3);
    s.getxattr("f", "user.a", 12);
    s.getxattr("f", "user.a", 100_000);
    s.setxattr("f", "user.empty", b"", 0);
    s.getxattr("f", "user.empty", 10);
    s.listxattr("f", 0);
    s.listxattr("f", 5);
    s.listxattr("f", 1000);
    s.removexattr("f", "user.none");
    s.removexattr("f", "user.a");
    s.listxattr("f", 1000);
    s.removexattr("f", "user.empty");
    s.listxattr("f", 1000);
    s.listxattr("f", 0);
    s.setxattr("none", "user.a", b"x", 0);
    s.getxattr("f/x", "user.a", 10);
    let fd = s.open("f", O_RDONLY, 0);
    let answer = call!(
        fsetxattr,
        fd,
        c"user.fd".as_ptr(),
        c"v".as_ptr().cast(),
        1,
        0
    );
    s.done("fsetxattr on a reader", answer);
    s.getxattr("f", "user.fd", 10);
    let path = s.open("f", O_PATH, 0);
    let answer = call!(
        fsetxattr,
        path,
        c"user.fd".as_ptr(),
        c"v".as_ptr().cast(),
        1,
        0
    );
    s.done("fsetxattr on a path", answer);
}

fn sizes(s: &mut Scene) {
    for len in [
        0, 1, 63, 64, 100, 1000, 3000, 4000, 4096, 10_000, 65_536, 65_537,
    ] {
        let name = format!("f{len}");
        s.file(&name, 1);
        s.setxattr(&name, "user.v", &vec![b'v'; len], 0);
        s.getxattr(&name, "user.v", 70_000);
    }
    let fd = s.file("many", 1);
    for at in 0..60 {
        s.setxattr("many", &format!("user.attribute {at}"), &[b'm'; 50], 0);
    }
    s.listxattr("many", 65_536);
    s.blocks(fd);
    for at in (0..60).step_by(2) {
        s.removexattr("many", &format!("user.attribute {at}"));
    }
    s.setxattr("many", "user.attribute 1", &[b'l'; 1500], 0);
    s.listxattr("many", 65_536);
    for at in 0..60 {
        s.getxattr("many", &format!("user.attribute {at}"), 2000);
    }
}

fn names(s: &mut Scene) {
    s.file("f", 1);
    for name in [
        "",
        "user",
        "user.",
        "nothing.x",
        ".x",
        "User.x",
        "user.\u{e9}",
        "user.a b",
    ] {
        s.setxattr("f", name, b"v", 0);
        s.getxattr("f", name, 10);
        s.removexattr("f", name);
    }
    for len in [1, 249, 250, 251, 300] {
        let name = format!("user.{}", "n".repeat(len));
        s.setxattr("f", &name, b"v", 0);
        s.getxattr("f", &name, 10);
        s.removexattr("f", &name);
    }
}

const ALL: [&str; 8] = [
    "user.x",
    "trusted.x",
    "security.x",
    "security.selinux",
    "system.x",
    "system.data",
    "system.posix_acl_access",
    "com.example",
];

fn namespaces(s: &mut Scene) {
    s.file("f", 1);
    for name in ALL {
        s.setxattr("f", name, b"v", 0);
        s.getxattr("f", name, 10);
    }
    s.listxattr("f", 1000);
    s.as_user(1001, &[1001], |s| s.listxattr("f", 1000));
    for name in ALL {
        s.removexattr("f", name);
    }
    s.listxattr("f", 1000);
}

fn users(s: &mut Scene) {
    s.file("f", 1);
    s.chmod("f", 0o646);
    for name in ALL {
        s.setxattr("f", name, b"root", 0);
    }
    for mode in [0o646, 0o644, 0o600] {
        s.chmod("f", mode);
        s.as_user(1001, &[1001], |s| {
            for name in ALL {
                s.getxattr("f", name, 10);
                s.setxattr("f", name, b"user", 0);
                s.removexattr("f", name);
            }
            s.listxattr("f", 1000);
        });
    }
    s.mkdir("t", 0o1777);
    s.as_user(1001, &[1001], |s| s.setxattr("t", "user.sticky", b"v", 0));
    s.chown("t", 1001, 1001);
    s.as_user(1001, &[1001], |s| s.setxattr("t", "user.sticky", b"v", 0));
}

fn kinds(s: &mut Scene) {
    s.mkdir("d", 0o755);
    s.symlink("d", "l");
    s.mknod("p", S_IFIFO | 0o600, (0, 0));
    s.mknod("c", S_IFCHR | 0o600, (1, 3));
    s.mknod("s", S_IFSOCK | 0o600, (0, 0));
    for path in ["d", "l", "p", "c", "s"] {
        for name in [
            "user.x",
            "trusted.x",
            "security.x",
            "system.posix_acl_access",
        ] {
            s.setxattr(path, name, b"v", 0);
            s.getxattr(path, name, 10);
        }
        s.listxattr(path, 1000);
        s.removexattr(path, "user.x");
        s.removexattr(path, "trusted.x");
    }
    let answer = call!(
        setxattr,
        c"l".as_ptr(),
        c"user.y".as_ptr(),
        c"v".as_ptr().cast(),
        1,
        0
    );
    s.done("setxattr through a link", answer);
    s.listxattr("d", 1000);
}

fn capability(s: &mut Scene) {
    let mut value = [0u8; 20];
    value[..4].copy_from_slice(&0x0200_0001u32.to_le_bytes());
    value[5] = 4;
    let name = "security.capability";
    let fd = s.file("f", 100);
    s.chmod("f", 0o777);
    let again = |s: &mut Scene| s.setxattr("f", name, &value, 0);
    again(s);
    s.getxattr("f", name, 100);
    s.write(fd, b"by root");
    s.getxattr("f", name, 100);
    again(s);
    s.as_user(1001, &[1001], |s| {
        let own = s.open("f", O_RDWR, 0);
        s.write(own, b"by a user");
        s.getxattr("f", name, 100);
        s.setxattr("f", name, &value, 0);
    });
    again(s);
    s.ftruncate(fd, 5);
    s.getxattr("f", name, 100);
    again(s);
    s.chown("f", 1001, -1);
    s.getxattr("f", name, 100);
    again(s);
    s.chmod("f", 0o755);
    s.getxattr("f", name, 100);
    s.fallocate(fd, 0, 0, 10_000);
    s.getxattr("f", name, 100);
    s.link("f", "g");
    s.rename("g", "h");
    s.getxattr("h", name, 100);
    s.setxattr("f", name, &value[..7], 0);
    s.removexattr("f", name);
}
