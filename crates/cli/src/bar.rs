//! A bar on standard error, for work of more than a second and on a terminal only.

use crate::interrupt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const QUIET: Duration = Duration::from_secs(1);

/// How far the work is. Gone from the screen once it is dropped.
pub struct Bar {
    bar: ProgressBar,
    started: Instant,
    /// Nothing more is to be decided: it is shown, or it never will be.
    settled: AtomicBool,
}

impl Bar {
    /// Nothing done yet.
    pub fn new() -> Bar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Bar {
            bar,
            started: Instant::now(),
            settled: AtomicBool::new(!std::io::stderr().is_terminal()),
        }
    }

    fn begin(&self, name: &str, total: u64) {
        let in_bytes = name == "data" || name == "copy";
        let counts = if in_bytes {
            "{bytes}/{total_bytes} {binary_bytes_per_sec}"
        } else {
            "{human_pos}/{human_len}"
        };
        let template = match total {
            0 if in_bytes => "{spinner} {msg} {bytes} {binary_bytes_per_sec}".to_owned(),
            0 => "{spinner} {msg} {human_pos}".to_owned(),
            _ => format!("{{msg:<12}} [{{wide_bar}}] {counts} {{eta}}"),
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            self.bar.set_style(style);
        }
        self.bar.reset();
        if total > 0 {
            self.bar.set_length(total);
        } else {
            self.bar.unset_length();
        }
        self.bar.set_message(name.to_owned());
        self.show_when_late();
    }

    fn add(&self, n: u64) {
        self.show_when_late();
        self.bar.inc(n);
    }

    fn show_when_late(&self) {
        if !self.settled.load(Ordering::Relaxed)
            && self.started.elapsed() > QUIET
            && !self.settled.swap(true, Ordering::Relaxed)
        {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl uext4::Progress for Bar {
    fn phase(&self, name: &str, total: u64) {
        self.begin(name, total);
    }

    fn advance(&self, n: u64) {
        self.add(n);
    }

    fn is_cancelled(&self) -> bool {
        interrupt::check().is_err()
    }
}

impl uext4::CheckProgress for Bar {
    fn phase(&self, name: &str, total: u64) {
        self.begin(name, total);
    }

    fn advance(&self, n: u64) {
        self.add(n);
    }
}
