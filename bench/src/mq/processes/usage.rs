//! What threads took of the machine, from proc(5).

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Ticks of a second, in which proc(5) counts CPU time.
const USER_HZ: u64 = 100;

/// What threads took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Times that they gave up the CPU to wait.
    pub voluntary_switches: u64,
    /// Times that it was taken from them.
    pub involuntary_switches: u64,
    /// CPU time in the program, in whole ticks.
    pub user_us: u64,
    /// CPU time in the kernel, in whole ticks.
    pub system_us: u64,
}

impl Usage {
    /// Of the calling thread since it began.
    pub fn of_this_thread() -> anyhow::Result<Usage> {
        Usage::of_thread(Path::new("/proc/thread-self"))
    }

    /// Of all threads that a process has now, since they began.
    pub fn of_process(pid: u32) -> anyhow::Result<Usage> {
        let mut all = Usage::default();
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let dir = thread?.path();
            match Usage::of_thread(&dir) {
                // It ended meanwhile.
                Err(_) if !dir.exists() => {}
                usage => all = all.plus(usage?),
            }
        }
        Ok(all)
    }

    fn of_thread(dir: &Path) -> anyhow::Result<Usage> {
        let stat = fs::read_to_string(dir.join("stat"))?;
        let status = fs::read_to_string(dir.join("status"))?;
        parse(&stat, &status).with_context(|| format!("{}: what it says is new", dir.display()))
    }

    fn with(self, other: Usage, sum: fn(u64, u64) -> u64) -> Usage {
        Usage {
            voluntary_switches: sum(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: sum(self.involuntary_switches, other.involuntary_switches),
            user_us: sum(self.user_us, other.user_us),
            system_us: sum(self.system_us, other.system_us),
        }
    }

    /// Both together.
    pub fn plus(self, other: Usage) -> Usage {
        self.with(other, u64::saturating_add)
    }

    /// What was added since; a thread that ended since counts no more.
    pub fn since(self, before: Usage) -> Usage {
        self.with(before, u64::saturating_sub)
    }
}

/// Of the texts `stat` and `status` of a thread.
fn parse(stat: &str, status: &str) -> Option<Usage> {
    // The name may have spaces and brackets; after it come the state, field 3, and so on to utime, field 14.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11);
    let mut time_us = || Some(times.next()?.parse::<u64>().ok()? * (1_000_000 / USER_HZ));
    let switches = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().parse().ok()
    };
    Some(Usage {
        voluntary_switches: switches("voluntary_ctxt_switches:")?,
        involuntary_switches: switches("nonvoluntary_ctxt_switches:")?,
        user_us: time_us()?,
        system_us: time_us()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_read_whatever_their_name() {
        let stat = "7 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14";
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        let want = Usage {
            voluntary_switches: 5,
            involuntary_switches: 6,
            user_us: 110_000,
            system_us: 120_000,
        };
        assert_eq!(parse(stat, status), Some(want));
        assert_eq!(parse(stat, "Name:\ta\n"), None);
        assert_eq!(parse("7 (a) S 1", status), None);
    }

    #[test]
    fn this_process_is_more_than_this_thread() {
        let thread = Usage::of_this_thread().unwrap();
        let process = Usage::of_process(std::process::id()).unwrap();
        assert!(process.voluntary_switches >= thread.voluntary_switches);
        assert_eq!(thread.plus(process).since(process), thread);
    }
}
