//! mq_notify(3).
//!
//! | documented | shown by |
//! | --- | --- |
//! | `EBADF` | `not_notified` |
//! | `EBUSY`: a process is registered, be it this one | `told_once`, `other_processes` |
//! | `EINVAL`: no such signal (of `sigev_notify`: the front end's, as the library's type has no other) | `signals` |
//! | `ENOMEM` | left to the machine |
//! | `SIGEV_NONE`, `SIGEV_SIGNAL`, `SIGEV_THREAD` | `not_notified`, `told_once`, `by_a_thread` |
//! | only when the queue was empty, and no receiver waits | `told_once`, `not_notified` |
//! | removed on delivery, by null, on close | `told_once`, `not_notified`, `mq_close::a_registration_goes` |
//! | another process takes nothing back | `other_processes` |

use crate::mq::*;
use libc::{EBADF, EBUSY, EINVAL};

#[test]
fn told_once() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        let before = mq.told();
        mq.notify(d, Some(Told::Signal)).expect("registers");
        assert_eq!(mq.notify(d, Some(Told::Signal)), Err(EBUSY));
        mq.send(d, b"x", 0).expect("fits");
        assert_eq!(mq.told() - before, 1);
        mq.receive(d, 16).expect("there");
        mq.send(d, b"x", 0).expect("fits");
        assert_eq!(mq.told() - before, 1, "removed on delivery");
        mq.notify(d, Some(Told::Signal)).expect("registers");
        mq.send(d, b"y", 0).expect("fits");
        assert_eq!(mq.told() - before, 1, "the queue was not empty");
        mq.receive(d, 16).expect("there");
        mq.receive(d, 16).expect("there");
        mq.send(d, b"z", 0).expect("fits");
        assert_eq!(mq.told() - before, 2);
    });
}

#[test]
fn not_notified() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        let before = mq.told();
        mq.notify(d, Some(Told::Signal)).expect("registers");
        assert_eq!(mq.notify(d, None), Ok(()));
        assert_eq!(mq.notify(d, None), Ok(()), "none is fine");
        mq.send(d, b"x", 0).expect("fits");
        mq.receive(d, 16).expect("there");
        mq.notify(d, Some(Told::None)).expect("registers");
        mq.send(d, b"x", 0).expect("fits");
        mq.receive(d, 16).expect("there");
        mq.notify(d, Some(Told::Signal)).expect("it went silently");
        // A waiter gets the message, and no process is notified.
        std::thread::scope(|s| {
            let receiver = s.spawn(move || mq.receive(d, 16));
            mq.until_waiting(d, 1);
            mq.send(d, b"x", 0).expect("fits");
            receiver.join().expect("no panic").expect("receives");
        });
        assert_eq!(mq.told(), before);
        assert_eq!(mq.notify(d, Some(Told::Signal)), Err(EBUSY), "still there");
        assert_eq!(mq.notify(mq.closed(), None), Err(EBADF));
    });
}

#[test]
fn any_access_will_do() {
    both(|mq| {
        mq.small(b"/q", 0);
        for flags in [O_RDONLY, O_WRONLY] {
            let d = mq.open(b"/q", flags, 0, None).expect("opens");
            assert_eq!(mq.notify(d, Some(Told::Signal)), Ok(()));
            assert_eq!(mq.notify(d, None), Ok(()));
        }
    });
}

#[test]
fn a_sender_that_waited_notifies_no_process() {
    both(|mq| {
        let d = mq.open(b"/q", O_CREAT | O_RDWR, 0o600, Some((1, 8)));
        let d = d.expect("opens");
        let before = mq.told();
        mq.send(d, b"1", 0).expect("fits");
        mq.notify(d, Some(Told::Signal)).expect("registers");
        std::thread::scope(|s| {
            let sender = s.spawn(move || mq.send(d, b"2", 0));
            mq.until_waiting(d, 1);
            mq.receive(d, 8).expect("there");
            sender.join().expect("no panic").expect("sends");
        });
        assert_eq!(mq.told(), before, "the queue was never empty");
    });
}

#[test]
fn by_a_thread() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        let before = mq.told();
        mq.notify(d, Some(Told::Thread)).expect("registers");
        assert!(mq.status(d).contains(" NOTIFY:2 "));
        mq.send(d, b"x", 0).expect("fits");
        while mq.told() == before {
            std::thread::yield_now();
        }
        assert_eq!(mq.notify(d, Some(Told::None)), Ok(()), "it went");
        assert_eq!(mq.told() - before, 1);
    });
}

#[test]
fn signals() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        let before = mq.told();
        for bad in [-1, 65, 1000, i32::MAX, i32::MIN] {
            assert_eq!(mq.notify(d, Some(Told::Number(bad))), Err(EINVAL));
        }
        assert!(mq.status(d).contains(" NOTIFY_PID:0 "));
        for silent in [0, libc::SIGWINCH] {
            mq.notify(d, Some(Told::Number(silent))).expect("registers");
            let line = format!(" NOTIFY:0     SIGNO:{silent} ");
            assert!(mq.status(d).contains(&line), "{}", mq.status(d));
            mq.notify(d, None).expect("goes");
        }
        mq.notify(d, Some(Told::Number(0))).expect("registers");
        mq.send(d, b"x", 0).expect("fits");
        assert_eq!(mq.told(), before, "no signal");
        assert_eq!(mq.notify(d, Some(Told::Number(64))), Ok(()), "it went");
    });
}

#[test]
fn other_processes() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        mq.notify(d, Some(Told::None)).expect("registers");
        assert_eq!(mq.other_process(d, Other::Register), Err(EBUSY));
        assert_eq!(mq.other_process(d, Other::TakeBack), Ok(()));
        assert_eq!(mq.other_process(d, Other::Close), Ok(()));
        assert_eq!(mq.notify(d, Some(Told::None)), Err(EBUSY), "still there");
        mq.notify(d, None).expect("goes");
        assert_eq!(mq.other_process(d, Other::Register), Ok(()));
        assert_eq!(mq.notify(d, Some(Told::None)), Ok(()), "it ended");
    });
}
