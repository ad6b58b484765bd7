//! Senders, receivers and waits that end, schedule by schedule: nothing is lost, nothing comes twice.
use crate::explore::explore;
use shuttle::thread;
use std::sync::Arc;
use uext4_mqueue::{Interrupt, Queue, QueueSize, Ready, Wait};
use uext4_sync::atomic::{AtomicU32, Ordering::SeqCst};
use uext4_vfs::{Errno, Result, Timestamp};

/// A queue for that many messages of a byte.
fn queue(maxmsg: u32) -> Arc<Queue> {
    Arc::new(Queue::new(QueueSize { maxmsg, msgsize: 1 }))
}

fn send(queue: &Queue, byte: u8, wait: &Wait) -> Result<()> {
    queue.send(&[byte], 0, false, wait)
}

fn receive(queue: &Queue, nonblock: bool, wait: &Wait) -> Result<u8> {
    let mut buffer = [0];
    queue
        .receive(&mut buffer, nonblock, wait)
        .map(|_| buffer[0])
}

/// A wait that ends by its time now and then.
fn timed() -> Wait {
    Wait::until(Timestamp { sec: 1, nsec: 0 })
}

/// What is left in the queue.
fn drain(queue: &Queue) -> Vec<u8> {
    std::iter::from_fn(|| receive(queue, true, &Wait::default()).ok()).collect()
}

fn sorted(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.sort_unstable();
    bytes
}

/// Lets others run until that many wait to send and to receive.
fn until_waiting(queue: &Queue, want: (usize, usize)) {
    while queue.waiting() != want {
        thread::yield_now();
    }
}

/// Two send and two receive, each as often as the other.
fn streams() {
    let queue = queue(1);
    let senders = [0, 10].map(|base| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            for i in 0..3 {
                send(&queue, base + i, &Wait::default()).expect("sends");
            }
        })
    });
    let receivers = [(); 2].map(|()| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let mut got = Vec::new();
            for _ in 0..3 {
                got.push(receive(&queue, false, &Wait::default()).expect("receives"));
            }
            // Of one sender, in order.
            for base in [0, 10] {
                let of: Vec<_> = got.iter().filter(|b| **b / 10 * 10 == base).collect();
                assert!(of.is_sorted(), "{got:?}");
            }
            got
        })
    });
    for sender in senders {
        sender.join().expect("no panic");
    }
    let got = receivers.map(|r| r.join().expect("no panic")).concat();
    assert_eq!(sorted(got), [0, 1, 2, 10, 11, 12]);
    assert_eq!((queue.curmsgs(), queue.waiting()), (0, (0, 0)));
}

/// Receivers whose time passes while messages come: a message is received or still there.
fn receivers_time_out() {
    let queue = queue(2);
    let receivers = [(); 2].map(|()| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || match receive(&queue, false, &timed()) {
            Ok(byte) => vec![byte],
            Err(e) => {
                assert_eq!(e, Errno::ETIMEDOUT);
                Vec::new()
            }
        })
    });
    send(&queue, 1, &Wait::default()).expect("fits");
    send(&queue, 2, &Wait::default()).expect("fits");
    let got = receivers.map(|r| r.join().expect("no panic")).concat();
    let all = [got, drain(&queue)].concat();
    assert_eq!(sorted(all), [1, 2]);
    assert_eq!(queue.waiting(), (0, 0));
}

/// Senders whose time passes while room comes: a message was sent, or its sender gets an error.
fn senders_time_out() {
    let queue = queue(1);
    send(&queue, 0, &Wait::default()).expect("fits");
    let senders = [1, 2].map(|byte| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || match send(&queue, byte, &timed()) {
            Ok(()) => vec![byte],
            Err(e) => {
                assert_eq!(e, Errno::ETIMEDOUT);
                Vec::new()
            }
        })
    });
    let mut got = vec![receive(&queue, false, &Wait::default()).expect("there")];
    assert_eq!(got, [0]);
    // Room for the second, if the first has arrived.
    while got.len() < 2 && queue.waiting() != (0, 0) {
        got.extend(drain(&queue));
        thread::yield_now();
    }
    let drainer = {
        let queue = Arc::clone(&queue);
        let senders = Arc::new(AtomicU32::new(2));
        let left = Arc::clone(&senders);
        (
            senders,
            thread::spawn(move || {
                let mut got = Vec::new();
                while left.load(SeqCst) > 0 {
                    got.extend(drain(&queue));
                    thread::yield_now();
                }
                [got, drain(&queue)].concat()
            }),
        )
    };
    let mut sent = vec![0];
    for sender in senders {
        sent.extend(sender.join().expect("no panic"));
        drainer.0.fetch_sub(1, SeqCst);
    }
    got.extend(drainer.1.join().expect("no panic"));
    assert_eq!(sorted(got), sorted(sent));
    assert_eq!((queue.curmsgs(), queue.waiting()), (0, (0, 0)));
}

/// A signal comes while the message comes.
fn interrupted_at_that_moment() {
    let queue = queue(1);
    let interrupt = Interrupt::new();
    let receiver = {
        let queue = Arc::clone(&queue);
        let wait = Wait {
            interrupt: Some(interrupt.clone()),
            ..Wait::default()
        };
        thread::spawn(move || match receive(&queue, false, &wait) {
            Ok(byte) => vec![byte],
            Err(e) => {
                assert_eq!(e, Errno::EINTR);
                Vec::new()
            }
        })
    };
    let sender = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || send(&queue, 1, &Wait::default()).expect("fits"))
    };
    queue.interrupt(&interrupt);
    sender.join().expect("no panic");
    let got = receiver.join().expect("no panic");
    assert_eq!([got, drain(&queue)].concat(), [1]);
    assert_eq!(queue.waiting(), (0, 0));
}

