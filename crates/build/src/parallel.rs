//! Work shared out to threads, with results in the order of the work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::error::{MkfsError, Result};

type Done<T> = (Vec<(usize, T)>, Option<(usize, MkfsError)>);

/// Calls `each` for `0..count`, in that order on one thread or shared out to several; each thread has
/// a state of its own from `make`. The results do not depend on the number of threads.
///
/// # Errors
/// One of those of `each`; the rest of the work is left undone.
pub(crate) fn run<S, T: Send>(
    threads: usize,
    count: usize,
    make: impl Fn() -> S + Sync,
    each: impl Fn(&mut S, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = threads.min(count);
    if threads <= 1 {
        let mut state = make();
        return (0..count).map(|i| each(&mut state, i)).collect();
    }
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || -> Done<T> {
        let (mut state, mut done) = (make(), Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                break;
            }
            match each(&mut state, i) {
                Ok(t) => done.push((i, t)),
                Err(e) => {
                    stop.store(true, Ordering::Relaxed);
                    return (done, Some((i, e)));
                }
            }
        }
        (done, None)
    };
    let parts = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut parts = vec![work()];
        for other in others {
            match other.join() {
                Ok(part) => parts.push(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        parts
    });
    let mut all = Vec::with_capacity(count);
    let mut first_error: Option<(usize, MkfsError)> = None;
    for (done, error) in parts {
        all.extend(done);
        if let Some((i, e)) = error
            && first_error.as_ref().is_none_or(|(j, _)| i < *j)
        {
            first_error = Some((i, e));
        }
    }
    if let Some((_, e)) = first_error {
        return Err(e);
    }
    all.sort_unstable_by_key(|(i, _)| *i);
    Ok(all.into_iter().map(|(_, t)| t).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        for threads in [1, 4] {
            let got = run(threads, 100, || (), |(), i| Ok(i * 2)).unwrap();
            assert_eq!(got, (0..100).map(|i| i * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_stops_the_rest() {
        let each = |(): &mut (), i| match i {
            7 => Err(MkfsError::NoSize),
            i => Ok(i),
        };
        assert!(run(4, 100_000, || (), each).is_err());
    }
}
