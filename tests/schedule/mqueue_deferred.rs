//! Calls that wait without a thread, schedule by schedule: each is answered once, and no message is lost or doubled.
use crate::explore::explore;
use shuttle::sync::Mutex;
use shuttle::thread;
use std::sync::Arc;
use uext4_mqueue::{Deferred, Queue, QueueSize, Started, Wait};
use uext4_vfs::{Errno, Result};

/// What calls were answered with: a message, that one was sent (its byte), or that they were ended.
type Answers = Arc<Mutex<Vec<std::result::Result<u8, Errno>>>>;

fn queue() -> Arc<Queue> {
    Arc::new(Queue::new(QueueSize {
        maxmsg: 1,
        msgsize: 1,
    }))
}

fn receive_later(queue: &Queue, id: u64, answers: &Answers) {
    let later = Arc::clone(answers);
    let deferred = Deferred {
        id,
        sched_priority: 0,
        answer: Box::new(move |outcome: Result<(&[u8], u32)>| {
            let outcome = outcome.map(|(bytes, _)| bytes[0]);
            later.lock().unwrap().push(outcome.map_err(|e| e.errno()));
        }) as _,
    };
    let mut buffer = [0];
    match queue.start_receive(&mut buffer, deferred) {
        Ok(Started::Done(_)) => answers.lock().unwrap().push(Ok(buffer[0])),
        Ok(Started::Waits) => {}
        Err(e) => panic!("{e}"),
    }
}

fn send_later(queue: &Queue, id: u64, byte: u8, answers: &Answers) {
    let later = Arc::clone(answers);
    let deferred = Deferred {
        id,
        sched_priority: 0,
        answer: Box::new(move |outcome: Result<()>| {
            let outcome = outcome.map(|()| byte).map_err(|e| e.errno());
            later.lock().unwrap().push(outcome);
        }) as _,
    };
    match queue.start_send(&[byte], 0, deferred) {
        Ok(Started::Done(())) => answers.lock().unwrap().push(Ok(byte)),
        Ok(Started::Waits) => {}
        Err(e) => panic!("{e}"),
    }
}

fn drain(queue: &Queue) -> Vec<u8> {
    let mut buffer = [0];
    let mut all = Vec::new();
    while queue.receive(&mut buffer, true, &Wait::default()).is_ok() {
        all.push(buffer[0]);
    }
    all
}

fn spawn(queue: &Arc<Queue>, work: impl FnOnce(&Queue) + Send + 'static) -> thread::JoinHandle<()> {
    let queue = Arc::clone(queue);
    thread::spawn(move || work(&queue))
}

/// A receiver is killed while its message arrives.
fn a_receiver_is_ended() {
    let (queue, answers) = (queue(), Answers::default());
    let ours = Arc::clone(&answers);
    let waits = spawn(&queue, move |q| receive_later(q, 1, &ours));
    let ends = spawn(&queue, |q| {
        q.cancel(1, Errno::EINTR);
    });
    let sends = spawn(&queue, |q| {
        q.send(&[7], 0, true, &Wait::default()).expect("fits");
    });
    for thread in [waits, ends, sends] {
        thread.join().expect("no panic");
    }
    // One that was not there yet when it was to be ended still waits.
    queue.cancel(1, Errno::EINTR);
    let answers = answers.lock().unwrap().clone();
    match answers[..] {
        [Ok(7)] => assert!(drain(&queue).is_empty()),
        [Err(Errno::EINTR)] => assert_eq!(drain(&queue), [7]),
        ref other => panic!("{other:?}"),
    }
    assert_eq!(queue.waiting(), (0, 0));
}

/// A sender's timeout expires while room appears.
fn a_sender_is_ended() {
    let (queue, answers) = (queue(), Answers::default());
    queue.send(&[1], 0, true, &Wait::default()).expect("fits");
    let ours = Arc::clone(&answers);
    let waits = spawn(&queue, move |q| send_later(q, 1, 2, &ours));
    let ends = spawn(&queue, |q| {
        q.cancel(1, Errno::ETIMEDOUT);
    });
    let got = Answers::default();
    let ours = Arc::clone(&got);
    let receives = spawn(&queue, move |q| receive_later(q, 2, &ours));
    for thread in [waits, ends, receives] {
        thread.join().expect("no panic");
    }
    queue.cancel(1, Errno::ETIMEDOUT);
    assert_eq!(*got.lock().unwrap(), [Ok(1)]);
    let answers = answers.lock().unwrap().clone();
    match answers[..] {
        [Ok(2)] => assert_eq!(drain(&queue), [2]),
        [Err(Errno::ETIMEDOUT)] => assert!(drain(&queue).is_empty()),
        ref other => panic!("{other:?}"),
    }
    assert_eq!(queue.waiting(), (0, 0));
}

/// Threads and calls without one wait for the same messages.
fn both_kinds_of_receivers() {
    let (queue, answers) = (queue(), Answers::default());
    let ours = Arc::clone(&answers);
    let later = spawn(&queue, move |q| receive_later(q, 1, &ours));
    let ours = Arc::clone(&answers);
    let waits = spawn(&queue, move |q| {
        let mut buffer = [0];
        q.receive(&mut buffer, false, &Wait::default())
            .expect("receives");
        ours.lock().unwrap().push(Ok(buffer[0]));
    });
    let senders = [1, 2].map(|byte| {
        let ours = Answers::default();
        spawn(&queue, move |q| {
            send_later(q, 10 + u64::from(byte), byte, &ours)
        })
    });
    for thread in senders.into_iter().chain([later, waits]) {
        thread.join().expect("no panic");
    }
    let mut got: Vec<_> = answers.lock().unwrap().iter().map(|a| a.ok()).collect();
    got.sort_unstable();
    assert_eq!(got, [Some(1), Some(2)]);
    assert_eq!((queue.curmsgs(), queue.waiting()), (0, (0, 0)));
}

#[test]
fn shuttle_a_receiver_is_ended() {
    explore(a_receiver_is_ended);
}

#[test]
fn shuttle_a_sender_is_ended() {
    explore(a_sender_is_ended);
}

#[test]
fn shuttle_both_kinds_of_receivers() {
    explore(both_kinds_of_receivers);
}
