//! 32 C processes that use one namespace: half of them send to 8 queues, half receive, by calls that wait, that do not
//! wait and that wait for a time, and by poll(2). No message is lost, none comes twice, none is changed, and those of a
//! sender with the same priority arrive in order.
//!
//! `UEXT4_MQ_MESSAGES` is how many messages each sender sends; `UEXT4_MQ_SIDE` chooses a side.

#[path = "c_program.rs"]
mod c_program;
#[path = "namespace.rs"]
mod namespace;
#[path = "workers/mod.rs"]
#[expect(dead_code, reason = "no process is killed here")]
mod workers;

use anyhow::{Result, ensure};
use uext4_testkit::require;
use workers::verdict::{Verdict, judge};
use workers::{Side, Workers};

const QUEUES: u32 = 8;
/// Senders, and as many receivers.
const SENDERS: u32 = 16;

fn messages() -> Result<u64> {
    Ok(match std::env::var("UEXT4_MQ_MESSAGES") {
        Ok(text) => text.parse()?,
        Err(_) => 2000,
    })
}

fn exchange(side: Side) -> Result<()> {
    let mut workers = require!(some Workers::new(side, QUEUES)?, Ok(()));
    let messages = messages()?;
    workers.run("make", 0)?;
    for i in 0..SENDERS {
        workers.start("send", i, messages)?;
        // Of each queue, one of either kind.
        let role = if i < QUEUES { "receive" } else { "poll" };
        workers.start(role, i, 0)?;
    }
    workers.join("send")?;
    workers.run("stop", SENDERS.into())?;
    workers.join("receive")?;
    workers.join("poll")?;
    let verdict = judge(&workers.logs()?, QUEUES)?;
    let all = Verdict {
        received: SENDERS as usize * messages as usize,
        ..Verdict::default()
    };
    ensure!(verdict == all, "{side:?}: {verdict:?}, not {all:?}");
    workers.run("end", 0)?;
    workers.finish()
}

#[test]
fn one_namespace() -> Result<()> {
    for &side in Side::chosen() {
        exchange(side)?;
    }
    Ok(())
}
