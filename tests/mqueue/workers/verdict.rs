//! Whether what was received is what was sent.

use crate::workers::log::{Log, Message, STOPS};
use uext4_testkit::prelude::*;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Messages that were received.
    pub received: usize,
    /// Messages that were not, though their senders' calls returned.
    pub missing: usize,
    /// Receivers that were killed in a call of which nothing is to be seen.
    pub unseen: usize,
}

/// Looks through the logs of workers of that many queues.
pub fn judge(logs: &[Log], queues: u32) -> Result<Verdict> {
    let mut sent = HashSet::new();
    let mut perhaps_sent = HashSet::new();
    let (senders, receivers): (Vec<_>, Vec<_>) = logs.iter().partition(|log| log.sends);
    for call in senders.iter().flat_map(|log| &log.calls) {
        let of = if call.returned {
            &mut sent
        } else {
            &mut perhaps_sent
        };
        of.extend(call.message);
    }
    let mut received = HashSet::new();
    let mut verdict = Verdict::default();
    for log in receivers {
        let mut newest: HashMap<(u32, u32), u64> = HashMap::new();
        for call in &log.calls {
            let Some(message) = call.message.filter(|m| m.sender != STOPS) else {
                verdict.unseen += usize::from(log.killed && !call.returned);
                continue;
            };
            ensure!(call.whole, "{message:?}: changed on its way");
            ensure!(received.insert(message), "{message:?}: received twice");
            let known = sent.contains(&message) || perhaps_sent.contains(&message);
            ensure!(known, "{message:?}: never sent");
            ensure!(
                message.queue == log.index % queues,
                "{message:?}: in another queue"
            );
            let of = (message.sender, message.priority);
            let before = newest.insert(of, message.number);
            let in_order = before.is_none_or(|before| before < message.number);
            ensure!(in_order, "{message:?}: after {before:?}");
        }
    }
    verdict.received = received.len();
    let missing = |message: &&Message| !received.contains(message);
    verdict.missing = sent.iter().filter(missing).count();
    Ok(verdict)
}
