//! A bar on standard error, for runs of more than two seconds and on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A shorter run shows nothing.
const QUIET: Duration = Duration::from_secs(2);

/// How far a run is. Gone from the screen once it is dropped.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    /// Nothing more is to be decided: it is shown, or it never will be.
    settled: bool,
}

impl Progress {
    /// Nothing done yet of `steps`.
    pub fn new(steps: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{msg:<40} [{wide_bar}] {pos}/{len} {eta}")
        {
            bar.set_style(style);
        }
        Progress {
            bar,
            started: Instant::now(),
            settled: !std::io::stderr().is_terminal(),
        }
    }

    /// The next step begins.
    pub fn begin(&mut self, what: String) {
        if !self.settled && self.started.elapsed() > QUIET {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.settled = true;
        }
        self.bar.set_message(what);
    }

    /// The step is done.
    pub fn done(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
