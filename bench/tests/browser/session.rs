//! One window of one size.

use super::driver::Driver;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

/// Windows can't be narrower than this; narrower screens are emulated.
const WINDOW_WIDTH_MIN: u32 = 500;

/// Why the browser did not do what it was asked for.
#[derive(Debug)]
pub struct BrowserError(String);

impl BrowserError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl std::fmt::Display for BrowserError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "browser: {}", self.0)
    }
}

impl std::error::Error for BrowserError {}

impl From<ureq::Error> for BrowserError {
    fn from(error: ureq::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<std::io::Error> for BrowserError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// A headless Chromium; it ends with this value.
pub struct Browser {
    session: String,
    driver: Driver,
    /// Where Chromium keeps its profile; removed after both processes are gone.
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser whose page has this size in CSS pixels.
    ///
    /// # Panics
    /// Chromium or chromedriver is not installed or does not start.
    pub fn start(width: u32, height: u32) -> Self {
        Self::launch(width, height, None).unwrap()
    }

    /// The same, with a configuration of fontconfig in place of the machine's.
    ///
    /// # Panics
    /// As [`Browser::start`].
    pub fn start_with_fonts(width: u32, height: u32, fonts: &Path) -> Self {
        Self::launch(width, height, Some(fonts)).unwrap()
    }

    fn launch(width: u32, height: u32, fonts: Option<&Path>) -> Result<Self, BrowserError> {
        let profile = tempfile::tempdir()?;
        let driver = Driver::start(fonts)?;
        let answer = driver.post("/session", &capabilities(profile.path(), width, height))?;
        let id = answer.get("sessionId").and_then(Value::as_str);
        let id = id.ok_or_else(|| BrowserError::new("a session without a name"))?;
        let session = format!("/session/{id}");
        Ok(Self {
            session,
            driver,
            _profile: profile,
        })
    }

    /// Opens a page and waits until it is loaded.
    ///
    /// # Errors
    /// The path can't be resolved or the page not be loaded.
    pub fn open_file(&self, path: &Path) -> Result<(), BrowserError> {
        let path = path.canonicalize()?;
        let url = format!("file://{}", path.display());
        self.ask("url", &json!({ "url": url })).map(drop)
    }

    /// Runs the body of a function in the page; returns what it returns.
    ///
    /// # Errors
    /// What it throws.
    pub fn eval(&self, script: &str) -> Result<Value, BrowserError> {
        self.eval_with(script, &json!([]))
    }

    /// The same with arguments, which the script finds in `arguments`.
    pub(crate) fn eval_with(&self, script: &str, args: &Value) -> Result<Value, BrowserError> {
        self.ask("execute/sync", &json!({ "script": script, "args": args }))
    }

    /// The errors on the console since the last call: what scripts threw or printed as an error,
    /// and what could not be loaded.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn console_errors(&self) -> Result<Vec<String>, BrowserError> {
        let log = self.ask("se/log", &json!({ "type": "browser" }))?;
        let entries = log.as_array().map(Vec::as_slice).unwrap_or_default();
        let severe = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        let message = |entry: &Value| entry["message"].as_str().unwrap_or_default().to_owned();
        Ok(severe.map(message).collect())
    }

    /// Writes what the window shows as a PNG.
    ///
    /// # Errors
    /// It can't be taken, or the file not be written.
    pub fn screenshot(&self, path: &Path) -> Result<(), BrowserError> {
        let picture = self.driver.get(&format!("{}/screenshot", self.session))?;
        let bytes = STANDARD.decode(picture.as_str().unwrap_or_default());
        let bytes = bytes.map_err(|error| BrowserError::new(error.to_string()))?;
        Ok(std::fs::write(path, bytes)?)
    }

    fn ask(&self, command: &str, body: &Value) -> Result<Value, BrowserError> {
        self.driver
            .post(&format!("{}/{command}", self.session), body)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends Chromium; the driver, which ends next, would leave it running.
        if let Err(error) = self.driver.delete(&self.session) {
            eprintln!("{error}");
        }
    }
}

fn capabilities(profile: &Path, width: u32, height: u32) -> Value {
    let mut args: Vec<String> = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
    ]
    .map(str::to_owned)
    .to_vec();
    args.push(format!("--user-data-dir={}", profile.display()));
    args.push(format!(
        "--window-size={},{height}",
        width.max(WINDOW_WIDTH_MIN)
    ));
    let mut options = json!({ "args": args });
    if width < WINDOW_WIDTH_MIN {
        let screen = json!({ "width": width, "height": height, "pixelRatio": 1, "mobile": true });
        options["mobileEmulation"] = json!({ "deviceMetrics": screen });
    }
    json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": options,
        "goog:loggingPrefs": { "browser": "ALL" },
    } } })
}
