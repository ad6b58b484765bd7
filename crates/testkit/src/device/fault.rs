//! A device that fails chosen calls.
//!
//! # Locking
//! The plan's rules have a lock of class `device`, held to read them, never over I/O.

use crate::external::*;
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use uext4_block::batch::{Ranged, runs};
use uext4_block::device::{total_len, total_len_mut};
use uext4_block::error::{BlockError, BlockOp, Result};
use uext4_sync::{Mutex, assert_may_block, class};

/// A kind of call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCall {
    /// Reads; a vectored one counts once, and so does each run of a batch.
    Read,
    /// Writes, FUA writes and zeroing; a vectored one counts once, and so does each run of a batch.
    Write,
    /// Flushes.
    Flush,
    /// Discards.
    Discard,
    /// Allocations on the host.
    Allocate,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultErrno {
    /// `EIO`.
    Io,
    /// `ENOSPC`.
    NoSpace,
}

/// Which calls fail, and how. A new rule fails every call of its kind with `EIO`.
#[derive(Clone, Debug)]
pub struct FaultRule {
    call: FaultCall,
    within: Range<u64>,
    first: u64,
    count: u64,
    errno: FaultErrno,
    seen: u64,
}

impl FaultRule {
    /// Every call of this kind fails with `EIO`.
    pub fn new(call: FaultCall) -> FaultRule {
        FaultRule {
            call,
            within: 0..u64::MAX,
            first: 1,
            count: u64::MAX,
            errno: FaultErrno::Io,
            seen: 0,
        }
    }

    /// Only the `n`th call from now on that the rule fits; the next one is the first.
    pub fn nth(mut self, n: u64) -> FaultRule {
        (self.first, self.count) = (n, 1);
        self
    }

    /// The `n`th call from now on that the rule fits, and all later ones.
    pub fn from_nth(mut self, n: u64) -> FaultRule {
        (self.first, self.count) = (n, u64::MAX);
        self
    }

    /// Only calls that touch these bytes; means nothing to flushes.
    pub fn within(mut self, bytes: Range<u64>) -> FaultRule {
        self.within = bytes;
        self
    }

    /// Fail with this.
    pub fn errno(mut self, errno: FaultErrno) -> FaultRule {
        self.errno = errno;
        self
    }

    /// Counts a call; whether it is to fail.
    fn hits(&mut self, call: FaultCall, offset: u64, len: u64) -> bool {
        let touches = self.within.start < offset.saturating_add(len) && offset < self.within.end;
        if call != self.call || !(touches || call == FaultCall::Flush) {
            return false;
        }
        self.seen += 1;
        self.seen >= self.first && self.seen - self.first < self.count
    }
}

/// The rules of one or more devices; clones are handles of the same plan.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    state: Arc<Mutex<PlanState>>,
}

#[derive(Debug, Default)]
struct PlanState {
    rules: Vec<FaultRule>,
    calls: [u64; 5],
    failed: u64,
}

impl FaultPlan {
    /// A plan in which nothing fails.
    pub fn new() -> FaultPlan {
        FaultPlan {
            state: Arc::new(Mutex::new(&class::DEVICE, PlanState::default())),
        }
    }

    /// Adds a rule; it counts calls from now on.
    pub fn add(&self, rule: FaultRule) {
        self.state.lock().rules.push(rule);
    }

    /// Takes all rules away; the counts stay.
    pub fn clear(&self) {
        self.state.lock().rules.clear();
    }

    /// How many calls of a kind came so far, failed ones included.
    pub fn calls(&self, call: FaultCall) -> u64 {
        self.state.lock().calls[call as usize]
    }

    /// How many calls failed by a rule so far.
    pub fn failed(&self) -> u64 {
        self.state.lock().failed
    }

    pub(crate) fn check(&self, op: BlockOp, call: FaultCall, offset: u64, len: u64) -> Result<()> {
        // Also the calls that fail before they reach a device.
        assert_may_block("device fault");
        let mut state = self.state.lock();
        state.calls[call as usize] += 1;
        // Every rule counts the call, also behind one that fails it.
        let mut errno = None;
        for rule in &mut state.rules {
            if rule.hits(call, offset, len) {
                errno = errno.or(Some(rule.errno));
            }
        }
        let source = match errno {
            None => return Ok(()),
            Some(FaultErrno::Io) => Errno::IO,
            Some(FaultErrno::NoSpace) => Errno::NOSPC,
        };
        state.failed += 1;
        Err(BlockError::io(op, offset, len, source))
    }
}

impl Default for FaultPlan {
    fn default() -> FaultPlan {
        FaultPlan::new()
    }
}

/// A device that fails as its plan says. A failed call changes nothing, and a failed flush is forgotten, as
/// by the host: of what the contract of [`BlockDevice`] says of failures it keeps nothing by itself.
#[derive(Debug)]
pub struct FaultDevice<D> {
    inner: D,
    plan: FaultPlan,
}

impl<D: BlockDevice> FaultDevice<D> {
    /// Wraps `inner`; keep a clone of the plan to change it later.
    pub fn new(inner: D, plan: FaultPlan) -> FaultDevice<D> {
        FaultDevice { inner, plan }
    }

