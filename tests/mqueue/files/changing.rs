//! Owner, mode, times and length.

use crate::mount::{Both, Time, beside_the_kernel};
use libc::{EFBIG, EISDIR, EPERM};

fn stat(both: &Both, what: &str, name: &str) -> crate::mount::Stat {
    both.same(what, |m| m.stat(name)).expect("is there")
}

#[test]
fn owner_and_mode() {
    beside_the_kernel(|both| {
        both.same("create", |m| m.create("q", 0o600))
            .expect("makes it");
        for mode in [0o666, 0o7777, 0o1640, 0] {
            both.same("chmod", |m| m.chmod("q", mode)).expect("may");
            assert_eq!(stat(both, "chmod", "q").mode, mode);
        }
        for mode in [0o6777, 0o6767, 0o2767] {
            both.same("chmod", |m| m.chmod("q", mode)).expect("may");
            both.same("chown", |m| m.chown("q", Some(4811), Some(4812)))
                .expect("may");
            stat(both, "chown", "q");
            both.same("chown", |m| m.chown("q", None, Some(4811)))
                .expect("may");
            stat(both, "chgrp", "q");
        }
        both.same("a user", |m| m.become_user(4811));
        both.same("its chmod", |m| m.chmod("q", 0o2777))
            .expect("may");
        stat(both, "its chmod", "q");
        both.same("its truncate", |m| m.truncate("q", 1))
            .expect("may");
        stat(both, "its truncate", "q");
        for (uid, gid) in [
            (Some(4811), None),
            (Some(4812), None),
            (None, Some(4811)),
            (None, Some(4812)),
        ] {
            both.same("chown by a user", |m| m.chown("q", uid, gid))
                .ok();
        }
        both.same("another user", |m| m.become_user(4812));
        assert_eq!(both.same("chmod", |m| m.chmod("q", 0)), Err(EPERM));
        assert_eq!(
            both.same("chown", |m| m.chown("q", None, Some(4812))),
            Err(EPERM)
        );
        assert_eq!(both.same("chmod", |m| m.chmod(".", 0)), Err(EPERM));
        both.same("root", |m| m.become_user(0));
        stat(both, "at the end", "q");
    });
}

#[test]
fn times() {
    beside_the_kernel(|both| {
        both.same("create", |m| m.create("q", 0o666))
            .expect("makes it");
        let set = || {
            both.same("utimes", |m| m.utimes("q", Some((5, 6))))
                .expect("may")
        };
        let times = |what: &str| stat(both, what, "q").times;
        let [a, m, now] = [Time::Set(5), Time::Set(6), Time::Clock];
        set();
        assert_eq!(times("set"), [a, m, now]);
        both.same("chmod", |m| m.chmod("q", 0o666)).expect("may");
        assert_eq!(times("chmod"), [a, m, now]);
        both.same("truncate", |m| m.truncate("q", 7)).expect("may");
        assert_eq!(times("truncate"), [a, m, now]);
        both.same("reading nothing", |m| m.read("q", 0, 0))
            .expect("may");
        both.same("reading the end", |m| m.read("q", 500, 9))
            .expect("may");
        assert_eq!(times("nothing read"), [a, m, now]);
        // The clock has to tick: a time that was set holds until then.
        let tick = || std::thread::sleep(std::time::Duration::from_millis(20));
        tick();
        both.same("reading", |m| m.read("q", 0, 9)).expect("may");
        assert_eq!(times("read"), [now, m, now]);
        set();
        tick();
        both.same("send", |m| m.mq_send("q", b"x")).expect("fits");
        assert_eq!(times("sent"), [now, now, now]);
        set();
        tick();
        assert_eq!(both.same("receive", |m| m.mq_receive("q")), Ok(1));
        assert_eq!(times("received"), [now, now, now]);
        set();
        both.same("utimes now", |m| m.utimes("q", None))
            .expect("may");
        assert_eq!(times("now"), [now, now, now]);
        both.same("a user", |m| m.become_user(4821));
        assert_eq!(
            both.same("a user", |m| m.utimes("q", Some((5, 6)))),
            Err(EPERM)
        );
        assert_eq!(
            both.same("a user may write", |m| m.utimes("q", None)),
            Ok(())
        );
        both.same("the directory", |m| m.utimes(".", None))
            .expect("it may write it");
        both.same("the directory", |m| m.utimes(".", Some((5, 6))))
            .expect_err("no owner");
    });
}

#[test]
fn length() {
    beside_the_kernel(|both| {
        both.same("create", |m| m.create("q", 0o600))
            .expect("makes it");
        let line = both.same("read", |m| m.read("q", 0, 200));
        for size in [0, 5, 80, 1 << 20, (1 << 31) - 1] {
            both.same("truncate", |m| m.truncate("q", size))
                .expect("any");
            assert_eq!(stat(both, "truncate", "q").size, size);
            assert_eq!(
                both.same("read", |m| m.read("q", 0, 200)),
                line,
                "says nothing"
            );
        }
        for size in [1 << 31, 1 << 32, 1 << 62, i64::MAX.cast_unsigned()] {
            let answer = both.same("truncate", |m| m.truncate("q", size));
            assert_eq!(answer, Err(EFBIG));
        }
        both.same("O_TRUNC", |m| m.open_truncate("q")).expect("may");
        assert_eq!(stat(both, "O_TRUNC", "q").size, 0);
        assert_eq!(both.same("truncate .", |m| m.truncate(".", 0)), Err(EISDIR));
        both.same("a user", |m| m.become_user(4831));
        both.same("truncate", |m| m.truncate("q", 1))
            .expect_err("may not");
        both.same("O_TRUNC", |m| m.open_truncate("q"))
            .expect_err("may not");
    });
}
