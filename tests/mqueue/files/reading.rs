//! Reading and writing a queue's file, and what else is done with open files.

use crate::mount::{Both, Xattr, beside_the_kernel};
use libc::{E2BIG, EINVAL, EISDIR, ENXIO, EOPNOTSUPP, ERANGE};
use uext4_vfs::Fallocate;

/// Where room is asked for: offset and length.
pub const RANGES: [(u64, u64); 6] = [
    (0, 10),
    (0, 0),
    (1 << 31, 1),
    ((1 << 31) - 2, 1),
    (1 << 62, 1 << 61),
    (0, 1 << 31),
];

pub fn with_queue(both: &Both) {
    both.same("create", |m| m.create("q", 0o600))
        .expect("makes it");
}

#[test]
fn the_status_line() {
    beside_the_kernel(|both| {
        with_queue(both);
        let read = |what: &str| both.same(what, |m| m.read("q", 0, 200)).expect("reads");
        read("empty");
        for bytes in [b"123".as_slice(), b"", &[0; 8000]] {
            both.same("send", |m| m.mq_send("q", bytes)).expect("fits");
        }
        let line = read("three messages");
        assert!(line.starts_with("QSIZE:8003 "), "{line}");
        let len = line.len() as u64;
        for offset in [0, 3, 6, len - 1, len, len + 1, 80, 1 << 40, 1 << 62] {
            for n in [0, 1, 10, 200] {
                both.same("a part", |m| m.read("q", offset, n))
                    .expect("reads");
            }
        }
        both.same("receive", |m| m.mq_receive("q")).expect("there");
        read("two messages");
        both.same("receive", |m| m.mq_receive("q")).expect("there");
        let registered = |m: &dyn crate::mount::Mount| {
            let mut line = String::new();
            m.notified("q", &mut || line = m.read("q", 0, 200).expect("reads"));
            line
        };
        let line = both.same("registered", registered);
        assert!(line.contains("NOTIFY:1 "), "{line}");
        read("closed");
        assert_eq!(
            both.same("the directory", |m| m.read(".", 0, 9)),
            Err(EISDIR)
        );
    });
}

#[test]
fn what_a_file_of_a_queue_does_not_do() {
    beside_the_kernel(|both| {
        with_queue(both);
        for n in [1, 100] {
            assert_eq!(both.same("write", |m| m.write("q", n)), Err(EINVAL));
        }
        assert_eq!(both.same("write .", |m| m.write(".", 1)), Err(EISDIR));
        let nowait = both.same("RWF_NOWAIT", |m| m.read_nowait("q"));
        assert_eq!(nowait, Err(EOPNOTSUPP));
        assert_eq!(both.same("O_DIRECT", |m| m.open_direct("q")), Err(EINVAL));
        for name in ["q", "."] {
            assert_eq!(both.same("readlink", |m| m.readlink(name)), Err(EINVAL));
        }
        assert_eq!(both.same("fsync", |m| m.fsync("q")), Err(EINVAL));
        assert_eq!(both.same("fsync .", |m| m.fsync(".")), Ok(()));
        assert_eq!(both.same("syncfs", |m| m.syncfs()), Ok(()));
        both.same("statfs", |m| m.statfs()).expect("is known");
    });
}

#[test]
fn allocating_and_seeking() {
    beside_the_kernel(|both| {
        with_queue(both);
        let whats = [
            Fallocate::Allocate,
            Fallocate::AllocateKeepSize,
            Fallocate::PunchHole,
            Fallocate::ZeroRange,
            Fallocate::ZeroRangeKeepSize,
        ];
        for what in whats {
            for (offset, len) in RANGES {
                let call = format!("{what:?} {offset} {len}");
                both.same(&call, |m| m.fallocate("q", what, offset, len))
                    .expect_err("never");
            }
        }
        both.same("fallocate .", |m| {
            m.fallocate(".", Fallocate::Allocate, 0, 1)
        })
        .expect_err("never");
        for size in [None, Some(0), Some(1000)] {
            if let Some(size) = size {
                both.same("truncate", |m| m.truncate("q", size))
                    .expect("any");
            }
            for offset in [0, 1, 79, 80, 81, 999, 1000, 1 << 40] {
                for hole in [false, true] {
                    both.same("seek", |m| m.seek("q", hole, offset)).ok();
                }
            }
        }
        assert_eq!(both.same("seek", |m| m.seek("q", false, 1000)), Err(ENXIO));
    });
}

#[test]
fn extended_attributes() {
    beside_the_kernel(|both| {
        with_queue(both);
        let long = format!("user.{}", "x".repeat(251));
        for name in ["q", "."] {
            assert_eq!(both.same("list", |m| m.xattr(name, Xattr::List)), Ok(0));
            for attr in [
                "user.x",
                "trusted.x",
                "security.x",
                "system.x",
                "other",
                "user.",
                "",
                &long,
            ] {
                let bad = attr.is_empty() || attr == long;
                let want = if bad { ERANGE } else { EOPNOTSUPP };
                for call in [Xattr::Set(attr, 1), Xattr::Get(attr), Xattr::Remove(attr)] {
                    let answer = both.same(&format!("{call:?}"), |m| m.xattr(name, call));
                    assert_eq!(answer, Err(want));
                }
                let answer = both.same("long", |m| m.xattr(name, Xattr::Set(attr, 65_537)));
                assert_eq!(answer, Err(if bad { ERANGE } else { E2BIG }));
            }
        }
    });
}
