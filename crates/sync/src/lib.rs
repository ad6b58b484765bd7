//! Ranked, counted locks. (under construction)

/// Panics in debug builds when the calling thread holds a lock of rank `group` or below.
pub fn assert_may_block(_what: &'static str) {}
