//! Workers that share a list of work items.

use crate::error::Result;
use uext4_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use uext4_sync::thread;

/// Runs `work` on every item from 0 to `items`, from `threads` threads, each with what `make` gives, and returns those. Items are
/// handed out in order. The caller is one of the threads, and `make` runs in it, so that buffers lie in the memory that it has freed before.
///
/// # Errors
/// An error of a worker; the others stop at their next item.
pub(crate) fn run<W: Send>(
    threads: usize,
    items: usize,
    make: impl Fn() -> W,
    work: impl Fn(&mut W, usize) -> Result<()> + Sync,
) -> Result<Vec<W>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let body = |mut worker: W| {
        while !failed.load(Ordering::Relaxed) {
            let item = next.fetch_add(1, Ordering::Relaxed);
            if item >= items {
                break;
            }
            if let Err(e) = work(&mut worker, item) {
                failed.store(true, Ordering::Relaxed);
                return Err(e);
            }
        }
        Ok(worker)
    };
    let threads = threads.clamp(1, items.max(1));
    thread::scope(|scope| {
        let own = make();
        let others: Vec<W> = (1..threads).map(|_| make()).collect();
        let body = &body;
        let others = others.into_iter();
        let handles: Vec<_> = others.map(|w| scope.spawn(move || body(w))).collect();
        let mut done = vec![body(own)];
        for handle in handles {
            match handle.join() {
                Ok(worker) => done.push(worker),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CheckError;

    #[test]
    fn every_item_once() {
        for threads in [1, 3] {
            let workers = run(threads, 100, Vec::new, |w, i| {
                w.push(i);
                Ok(())
            })
            .unwrap();
            let mut all: Vec<usize> = workers.into_iter().flatten().collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..100));
        }
    }

    #[test]
    fn an_error_ends_the_run() {
        let e = run(
            2,
            100,
            || (),
            |(), i| {
                if i == 7 {
                    return Err(CheckError::Unsupported("sevens".into()));
                }
                Ok(())
            },
        );
        assert!(e.is_err());
    }
}
