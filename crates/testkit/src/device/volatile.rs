//! A device with a cache that loses what it holds, as the host's page cache over a disk does.
//!
//! # Data model
//! What reads see, what is durable, and the ranges that differ since the last flush. A flush that fails, as
//! a [`FaultPlan`] says, makes nothing durable and forgets those ranges: later flushes don't write them. As the host reports a
//! loss once to each open file description, and the file device has one for each flush that runs, each thread gets the error once.
//!
//! # Locking
//! One lock of class `device` for all of it, held to copy bytes; a plan is asked without it.

use super::fault::{FaultCall, FaultPlan};
use crate::external::*;
use rustix::io::Errno;
use uext4_block::Failure;
use uext4_block::error::{BlockError, BlockOp, Result, check_range};
use uext4_sync::thread::ThreadId;
use uext4_sync::{Mutex, assert_may_block, class};

/// The unit that is written as a whole.
const SECTOR_BYTES: usize = 512;

/// What a device says after it has lost writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterLoss {
    /// That it has failed, for good: the contract of [`BlockDevice`].
    Fails,
    /// That all is well, as the host's cache does when it has said so once: to each thread that flushes.
    Forgets,
}

/// What reads see of lost writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostData {
    /// The new bytes, while they stay in the cache.
    Cached,
    /// The old bytes: they left the cache.
    Evicted,
}

/// A device in memory with a cache that can lose writes.
#[derive(Debug)]
pub struct VolatileDevice {
    /// Immutable.
    len: u64,
    plan: FaultPlan,
    after_loss: AfterLoss,
    lost_data: LostData,
    /// Whether it has failed for good.
    has_failed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// Ranges written since the last flush, whether that succeeded or not.
    dirty: Vec<Range<usize>>,
    /// Bytes that were lost so far.
    lost: u64,
    /// How many flushes have failed, and how many of them a thread knows of.
    failures: u64,
    known: HashMap<ThreadId, u64>,
}

impl State {
    /// True once for each failure of another thread's flush.
    fn must_report(&mut self) -> bool {
        let known = self
            .known
            .insert(uext4_sync::thread::current().id(), self.failures);
        known.unwrap_or(0) < self.failures
    }
}

impl VolatileDevice {
    /// Creates a device that holds a copy of `bytes`, all durable, and fails as `plan` says.
    pub fn new(
        bytes: Vec<u8>,
        plan: FaultPlan,
        after_loss: AfterLoss,
        lost_data: LostData,
    ) -> VolatileDevice {
        VolatileDevice {
            len: bytes.len() as u64,
            plan,
            after_loss,
            lost_data,
            has_failed: AtomicBool::new(false),
            state: Mutex::new(
                &class::DEVICE,
                State {
                    cached: bytes.clone(),
                    durable: bytes,
                    dirty: Vec::new(),
                    lost: 0,
                    failures: 0,
                    known: HashMap::new(),
                },
            ),
        }
    }

    /// What is left after a power loss: what is durable, and of what is not, the sectors that `seed` chooses: none, a few, half, most or all.
    pub fn after_power_loss(&self, seed: u64) -> MemoryDevice {
        let state = self.state.lock();
        let mut rng = Rng::with_seed(seed);
        let kept_of_255 = *rng.choice(&[0, 12, 127, 243, 255]).unwrap_or(&127);
        let mut left = state.durable.clone();
        let sectors = |range: &Range<usize>| {
            range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES).min(left.len())
        };
        let chosen: Vec<usize> = state
            .dirty
            .iter()
            .flat_map(sectors)
            .filter(|_| rng.u8(..255) < kept_of_255)
            .collect();
        for sector in chosen {
            let end = left.len().min((sector + 1) * SECTOR_BYTES);
            let range = sector * SECTOR_BYTES..end;
            left[range.clone()].copy_from_slice(&state.cached[range]);
        }
        drop(state);
        MemoryDevice::from_bytes(&left)
    }

    /// What is durable now, and nothing else.
    pub fn durable(&self) -> MemoryDevice {
        let bytes = self.state.lock().durable.clone();
        MemoryDevice::from_bytes(&bytes)
    }

    /// How many bytes failed flushes and durable writes have lost.
    pub fn lost_bytes(&self) -> u64 {
        self.state.lock().lost
    }

    /// Refuses a change or a flush of a device that has failed.
    fn check(&self, op: BlockOp, offset: u64, len: u64) -> Result<()> {
        match self.has_failed.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(BlockError::Failed {
                op,
                offset,
                len,
                why: Failure::WritesLost,
            }),
        }
    }

    /// Asks the plan, counts the call, and refuses what follows a loss.
    fn admit(&self, (op, call): (BlockOp, FaultCall), offset: u64, len: u64) -> Result<()> {
        assert_may_block("device with a cache");
        check_range(op, offset, len, self.len)?;
        if op != BlockOp::Read {
            self.check(op, offset, len)?;
        }
        self.plan.check(op, call, offset, len)
    }

    /// Makes `ranges` durable, or loses them.
    fn settle(&self, state: &mut State, ranges: Vec<Range<usize>>, failed: bool) {
        for range in ranges {
            if !failed {
                state.durable[range.clone()].copy_from_slice(&state.cached[range]);
                continue;
            }
            state.lost += range.len() as u64;
            if self.lost_data == LostData::Evicted {
                state.cached[range.clone()].copy_from_slice(&state.durable[range]);
            }
        }
        if failed && self.after_loss == AfterLoss::Fails {
            self.has_failed.store(true, Ordering::SeqCst);
        }
    }

    fn change(
        &self,
        op: BlockOp,
        offset: u64,
        len: usize,
        put: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        self.admit((op, FaultCall::Write), offset, len as u64)?;
        let range = offset as usize..offset as usize + len;
        let mut state = self.state.lock();
        put(&mut state.cached[range.clone()]);
        state.dirty.push(range);
        Ok(())
    }
}

