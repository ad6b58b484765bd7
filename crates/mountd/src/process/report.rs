//! Log messages of the server, sent to the monitor, the only process that the server can reach.

use super::request::FromServer;
use super::wire::Channel;
use crate::log::Severity;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};
use uext4_sync::{Mutex, class};

/// The most messages in a window; a device that is gone makes one of each request.
const BURST: u64 = 20;
/// How long a window is.
const WINDOW: Duration = Duration::from_secs(10);
/// The most bytes of a message.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Sends warnings and errors to the monitor; never waits for it, as it may be waiting for the server.
pub struct Reporter {
    channel: Arc<Channel>,
    window: Mutex<Window>,
    spans: AtomicU64,
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

impl Reporter {
    /// Reports to the other end of `channel`.
    pub fn new(channel: Arc<Channel>) -> Reporter {
        let window = Window {
            start: Instant::now(),
            messages: 0,
        };
        Reporter {
            channel,
            window: Mutex::new(&class::REPORTS, window),
            spans: AtomicU64::new(1),
        }
    }
}

impl Subscriber for Reporter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let admitted = self.window.lock().admit(Instant::now());
        let Some(unsaid) = admitted else { return };
        let mut text = Text::default();
        event.record(&mut text);
        let mut message = text.0;
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        if unsaid > 0 {
            // Writing to a string does not fail.
            let _ = write!(message, " ({unsaid} messages before this one are left out)");
        }
        let severity = match *event.metadata().level() {
            Level::ERROR => Severity::Error,
            _ => Severity::Warning,
        };
        // One that does not listen, or is behind, does without.
        let _ = self
            .channel
            .try_send(&FromServer::Wrong { severity, message });
    }

    // Spans are not recorded, but each needs its own id.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(self.spans.fetch_add(1, Relaxed))
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A message as text, with its fields after it.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
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

    fn reported(work: impl FnOnce()) -> Vec<(Severity, String)> {
        let (ours, theirs) = Channel::pair().unwrap();
        let reporter = Reporter::new(Arc::new(ours));
        tracing::subscriber::with_default(reporter, work);
        let theirs = Channel::from(theirs);
        let mut messages = Vec::new();
        while let Some((FromServer::Wrong { severity, message }, _)) = theirs.receive().unwrap() {
            messages.push((severity, message));
        }
        messages
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
