//! The HTML page.
