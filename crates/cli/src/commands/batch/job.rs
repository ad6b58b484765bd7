//! A job, and the process that does it.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What is kept of a job's output, and of its errors; the rest is dropped.
const OUTPUT_MAX: u64 = 16 << 20;

/// A command of the list.
pub struct Job {
    /// The number of its line.
    pub line: usize,
    /// The command, quoted in one way.
    pub text: String,
    pub args: Vec<OsString>,
}

/// How a job ended.
#[derive(Serialize)]
pub struct Ended {
    line: usize,
    pub job: String,
    /// The exit status; nothing after a signal, or if it could not be started.
    pub status: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    seconds: f64,
    #[serde(skip_serializing_if = "Value::is_null")]
    output: Value,
    #[serde(skip_serializing_if = "String::is_empty")]
    errors: String,
}

/// The processes that run.
#[derive(Default)]
pub struct Running(Mutex<State>);

#[derive(Default)]
struct State {
    /// By the line of their job.
    processes: BTreeMap<usize, OwnedFd>,
    is_stopped: bool,
}

impl Running {
    /// Sends all of them a signal, once; no other is started.
    pub fn stop(&self, signal: i32) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_stopped, true) {
            return;
        }
        if let Some(signal) = Signal::from_named_raw(signal) {
            for process in state.processes.values() {
                // It has ended otherwise.
                let _ = pidfd_send_signal(process, signal);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process; `None` after [`Running::stop`].
    fn start(&self, job: &Job) -> io::Result<Option<Child>> {
        let mut state = self.lock();
        if state.is_stopped {
            return Ok(None);
        }
        let child = Command::new(std::env::current_exe()?)
            .args(&job.args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // It is not waited for yet, so the number is its own. A host without such descriptors has none to signal.
        if let Ok(process) = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            state.processes.insert(job.line, process);
        }
        Ok(Some(child))
    }
}

impl Job {
    /// Does it, unless all are to stop.
    pub fn run(&self, running: &Running) -> Option<Ended> {
        let begin = Instant::now();
        let done = match running.start(self) {
            Ok(None) => return None,
            Ok(Some(child)) => finish(child),
            Err(e) => Err(e),
        };
        running.lock().processes.remove(&self.line);
        let (status, output, errors) = match done {
            Ok((status, output, errors)) => (Some(status), value(&output), text(&errors)),
            Err(e) => (None, Value::Null, e.to_string()),
        };
        Some(Ended {
            line: self.line,
            job: self.text.clone(),
            status: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            seconds: begin.elapsed().as_secs_f64(),
            output,
            errors,
        })
    }
}

/// Reads what a process prints until it ends.
fn finish(mut child: Child) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (output, errors) = std::thread::scope(|scope| {
        let errors = scope.spawn(|| stderr.map_or(Ok(Vec::new()), kept));
        let output = stdout.map_or(Ok(Vec::new()), kept);
        let errors = errors.join();
        (output, errors.unwrap_or_else(|_| Ok(Vec::new())))
    });
    let status = child.wait()?;
    Ok((status, output?, errors?))
}

/// Reads to the end, and keeps the beginning.
fn kept(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref().take(OUTPUT_MAX).read_to_end(&mut bytes)?;
    io::copy(&mut from, &mut io::sink())?;
    Ok(bytes)
}

/// What was printed: a document if it is one, or text.
fn value(output: &[u8]) -> Value {
    match serde_json::from_slice(output) {
        Ok(document) => document,
        Err(_) if output.is_empty() => Value::Null,
        Err(_) => Value::String(String::from_utf8_lossy(output).into_owned()),
    }
}

fn text(errors: &[u8]) -> String {
    String::from_utf8_lossy(errors).trim_end().to_owned()
}