impl BlockDevice for VolatileDevice {
    fn len(&self) -> u64 {
        self.len
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = buf.len();
        self.admit((BlockOp::Read, FaultCall::Read), offset, len as u64)?;
        buf.copy_from_slice(&self.state.lock().cached[offset as usize..offset as usize + len]);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.change(BlockOp::Write, offset, buf.len(), |bytes| {
            bytes.copy_from_slice(buf)
        })
    }

    fn flush(&self) -> Result<()> {
        let asked = self.admit((BlockOp::Flush, FaultCall::Flush), 0, 0);
        if let Err(error @ BlockError::Failed { .. }) = asked {
            return Err(error);
        }
        let mut state = self.state.lock();
        let dirty = std::mem::take(&mut state.dirty);
        self.settle(&mut state, dirty, asked.is_err());
        state.failures += u64::from(asked.is_err());
        let must_report = state.must_report();
        drop(state);
        asked?;
        if must_report {
            return Err(BlockError::io(BlockOp::Flush, 0, 0, Errno::IO));
        }
        self.check(BlockOp::Flush, 0, 0)
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let len = buf.len() as u64;
        let asked = self.admit((BlockOp::Write, FaultCall::Write), offset, len);
        if let Err(error @ (BlockError::Failed { .. } | BlockError::OutOfRange { .. })) = asked {
            return Err(error);
        }
        let range = offset as usize..offset as usize + buf.len();
        let mut state = self.state.lock();
        state.cached[range.clone()].copy_from_slice(buf);
        self.settle(&mut state, vec![range], asked.is_err());
        asked
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.admit((BlockOp::Discard, FaultCall::Discard), offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        self.change(BlockOp::Zero, offset, bytes, |bytes| bytes.fill(0))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        match len == self.len {
            true => Ok(()),
            false => Err(BlockError::io(BlockOp::SetLen, 0, len, Errno::INVAL)),
        }
    }

    fn identity(&self) -> Option<DeviceId> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::contract::check_failed;
    use crate::device::fault::FaultRule;

    fn device(plan: &FaultPlan, after_loss: AfterLoss, lost_data: LostData) -> VolatileDevice {
        VolatileDevice::new(vec![0; 16384], plan.clone(), after_loss, lost_data)
    }

    #[test]
    fn a_failed_flush_loses_what_it_covers() {
        for lost_data in [LostData::Cached, LostData::Evicted] {
            let plan = FaultPlan::new();
            let device = device(&plan, AfterLoss::Forgets, lost_data);
            device.write_at(0, &[1; 512]).unwrap();
            device.flush().unwrap();
            device.write_at(0, &[2; 512]).unwrap();
            plan.add(FaultRule::new(FaultCall::Flush).nth(1));
            device.flush().unwrap_err();
            device.write_at(512, &[3; 512]).unwrap();
            device.flush().unwrap();
            let left = device.after_power_loss(1).snapshot();
            assert_eq!((left[0], left[512]), (1, 3));
            assert_eq!(device.lost_bytes(), 512);
            let mut seen = [0];
            device.read_at(0, &mut seen).unwrap();
            assert_eq!(seen[0], if lost_data == LostData::Cached { 2 } else { 1 });
        }
    }

    #[test]
    fn it_keeps_the_contract_if_it_is_to() {
        let plan = FaultPlan::new();
        plan.add(FaultRule::new(FaultCall::Flush).nth(1));
        let first = device(&plan, AfterLoss::Fails, LostData::Cached);
        first.flush().unwrap_err();
        check_failed(&first);
        plan.add(FaultRule::new(FaultCall::Write).nth(1));
        let second = device(&plan, AfterLoss::Fails, LostData::Cached);
        second.write_fua(0, &[1; 512]).unwrap_err();
        check_failed(&second);
        assert_eq!(second.durable().snapshot()[0], 0);
    }
}
