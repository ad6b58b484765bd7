//! mq_open(3).
//!
//! | documented | shown by |
//! | --- | --- |
//! | `EACCES`: the mode of a queue that exists; more than one slash | `permissions`, `a_mode_for_each_class`; `names` |
//! | `EEXIST` | `creating` |
//! | `EINVAL`: no slash; `mq_maxmsg`, `mq_msgsize`; neither reading nor writing | `names`; `sizes`; `permissions` |
//! | `EMFILE`: bytes of the user (of descriptors: the front end's) | `limits_of_a_user` |
//! | `ENAMETOOLONG` | `names` |
//! | `ENOENT`: nothing has the name; the name is a slash | `creating`; `names` |
//! | `ENOSPC`: `queues_max` | `limits_of_a_namespace` |
//! | `ENFILE`, `ENOMEM` | left to the front end and the machine |
//! | mode with the umask applied; effective user and group | `mode_and_owner` |
//! | attributes: default, limits, those of a queue that exists stay | `sizes`, `default_sizes`; `creating` |
//! | `O_NONBLOCK` of one description | `mq_getattr::attributes` |
//! | `O_EXCL` alone means nothing | `creating` |

use crate::mq::*;
use libc::{EACCES, EEXIST, EINVAL, EMFILE, ENAMETOOLONG, ENOENT, ENOSPC};

#[test]
fn names() {
    both(|mq| {
        let make = |name: &[u8]| {
            let made = mq.open(name, O_CREAT | O_RDWR, 0o600, Some((1, 8)));
            made.map(|d| mq.close(d).expect("closes"))
        };
        assert_eq!(make(b"no-slash"), Err(EINVAL));
        assert_eq!(make(b""), Err(EINVAL));
        assert_eq!(make(b"/"), Err(ENOENT));
        assert_eq!(make(b"/a/b"), Err(EACCES));
        assert_eq!(make(b"//a"), Err(EACCES));
        assert_eq!(make(b"/."), Err(EACCES));
        assert_eq!(make(b"/.."), Err(EACCES));
        assert_eq!(make(b"/..."), Ok(()));
        let long = |n: usize| [b"/".as_slice(), &vec![b'x'; n]].concat();
        assert_eq!(make(&long(255)), Ok(()));
        assert_eq!(make(&long(256)), Err(ENAMETOOLONG));
        assert_eq!(make(&long(5000)), Err(ENAMETOOLONG));
        let slashed = [long(300).as_slice(), b"/x"].concat();
        assert_eq!(make(&slashed), Err(EACCES));
        let slashed = [long(4096).as_slice(), b"/x"].concat();
        assert_eq!(make(&slashed), Err(ENAMETOOLONG));
    });
}

#[test]
fn creating() {
    both(|mq| {
        assert_eq!(mq.open(b"/q", O_RDWR, 0, None), Err(ENOENT));
        let d = mq.small(b"/q", 0);
        assert_eq!(
            mq.open(b"/q", O_CREAT | O_EXCL | O_RDWR, 0o600, None),
            Err(EEXIST)
        );
        // Mode and size of a queue that exists are ignored.
        let again = mq.open(b"/q", O_CREAT | O_RDWR, 0, Some((-1, -1)));
        assert_eq!(mq.getattr(again.expect("opens")), mq.getattr(d));
        mq.open(b"/q", O_EXCL | O_RDWR, 0, None).expect("opens");
        // A mode that allows nothing does not concern the maker of the queue.
        mq.become_user(4711);
        let d = mq.open(b"/mine", O_CREAT | O_RDWR, 0, Some((1, 8)));
        mq.send(d.expect("opens"), b"x", 0).expect("sends");
        assert_eq!(mq.open(b"/mine", O_RDONLY, 0, None), Err(EACCES));
        mq.become_user(0);
    });
}

#[test]
fn sizes() {
    both(|mq| {
        let make = |name: &[u8], size| {
            let d = mq.open(name, O_CREAT | O_EXCL | O_RDWR, 0o600, size)?;
            let attr = mq.getattr(d).expect("open");
            mq.close(d).and_then(|()| mq.unlink(name)).expect("goes");
            Ok((attr.maxmsg, attr.msgsize))
        };
        for user in [0, 4711] {
            mq.become_user(user);
            assert_eq!(make(b"/q", None), Ok((10, 8192)));
            assert_eq!(make(b"/q", Some((1, 1))), Ok((1, 1)));
            for bad in [(0, 1), (1, 0), (-1, 1), (1, -1), (65_537, 1), (1, 1 << 25)] {
                assert_eq!(make(b"/q", Some(bad)), Err(EINVAL), "{bad:?} by {user}");
            }
            assert_eq!(make(b"/q", Some((i64::MAX, i64::MAX))), Err(EINVAL));
        }
        assert_eq!(make(b"/q", Some((11, 1))), Err(EINVAL));
        assert_eq!(make(b"/q", Some((1, 8193))), Err(EINVAL));
        mq.become_user(0);
        let beyond = make(b"/q", Some((11, 8193)));
        let far_beyond = make(b"/q", Some((65_536, 1 << 24)));
        if mq.root_has_no_limits() {
            assert_eq!((beyond, far_beyond), (Ok((11, 8193)), Err(EMFILE)));
        } else {
            assert_eq!((beyond, far_beyond), (Err(EINVAL), Err(EINVAL)));
        }
    });
}

