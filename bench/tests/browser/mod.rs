//! A headless Chromium for tests, driven through chromedriver over the WebDriver protocol.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `driver` | the chromedriver process, and requests to it |
//! | `page` | what is wrong with a page of charts |
//! | `session` | [`Browser`]: one window of one size |

mod driver;
mod page;
mod session;

pub use session::{Browser, BrowserError};
