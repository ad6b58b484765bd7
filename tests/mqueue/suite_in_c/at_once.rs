//! All tests of the suite by 32 processes at the same time, each with a mount of its own.

use crate::namespace::{Mounted, can_mount};
use std::process::{Command, Stdio};
use uext4_testkit::require;

const PROCESSES: usize = 32;

#[test]
fn at_once() {
    require!(can_mount());
    let mut running = Vec::new();
    for _ in 0..PROCESSES {
        let mounted = Mounted::new().expect("mounts");
        let program = std::env::current_exe().expect("this program");
        let mut suite = Command::new(program);
        // All others.
        suite.args(["--test-threads=1", "--skip", "at_once::at_once"]);
        suite.env("UEXT4_MQ_SIDE", "mount");
        suite.env("UEXT4_MQ_SUITE_DIR", mounted.dir());
        let suite = suite.stdin(Stdio::null()).stdout(Stdio::piped());
        let suite = suite.stderr(Stdio::piped()).spawn().expect("starts");
        running.push((mounted, suite));
    }
    let mut failed = Vec::new();
    for (mounted, suite) in running {
        let output = suite.wait_with_output().expect("ends");
        if output.status.success() {
            mounted.unmount().expect("unmounts");
        } else {
            failed.push(String::from_utf8_lossy(&output.stdout).into_owned());
        }
    }
    let all = failed.len();
    assert!(all == 0, "{all} of {PROCESSES} failed: {}", failed[0]);
}
