//! mq_receive(3), mq_timedreceive(3).
//!
//! | documented | shown by |
//! | --- | --- |
//! | `EAGAIN`, `EBADF`, `EMSGSIZE` | `arguments` |
//! | `EINTR` | `interrupted` |
//! | `EINVAL`, `ETIMEDOUT`: the time, checked even where no call waits | `deadlines` |
//! | highest priority first, then the oldest; 0 to 32767 | `order` |
//! | a message of no bytes | `no_bytes` |
//! | several wait: the highest scheduling priority first, then the longest waiter (POSIX) | `the_longest_waiter_is_next`, `the_highest_scheduling_priority_is_next` |

use crate::mq::*;
use libc::{EAGAIN, EBADF, EINTR, EINVAL, EMSGSIZE, ETIMEDOUT};

#[test]
fn arguments() {
    both(|mq| {
        let d = mq.small(b"/q", O_NONBLOCK);
        assert_eq!(mq.receive(mq.closed(), 16), Err(EBADF));
        let writes = mq.open(b"/q", O_WRONLY, 0, None).expect("opens");
        assert_eq!(mq.receive(writes, 16), Err(EBADF));
        assert_eq!(mq.receive(writes, 15), Err(EBADF));
        assert_eq!(mq.receive(d, 16), Err(EAGAIN));
        assert_eq!(mq.receive(d, 15), Err(EMSGSIZE));
        mq.send(d, b"ab", 3).expect("fits");
        assert_eq!(mq.receive(d, 15), Err(EMSGSIZE), "short though it is");
        assert_eq!(mq.receive(d, 17), Ok((b"ab".to_vec(), 3)));
    });
}

#[test]
fn order() {
    both(|mq| {
        let d = mq.open(b"/q", O_CREAT | O_RDWR, 0o600, Some((10, 1)));
        let d = d.expect("opens");
        let sent = [
            (1, 5),
            (2, 0),
            (3, 32_767),
            (4, 5),
            (5, 0),
            (6, 1),
            (7, 32_767),
        ];
        for (byte, priority) in sent {
            mq.send(d, &[byte], priority).expect("fits");
        }
        let got: Vec<_> = sent
            .iter()
            .map(|_| mq.receive(d, 1).expect("there").0[0])
            .collect();
        assert_eq!(got, [3, 7, 1, 4, 6, 2, 5]);
    });
}

#[test]
fn deadlines() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        assert_eq!(mq.timedreceive(d, 16, Some((0, 0))), Err(ETIMEDOUT));
        assert_eq!(mq.timedreceive(d, 16, Some(after(20))), Err(ETIMEDOUT));
        for bad in [(-1, 0), (1, -1), (1, 1_000_000_000)] {
            assert_eq!(mq.timedreceive(d, 16, Some(bad)), Err(EINVAL));
        }
        mq.send(d, b"x", 0).expect("fits");
        assert_eq!(mq.timedreceive(d, 16, Some((1, -1))), Err(EINVAL));
        let got = mq.timedreceive(d, 16, Some((0, 0)));
        assert_eq!(got, Ok((b"x".to_vec(), 0)));
    });
}

#[test]
fn waiting_for_a_message() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        std::thread::scope(|s| {
            let receiver = s.spawn(move || mq.receive(d, 16));
            mq.until_waiting(d, 1);
            assert_eq!(mq.send(d, b"here", 9), Ok(()));
            let got = receiver.join().expect("no panic");
            assert_eq!(got, Ok((b"here".to_vec(), 9)));
        });
        assert_eq!(mq.getattr(d).map(|a| a.curmsgs), Ok(0));
    });
}

#[test]
fn interrupted() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        let call = || mq.receive(d, 16).map(drop);
        assert_eq!(mq.interrupted(&call, d), Err(EINTR));
    });
}

#[test]
fn no_bytes() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        mq.send(d, b"", 32_767).expect("fits");
        mq.send(d, b"1", 32_767).expect("fits");
        assert_eq!(mq.receive(d, 16), Ok((Vec::new(), 32_767)));
        assert_eq!(mq.receive(d, 16), Ok((b"1".to_vec(), 32_767)));
    });
}

/// The order in which three that wait with these scheduling priorities are given messages; `None` where
/// they may not have such priorities.
fn order_of_receivers(mq: &dyn Mq, priorities: [i32; 3]) -> Option<[u8; 3]> {
    let d = mq.small(b"/q", 0);
    let got = std::thread::scope(|s| {
        let mut receivers = Vec::new();
        for priority in priorities {
            receivers.push(s.spawn(move || {
                let allowed = priority == 0 || mq.set_priority(priority);
                (allowed, mq.receive(d, 16).expect("receives").0[0])
            }));
            mq.until_waiting(d, receivers.len());
        }
        for i in 0..3 {
            // The message's own priority does not matter to a waiter.
            mq.send(d, &[i], i.into()).expect("sent");
        }
        let got = receivers.into_iter().map(|t| t.join().expect("no panic"));
        got.collect::<Vec<_>>()
    });
    let order = [got[0].1, got[1].1, got[2].1];
    got.iter().all(|(allowed, _)| *allowed).then_some(order)
}

#[test]
fn the_longest_waiter_is_next() {
    both(|mq| assert_eq!(order_of_receivers(mq, [0; 3]), Some([0, 1, 2])));
}

#[test]
fn the_highest_scheduling_priority_is_next() {
    both(|mq| match order_of_receivers(mq, [5, 20, 20]) {
        Some(order) => assert_eq!(order, [2, 0, 1]),
        None => eprintln!("skipped: scheduling priorities: not for this user"),
    });
}