/// A signal comes while room comes: the message is sent, or its sender gets an error. One that arrives
/// alone is never missed.
fn interrupted_sender() {
    let queue = queue(1);
    send(&queue, 1, &Wait::default()).expect("fits");
    let interrupt = Interrupt::new();
    let wait = Wait {
        interrupt: Some(interrupt.clone()),
        ..Wait::default()
    };
    let sender = {
        let (queue, wait) = (Arc::clone(&queue), wait.clone());
        thread::spawn(move || send(&queue, 2, &wait).is_ok())
    };
    let receiver = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || receive(&queue, false, &Wait::default()).expect("there"))
    };
    queue.interrupt(&interrupt);
    let mut all = vec![receiver.join().expect("no panic")];
    let sent = sender.join().expect("no panic");
    all.extend(drain(&queue));
    assert_eq!(all, if sent { vec![1, 2] } else { vec![1] });
    let alone = {
        let queue = Arc::clone(&queue);
        let interrupt = Interrupt::new();
        let wait = Wait {
            interrupt: Some(interrupt.clone()),
            ..Wait::default()
        };
        let waits = Arc::clone(&queue);
        let waiter = thread::spawn(move || receive(&waits, false, &wait).is_err());
        queue.interrupt(&interrupt);
        waiter
    };
    assert!(alone.join().expect("no panic"));
    assert_eq!(queue.waiting(), (0, 0));
}

/// A message is handed to its waiter, though another thread tries to receive meanwhile.
fn handed_over() {
    let queue = queue(1);
    let waits = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || receive(&queue, false, &Wait::default()).expect("receives"))
    };
    until_waiting(&queue, (0, 1));
    let looks = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let found = receive(&queue, true, &Wait::default());
            assert_eq!(found.err().map(|e| e.errno()), Some(Errno::EAGAIN));
            assert!(!queue.poll().contains(Ready::READ));
        })
    };
    send(&queue, 9, &Wait::default()).expect("sent");
    assert_eq!(queue.curmsgs(), 0);
    looks.join().expect("no panic");
    assert_eq!(waits.join().expect("no panic"), 9);
}

/// Room is handed to the waiting sender, though another arrives meanwhile.
fn room_is_handed_over() {
    let queue = queue(1);
    send(&queue, 1, &Wait::default()).expect("fits");
    let waits = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || send(&queue, 2, &Wait::default()).expect("sends"))
    };
    until_waiting(&queue, (1, 0));
    let comes = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let sent = queue.send(&[3], 9, true, &Wait::default());
            assert_eq!(sent.err().map(|e| e.errno()), Some(Errno::EAGAIN));
        })
    };
    assert_eq!(receive(&queue, true, &Wait::default()).ok(), Some(1));
    comes.join().expect("no panic");
    waits.join().expect("no panic");
    assert_eq!(drain(&queue), [2]);
}

/// The highest scheduling priority first, then the longest waiter.
fn who_is_next() {
    let queue = queue(1);
    let place = Arc::new(AtomicU32::new(0));
    let receivers: Vec<_> = [0, 5, 0, 5]
        .into_iter()
        .enumerate()
        .map(|(i, sched_priority)| {
            let (q, place) = (Arc::clone(&queue), Arc::clone(&place));
            let receiver = thread::spawn(move || {
                let wait = Wait {
                    sched_priority,
                    ..Wait::default()
                };
                let byte = receive(&q, false, &wait).expect("receives");
                place.fetch_add(1, SeqCst);
                byte
            });
            until_waiting(&queue, (0, i + 1));
            receiver
        })
        .collect();
    for byte in 0..4 {
        send(&queue, byte, &Wait::default()).expect("sent");
    }
    let got: Vec<_> = receivers
        .into_iter()
        .map(|r| r.join().expect("no panic"))
        .collect();
    assert_eq!(got, [2, 0, 3, 1]);
    assert_eq!(place.load(SeqCst), 4);
}

/// A poller is woken by a message, and by room.
fn polling() {
    let queue = queue(1);
    let poll = |interest| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.poll_wait(interest, &Wait::default()).expect("ready"))
    };
    let readable = [poll(Ready::READ), poll(Ready::READ)];
    send(&queue, 1, &Wait::default()).expect("fits");
    for reader in readable {
        assert_eq!(reader.join().expect("no panic"), Ready::READ);
    }
    let writable = poll(Ready::WRITE);
    assert_eq!(receive(&queue, false, &Wait::default()).ok(), Some(1));
    assert_eq!(writable.join().expect("no panic"), Ready::WRITE);
}

#[test]
fn shuttle_streams() {
    explore(streams);
}

#[test]
fn shuttle_receivers_time_out() {
    explore(receivers_time_out);
}

#[test]
fn shuttle_senders_time_out() {
    explore(senders_time_out);
}

#[test]
fn shuttle_interrupted_at_that_moment() {
    explore(interrupted_at_that_moment);
}

#[test]
fn shuttle_interrupted_sender() {
    explore(interrupted_sender);
}

#[test]
fn shuttle_handed_over() {
    explore(handed_over);
}

#[test]
fn shuttle_room_is_handed_over() {
    explore(room_is_handed_over);
}

#[test]
fn shuttle_next_waiter() {
    explore(who_is_next);
}

#[test]
fn shuttle_polling() {
    explore(polling);
}
