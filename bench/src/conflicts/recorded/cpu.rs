//! The threads that are virtual CPUs, one working at a time.

use anyhow::{Context as _, Result};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use uext4_sync::virtual_cpus;

type Job = Box<dyn FnOnce() + Send>;

/// A thread on a virtual CPU, which does one thing after the other.
pub struct Cpu {
    jobs: Sender<Job>,
}

impl Cpu {
    /// Starts the thread.
    pub fn start(number: usize) -> Result<Cpu> {
        let (jobs, given): (_, Receiver<Job>) = mpsc::channel();
        let work = move || {
            virtual_cpus::move_to(number);
            for job in given {
                job();
            }
        };
        let named = thread::Builder::new().name(format!("cpu-{number}"));
        named.spawn(work).context("a thread for a virtual CPU")?;
        Ok(Cpu { jobs })
    }

    /// Runs `job` there and waits for it.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (done, outcome) = mpsc::channel();
        let job = move || drop(done.send(job()));
        let sent = self.jobs.send(Box::new(job)).ok();
        sent.context("the thread of a virtual CPU has ended")?;
        outcome.recv().context("a virtual CPU panicked")?
    }
}
