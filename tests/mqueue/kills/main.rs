//! C processes that send, receive, wait and are notified, and are killed meanwhile.
//!
//! No message is lost and none comes twice, but what a killed process had its hands on: a receiver takes with it what
//! its call has received, and the last message of a sender may be there or not. No call waits for ever, no registration
//! is left, and in the end the user is charged for nothing.
//!
//! `UEXT4_MQ_KILLS` is how many are killed, `UEXT4_SEED` changes when and which, `UEXT4_MQ_SIDE` chooses a side.

#[path = "../c_program.rs"]
mod c_program;
#[path = "../namespace.rs"]
mod namespace;
mod verdicts;
mod waiters;
#[path = "../workers/mod.rs"]
mod workers;

use uext4_testkit::prelude::*;
use workers::verdict::judge;
use workers::{Side, Workers};

const QUEUES: u32 = 4;
/// The processes of each queue.
const ROLES: [&str; 4] = ["trickle", "receive", "poll", "notify"];
/// The longest between two kills.
const PAUSE_US_MAX: u64 = 4000;
/// More messages than any sender gets done before it is killed.
const MESSAGES: u64 = 60_000;

/// How many descriptors the server of a mount has; 0 where there is none.
fn descriptors(workers: &Workers) -> Result<usize> {
    let Some(mounted) = workers.mounted() else {
        return Ok(0);
    };
    let server = uext4_testkit::server::pid_of(mounted.dir(), "pid").context("its statistics")?;
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.as_raw_nonzero()))?;
    Ok(open.count())
}

fn kill_some(side: Side, kills: u64) -> Result<()> {
    let mut workers = require!(some Workers::new(side, QUEUES)?, Ok(()));
    let room = workers.run("room", 0)?;
    let before = descriptors(&workers)?;
    workers.run("make", 0)?;
    let mut living = Vec::new();
    for queue in 0..QUEUES {
        for role in ROLES {
            let at = workers.start(role, queue, MESSAGES)?;
            living.push((role, queue, at));
        }
    }
    let mut random = fastrand::Rng::with_seed(env_number("UEXT4_SEED", 1));
    for _ in 0..kills {
        std::thread::sleep(Duration::from_micros(random.u64(..PAUSE_US_MAX)));
        let (role, queue, at) = &mut living[random.usize(..QUEUES as usize * ROLES.len())];
        workers.kill(*at)?;
        *at = workers.start(role, *queue, MESSAGES)?;
    }
    workers.stop()?;
    workers.join("trickle")?;
    workers.join("notify")?;
    // One for each receiver and each poller.
    workers.run("stop", u64::from(2 * QUEUES))?;
    workers.join("receive")?;
    workers.join("poll")?;
    let verdict = judge(&workers.logs()?, QUEUES)?;
    eprintln!("{side:?}: {kills} kills, {verdict:?}");
    // Messages are copied to the receiver's own memory: those of a killed one lie there.
    ensure!(verdict.missing == 0, "{side:?}: lost: {verdict:?}");
    workers.run("end", 0)?;
    ensure!(
        workers.run("room", 0)? == room,
        "{side:?}: charged for what is gone"
    );
    let after = descriptors(&workers)?;
    ensure!(
        after == before,
        "{side:?}: {after} descriptors, {before} before"
    );
    workers.finish()
}

#[test]
fn nothing_is_lost_by_a_kill() -> Result<()> {
    let kills = env_number("UEXT4_MQ_KILLS", 60);
    for &side in Side::chosen() {
        kill_some(side, kills)?;
    }
    Ok(())
}
