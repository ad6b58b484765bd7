//! mq_send(3), mq_timedsend(3).
//!
//! | documented | shown by |
//! | --- | --- |
//! | `EAGAIN`, `EBADF`, `EMSGSIZE` | `arguments` |
//! | `EINTR` | `interrupted` |
//! | `EINVAL`, `ETIMEDOUT`: the time, checked even where no call waits | `deadlines` |
//! | `EINVAL`: the priority | `arguments` |
//! | no bytes are a message | `arguments` |
//! | waits for room | `waiting_for_room` |
//! | several wait: the highest scheduling priority first, then the longest waiter (POSIX) | `the_longest_waiter_is_next`, `the_highest_scheduling_priority_is_next` |

use crate::mq::*;
use libc::{EAGAIN, EBADF, EINTR, EINVAL, EMSGSIZE, ETIMEDOUT};

fn full(mq: &dyn Mq, flags: i32) -> i32 {
    let d = mq.small(b"/q", flags);
    for i in 0..3 {
        mq.send(d, &[i], 0).expect("fits");
    }
    d
}

#[test]
fn arguments() {
    both(|mq| {
        let d = mq.small(b"/q", O_NONBLOCK);
        assert_eq!(mq.send(mq.closed(), b"", 0), Err(EBADF));
        let reads = mq.open(b"/q", O_RDONLY, 0, None).expect("opens");
        assert_eq!(mq.send(reads, b"", 0), Err(EBADF));
        assert_eq!(mq.send(d, b"", 32_768), Err(EINVAL));
        assert_eq!(mq.send(d, &[0; 17], 0), Err(EMSGSIZE));
        assert_eq!(mq.send(d, &[0; 16], 32_767), Ok(()));
        assert_eq!(mq.send(d, b"", 0), Ok(()), "no bytes are a message");
        // Which error is reported first.
        assert_eq!(mq.send(reads, b"", 32_768), Err(EINVAL));
        assert_eq!(mq.send(reads, &[0; 17], 0), Err(EBADF));
        mq.send(d, b"", 0).expect("fits");
        assert_eq!(mq.send(d, b"", 0), Err(EAGAIN));
        assert_eq!(mq.send(d, &[0; 17], 0), Err(EMSGSIZE));
        assert_eq!(mq.timedsend(d, b"", 0, Some(after(0))), Err(EAGAIN));
    });
}

#[test]
fn deadlines() {
    both(|mq| {
        let d = full(mq, 0);
        assert_eq!(mq.timedsend(d, b"", 0, Some((0, 0))), Err(ETIMEDOUT));
        assert_eq!(mq.timedsend(d, b"", 0, Some(after(20))), Err(ETIMEDOUT));
        for bad in [(-1, 0), (1, -1), (1, 1_000_000_000)] {
            assert_eq!(mq.timedsend(d, b"", 0, Some(bad)), Err(EINVAL));
        }
        mq.receive(d, 16).expect("has some");
        // Checked even where nothing has to be waited for; one that has passed does no harm then.
        assert_eq!(mq.timedsend(d, b"", 0, Some((1, -1))), Err(EINVAL));
        assert_eq!(mq.timedsend(d, b"", 0, Some((0, 0))), Ok(()));
        assert_eq!(mq.getattr(d).map(|a| a.curmsgs), Ok(3));
    });
}

#[test]
fn waiting_for_room() {
    both(|mq| {
        let d = full(mq, 0);
        std::thread::scope(|s| {
            let sender = s.spawn(move || mq.send(d, b"late", 7));
            mq.until_waiting(d, 1);
            assert_eq!(mq.receive(d, 16), Ok((vec![0], 0)));
            assert_eq!(sender.join().expect("no panic"), Ok(()));
        });
        assert_eq!(mq.receive(d, 16), Ok((b"late".to_vec(), 7)));
        assert_eq!(mq.receive(d, 16), Ok((vec![1], 0)));
    });
}

#[test]
fn interrupted() {
    both(|mq| {
        let d = full(mq, 0);
        let call = || mq.send(d, b"", 0);
        assert_eq!(mq.interrupted(&call, d), Err(EINTR));
        assert_eq!(mq.getattr(d).map(|a| a.curmsgs), Ok(3));
    });
}

/// The order in which three that wait with these scheduling priorities are given room; `None` where they
/// may not have such priorities.
fn order_of_senders(mq: &dyn Mq, priorities: [i32; 3]) -> Option<Vec<u8>> {
    let d = full(mq, 0);
    let allowed = std::thread::scope(|s| {
        let mut senders = Vec::new();
        for (i, priority) in (10..).zip(priorities) {
            senders.push(s.spawn(move || {
                let allowed = priority == 0 || mq.set_priority(priority);
                mq.send(d, &[i], 0).expect("sends");
                allowed
            }));
            mq.until_waiting(d, senders.len());
        }
        for i in 0..3 {
            assert_eq!(mq.receive(d, 16), Ok((vec![i], 0)));
        }
        let mut allowed = senders.into_iter().map(|t| t.join().expect("no panic"));
        allowed.all(|allowed| allowed)
    });
    let order = (0..3).map(|_| mq.receive(d, 16).expect("there").0[0]);
    let order = order.collect();
    allowed.then_some(order)
}

#[test]
fn the_longest_waiter_is_next() {
    both(|mq| assert_eq!(order_of_senders(mq, [0; 3]), Some(vec![10, 11, 12])));
}

#[test]
fn the_highest_scheduling_priority_is_next() {
    both(|mq| match order_of_senders(mq, [5, 20, 20]) {
        Some(order) => assert_eq!(order, [11, 12, 10]),
        None => eprintln!("skipped: scheduling priorities: not for this user"),
    });
}

/// The time is compared with the clock, not waited for.
#[test]
fn a_time_in_the_past_does_no_harm_where_there_is_room() {
    both(|mq| {
        let d = mq.small(b"/q", O_NONBLOCK);
        for i in 0..3 {
            assert_eq!(mq.timedsend(d, &[i], 0, Some((0, 999_999_999))), Ok(()));
        }
        assert_eq!(mq.timedsend(d, b"", 0, Some((0, 0))), Err(EAGAIN));
        assert_eq!(mq.timedsend(d, b"", 0, Some((-1, 0))), Err(EINVAL));
    });
}
