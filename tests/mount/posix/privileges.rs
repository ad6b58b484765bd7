//! Set-id bits and capabilities of a program, which its changed data must not keep.

use crate::*;

const CASES: [Case; 5] = [
    ("privileges_of_a_user", by_user),
    ("privileges_of_a_stranger", by_stranger),
    ("privileges_of_root", by_root),
    ("privileges_and_no_change", unchanged),
    ("privileges_capability", capability),
];

#[rustfmt::skip]
const ALLOWED: [Allowed; 1] = [
    // A request says one group of the caller's, and not the members of the file's.
    ("privileges_of_a_stranger", "mode 100646", "mode 102646"),
];

#[test]
fn privileges_go_with_a_change_of_data() {
    compare(&CASES, &ALLOWED);
}

const CAPABILITY: &str = "security.capability";

/// Memory as direct I/O wants it.
#[repr(align(4096))]
struct Page([u8; 4096]);

static PAGE: Page = Page([b'x'; 4096]);

/// A way to change the data of a file that is open twice, the second time for direct I/O.
type Way = (&'static str, fn(&mut Scene, i32, i32));

#[rustfmt::skip]
const WAYS: [Way; 13] = [
    ("write", |s, fd, _| { let _ = s.pwrite(fd, b"data", 0); }),
    ("append", |s, fd, _| { let _ = s.pwrite(fd, b"data", 1 << 16); }),
    ("vector", |s, fd, _| { s.pwritev2(fd, &[b"da", b"ta"], 0, RWF_DSYNC) }),
    ("direct write", |s, _, fd| { let _ = s.pwrite(fd, &PAGE.0, 0); }),
    ("direct append", |s, _, fd| { let _ = s.pwrite(fd, &PAGE.0, 1 << 20); }),
    ("copy", |s, fd, _| { s.copy_file_range((fd, 0), (fd, 8192), 4096) }),
    ("ftruncate", |s, fd, _| s.ftruncate(fd, 5000)),
    ("open", |s, _, _| { let _ = s.open("f", O_WRONLY | O_TRUNC, 0); }),
    ("allocate", |s, fd, _| s.fallocate(fd, 0, 0, 1 << 17)),
    ("allocate, size kept", |s, fd, _| { s.fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1 << 18); }),
    ("punch", |s, fd, _| { s.fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096); }),
    ("zero", |s, fd, _| { s.fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 1 << 17) }),
    ("zero, size kept", |s, fd, _| { s.fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, 4096); }),
];

/// A file with these bits and a capability.
fn prepare(s: &mut Scene, mode: u32) {
    let fd = s.file("f", 10_000);
    s.close(fd);
    s.chown("f", 1001, 1001);
    s.chmod("f", mode);
    set_capability(s);
}

fn set_capability(s: &mut Scene) {
    let mut value = [0u8; 20];
    value[..4].copy_from_slice(&0x0200_0001u32.to_le_bytes());
    value[5] = 4;
    s.setxattr("f", CAPABILITY, &value, 0);
}

/// What is left, as the kernel knows it and as the file system has it.
fn look(s: &mut Scene) {
    let mode = |flags: i32| {
        // SAFETY: all zeros are a `statx`.
        let mut x: statx = unsafe { std::mem::zeroed() };
        call!(
            statx,
            AT_FDCWD,
            c"f".as_ptr(),
            flags,
            STATX_MODE,
            &raw mut x
        )
        .expect("a file");
        x.stx_mode
    };
    let (known, real) = (mode(AT_STATX_SYNC_AS_STAT), mode(AT_STATX_FORCE_SYNC));
    s.line(format_args!("mode {known:o}, really {real:o}"));
    s.getxattr("f", CAPABILITY, 100);
}

fn each_way(s: &mut Scene, user: Option<u32>, mode: u32) {
    for (name, way) in WAYS {
        s.line(format_args!("{name}, mode {mode:o}"));
        prepare(s, mode);
        let change = |s: &mut Scene| {
            let fd = s.open("f", O_RDWR, 0);
            let direct = s.open("f", O_RDWR | O_DIRECT, 0);
            way(s, fd, direct);
            s.close(fd);
            s.close(direct);
        };
        match user {
            Some(user) => s.as_user(user, &[user], change),
            None => change(s),
        }
        look(s);
        s.unlink("f");
    }
}

fn by_user(s: &mut Scene) {
    for mode in [0o4755, 0o2755, 0o6777, 0o2644, 0o755] {
        each_way(s, Some(1001), mode);
    }
    each_way(s, Some(1002), 0o6777);
}

/// The bit of a group that may not execute the file gives nothing away.
fn by_stranger(s: &mut Scene) {
    each_way(s, Some(1002), 0o2646);
}

fn by_root(s: &mut Scene) {
    each_way(s, None, 0o6777);
}

/// Calls that change nothing: of no bytes, and such that fail.
fn unchanged(s: &mut Scene) {
    prepare(s, 0o6777);
    s.as_user(1001, &[1001], |s| {
        let fd = s.open("f", O_RDWR, 0);
        s.pwrite(fd, b"", 0);
        look(s);
        s.fallocate(fd, 0, -1, 5);
        s.fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 5);
        s.fallocate(fd, 0, 0, 0);
        s.ftruncate(fd, -1);
        look(s);
        s.copy_file_range((fd, 1 << 20), (fd, 0), 10);
        look(s);
        s.ftruncate(fd, 10_000);
        look(s);
    });
}

/// A capability alone, by a caller that may set one and by one that may not.
fn capability(s: &mut Scene) {
    for user in [None, Some(1001)] {
        each_way(s, user, 0o700);
    }
    // Twice: what is known to be gone is not searched again.
    prepare(s, 0o700);
    let fd = s.open("f", O_RDWR | O_DIRECT, 0);
    for _ in 0..2 {
        s.pwrite(fd, &PAGE.0, 0);
        s.getxattr("f", CAPABILITY, 100);
        set_capability(s);
        call!(fsync, fd).expect("a file");
    }
    s.fallocate(fd, 0, 0, 4096);
    s.getxattr("f", CAPABILITY, 100);
}
