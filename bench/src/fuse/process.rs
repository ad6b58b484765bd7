//! A process of this program that works beside others, controlled through its input.
//!
//! # Invariants
//! It says [`READY`] first, and then answers each line with a line. It ends when its input does, and is killed when it is
//! dropped.

use crate::mount::this_program;
use anyhow::{Context as _, bail};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a process says once it waits for its first line.
pub const READY: &str = "ready";

/// A process, and the pipes to it.
pub struct Process {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program with what `arguments` adds, without waiting until it is ready.
    pub fn start(arguments: impl FnOnce(&mut Command) -> &mut Command) -> anyhow::Result<Process> {
        let mut command = this_program();
        let mut process = arguments(&mut command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.context("a client without pipes")?;
        Ok(Process {
            process,
            input,
            output: BufReader::new(output),
        })
    }

    /// Waits until it is ready.
    pub fn await_ready(&mut self) -> anyhow::Result<()> {
        match self.hear()?.as_str() {
            READY => Ok(()),
            other => bail!("a client begins with `{other}`"),
        }
    }

    /// Says a line to it.
    pub fn tell(&mut self, line: &str) -> std::io::Result<()> {
        self.input.write_all(format!("{line}\n").as_bytes())
    }

    /// Waits for its answer.
    pub fn hear(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => bail!("a client failed, {}", self.process.wait()?),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
