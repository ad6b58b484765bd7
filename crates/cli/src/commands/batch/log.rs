//! The results that a file keeps, one on each line.

use crate::system::{files, process};
use anyhow::{Result, anyhow, bail};
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The file, and what it has as done.
pub struct JobLog {
    path: PathBuf,
    file: File,
    /// How often each job was done.
    done: HashMap<String, usize>,
}

/// What each line begins with.
const BEGIN: &[u8] = b"{\"line\":";

/// What of a line is read.
#[derive(Deserialize)]
struct Line {
    job: String,
    status: Option<i32>,
}

impl JobLog {
    /// Opens it, and makes it if it is missing. A last line that a crash left without an end is removed. It is locked until this
    /// process and those that it starts have ended.
    ///
    /// # Errors
    /// The host's; another process has it open; it is not such a file.
    pub fn open(path: &Path) -> Result<JobLog> {
        let failed = |e| anyhow!("{}: {e}", path.display());
        let mut options = File::options();
        options.read(true).append(true).create(true);
        // A FIFO would wait for its other end.
        let mut file = files::nonblocking(&mut options)
            .open(path)
            .map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(foreign(path, None));
        }
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "{}: another `uext4 batch`, or a job of it, is using it",
                    path.display()
                )
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
            Ok(()) => {}
        }
        // What a process that was killed has started still works on its jobs.
        process::inherit(&file).map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |at| at + 1);
        let mut done = HashMap::new();
        for (line, number) in bytes[..whole]
            .split_inclusive(|byte| *byte == b'\n')
            .zip(1..)
        {
            let line: Line =
                serde_json::from_slice(line).map_err(|_| foreign(path, Some(number)))?;
            if line.status == Some(0) {
                *done.entry(line.job).or_insert(0) += 1;
            }
        }
        let rest = &bytes[whole..];
        if !rest.is_empty() {
            if !rest.starts_with(BEGIN) && !BEGIN.starts_with(rest) {
                return Err(foreign(path, None));
            }
            file.set_len(whole as u64).map_err(failed)?;
        }
        Ok(JobLog {
            path: path.to_owned(),
            file,
            done,
        })
    }

    /// Whether a job was done. One that the list has twice is done twice.
    pub fn was_done(&mut self, job: &str) -> bool {
        match self.done.get_mut(job) {
            Some(times) if *times > 0 => {
                *times -= 1;
                true
            }
            _ => false,
        }
    }

    /// Adds a result, which ends with a line feed.
    ///
    /// # Errors
    /// The host's.
    pub fn add(&mut self, line: &str) -> Result<()> {
        let added = self.file.write_all(line.as_bytes());
        added.map_err(|e| anyhow!("{}: {e}", self.path.display()))
    }
}

/// It is a file with something else.
fn foreign(path: &Path, line: Option<usize>) -> anyhow::Error {
    let line = line.map_or(String::new(), |line| format!(":{line}"));
    anyhow!(
        "{}{line}: not from `uext4 batch`; give --log a file of its own",
        path.display()
    )
}
