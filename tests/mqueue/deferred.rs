//! Calls that wait without a thread: each is answered once, by the thread that completes or ends it.
use std::sync::{Arc, Mutex};
use uext4_mqueue::{Deferred, Queue, QueueSize, Ready, Received, Started, Wait};
use uext4_vfs::Errno;

type Got<T> = Arc<Mutex<Vec<Result<T, Errno>>>>;

fn queue(maxmsg: u32) -> Queue {
    Queue::new(QueueSize {
        maxmsg,
        msgsize: 16,
    })
}

fn receive(queue: &Queue, id: u64, sched_priority: i32, got: &Got<(Vec<u8>, u32)>) {
    let got = Arc::clone(got);
    let deferred = Deferred {
        id,
        sched_priority,
        answer: Box::new(move |outcome: uext4_vfs::Result<(&[u8], u32)>| {
            let outcome = outcome.map(|(bytes, priority)| (bytes.to_vec(), priority));
            got.lock().unwrap().push(outcome.map_err(|e| e.errno()));
        }) as _,
    };
    let started = queue.start_receive(&mut [0; 16], deferred);
    assert_eq!(started.unwrap(), Started::Waits);
}

fn send(queue: &Queue, id: u64, bytes: &[u8], got: &Got<u64>) {
    let got = Arc::clone(got);
    let deferred = Deferred {
        id,
        sched_priority: 0,
        answer: Box::new(move |outcome: uext4_vfs::Result<()>| {
            let outcome = outcome.map(|()| id).map_err(|e| e.errno());
            got.lock().unwrap().push(outcome);
        }) as _,
    };
    let started = queue.start_send(bytes, 0, deferred);
    assert_eq!(started.unwrap(), Started::Waits);
}

fn now(queue: &Queue, bytes: &[u8]) {
    queue.send(bytes, 3, true, &Wait::default()).unwrap();
}

#[test]
fn receivers_are_answered_in_their_order() {
    let queue = queue(2);
    let got = Got::default();
    receive(&queue, 1, 0, &got);
    receive(&queue, 2, 0, &got);
    receive(&queue, 3, 5, &got);
    assert_eq!(queue.waiting(), (0, 3));
    now(&queue, b"a");
    now(&queue, b"b");
    assert!(queue.cancel(2, Errno::EINTR), "it still waits");
    assert!(!queue.cancel(2, Errno::EINTR) && !queue.cancel(3, Errno::EINTR));
    now(&queue, b"c");
    assert_eq!((queue.curmsgs(), queue.waiting()), (1, (0, 0)));
    let want = [
        Ok((b"a".to_vec(), 3)),
        Ok((b"b".to_vec(), 3)),
        Err(Errno::EINTR),
    ];
    assert_eq!(*got.lock().unwrap(), want);
}

#[test]
fn senders_are_answered_when_there_is_room() {
    let queue = queue(1);
    let got = Got::default();
    now(&queue, b"0");
    send(&queue, 1, b"1", &got);
    send(&queue, 2, b"2", &got);
    send(&queue, 3, b"3", &got);
    assert!(queue.cancel(2, Errno::ETIMEDOUT));
    let mut buffer = [0; 16];
    let mut next = || {
        let Received { len, .. } = queue.receive(&mut buffer, true, &Wait::default())?;
        Ok::<_, uext4_vfs::Error>(buffer[..len].to_vec())
    };
    for expected in [b"0", b"1", b"3"] {
        assert_eq!(next().unwrap(), expected);
    }
    assert!(next().is_err_and(|e| e == Errno::EAGAIN));
    let want = [Err(Errno::ETIMEDOUT), Ok(1), Ok(3)];
    assert_eq!(*got.lock().unwrap(), want);
}

#[test]
fn what_can_be_done_at_once_is() {
    let queue = queue(1);
    let sent = queue.start_send(
        b"x",
        1,
        Deferred {
            id: 1,
            sched_priority: 0,
            answer: Box::new(|_| panic!("not deferred")),
        },
    );
    assert_eq!(sent.unwrap(), Started::Done(()));
    let mut buffer = [0; 16];
    let received = queue.start_receive(
        &mut buffer,
        Deferred {
            id: 2,
            sched_priority: 0,
            answer: Box::new(|_| panic!("not deferred")),
        },
    );
    let want = Received {
        len: 1,
        priority: 1,
    };
    assert_eq!(received.unwrap(), Started::Done(want));
    assert!(!queue.cancel(1, Errno::EINTR) && !queue.cancel(2, Errno::EINTR));
}

#[test]
fn a_watch_reports_each_edge_once() {
    let queue = queue(2);
    let told = Arc::new(Mutex::new(0));
    let watch = |interest| {
        let told = Arc::clone(&told);
        queue.watch(7, interest, Arc::new(move || *told.lock().unwrap() += 1))
    };
    assert_eq!(watch(Ready::READ), Ready::WRITE);
    now(&queue, b"1");
    now(&queue, b"2");
    assert_eq!(*told.lock().unwrap(), 1);
    assert_eq!(watch(Ready::READ), Ready::READ);
    queue.receive(&mut [0; 16], true, &Wait::default()).unwrap();
    assert_eq!(*told.lock().unwrap(), 1, "it does not care for room");
    now(&queue, b"3");
    assert_eq!(*told.lock().unwrap(), 2, "though there was one before");
    watch(Ready::READ);
    watch(Ready::WRITE);
    queue.receive(&mut [0; 16], true, &Wait::default()).unwrap();
    assert_eq!(*told.lock().unwrap(), 3, "either will do");
    watch(Ready::READ);
    queue.unwatch(7);
    now(&queue, b"4");
    assert_eq!(*told.lock().unwrap(), 3);
}
