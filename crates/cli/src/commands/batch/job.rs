//! A job, and the process that does it.

use crate::interrupt;
use crate::system::process::{self, Process};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{Child, ExitStatus, Stdio};
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
    /// More was printed than is kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
    /// Bytes that are not UTF-8 were replaced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_lossy: bool,
}

/// What a process printed.
#[derive(Default)]
struct Printed {
    bytes: Vec<u8>,
    is_cut: bool,
}

/// The processes that run.
#[derive(Default)]
pub struct Running(Mutex<State>);

#[derive(Default)]
struct State {
    /// By the line of their job. None of them is waited for yet, so that the number is its own.
    processes: BTreeMap<usize, Process>,
    is_stopped: bool,
}

impl Running {
    /// Sends all of them a signal, once; no other is started.
    pub fn stop(&self, signal: i32) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_stopped, true) {
            return;
        }
        for process in state.processes.values() {
            process.signal(signal);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process; `None` after [`Running::stop`].
    fn start(&self, job: &Job) -> io::Result<Option<Child>> {
        let mut state = self.lock();
        if state.is_stopped || interrupt::signal().is_some() {
            return Ok(None);
        }
        let child = process::this_program()?
            .args(&job.args)
            .stdin(process::no_input()?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        state.processes.insert(job.line, Process::of(&child));
        Ok(Some(child))
    }

    /// Waits for one to end.
    fn wait(&self, job: &Job, child: &mut Child) -> io::Result<ExitStatus> {
        Process::of(child).wait_for_end()?;
        let mut state = self.lock();
        state.processes.remove(&job.line);
        child.wait()
    }
}

impl Job {
    /// Does it, unless all are to stop.
    pub fn run(&self, running: &Running) -> Option<Ended> {
        let begin = Instant::now();
        let done = match running.start(self) {
            Ok(None) => return None,
            Ok(Some(child)) => self.finish(child, running),
            Err(e) => Err(e),
        };
        let (status, [output, errors]) = match done {
            Ok((status, printed)) => (Some(status), printed),
            Err(e) => (None, [Printed::default(), Printed::of(&e)]),
        };
        Some(Ended {
            line: self.line,
            job: self.text.clone(),
            status: status.and_then(|status| status.code()),
            signal: status.and_then(process::signal_of),
            seconds: begin.elapsed().as_secs_f64(),
            output: output.value(),
            errors: errors.text().trim_end().to_owned(),
            is_cut: output.is_cut || errors.is_cut,
            is_lossy: output.is_lossy() || errors.is_lossy(),
        })
    }

    /// Reads what its process prints until that ends.
    fn finish(
        &self,
        mut child: Child,
        running: &Running,
    ) -> io::Result<(ExitStatus, [Printed; 2])> {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let printed: io::Result<[Printed; 2]> = std::thread::scope(|scope| {
            let reader = std::thread::Builder::new();
            let errors = reader.spawn_scoped(scope, || {
                stderr.map_or(Ok(Printed::default()), Printed::read)
            })?;
            let output = stdout.map_or(Ok(Printed::default()), Printed::read)?;
            let errors = errors.join();
            Ok([output, errors.unwrap_or_else(|_| Ok(Printed::default()))?])
        });
        if printed.is_err() {
            // It would wait for what is not read.
            let _ = child.kill();
        }
        let status = running.wait(self, &mut child)?;
        Ok((status, printed?))
    }
}

impl Printed {
    fn of(e: &io::Error) -> Printed {
        Printed {
            bytes: e.to_string().into_bytes(),
            is_cut: false,
        }
    }

    /// Reads to the end, and keeps the beginning.
    fn read(mut from: impl Read) -> io::Result<Printed> {
        let mut bytes = Vec::new();
        from.by_ref().take(OUTPUT_MAX).read_to_end(&mut bytes)?;
        let dropped = io::copy(&mut from, &mut io::sink())?;
        Ok(Printed {
            bytes,
            is_cut: dropped > 0,
        })
    }

    fn is_lossy(&self) -> bool {
        std::str::from_utf8(&self.bytes).is_err()
    }

    fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// A document if it is one, or text.
    fn value(&self) -> Value {
        match serde_json::from_slice(&self.bytes) {
            Ok(document @ (Value::Object(_) | Value::Array(_))) => document,
            _ if self.bytes.is_empty() => Value::Null,
            _ => Value::String(self.text().into_owned()),
        }
    }
}
