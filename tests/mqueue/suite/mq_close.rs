//! mq_close(3).
//!
//! | documented | shown by |
//! | --- | --- |
//! | `EBADF` | `closing` |
//! | a registration of the process goes, and another may come | `a_registration_goes` |
//! | the queue stays | `closing` |

use crate::mq::*;
use libc::{EBADF, EBUSY};

#[test]
fn closing() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        mq.send(d, b"stays", 1).expect("sends");
        assert_eq!(mq.close(d), Ok(()));
        assert_eq!(mq.close(mq.closed()), Err(EBADF));
        let d = mq.open(b"/q", O_RDONLY, 0, None).expect("is still there");
        assert_eq!(mq.receive(d, 16), Ok((b"stays".to_vec(), 1)));
    });
}

#[test]
fn a_registration_goes() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        let other = mq.open(b"/q", O_RDWR, 0, None).expect("opens");
        mq.notify(d, Some(Told::None)).expect("registers");
        assert_eq!(mq.notify(other, Some(Told::None)), Err(EBUSY));
        mq.close(d).expect("closes");
        mq.notify(other, Some(Told::None)).expect("is free");
        // Whichever descriptor of the process is closed.
        let third = mq.open(b"/q", O_RDWR, 0, None).expect("opens");
        mq.close(third).expect("closes");
        assert_eq!(mq.notify(other, Some(Told::None)), Ok(()));
    });
}
