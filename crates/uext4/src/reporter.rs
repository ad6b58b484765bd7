//! Log messages, and spans if they are asked for, as lines of text: a server sends them to the monitor, the only process
//! that it can reach; a command prints them.

use crate::line::Severity;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber, span};
use uext4_sync::{Mutex, class};

/// The environment variable that chooses the least severe level: `warn` unless set, `debug` with spans.
const LEVEL_VARIABLE: &str = "UEXT4_LOG";
/// The most messages in a window; a device that is gone makes one of each request.
const BURST: u64 = 20;
/// How long a window is.
const WINDOW: Duration = Duration::from_secs(10);
/// The most bytes of a message.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// The level that the environment asks for.
///
/// # Errors
/// [`UnknownLevel`]: there is no such level.
pub fn level_asked_for() -> Result<Option<LevelFilter>, UnknownLevel> {
    let asked = std::env::var_os(LEVEL_VARIABLE).filter(|level| !level.is_empty());
    let level = |asked: &OsString| asked.to_str().and_then(|text| text.parse().ok());
    match asked {
        Some(asked) => level(&asked).map(Some).ok_or(UnknownLevel(asked)),
        None => Ok(None),
    }
}

/// The environment asks for a level that does not exist.
#[derive(Clone, Debug)]
pub struct UnknownLevel(OsString);

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.0.display();
        write!(
            f,
            "{LEVEL_VARIABLE}: no level is named '{level}'; error, warn, info, debug and trace are, and off"
        )
    }
}

impl std::error::Error for UnknownLevel {}

/// The process has a subscriber already.
#[derive(Clone, Copy, Debug)]
pub struct AlreadyInstalled;

impl fmt::Display for AlreadyInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("log messages of this process are reported elsewhere already")
    }
}

impl std::error::Error for AlreadyInstalled {}

/// Passes lines to `sink`.
pub struct Reporter<S> {
    sink: S,
    level: LevelFilter,
    reports: Mutex<Reports>,
    span_ids: AtomicU64,
}

struct Reports {
    window: Window,
    spans: HashMap<u64, OpenSpan>,
}

/// A span that has not ended: its text so far.
struct OpenSpan {
    start: Instant,
    text: Text,
}

/// How many messages there were since when.
struct Window {
    start: Instant,
    messages: u64,
}

impl Window {
    /// Whether one more is reported, and how many before it did not.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        let mut unsaid = 0;
        if now.duration_since(self.start) >= WINDOW {
            unsaid = self.messages.saturating_sub(BURST);
            *self = Window {
                start: now,
                messages: 0,
            };
        }
        self.messages += 1;
        (self.messages <= BURST).then_some(unsaid)
    }
}

impl<S: Fn(Severity, String) + Send + Sync + 'static> Reporter<S> {
    /// Reports messages of `level` and worse to `sink`, and spans if these are debug messages.
    pub fn new(level: LevelFilter, sink: S) -> Reporter<S> {
        let window = Window {
            start: Instant::now(),
            messages: 0,
        };
        let spans = HashMap::new();
        Reporter {
            sink,
            level,
            reports: Mutex::new(&class::REPORTS, Reports { window, spans }),
            span_ids: AtomicU64::new(1),
        }
    }

    /// Makes this the subscriber of all threads of the process.
    ///
    /// # Errors
    /// The process already has a subscriber.
    pub fn install(self) -> Result<(), AlreadyInstalled> {
        tracing::subscriber::set_global_default(self).map_err(|_| AlreadyInstalled)
    }
}

impl<S: Fn(Severity, String) + Send + Sync + 'static> Subscriber for Reporter<S> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let severity = match *event.metadata().level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            _ => Severity::Debug,
        };
        let admitted = match severity {
            Severity::Debug => Some(0),
            _ => self.reports.lock().window.admit(Instant::now()),
        };
        let Some(unsaid) = admitted else { return };
        let mut text = Text::default();
        event.record(&mut text);
        let end = text.0.floor_char_boundary(MESSAGE_BYTES_MAX);
        text.0.truncate(end);
        if unsaid > 0 {
            // Writing to a string does not fail.
            let _ = write!(text.0, " ({unsaid} messages before this one are left out)");
        }
        (self.sink)(severity, text.0);
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let id = self.span_ids.fetch_add(1, Relaxed);
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        let start = Instant::now();
        let span = OpenSpan { start, text };
        self.reports.lock().spans.insert(id, span);
        span::Id::from_u64(id)
    }

    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        if let Some(span) = self.reports.lock().spans.get_mut(&id.into_u64()) {
            values.record(&mut span.text);
        }
    }

    fn try_close(&self, id: span::Id) -> bool {
        let span = self.reports.lock().spans.remove(&id.into_u64());
        if let Some(OpenSpan { start, text }) = span {
            let us = start.elapsed().as_micros();
            (self.sink)(Severity::Debug, format!("{} took {us} us", text.0));
        }
        true
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A message as text, with its fields after it.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::field::Empty;

    fn reported(work: impl FnOnce()) -> Vec<(Severity, String)> {
        reported_at(LevelFilter::WARN, work)
    }

    fn reported_at(level: LevelFilter, work: impl FnOnce()) -> Vec<(Severity, String)> {
        let (sink, lines) = std::sync::mpsc::channel();
        let reporter = Reporter::new(level, move |severity, message| {
            sink.send((severity, message)).unwrap();
        });
        tracing::subscriber::with_default(reporter, work);
        lines.try_iter().collect()
    }

    #[test]
    fn a_span_is_a_line_when_it_ends() {
        let work = || {
            let span = tracing::debug_span!("fuse", operation = "read", inode = 12, errno = Empty);
            span.in_scope(|| tracing::warn!("within"));
            span.record("errno", "EIO");
        };
        let messages = reported_at(LevelFilter::DEBUG, work);
        assert_eq!(messages[0], (Severity::Warning, "within".to_owned()));
        let (severity, line) = &messages[1];
        assert_eq!(*severity, Severity::Debug);
        assert!(line.starts_with("fuse operation=read inode=12 errno=EIO took "));
        assert_eq!(reported(work).len(), 1);
    }

    #[test]
    fn what_is_wrong_is_reported_and_nothing_else() {
        let messages = reported(|| {
            tracing::error!("inode {} is lost", 12);
            tracing::warn!(group = 3, "left alone");
            tracing::info!("all is well");
        });
        let expected = [
            (Severity::Error, "inode 12 is lost".to_owned()),
            (Severity::Warning, "left alone group=3".to_owned()),
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn a_flood_is_cut() {
        let messages = reported(|| {
            for number in 0..10 * BURST {
                tracing::error!("{number}");
            }
        });
        assert_eq!(messages.len() as u64, BURST);
        let start = Instant::now();
        let mut window = Window {
            start,
            messages: 10 * BURST,
        };
        assert_eq!(window.admit(start), None);
        assert_eq!(window.admit(start + WINDOW), Some(9 * BURST + 1));
        assert_eq!(window.admit(start + WINDOW), Some(0));
    }
}
