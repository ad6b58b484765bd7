//! stress-ng: processes that send each other messages of rising numbers, and verify them.

use crate::program::{run_on_kernel, run_on_mount};
use uext4_testkit::prelude::*;

const MESSAGES: u64 = 20_000;

fn stress() -> Command {
    let mut stress = Command::new("stress-ng");
    stress.args(["--mq", "2", "--verify", "--temp-path", "/tmp"]);
    // A hang ends it too, and fails the number of messages.
    stress.args(["--timeout", "60", "--metrics-brief", "--mq-ops"]);
    stress.arg(MESSAGES.to_string());
    stress
}

/// How many messages were received, by its own count.
fn messages(said: &str) -> u64 {
    let counts = said.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "mq");
        words.nth(1)?.parse::<u64>().ok()
    });
    counts.sum()
}

#[test]
fn stress_ng_verifies_its_messages() -> Result<()> {
    if !is_installed("stress-ng") {
        return Ok(());
    }
    if let Some(said) = run_on_kernel(&stress())? {
        ensure!(messages(&said) >= MESSAGES, "too few: {said}");
    }
    let mut ran = run_on_mount(&mut stress())?;
    // Its receiver ends without a word at EINTR and ETIMEDOUT, which a clock set forward causes too: what fails must fail
    // again.
    for _ in 0..2 {
        let Some((said, _)) = ran.take_if(|(said, _)| messages(said) < MESSAGES) else {
            break;
        };
        eprintln!("too few, once more: {said}");
        ran = run_on_mount(&mut stress())?;
    }
    let Some((said, ioctls)) = ran else {
        return Ok(());
    };
    ensure!(messages(&said) >= MESSAGES, "too few: {said}");
    ensure!(
        ioctls >= 2 * MESSAGES,
        "only {ioctls} ioctls: were these the mount's queues? {said}"
    );
    Ok(())
}
