//! mq_getattr(3), mq_setattr(3).
//!
//! | documented | shown by |
//! | --- | --- |
//! | `EBADF` | `errors` |
//! | `EINVAL`: other flags than `O_NONBLOCK` | `errors` |
//! | `O_NONBLOCK` is set, of this description; all else is ignored; what was is given | `attributes` |
//! | `mq_curmsgs` | `attributes`, `who_waits_does_not_count` |

use crate::mq::*;
use libc::{EAGAIN, EBADF, EINVAL};

#[test]
fn attributes() {
    both(|mq| {
        let nonblock = i64::from(O_NONBLOCK);
        let d = mq.small(b"/q", O_NONBLOCK);
        mq.send(d, b"x", 0).expect("fits");
        let want = Attr {
            flags: nonblock,
            maxmsg: 3,
            msgsize: 16,
            curmsgs: 1,
        };
        assert_eq!(mq.getattr(d), Ok(want));
        let other = mq.open(b"/q", O_RDONLY, 0, None).expect("opens");
        assert_eq!(mq.getattr(other), Ok(Attr { flags: 0, ..want }));
        assert_eq!(mq.setattr(d, 0), Ok(want), "as it was before");
        assert_eq!(mq.getattr(d), Ok(Attr { flags: 0, ..want }));
        assert_eq!(mq.setattr(other, nonblock), Ok(Attr { flags: 0, ..want }));
        assert_eq!(mq.getattr(d).map(|a| a.flags), Ok(0), "another description");
        mq.receive(other, 16).expect("has one");
        assert_eq!(mq.receive(other, 16), Err(EAGAIN));
    });
}

#[test]
fn errors() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        assert_eq!(mq.getattr(mq.closed()), Err(EBADF));
        assert_eq!(mq.setattr(mq.closed(), 0), Err(EBADF));
        for bad in [1, i64::from(O_CREAT), i64::from(O_NONBLOCK) | 1, -1] {
            assert_eq!(mq.setattr(d, bad), Err(EINVAL));
        }
        assert_eq!(mq.getattr(d).map(|a| a.flags), Ok(0));
    });
}

#[test]
fn who_waits_does_not_count() {
    both(|mq| {
        let d = mq.open(b"/q", O_CREAT | O_RDWR, 0o600, Some((1, 8)));
        let d = d.expect("opens");
        let curmsgs = || mq.getattr(d).map(|a| a.curmsgs);
        std::thread::scope(|s| {
            s.spawn(move || mq.receive(d, 8).expect("receives"));
            mq.until_waiting(d, 1);
            assert_eq!(curmsgs(), Ok(0));
            mq.send(d, b"1", 0).expect("sent");
        });
        mq.send(d, b"2", 0).expect("fits");
        std::thread::scope(|s| {
            s.spawn(move || mq.send(d, b"3", 0).expect("sends"));
            mq.until_waiting(d, 1);
            assert_eq!(curmsgs(), Ok(1));
            mq.receive(d, 8).expect("there");
        });
        assert_eq!(curmsgs(), Ok(1));
    });
}

/// A call that waits continues to wait, whatever becomes of the flag.
#[test]
fn non_blocking_is_for_calls_to_come() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        std::thread::scope(|s| {
            let receiver = s.spawn(move || mq.receive(d, 16));
            mq.until_waiting(d, 1);
            mq.setattr(d, O_NONBLOCK.into()).expect("sets");
            mq.send(d, b"x", 0).expect("sent");
            let got = receiver.join().expect("no panic");
            assert_eq!(got, Ok((b"x".to_vec(), 0)));
        });
        assert_eq!(mq.receive(d, 16), Err(EAGAIN));
    });
}
