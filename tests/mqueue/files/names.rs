//! Names that come and go.

use crate::mount::{Both, Mount, Time, beside_the_kernel};
use libc::{EBUSY, EEXIST, EINVAL, EMFILE, ENOENT, ENOSPC, ENOTEMPTY, EPERM};
use uext4_vfs::FileKind;

const KINDS: [FileKind; 6] = [
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::CharDevice,
    FileKind::BlockDevice,
    FileKind::Fifo,
    FileKind::Socket,
];

type Step = (&'static str, fn(&dyn Mount));

fn long() -> String {
    "x".repeat(256)
}

#[test]
fn a_queue_comes_and_goes() {
    beside_the_kernel(|both| {
        let names = |both: &Both| -> Vec<String> {
            let names = both.same("list", |m| m.list()).expect("can be read");
            names.into_iter().map(|(name, _)| name).collect()
        };
        let root = both.same("root", |m| m.stat(".")).expect("is there");
        assert_eq!((root.mode, root.size), (0o1777, 40));
        assert_eq!(names(both), [".", ".."]);
        for mode in [0o600, 0o666, 0o7777, 0] {
            let name = format!("q{mode}");
            assert_eq!(both.same("create", |m| m.create(&name, mode)), Ok(()));
            both.same("stat", |m| m.stat(&name)).expect("is there");
        }
        assert_eq!(
            both.same("mknod", |m| m.make("n", FileKind::Regular)),
            Ok(())
        );
        both.same("opened by its name", |m| m.mq_open("n", false, false))
            .expect("opens");
        both.same("made by mq_open", |m| m.mq_open("mq", true, true))
            .expect("opens");
        assert_eq!(names(both).len(), 8);
        let root = both.same("root", |m| m.stat(".")).expect("is there");
        assert_eq!((root.size, root.nlink), (160, 2));
        both.same("no such name", |m| m.unlink("none"))
            .expect_err("is not there");
        assert_eq!(both.same("unlink", |m| m.unlink("mq")), Ok(()));
        assert_eq!(both.same("mq_unlink", |m| m.mq_unlink("n")), Ok(()));
        assert_eq!(
            both.same("gone", |m| m.mq_open("mq", false, false)),
            Err(ENOENT)
        );
        let open = both.same("open and unlinked", |m| m.unlink_open("q384"));
        assert_eq!(open.map(|s| s.nlink), Ok(0));
        assert_eq!(names(both), [".", "..", "q0", "q4095", "q438"]);
    });
}

#[test]
fn what_is_no_queue() {
    beside_the_kernel(|both| {
        both.same("create", |m| m.create("q", 0o600))
            .expect("makes it");
        for kind in KINDS {
            let make = |name: &str| both.same(&format!("{kind:?}"), |m| m.make(name, kind));
            assert_eq!(make("new"), Err(EPERM));
            assert_eq!(make("q"), Err(EEXIST));
            assert_eq!(make("."), Err(EEXIST));
            make(&long()).expect_err("is too long");
        }
        assert_eq!(both.same("create", |m| m.create("q", 0o600)), Err(EEXIST));
        both.same("create", |m| m.create(&long(), 0o600))
            .expect_err("is too long");
        both.same("stat", |m| m.stat(&long()))
            .expect_err("is too long");
        both.same("unlink", |m| m.unlink(&long()))
            .expect_err("is too long");
        both.same("rmdir", |m| m.rmdir(&long()))
            .expect_err("is too long");
        both.same("unlink .", |m| m.unlink("."))
            .expect_err("a directory");
        both.same("unlink ..", |m| m.unlink(".."))
            .expect_err("a directory");
        assert_eq!(both.same("rmdir .", |m| m.rmdir(".")), Err(EINVAL));
        assert_eq!(both.same("rmdir ..", |m| m.rmdir("..")), Err(ENOTEMPTY));
        both.same("rmdir of a queue", |m| m.rmdir("q"))
            .expect_err("no directory");
        both.same("rmdir of nothing", |m| m.rmdir("none"))
            .expect_err("not there");
        both.same("tmpfile", |m| m.tmpfile()).expect_err("not here");
    });
}

#[test]
fn a_queue_keeps_its_one_name() {
    beside_the_kernel(|both| {
        for name in ["a", "b"] {
            both.same("create", |m| m.create(name, 0o600))
                .expect("makes it");
        }
        let long = long();
        let names = ["a", "b", "none", "none2", ".", "..", &long];
        for old in names {
            for new in names {
                for flags in 0..8 {
                    let what = format!("rename {old:.9} {new:.9} {flags}");
                    let answer = both.same(&what, |m| m.rename(old, new, flags));
                    assert!(answer.is_err() || old == new, "{what}");
                }
                // There, `..` is on another file system.
                if old != ".." {
                    let what = format!("link {old:.9} {new:.9}");
                    let answer = both.same(&what, |m| m.link(old, new));
                    assert!(answer.is_err(), "{what}");
                }
            }
        }
        assert_eq!(both.same("rename", |m| m.rename("a", "c", 0)), Err(EPERM));
        assert_eq!(both.same("link", |m| m.link("a", "c")), Err(EPERM));
        assert_eq!(both.same("rename", |m| m.rename(".", "c", 0)), Err(EBUSY));
        both.same("list", |m| m.list()).expect("as before");
    });
}

#[test]
fn limits() {
    beside_the_kernel(|both| {
        both.same("a user", |m| m.become_user(4801));
        let make = |n: u8| both.same("create", |m| m.create(&n.to_string(), 0o600));
        for n in 0..9 {
            assert_eq!(make(n), Ok(()));
        }
        assert_eq!(make(9), Err(EMFILE));
        both.same("unlink", |m| m.unlink("0")).expect("goes");
        assert_eq!(make(9), Ok(()), "it was not open");
        both.same("root", |m| m.become_user(0));
        both.same("max", |m| m.set_queues_max(9));
        both.same("another user", |m| m.become_user(4802));
        assert_eq!(make(10), Err(ENOSPC));
        both.same("mkdir", |m| m.make("d", FileKind::Directory))
            .expect_err("never");
        assert_eq!(
            both.same("mq_open", |m| m.mq_open("q", true, true)),
            Err(ENOSPC)
        );
        both.same("root", |m| m.become_user(0));
        for n in 1..10 {
            both.same("unlink", |m| m.unlink(&n.to_string()))
                .expect("goes");
        }
        assert_eq!(make(10), Ok(()));
    });
}

#[test]
fn times_of_the_directory() {
    beside_the_kernel(|both| {
        let set = || {
            both.same("utimes", |m| m.utimes(".", Some((5, 6))))
                .expect("root may")
        };
        let times = |what: &str| both.same(what, |m| m.stat(".")).expect("is there").times;
        let (set_5, set_6) = (Time::Set(5), Time::Set(6));
        set();
        assert_eq!(times("set"), [set_5, set_6, Time::Clock]);
        let steps: [Step; 4] = [
            ("create", |m| m.create("q", 0o600).expect("makes it")),
            ("read", |m| m.read("q", 0, 100).map(drop).expect("reads")),
            ("unlink", |m| m.unlink("q").expect("goes")),
            ("list", |m| m.list().map(drop).expect("lists")),
        ];
        for (what, step) in steps {
            set();
            both.same(what, step);
            times(what);
        }
    });
}
