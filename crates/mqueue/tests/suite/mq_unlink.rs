//! mq_unlink(3).

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
