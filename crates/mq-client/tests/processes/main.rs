//! 32 C processes that use one namespace: half of them send to 8 queues, half receive, by calls that wait, that do not
//! wait and that wait for a time, and by poll(2). No message is lost, none comes twice, none is changed, and those of a
//! sender with the same priority come in order.
//!
//! `UEXT4_MQ_MESSAGES` is how many messages each sender sends; `UEXT4_MQ_SIDE` chooses a side.

#[path = "../crowd/mod.rs"]
#[expect(dead_code, reason = "nobody is killed here")]
mod crowd;
#[path = "../library/mod.rs"]
mod library;
#[path = "../namespace/mod.rs"]
mod namespace;
#[path = "../program/mod.rs"]
mod program;

use anyhow::{Result, ensure};
use crowd::verdict::{Verdict, judge};
use crowd::{Crowd, Side};

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
    let Some(mut crowd) = Crowd::new(side, QUEUES)? else {
        return Ok(());
    };
    let messages = messages()?;
    crowd.run("make", 0)?;
    for i in 0..SENDERS {
        crowd.start("send", i, messages)?;
        // Of each queue, one of either kind.
        let role = if i < QUEUES { "receive" } else { "poll" };
        crowd.start(role, i, 0)?;
    }
    crowd.join("send")?;
    crowd.run("stop", SENDERS.into())?;
    crowd.join("receive")?;
    crowd.join("poll")?;
    let verdict = judge(&crowd.logs()?, QUEUES)?;
    let all = Verdict {
        received: SENDERS as usize * messages as usize,
        ..Verdict::default()
    };
    ensure!(verdict == all, "{side:?}: {verdict:?}, not {all:?}");
    crowd.run("end", 0)?;
    crowd.finish()
}

#[test]
fn one_namespace() -> Result<()> {
    for &side in Side::chosen() {
        exchange(side)?;
    }
    Ok(())
}
