//! mq_overview(7): polling, the status line, limits; getrlimit(2).
//!
//! | documented | shown by |
//! | --- | --- |
//! | poll(2) reports messages and room, at once and later | `polling`, `polling_later` |
//! | `QSIZE`, `NOTIFY`, `SIGNO`, `NOTIFY_PID` | `status` |
//! | `/proc/sys/fs/mqueue` | `mq_open::{default_sizes, sizes, limits_of_a_namespace}` |
//! | `RLIMIT_MSGQUEUE`: what a queue counts for | `bytes_of_a_user` |
//! | a queue lives while its name or a description exists | `mq_close::closing`, `mq_unlink` |

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
        let me = mq.process();
        mq.notify(d, Some(Told::Signal)).expect("registers");
        assert_eq!(mq.status(d), line(8, 0, libc::SIGUSR1, me));
        mq.notify(d, None).expect("goes");
        mq.notify(d, Some(Told::None)).expect("registers");
        assert_eq!(mq.status(d), line(8, 1, 0, me));
        mq.receive(d, 16).expect("there");
        assert_eq!(mq.status(d), line(3, 1, 0, me));
    });
}

#[test]
fn polling_later() {
    both(|mq| {
        let d = mq.open(b"/q", O_CREAT | O_RDWR, 0o600, Some((1, 8)));
        let d = d.expect("opens");
        std::thread::scope(|s| {
            let readers = [(); 2].map(|()| s.spawn(move || mq.wait_ready(d, false)));
            mq.send(d, b"x", 0).expect("fits");
            for reader in readers {
                reader.join().expect("readable");
            }
            let writers = [(); 2].map(|()| s.spawn(move || mq.wait_ready(d, true)));
            mq.receive(d, 8).expect("there");
            for writer in writers {
                writer.join().expect("writable");
            }
        });
    });
}

#[test]
fn bytes_of_a_user() {
    both(|mq| {
        mq.become_user(4731);
        let make = |n: u8, size| mq.open(&[b'/', b'a' + n], O_CREAT | O_RDWR, 0o600, Some(size));
        for n in 0..9 {
            make(n, (10, 8192)).expect("82,880 bytes each");
        }
        // 73,280 of 819,200 bytes are left; a message counts 48 bytes, and its priority 48.
        assert_eq!(make(9, (10, 7233)), Err(libc::EMFILE));
        let last = make(9, (10, 7232)).expect("fits exactly");
        assert_eq!(make(10, (1, 1)), Err(libc::EMFILE));
        mq.unlink(b"/j")
            .and_then(|()| mq.close(last))
            .expect("goes");
        make(10, (1, 1)).expect("fits");
        mq.become_user(0);
        make(11, (10, 8192)).expect("another user's");
    });
}
