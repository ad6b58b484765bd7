//! What a mount answers as Linux's does, and the library alone cannot be asked, or answers otherwise.

use crate::mount::{Both, Xattr, beside_the_kernel};
use crate::reading::with_queue;
use libc::{EACCES, ENODATA, EPERM};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Opens in the directory of either side, and closes again.
fn open(both: &Both, name: &str, flags: OFlags) -> Result<(), Errno> {
    let open =
        |dir: &OwnedFd| rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o666)).map(drop);
    let (ours, linux) = (open(&both.ours.fd), open(&both.kernel.fd));
    assert_eq!(ours, linux, "{name} {flags:?}: uext4 on the left");
    ours
}

#[test]
fn extended_attributes_without_permission() {
    beside_the_kernel(|both| {
        with_queue(both);
        both.same("a user", |m| m.become_user(4871));
        let answer = |call| both.same(&format!("{call:?}"), |m| m.xattr("q", call));
        assert_eq!(answer(Xattr::Get("user.x")), Err(EACCES));
        assert_eq!(answer(Xattr::Get("trusted.x")), Err(ENODATA));
        assert_eq!(answer(Xattr::Set("trusted.x", 1)), Err(EPERM));
    });
}

#[test]
fn links_to_what_belongs_to_others() {
    beside_the_kernel(|both| {
        with_queue(both);
        for mode in [0o755, 0o1777] {
            both.same("root", |m| m.become_user(0));
            both.same("chmod", |m| m.chmod(".", mode)).expect("may");
            both.same("a user", |m| m.become_user(4872));
            both.same("link", |m| m.link("q", "n")).expect_err("never");
        }
    });
}

#[test]
fn queues_made_under_a_umask() {
    beside_the_kernel(|both| {
        for umask in [0o22, 0o777, 0o77, 0] {
            let name = format!("q{umask}");
            both.same("umask", |_| {
                rustix::process::umask(Mode::from_raw_mode(umask));
            });
            both.same("create", |m| m.create(&name, 0o2766))
                .expect("makes it");
            both.same("mq_open", |m| m.mq_open("mq", true, true))
                .expect("makes it");
            let made = both.same("made", |m| m.stat(&name)).expect("is there");
            assert_eq!(made.mode, 0o2766 & !umask);
            both.same("made by mq_open", |m| m.stat("mq"))
                .expect("is there");
            both.same("unlink", |m| m.unlink("mq")).expect("goes");
        }
    });
}

#[test]
fn flags_of_open() {
    beside_the_kernel(|both| {
        with_queue(both);
        both.same("truncate", |m| m.truncate("q", 5)).expect("any");
        let direct = OFlags::DIRECT | OFlags::RDWR;
        for flags in [direct, direct | OFlags::TRUNC, direct | OFlags::CREATE] {
            assert_eq!(open(both, "q", flags), Err(Errno::INVAL));
        }
        let left = both.same("not cut", |m| m.stat("q")).expect("is there");
        assert_eq!(left.size, 5);
        for flags in [OFlags::APPEND, OFlags::SYNC, OFlags::NOATIME] {
            assert_eq!(open(both, "q", flags | OFlags::RDWR), Ok(()));
        }
        assert_eq!(open(both, "q", OFlags::DIRECTORY), Err(Errno::NOTDIR));
        let exclusive = OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC | OFlags::WRONLY;
        assert_eq!(open(both, "newer", exclusive), Ok(()));
        both.same("list", |m| m.list()).expect("lists");
        both.same("a user", |m| m.become_user(4873));
        assert_eq!(open(both, "q", direct), Err(Errno::ACCESS));
    });
}
