//! A device in memory that records the calls it receives, fails those that a test names, and holds others up.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use uext4_block::{BlockDevice, BlockError, BlockOp, DeviceId, MemoryDevice, forward_device};

/// What a device was asked for, in blocks: the first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read(u64, u64),
    Write(u64, u64),
    Fua(u64),
    Flush,
    Allocate(u64, u64),
}

impl Call {
    /// Whether it is to change the device or to make a change durable.
    pub fn changes(self) -> bool {
        !matches!(self, Call::Read(..))
    }
}

/// Whether a call fails, and with which errno.
type Fails = Box<dyn FnMut(Call) -> Option<i32> + Send>;

struct Rules {
    calls: Vec<Call>,
    fails: Option<Fails>,
    /// Calls that wait until no call is held any more.
    held: Option<fn(Call) -> bool>,
    /// Calls that wait.
    waiting: usize,
}

/// The device; a failed call changes nothing.
pub struct TestDevice {
    pub memory: MemoryDevice,
    block_size: u64,
    identity: Option<DeviceId>,
    rules: Mutex<Rules>,
    changed: Condvar,
}

impl std::fmt::Debug for TestDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestDevice").finish_non_exhaustive()
    }
}

impl TestDevice {
    pub fn new(memory: MemoryDevice, block_size: usize) -> TestDevice {
        TestDevice {
            memory,
            block_size: block_size as u64,
            identity: None,
            rules: Mutex::new(Rules {
                calls: Vec::new(),
                fails: None,
                held: None,
                waiting: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// As if it were the image file with this inode number.
    pub fn with_identity(mut self, st_ino: u64) -> TestDevice {
        self.identity = Some(DeviceId::File { st_dev: 1, st_ino });
        self
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls since the last time.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.rules().calls)
    }

    /// Fails the calls for which `fails` returns an errno.
    pub fn fail(&self, fails: impl FnMut(Call) -> Option<i32> + Send + 'static) {
        self.rules().fails = Some(Box::new(fails));
    }

    /// Fails no call any more.
    pub fn heal(&self) {
        self.rules().fails = None;
    }

    /// Makes calls wait for which `held` is true.
    pub fn hold(&self, held: fn(Call) -> bool) {
        self.rules().held = Some(held);
    }

    /// Waits until a call waits.
    pub fn wait_for_held(&self) {
        let mut rules = self.rules();
        while rules.waiting == 0 {
            rules = self
                .changed
                .wait(rules)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets held calls continue.
    pub fn continue_held(&self) {
        self.rules().held = None;
        self.changed.notify_all();
    }

    fn blocks(&self, offset: u64, len: u64) -> (u64, u64) {
        (offset / self.block_size, len / self.block_size)
    }

    fn call(&self, call: Call) -> uext4_block::Result<()> {
        let mut rules = self.rules();
        rules.calls.push(call);
        if rules.held.is_some_and(|held| held(call)) {
            rules.waiting += 1;
            self.changed.notify_all();
            while rules.held.is_some_and(|held| held(call)) {
                rules = self
                    .changed
                    .wait(rules)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            rules.waiting -= 1;
        }
        let Some(errno) = rules.fails.as_mut().and_then(|fails| fails(call)) else {
            return Ok(());
        };
        let why = std::io::Error::from_raw_os_error(errno);
        Err(BlockError::io(BlockOp::Write, 0, 0, why))
    }
}

impl BlockDevice for TestDevice {
    forward_device!(self => self.memory; len, is_read_only, discard, zero, set_len);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> uext4_block::Result<()> {
        let (first, count) = self.blocks(offset, buf.len() as u64);
        self.call(Call::Read(first, count))?;
        self.memory.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        let (first, count) = self.blocks(offset, buf.len() as u64);
        self.call(Call::Write(first, count))?;
        self.memory.write_at(offset, buf)
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        self.call(Call::Fua(offset / self.block_size))?;
        self.memory.write_at(offset, buf)
    }

    fn flush(&self) -> uext4_block::Result<()> {
        self.call(Call::Flush)
    }

    fn allocate(&self, offset: u64, len: u64) -> uext4_block::Result<()> {
        let (first, count) = self.blocks(offset, len);
        self.call(Call::Allocate(first, count))
    }

    fn identity(&self) -> Option<DeviceId> {
        self.identity
    }
}
