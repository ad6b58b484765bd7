//! A headless Chromium for tests, driven through chromedriver over the WebDriver protocol.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `driver` | the chromedriver process, and requests to it |
//! | `session` | [`Browser`]: one window of one size |
#![forbid(unsafe_code)]

mod driver;
mod session;

pub use session::{Browser, BrowserError};
