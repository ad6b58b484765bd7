//! mq_getattr(3), mq_setattr(3).

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
