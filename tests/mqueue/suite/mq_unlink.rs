//! mq_unlink(3).
//!
//! | documented | shown by |
//! | --- | --- |
//! | `EACCES` | `the_root_directory_is_sticky` |
//! | `ENAMETOOLONG`, `ENOENT` | `names` |
//! | the name goes at once, the queue with the last description | `unlinking`, `the_last_one_lets_it_go` |

use crate::mq::*;
use libc::{EACCES, EINVAL, ENAMETOOLONG, ENOENT};

#[test]
fn unlinking() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        mq.unlink(b"/q").expect("unlinks");
        assert_eq!(mq.unlink(b"/q"), Err(ENOENT));
        assert_eq!(mq.open(b"/q", O_RDWR, 0, None), Err(ENOENT));
        mq.send(d, b"old", 0).expect("lives while it is open");
        let new = mq.small(b"/q", O_NONBLOCK);
        assert_eq!(mq.receive(new, 16), Err(libc::EAGAIN), "another queue");
        assert_eq!(mq.receive(d, 16), Ok((b"old".to_vec(), 0)));
    });
}

#[test]
fn names() {
    both(|mq| {
        assert_eq!(mq.unlink(b"none"), Err(EINVAL));
        assert_eq!(mq.unlink(b"/"), Err(ENOENT));
        assert_eq!(mq.unlink(b"/none"), Err(ENOENT));
        assert_eq!(mq.unlink(b"/a/b"), Err(EACCES));
        assert_eq!(mq.unlink(b"/."), Err(EACCES));
        assert_eq!(
            mq.unlink(&[b"/".as_slice(), &[b'x'; 256]].concat()),
            Err(ENAMETOOLONG)
        );
    });
}

#[test]
fn the_root_directory_is_sticky() {
    both(|mq| {
        mq.become_user(4711);
        let d = mq.open(b"/q", O_CREAT | O_RDWR, 0o666, Some((1, 8)));
        d.expect("opens");
        mq.become_user(0);
        mq.become_user(4712);
        assert_eq!(mq.unlink(b"/q"), Err(EACCES));
        mq.become_user(0);
        assert_eq!(mq.unlink(b"/q"), Ok(()));
    });
}

#[test]
fn the_last_one_lets_it_go() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        let other = mq.open(b"/q", O_RDWR, 0, None).expect("opens");
        assert_eq!(mq.stat(d).nlink, 1);
        mq.unlink(b"/q").expect("unlinks");
        assert_eq!((mq.stat(d).nlink, mq.stat(other).nlink), (0, 0));
        mq.send(d, b"x", 0).expect("fits");
        mq.close(d).expect("closes");
        assert_eq!(mq.receive(other, 16), Ok((b"x".to_vec(), 0)));
        mq.close(other).expect("closes");
        assert_eq!(mq.receive(other, 16), Err(libc::EBADF));
    });
}
