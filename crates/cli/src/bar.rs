//! A bar on standard error, for work of more than a second and on a terminal only.

use crate::{interrupt, show};
use indicatif::{
    HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
    style::TemplateError,
};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const QUIET: Duration = Duration::from_secs(1);

/// When a bar is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On a terminal.
    Auto,
    /// Also where standard error is not a terminal, as lines then.
    Always,
    /// Never.
    Never,
}

static MODE: OnceLock<Mode> = OnceLock::new();

/// Sets when bars are shown; at most once, before the first.
pub fn set_mode(mode: Mode) {
    let _ = MODE.set(mode);
}

/// How far the work is. Gone from the screen once it is dropped.
pub struct Bar {
    bar: ProgressBar,
    started: Instant,
    /// Nothing more is to be decided: it is shown, or it never will be.
    settled: AtomicBool,
    /// When a line was last printed, where there is no terminal to draw on.
    lines: Option<Mutex<Option<Instant>>>,
}

impl Bar {
    /// Nothing done yet.
    pub fn new() -> Bar {
        Bar::unless(false)
    }

    /// Nothing done yet; with `quiet` it is never shown.
    pub fn unless(quiet: bool) -> Bar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let is_terminal = std::io::stderr().is_terminal();
        let shown = match MODE.get().unwrap_or(&Mode::Auto) {
            _ if quiet => false,
            Mode::Auto => is_terminal,
            Mode::Always => true,
            Mode::Never => false,
        };
        let as_lines = shown && !is_terminal;
        Bar {
            bar,
            started: Instant::now(),
            settled: AtomicBool::new(!shown || as_lines),
            lines: as_lines.then(Mutex::default),
        }
    }

    /// Whether it will be shown if the work takes long.
    pub fn is_wanted(&self) -> bool {
        self.lines.is_some() || !self.settled.load(Ordering::Relaxed)
    }

    /// Sets the total of a copy, once it is known.
    pub fn total(&self) -> impl FnOnce(u64) + Send + use<> {
        let bar = self.bar.clone();
        move |total| {
            bar.set_length(total);
            if let Ok(style) = style("copy", total) {
                bar.set_style(style);
            }
        }
    }

    fn begin(&self, name: &str, total: u64) {
        if let Ok(style) = style(name, total) {
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
        self.print_line();
    }

    /// A line a second.
    fn print_line(&self) {
        let Some(lines) = &self.lines else { return };
        let mut last = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if last.unwrap_or(self.started).elapsed() > QUIET {
            *last = Some(Instant::now());
            show::warn(self.line());
        }
    }

    /// How far it is.
    fn line(&self) -> String {
        let name = self.bar.message();
        let amount = |n: u64| match is_in_bytes(&name) {
            true => show::bytes(n),
            false => n.to_string(),
        };
        let of = self.bar.length().map(|of| {
            let left = HumanDuration(self.bar.eta());
            format!(" of {}, {left} left", amount(of))
        });
        let at = amount(self.bar.position());
        format!("{name}: {at}{}", of.unwrap_or_default())
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

fn is_in_bytes(phase: &str) -> bool {
    matches!(phase, "data" | "copy" | "verity" | "fsverity" | "digest")
}

/// How a phase is drawn.
fn style(name: &str, total: u64) -> Result<ProgressStyle, TemplateError> {
    let in_bytes = is_in_bytes(name);
    let counts = if in_bytes {
        "{bytes}/{total_bytes} {binary_bytes_per_sec}"
    } else {
        "{human_pos}/{human_len} {rate}"
    };
    let template = match total {
        0 if in_bytes => "{spinner} {msg} {bytes} {binary_bytes_per_sec}".to_owned(),
        0 => "{spinner} {msg} {human_pos} {rate}".to_owned(),
        _ => format!("{{msg:<12}} [{{wide_bar}}] {counts} {{eta}} left"),
    };
    let style = ProgressStyle::with_template(&template)?;
    Ok(style.with_key("rate", rate))
}

/// Steps in a second, without a fraction.
fn rate(state: &ProgressState, text: &mut dyn std::fmt::Write) {
    let steps = HumanCount(state.per_sec() as u64);
    // An error is the writer's own.
    let _ = write!(text, "{steps}/s");
}

impl Drop for Bar {
    fn drop(&mut self) {
        let last = self.lines.take().and_then(|last| last.into_inner().ok());
        if last.flatten().is_some() {
            show::warn(self.line());
        }
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
