//! A stream that is counted.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::progress::Progress;

/// Bytes of headers that describe one entry, long names and extended headers together.
const HEADERS_MAX: u64 = 16 << 20;

/// What all archives of an image together may expand to.
#[derive(Debug)]
pub(crate) struct Limit {
    bytes: u64,
    taken: AtomicU64,
}

impl Limit {
    /// So many bytes.
    pub fn new(bytes: u64) -> Limit {
        Limit {
            bytes,
            taken: AtomicU64::new(0),
        }
    }

    /// Takes `n` bytes of it.
    ///
    /// # Errors
    /// The limit, in words.
    pub fn take(&self, n: u64) -> io::Result<()> {
        let before = self.taken.fetch_add(n, Ordering::Relaxed);
        match before.saturating_add(n) > self.bytes {
            false => Ok(()),
            true => Err(io::Error::other(format!(
                "it expands beyond the limit of {} bytes; a larger --limit allows it",
                self.bytes
            ))),
        }
    }
}

/// Where a stream is, for its reader; one thread has both.
#[derive(Clone, Debug)]
pub(crate) struct Place(Rc<Cell<(u64, u64)>>);

impl Place {
    /// At the beginning.
    pub fn new() -> Place {
        Place(Rc::new(Cell::new((0, u64::MAX))))
    }

    /// Bytes that were read.
    pub fn position(&self) -> u64 {
        self.0.get().0
    }

    /// Headers are read from here on: no more of them than [`HEADERS_MAX`].
    pub fn headers_begin(&self) {
        let at = self.position();
        self.0.set((at, at + HEADERS_MAX));
    }

    /// Data is read from here on.
    pub fn data_begins(&self) {
        self.0.set((self.position(), u64::MAX));
    }
}

/// A stream that counts, and ends with an error at its limit.
pub(crate) struct Counted<'l, R> {
    input: R,
    limit: &'l Limit,
    place: Place,
    progress: &'l dyn Progress,
}

impl<'l, R: Read> Counted<'l, R> {
    /// Counts what is read of `input`.
    pub fn new(input: R, limit: &'l Limit, place: Place, progress: &'l dyn Progress) -> Self {
        Counted {
            input,
            limit,
            place,
            progress,
        }
    }
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // Data of one entry may take long to read.
        if self.progress.is_cancelled() {
            return Err(io::Error::other("given up"));
        }
        let n = self.input.read(bytes)?;
        self.limit.take(n as u64)?;
        let (at, end) = self.place.0.get();
        let at = at + n as u64;
        self.place.0.set((at, end));
        match at > end {
            true => Err(io::Error::other(format!(
                "the headers of one entry have more than {HEADERS_MAX} bytes"
            ))),
            false => Ok(n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::NoProgress;

    /// Cancelled from the start.
    struct Cancelled;

    impl Progress for Cancelled {
        fn phase(&self, _name: &str, _total: u64) {}
        fn advance(&self, _n: u64) {}
        fn is_cancelled(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_stream_ends_when_the_work_is_given_up() {
        let limit = Limit::new(u64::MAX);
        let mut stream = Counted::new(io::repeat(1), &limit, Place::new(), &Cancelled);
        io::copy(&mut stream, &mut io::sink()).unwrap_err();
    }

    #[test]
    fn the_limit_is_for_all_streams() {
        let limit = Limit::new(10);
        let read = |n: usize| {
            let mut stream = Counted::new(
                io::repeat(1).take(n as u64),
                &limit,
                Place::new(),
                &NoProgress,
            );
            stream.read_to_end(&mut Vec::new())
        };
        assert_eq!(read(6).unwrap(), 6);
        assert!(read(5).unwrap_err().to_string().contains("10 bytes"));
    }

    #[test]
    fn headers_without_end_are_refused() {
        let (limit, place) = (Limit::new(u64::MAX), Place::new());
        let mut stream = Counted::new(io::repeat(1), &limit, place.clone(), &NoProgress);
        place.headers_begin();
        io::copy(&mut stream, &mut io::sink()).unwrap_err();
        place.data_begins();
        let mut data = stream.take(2 * HEADERS_MAX);
        assert_eq!(
            io::copy(&mut data, &mut io::sink()).unwrap(),
            2 * HEADERS_MAX
        );
    }
}
