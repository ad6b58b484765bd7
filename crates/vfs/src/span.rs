//! Spans around operations.

use crate::errno::Result;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span};

/// Runs `work`: in the span that `span` makes if a subscriber records spans of level debug, whose field `errno` gets the
/// name of the error number if `work` fails.
///
/// Otherwise the cost is one load and one branch; `span` is not called.
#[inline(always)]
pub fn in_span<T>(span: impl FnOnce() -> Span, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match LevelFilter::current() < Level::DEBUG {
        true => work(),
        false => traced(span, work),
    }
}

#[cold]
#[inline(never)]
fn traced<T>(span: impl FnOnce() -> Span, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let span = span();
    let result = span.in_scope(work);
    if let Err(e) = &result {
        span.record("errno", e.errno().name());
    }
    result
}
