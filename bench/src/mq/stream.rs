//! One way: a sender and a receiver for each queue. The receiver checks that each message came once, and
//! in order within its priority.

use super::channel::Channel;
use super::message::{Buffer, Message};
use crate::sample::Work;
use crate::workers::{self, StopFlag};
use anyhow::{bail, ensure};
use std::time::Duration;

/// Priorities that are mixed: 0 to 31.
const PRIORITIES: usize = 32;

/// The priorities of the messages, by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priorities {
    /// All the same.
    One,
    /// Mixed, in the same way in each run.
    Mixed,
}

impl Priorities {
    #[inline(always)]
    fn of(self, number: u64) -> u32 {
        match self {
            Priorities::One => 0,
            // The top bits of a product with the golden ratio are spread evenly.
            Priorities::Mixed => (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59) as u32,
        }
    }
}

/// What came so far. A number has one priority, and within it numbers only rise: so none came twice, and
/// if as many came as were sent, none is lost.
struct Check {
    priorities: Priorities,
    received: u64,
    /// For each priority one more than the number that came last.
    next: [u64; PRIORITIES],
}

impl Check {
    fn new(priorities: Priorities) -> Check {
        Check {
            priorities,
            received: 0,
            next: [0; PRIORITIES],
        }
    }

    #[inline(always)]
    fn message(&mut self, number: u64, priority: u32) -> anyhow::Result<()> {
        let sent_with = self.priorities.of(number);
        ensure!(
            priority == sent_with,
            "message {number} was sent with priority {sent_with} and came with {priority}"
        );
        let next = &mut self.next[priority as usize % PRIORITIES];
        ensure!(
            number >= *next,
            "message {number} of priority {priority} came twice or late, after {}",
            *next - 1
        );
        *next = number + 1;
        self.received += 1;
        Ok(())
    }

    fn end(self, sent: u64) -> anyhow::Result<u64> {
        let received = self.received;
        ensure!(
            received == sent,
            "{sent} messages were sent and {received} came"
        );
        Ok(received)
    }
}

/// Messages of so many bytes go through each queue for `time`, and until the last has come.
pub fn run(
    queues: &[impl Channel],
    bytes: usize,
    priorities: Priorities,
    time: Duration,
) -> anyhow::Result<Work> {
    let done = workers::run(2 * queues.len(), Some(time), |thread, stop| {
        let (queue, mut buffer) = (&queues[thread / 2], Buffer::new(bytes));
        match thread % 2 {
            0 => send(queue, &mut buffer, priorities, stop),
            _ => receive(queue, &mut buffer, priorities, stop),
        }
    })?;
    Ok(Work {
        ops: done.results.iter().sum(),
        seconds: done.seconds,
        ..Work::default()
    })
}

/// Sends until asked to stop. What it sent its receiver counts.
pub fn send(
    queue: &impl Channel,
    buffer: &mut Buffer,
    priorities: Priorities,
    stop: &StopFlag,
) -> anyhow::Result<u64> {
    let mut sent = 0;
    let mut outcome = Ok(0);
    while outcome.is_ok() && stop.is_running() {
        let message = Message::Number(sent);
        match buffer.send(queue, message, priorities.of(sent)) {
            Ok(()) => sent += 1,
            Err(e) => outcome = Err(e),
        }
    }
    // Whatever went wrong: the receiver waits for this one.
    buffer.send(queue, Message::Last(sent), 0)?;
    outcome
}

/// Receives until the last message; how many came. After a wrong one too, as the sender waits for room.
pub fn receive(
    queue: &impl Channel,
    buffer: &mut Buffer,
    priorities: Priorities,
    stop: &StopFlag,
) -> anyhow::Result<u64> {
    let mut check = Check::new(priorities);
    let mut wrong = None;
    loop {
        match buffer.receive(queue)? {
            (Message::Number(number), priority) => {
                if let Err(e) = check.message(number, priority) {
                    stop.stop();
                    wrong.get_or_insert(e);
                }
            }
            (Message::Last(sent), _) => {
                if let Some(wrong) = wrong {
                    bail!(wrong);
                }
                return check.end(sent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mq::channel::Channel;
    use crate::mq::ping_pong;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use uext4_mqueue::{Description, Limits, MqOpen, MqueueType};
    use uext4_vfs::Caller;

    /// A queue that sends the sixth message so many times.
    struct Faulty {
        queue: Arc<Description>,
        sends: AtomicU64,
        times: usize,
    }

    impl Channel for Faulty {
        fn send(&self, bytes: &[u8], priority: u32) -> anyhow::Result<()> {
            let times = match self.sends.fetch_add(1, Relaxed) {
                5 => self.times,
                _ => 1,
            };
            (0..times).try_for_each(|_| Channel::send(&self.queue, bytes, priority))
        }

        fn receive(&self, buffer: &mut [u8]) -> anyhow::Result<(usize, u32)> {
            Channel::receive(&self.queue, buffer)
        }
    }

    fn faulty(names: &[&[u8]], times: usize) -> Vec<Faulty> {
        let namespace = MqueueType::default().create(Limits::default());
        let how = MqOpen::READ | MqOpen::WRITE | MqOpen::CREATE;
        let open = |name: &[u8]| namespace.open(&Caller::root(), name, how, 0o600, Some((10, 8)));
        let one = |name: &&[u8]| Faulty {
            queue: open(name).unwrap(),
            sends: AtomicU64::new(0),
            times,
        };
        names.iter().map(one).collect()
    }

    #[test]
    fn a_run_with_a_lost_or_doubled_message_ends_with_an_error() {
        let time = Duration::from_millis(5);
        for priorities in [Priorities::One, Priorities::Mixed] {
            assert!(run(&faulty(&[b"/a"], 1), 8, priorities, time).is_ok());
            for times in [0, 2] {
                assert!(run(&faulty(&[b"/a"], times), 8, priorities, time).is_err());
            }
        }
        assert!(ping_pong::run(&faulty(&[b"/a", b"/b"], 1), 8, time).is_ok());
        assert!(ping_pong::run(&faulty(&[b"/a", b"/b"], 2), 8, time).is_err());
    }

    /// Feeds (number, priority) in order.
    fn checked(priorities: Priorities, numbers: &[u64], sent: u64) -> anyhow::Result<u64> {
        let mut check = Check::new(priorities);
        for &number in numbers {
            check.message(number, priorities.of(number))?;
        }
        check.end(sent)
    }

    #[test]
    fn each_message_once_and_in_order() {
        assert_eq!(checked(Priorities::One, &[0, 1, 2], 3).unwrap(), 3);
        for (numbers, sent) in [(&[0, 2][..], 3), (&[0, 0], 1), (&[1, 0], 2), (&[0, 1], 1)] {
            assert!(
                checked(Priorities::One, numbers, sent).is_err(),
                "{numbers:?}"
            );
        }
        assert!(Check::new(Priorities::One).message(0, 1).is_err());
    }

    #[test]
    fn the_highest_priority_may_come_first() {
        let mut numbers: Vec<u64> = (0..100).collect();
        numbers.sort_by_key(|&n| std::cmp::Reverse(Priorities::Mixed.of(n)));
        assert_ne!(numbers[0], 0);
        assert_eq!(checked(Priorities::Mixed, &numbers, 100).unwrap(), 100);
        numbers.swap(0, 1);
        assert!(checked(Priorities::Mixed, &numbers, 100).is_err());
        let seen: std::collections::HashSet<u32> =
            numbers.iter().map(|&n| Priorities::Mixed.of(n)).collect();
        assert_eq!(seen.len(), PRIORITIES);
    }
}
