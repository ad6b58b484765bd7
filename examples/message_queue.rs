//! Sends jobs from one thread to others through a POSIX message queue, in process. Message queues are part of the
//! feature `unstable`.
//!
//! ```sh
//! cargo run --features unstable --example message_queue
//! ```

use std::thread;
use uext4::unstable::mqueue::{Limits, MqOpen, MqueueType, Wait};
use uext4::{Caller, Result};

const JOBS: usize = 100;
const WORKERS: usize = 4;

fn main() -> Result<()> {
    // A namespace is a superblock of its own; queues of two namespaces never meet.
    let namespace = MqueueType::default().create(Limits::default());
    let both = MqOpen::READ | MqOpen::WRITE | MqOpen::CREATE;
    let queue = namespace.open(&Caller::root(), b"/jobs", both, 0o600, Some((10, 64)))?;
    thread::scope(|scope| -> Result<()> {
        let work = || -> Result<usize> {
            let mut message = [0; 64];
            let mut done = 0;
            loop {
                // Blocks while the queue is empty; the most urgent message comes first.
                let received = queue.receive(&mut message, &Wait::default())?;
                if received.len == 0 {
                    return Ok(done);
                }
                done += 1;
            }
        };
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        for number in 0..JOBS {
            let priority = if number % 10 == 0 { 9 } else { 1 };
            // Blocks while the queue is full.
            queue.send(
                format!("job {number}").as_bytes(),
                priority,
                &Wait::default(),
            )?;
        }
        // An empty message, less urgent than any job, ends a worker.
        for _ in 0..WORKERS {
            queue.send(b"", 0, &Wait::default())?;
        }
        let mut done = 0;
        for worker in workers {
            done += worker.join().expect("a worker panicked")?;
        }
        assert_eq!(done, JOBS);
        println!("{done} jobs by {WORKERS} workers");
        Ok(())
    })
}