#[test]
fn permissions() {
    both(|mq| {
        let open = |flags| mq.open(b"/q", flags, 0, None).map(|d| mq.close(d));
        mq.become_user(4711);
        let d = mq.open(b"/q", O_CREAT | O_RDWR, 0o642, Some((1, 8)));
        let d = d.expect("opens");
        assert_eq!(open(O_RDWR), Ok(Ok(())));
        mq.become_user(0);
        mq.become_user(4712);
        assert_eq!(open(O_RDONLY), Err(EACCES));
        // The umask of a test run takes the write bit of others.
        assert_eq!(open(O_RDWR), Err(EACCES));
        mq.become_user(0);
        assert_eq!(open(O_RDWR), Ok(Ok(())));
        assert_eq!(open(O_RDWR | O_WRONLY), Err(EINVAL));
        mq.close(d).expect("closes");
    });
}

#[test]
fn limits_of_a_user() {
    both(|mq| {
        mq.become_user(4713);
        let make = |n: u8| mq.open(&[b'/', b'a' + n], O_CREAT | O_RDWR, 0o600, None);
        let open: Vec<_> = (0..9).map(|n| make(n).expect("fits")).collect();
        assert_eq!(make(9), Err(EMFILE));
        // What is unlinked counts until it is closed.
        mq.unlink(b"/a").expect("unlinks");
        assert_eq!(make(9), Err(EMFILE));
        mq.close(open[0]).expect("closes");
        make(9).expect("fits again");
        mq.become_user(0);
    });
}

#[test]
fn limits_of_a_namespace() {
    both(|mq| {
        mq.set_limit("queues_max", 2);
        mq.become_user(4714);
        let make = |n: u8| mq.open(&[b'/', b'a' + n], O_CREAT | O_RDWR, 0o600, Some((1, 8)));
        let first = make(0).expect("fits");
        make(1).expect("fits");
        assert_eq!(make(2), Err(ENOSPC));
        let bad = mq.open(b"/c", O_CREAT | O_RDWR, 0o600, Some((0, 0)));
        assert_eq!(bad, Err(ENOSPC), "checked before the size");
        mq.unlink(b"/a").expect("unlinks");
        assert_eq!(make(2), Err(ENOSPC));
        mq.close(first).expect("closes");
        make(2).expect("fits again");
        mq.become_user(0);
        let more = make(3).map(drop);
        if mq.root_has_no_limits() {
            assert_eq!(more, Ok(()));
        } else {
            assert_eq!(more, Err(ENOSPC));
        }
    });
}

#[test]
fn mode_and_owner() {
    both(|mq| {
        let make = |name: &[u8], mode| {
            let d = mq.open(name, O_CREAT | O_RDWR, mode, Some((1, 8)));
            mq.stat(d.expect("opens"))
        };
        mq.umask(0o027);
        assert_eq!(make(b"/a", 0o666).mode, 0o640);
        mq.umask(0);
        assert_eq!(make(b"/b", 0o666).mode, 0o666);
        assert_eq!(make(b"/b", 0o600).mode, 0o666, "stays");
        mq.become_user(4721);
        let want = File {
            mode: 0o604,
            nlink: 1,
            owner: (4721, 4721),
        };
        assert_eq!(make(b"/c", 0o604), want);
        mq.become_user(0);
    });
}

#[test]
fn a_mode_for_each_class() {
    both(|mq| {
        mq.umask(0);
        mq.become_user(4722);
        for mode in [0o600, 0o400, 0o200, 0o060, 0o006, 0o004, 0o002, 0] {
            let d = mq.open(b"/q", O_CREAT | O_EXCL | O_RDWR, mode, Some((1, 8)));
            let d = d.expect("opens");
            for (user, shift) in [(4722, 6), (4723, 0)] {
                mq.become_user(user);
                let bits = mode >> shift & 7;
                for (flags, needs) in [(O_RDONLY, 4), (O_WRONLY, 2), (O_RDWR, 6)] {
                    let want = if bits & needs == needs {
                        Ok(())
                    } else {
                        Err(EACCES)
                    };
                    let created = mq.open(b"/q", flags | O_CREAT, 0o666, None);
                    let opened = mq.open(b"/q", flags, 0, None);
                    for open in [opened, created] {
                        let answer = open.map(|d| mq.close(d).expect("closes"));
                        assert_eq!(answer, want, "{mode:o} by {user}");
                    }
                }
            }
            mq.become_user(4722);
            mq.unlink(b"/q").and_then(|()| mq.close(d)).expect("goes");
        }
        mq.become_user(0);
    });
}

#[test]
fn default_sizes() {
    both(|mq| {
        let made = || {
            let d = mq.open(b"/q", O_CREAT | O_EXCL | O_RDWR, 0o600, None);
            let d = d.expect("opens");
            let attr = mq.getattr(d).expect("open");
            mq.unlink(b"/q").and_then(|()| mq.close(d)).expect("goes");
            (attr.maxmsg, attr.msgsize)
        };
        mq.set_limit("msg_default", 7);
        mq.set_limit("msgsize_default", 777);
        assert_eq!(made(), (7, 777));
        mq.set_limit("msg_default", 20);
        mq.set_limit("msgsize_default", 9000);
        assert_eq!(made(), (10, 8192), "no more than may be asked for");
        mq.set_limit("msg_max", 30);
        mq.set_limit("msgsize_max", 10_000);
        assert_eq!(made(), (20, 9000));
        mq.become_user(4724);
        let make = |size| mq.open(b"/u", O_CREAT | O_RDWR, 0o600, Some(size));
        assert_eq!(make((31, 1)), Err(EINVAL));
        assert_eq!(make((1, 10_001)), Err(EINVAL));
        assert_eq!(make((30, 10_000)).map(drop), Ok(()));
        mq.become_user(0);
    });
}
