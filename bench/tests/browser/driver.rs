//! The chromedriver process, and requests to it.

use super::BrowserError;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use ureq::Agent;

/// Longer than any page of a test takes, so that a hanging browser fails the test.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A chromedriver on a port of its own; it ends with this value.
pub(crate) struct Driver {
    process: Child,
    address: String,
    agent: Agent,
    /// Held, as a program that writes to a pipe without a reader is ended.
    _out: ChildStdout,
}

impl Driver {
    /// Starts chromedriver on a free port, with a configuration of fonts of its own where one is named.
    ///
    /// # Errors
    /// It did not start, or ended without telling its port.
    pub(crate) fn start(fonts: Option<&Path>) -> Result<Self, BrowserError> {
        let mut command = Command::new("chromedriver");
        if let Some(fonts) = fonts {
            command.env("FONTCONFIG_FILE", fonts);
        }
        command
            .arg("--port=0")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let out = process.stdout.take();
        let mut out = out.ok_or_else(|| BrowserError::new("chromedriver without an output"))?;
        let mut lines = BufReader::new(&mut out).lines().map_while(Result::ok);
        let port = lines.find_map(|line| port_of(&line));
        let config = Agent::config_builder()
            .timeout_global(Some(ANSWER_MAX))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        let address = format!("http://127.0.0.1:{}", port.unwrap_or(0));
        // Made before the port is read, so that the process ends on that error too.
        let driver = Self {
            process,
            address,
            agent: config.into(),
            _out: out,
        };
        match port {
            Some(_) => Ok(driver),
            None => Err(BrowserError::new(
                "chromedriver ended without telling its port",
            )),
        }
    }

    /// Sends a command; returns its value.
    ///
    /// # Errors
    /// What the driver says went wrong.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value, BrowserError> {
        let answer = self
            .agent
            .post(format!("{}{path}", self.address))
            .send_json(body)?;
        value_of(answer)
    }

    /// Asks for something; returns its value.
    ///
    /// # Errors
    /// What the driver says went wrong.
    pub(crate) fn get(&self, path: &str) -> Result<Value, BrowserError> {
        value_of(self.agent.get(format!("{}{path}", self.address)).call()?)
    }

    /// Ends what `path` names.
    ///
    /// # Errors
    /// What the driver says went wrong.
    pub(crate) fn delete(&self, path: &str) -> Result<Value, BrowserError> {
        value_of(
            self.agent
                .delete(format!("{}{path}", self.address))
                .call()?,
        )
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It may have ended already; either way nothing is left to do about an error.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `ChromeDriver was started successfully on port 41234.`
fn port_of(line: &str) -> Option<u16> {
    let (_, tail) = line.split_once("started successfully on port ")?;
    tail.trim_end_matches('.').parse().ok()
}

fn value_of(mut answer: ureq::http::Response<ureq::Body>) -> Result<Value, BrowserError> {
    let good = answer.status().is_success();
    // A screenshot of a long page is larger than what is read without a word.
    let body = answer.body_mut().with_config().limit(256 << 20);
    let mut body: Value = body.read_json()?;
    let value = body.get_mut("value").map(Value::take).unwrap_or_default();
    if good {
        return Ok(value);
    }
    let why = value
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or("no reason given");
    Err(BrowserError::new(why))
}

#[cfg(test)]
mod tests {
    use super::port_of;

    #[test]
    fn the_port_is_told_in_words() {
        let line = "ChromeDriver was started successfully on port 41234.";
        assert_eq!(port_of(line), Some(41234));
        assert_eq!(port_of("Starting ChromeDriver 1.2.3 on port 0"), None);
    }
}
