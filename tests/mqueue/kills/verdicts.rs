//! The verdict on logs that are made up: a fault is found.

use crate::workers::log::{Call, Log, Message};
use crate::workers::verdict::{Verdict, judge};

fn message(number: u64) -> Message {
    Message {
        sender: 1,
        queue: 0,
        priority: 1,
        number,
    }
}

fn call(number: u64) -> Call {
    Call {
        returned: true,
        message: Some(message(number)),
        whole: true,
    }
}

fn log(index: u32, sends: bool, numbers: &[u64]) -> Log {
    Log {
        index,
        sends,
        killed: false,
        calls: numbers.iter().copied().map(call).collect(),
    }
}

/// Three are sent, and these are received by two.
fn verdict(received: [&[u64]; 2]) -> Result<Verdict, String> {
    let [first, second] = received;
    let logs = [
        log(0, true, &[0, 1, 2]),
        log(1, false, first),
        log(2, false, second),
    ];
    judge(&logs, 1).map_err(|error| error.to_string())
}

fn fault(received: [&[u64]; 2]) -> String {
    verdict(received).expect_err("is found")
}

#[test]
fn a_lost_message_is_missing() {
    let lost = verdict([&[0], &[2]]).expect("all else is well");
    assert_eq!((lost.received, lost.missing), (2, 1));
    let none = verdict([&[0, 2], &[1]]).expect("all is well");
    assert_eq!((none.received, none.missing), (3, 0));
}

#[test]
fn faults_are_found() {
    assert!(fault([&[0, 1], &[1, 2]]).contains("twice"));
    assert!(fault([&[0, 2, 1], &[]]).contains("after"));
    assert!(fault([&[0, 1], &[2, 3]]).contains("never sent"));
    let mut logs = [log(0, true, &[0]), log(1, false, &[0])];
    logs[1].calls[0].whole = false;
    let changed = judge(&logs, 1).expect_err("is found");
    assert!(changed.to_string().contains("changed"));
    let logs = [log(0, true, &[0]), log(1, false, &[0])];
    let elsewhere = judge(&logs, 2).expect_err("is found");
    assert!(elsewhere.to_string().contains("another queue"));
}

#[test]
fn who_is_killed_may_have_sent_or_received() {
    let mut logs = [log(0, true, &[0, 1]), log(1, false, &[0])];
    logs[0].killed = true;
    logs[0].calls[1].returned = false;
    let without = judge(&logs, 1).expect("it was not sent");
    assert_eq!((without.received, without.missing), (1, 0));
    logs[1].calls.push(call(1));
    logs[1].killed = true;
    logs[1].calls[1].returned = false;
    let with = judge(&logs, 1).expect("it was sent and received");
    assert_eq!((with.received, with.missing, with.unseen), (2, 0, 0));
    logs[1].calls[1].message = None;
    logs[0].calls[1].returned = true;
    let unseen = judge(&logs, 1).expect("one is missing");
    assert_eq!((unseen.received, unseen.missing, unseen.unseen), (1, 1, 1));
}
