//! mq_overview(7): polling, and the status line.

use crate::mq::*;

#[test]
fn polling() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        assert_eq!(mq.poll(d), (false, true));
        mq.send(d, b"", 0).expect("fits");
        assert_eq!(mq.poll(d), (true, true));
        mq.send(d, b"", 0).expect("fits");
        mq.send(d, b"", 0).expect("fits");
        assert_eq!(mq.poll(d), (true, false));
        mq.receive(d, 16).expect("there");
        assert_eq!(mq.poll(d), (true, true));
    });
}

#[test]
fn status() {
    both(|mq| {
        let d = mq.small(b"/q", 0);
        let line = |size: u32, how: i32, signal: i32, process: u32| {
            format!("QSIZE:{size:<10} NOTIFY:{how:<5} SIGNO:{signal:<5} NOTIFY_PID:{process:<6}\n")
        };
        assert_eq!(mq.status(d), line(0, 0, 0, 0));
        mq.send(d, b"12345", 0).expect("fits");
        mq.send(d, b"", 0).expect("fits");
        mq.send(d, b"678", 0).expect("fits");
        assert_eq!(mq.status(d), line(8, 0, 0, 0));
        let me = std::process::id();
        mq.notify(d, Some(Told::Signal)).expect("registers");
        assert_eq!(mq.status(d), line(8, 0, libc::SIGUSR1, me));
        mq.notify(d, None).expect("goes");
        mq.notify(d, Some(Told::None)).expect("registers");
        assert_eq!(mq.status(d), line(8, 1, 0, me));
        mq.receive(d, 16).expect("there");
        assert_eq!(mq.status(d), line(3, 1, 0, me));
    });
}
