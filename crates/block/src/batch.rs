//! Which ranges of a batch go out as one vectored call.
//!
//! # Data model
//! A batch is a list of (offset, bytes). A run is a stretch of that list whose ranges follow each other on
//! the device, at most [`IOV_MAX`] of them: one request of the device.
//!
//! # Invariants
//! The runs of a batch are in its order and make up all of it; none has no ranges.

/// The most buffers that one vectored call of the host takes (`IOV_MAX`).
pub const IOV_MAX: usize = 1024;

/// Ranges of a batch that lie one after the other on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it begins on the device.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// How many ranges of the batch it takes; at least one.
    pub ranges: usize,
}

/// What a batch is a list of.
pub trait Ranged {
    /// The offset on the device.
    fn offset(&self) -> u64;
    /// The caller's memory.
    fn memory(&self) -> &[u8];
}

impl Ranged for (u64, &[u8]) {
    fn offset(&self) -> u64 {
        self.0
    }
    fn memory(&self) -> &[u8] {
        self.1
    }
}

impl Ranged for (u64, &mut [u8]) {
    fn offset(&self) -> u64 {
        self.0
    }
    fn memory(&self) -> &[u8] {
        self.1
    }
}

/// The run that a batch begins with; `None` of an empty one.
pub(crate) fn first_run(batch: &[impl Ranged]) -> Option<Run> {
    let first = batch.first()?;
    let mut run = Run {
        offset: first.offset(),
        bytes: first.memory().len() as u64,
        ranges: 1,
    };
    for next in batch.iter().take(IOV_MAX).skip(1) {
        // Past the end of numbers nothing follows; the call itself refuses the range.
        if run.offset.checked_add(run.bytes) != Some(next.offset()) {
            break;
        }
        run.bytes += next.memory().len() as u64;
        run.ranges += 1;
    }
    Some(run)
}

/// The runs of a batch.
pub fn runs<T: Ranged>(batch: &[T]) -> impl Iterator<Item = Run> {
    let mut rest = batch;
    std::iter::from_fn(move || {
        let run = first_run(rest)?;
        rest = &rest[run.ranges..];
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_make_a_run() {
        let block = [0; 16];
        let batch: Vec<(u64, &[u8])> = [0, 16, 48, 64, 32]
            .map(|offset| (offset, &block[..]))
            .to_vec();
        let found: Vec<_> = runs(&batch).map(|run| (run.offset, run.bytes)).collect();
        assert_eq!(found, [(0, 32), (48, 32), (32, 16)]);
        assert_eq!(runs::<(u64, &[u8])>(&[]).count(), 0);
        let wild: [(u64, &[u8]); 2] = [(u64::MAX, &block), (15, &block)];
        assert_eq!(runs(&wild).count(), 2);
    }
}
