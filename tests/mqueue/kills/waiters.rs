//! A killed waiter takes nothing: what is sent afterwards reaches others, on every side.

use crate::workers::verdict::judge;
use crate::workers::{Side, Workers};
use uext4_testkit::prelude::*;

/// Those that are killed, one after the other.
const KILLS: u64 = 10;
const MESSAGES: u64 = 100;

/// Several wait on each of two empty queues, and are killed; then messages are sent, which one that came
/// later receives, all of them.
fn on(side: Side) -> Result<()> {
    let mut workers = require!(some Workers::new(side, 1)?, Ok(()));
    workers.run("make", 0)?;
    for i in 0..KILLS {
        let role = if i % 2 == 0 { "receive" } else { "poll" };
        let waiter = workers.start(role, 0, 0)?;
        // Most will wait by now; what must hold does not depend on it.
        std::thread::sleep(Duration::from_millis(20));
        workers.kill(waiter)?;
    }
    workers.start("receive", 0, 0)?;
    workers.start("send", 0, MESSAGES)?;
    workers.join("send")?;
    workers.run("stop", 1)?;
    workers.join("receive")?;
    let verdict = judge(&workers.logs()?, 1)?;
    ensure!(
        (verdict.received, verdict.missing) == (MESSAGES as usize, 0),
        "{side:?}: {verdict:?}"
    );
    workers.run("end", 0)?;
    workers.finish()
}

#[test]
fn who_waits_and_is_killed_takes_nothing() -> Result<()> {
    for &side in Side::chosen() {
        on(side)?;
    }
    Ok(())
}