    /// Checks the runs of a batch, up to one that fails: how many ranges of the batch are before it, which
    /// go out as if they had been calls of their own.
    fn check_batch(
        &self,
        op: BlockOp,
        call: FaultCall,
        batch: &[impl Ranged],
    ) -> (usize, Result<()>) {
        let mut passed = 0;
        for run in runs(batch) {
            if let Err(error) = self.plan.check(op, call, run.offset, run.bytes) {
                return (passed, Err(error));
            }
            passed += run.ranges;
        }
        (passed, Ok(()))
    }
}

impl<D: BlockDevice> BlockDevice for FaultDevice<D> {
    forward_device!(self => self.inner; len, is_read_only, logical_block_size, set_len, identity);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = buf.len() as u64;
        self.plan
            .check(BlockOp::Read, FaultCall::Read, offset, len)?;
        self.inner.read_at(offset, buf)
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        let len = total_len_mut(bufs);
        self.plan
            .check(BlockOp::Read, FaultCall::Read, offset, len)?;
        self.inner.read_vectored_at(offset, bufs)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let len = buf.len() as u64;
        self.plan
            .check(BlockOp::Write, FaultCall::Write, offset, len)?;
        self.inner.write_at(offset, buf)
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len = total_len(bufs);
        self.plan
            .check(BlockOp::Write, FaultCall::Write, offset, len)?;
        self.inner.write_vectored_at(offset, bufs)
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let (passed, result) = self.check_batch(BlockOp::Read, FaultCall::Read, reads);
        self.inner.read_batch(&mut reads[..passed])?;
        result
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let (passed, result) = self.check_batch(BlockOp::Write, FaultCall::Write, writes);
        self.inner.write_batch(&writes[..passed])?;
        result
    }

    fn flush(&self) -> Result<()> {
        self.plan.check(BlockOp::Flush, FaultCall::Flush, 0, 0)?;
        self.inner.flush()
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let len = buf.len() as u64;
        self.plan
            .check(BlockOp::Write, FaultCall::Write, offset, len)?;
        self.inner.write_fua(offset, buf)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.plan
            .check(BlockOp::Discard, FaultCall::Discard, offset, len)?;
        self.inner.discard(offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.plan
            .check(BlockOp::Zero, FaultCall::Write, offset, len)?;
        self.inner.zero(offset, len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.plan
            .check(BlockOp::Allocate, FaultCall::Allocate, offset, len)?;
        self.inner.allocate(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> (FaultDevice<MemoryDevice>, FaultPlan) {
        let plan = FaultPlan::new();
        (
            FaultDevice::new(MemoryDevice::new(100_000), plan.clone()),
            plan,
        )
    }

    #[test]
    fn nth_and_from_nth() {
        let (device, plan) = device();
        plan.add(FaultRule::new(FaultCall::Write).nth(2));
        let ok = |result: Result<()>| result.is_ok();
        let writes: Vec<bool> = (0..4).map(|i| ok(device.write_at(i, &[7]))).collect();
        assert_eq!(writes, [true, false, true, true]);
        plan.add(
            FaultRule::new(FaultCall::Flush)
                .from_nth(3)
                .errno(FaultErrno::NoSpace),
        );
        let flushes: Vec<bool> = (0..5).map(|_| ok(device.flush())).collect();
        assert_eq!(flushes, [true, true, false, false, false]);
        assert_eq!(device.flush().unwrap_err().raw_os_error(), Some(28));
        plan.clear();
        device.flush().unwrap();
        let mut bytes = [0; 4];
        device.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, [7, 0, 7, 7]);
        assert_eq!(plan.calls(FaultCall::Write), 4);
        assert_eq!(plan.calls(FaultCall::Flush), 7);
        assert_eq!(plan.calls(FaultCall::Read), 1);
        assert_eq!(plan.failed(), 5);
    }

    #[test]
    fn ranges() {
        let (device, plan) = device();
        plan.add(FaultRule::new(FaultCall::Read).within(4096..8192));
        device.read_at(0, &mut [0; 4096]).unwrap();
        device.read_at(8192, &mut [0; 4096]).unwrap();
        let error = device.read_at(4000, &mut [0; 97]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5));
        assert_eq!(
            (error.op(), error.offset()),
            (Some(BlockOp::Read), Some(4000))
        );
        device.read_at(8191, &mut [0; 1]).unwrap_err();
        device.write_at(5000, &[1]).unwrap();
        plan.add(FaultRule::new(FaultCall::Write).within(0..10));
        device.zero(5, 1).unwrap_err();
        device.write_fua(9, &[1, 1]).unwrap_err();
        device.write_batch(&[(20, &[1]), (9, &[1])]).unwrap_err();
    }

    #[test]
    fn runs_of_a_batch_are_calls() {
        let (device, plan) = device();
        plan.add(FaultRule::new(FaultCall::Write).nth(2));
        let batch: [(u64, &[u8]); 4] = [(0, &[1]), (1, &[1]), (9, &[1]), (20, &[1])];
        let error = device.write_batch(&batch).unwrap_err();
        assert_eq!(error.offset(), Some(9));
        assert_eq!(plan.calls(FaultCall::Write), 2);
        let (mut start, mut end) = ([0; 2], [7; 12]);
        let mut reads: [(u64, &mut [u8]); 2] = [(0, &mut start), (9, &mut end)];
        device.read_batch(&mut reads).unwrap();
        assert_eq!((start, end), ([1; 2], [0; 12]));
        assert_eq!(plan.calls(FaultCall::Read), 2);
        device.write_batch(&batch).unwrap();
        assert_eq!(plan.calls(FaultCall::Write), 5);
    }
}
