//! The block devices of Ceph (RBD), by the librbd of the host.
//!
//! | module | holds |
//! | --- | --- |
//! | [`address`] | [`RbdAddress`]: where an image is |
//! | `administration` | images as a whole: made, listed, removed |
//! | `claim` | the right to write an image, and how it ends |
//! | `cluster` | the connection to a cluster, with the configuration of Ceph's own commands |
//! | `keeper` | the thread of an owner: clients stay fenced, changes of the image, a lost lock |
//! | `lock` | the exclusive lock, and how its owner is fenced |
//! | `requests` | requests that stay inside an object |
//! | `settings` | options that the image or its pool may set |
//! | `librbd` | the calls of librbd and librados: all unsafe code |
//!
//! Source: `rbd/librbd.h` and `rados/librados.h` of Ceph 16, and Ceph's documentation of RBD exclusive locks.
//!
//! # Durability
//! librbd caches nothing here, so that a write which has returned is on the disks of all replicas. A flush waits for what librbd has in
//! flight, and then asks the cluster whether this client still holds the lock: if it does not, the flush fails.
//!
//! # Failure
//! A client that has lost the lock, its watch of the image or the right to send requests has failed for good: every later call, reads too, is
//! refused with [`Failure::LeaseLost`]. A watch is lost when the OSD that has the head of the image hears nothing of a client for 30
//! seconds; another host may then take the image over.

pub mod address;
mod administration;
mod claim;
mod cluster;
mod keeper;
mod librbd;
mod lock;
mod requests;
mod settings;

pub use address::RbdAddress;
pub use administration::images_of;

use self::claim::Claim;
use self::cluster::Breaking;
use self::keeper::Keeper;
use self::librbd::Pool;
use self::librbd::image::{Image, Request, Transfer};
use self::lock::LockError;
use crate::device::{BlockDevice, total_len, total_len_mut};
use crate::device_id::DeviceId;
use crate::error::{BlockError, BlockOp, EINVAL, EROFS, Failure, LeaseLoss, Result, check_range};
use crate::open::OpenOptions;
use crate::remote_stats::{Lease, RemoteStats};
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Instant;
use uext4_sync::{DurationCounter, assert_may_block};

/// The number with which a cluster refuses a client that is blocklisted (`ESHUTDOWN`).
const EBLOCKLISTED: i32 = 108;
/// The longest discard or zeroing that is asked for at a time.
const RANGE_MAX: u64 = 1 << 28;

/// An image of Ceph, open. A device that can be written to holds the exclusive lock of its image, unless it was opened without
/// exclusion.
pub struct RbdDevice {
    address: RbdAddress,
    is_read_only: bool,
    /// Of a device that holds the lock. Ends before the image is closed.
    keeper: Option<Keeper>,
    claim: Arc<Claim>,
    /// Immutable.
    object_bytes: u64,
    flush_times: DurationCounter,
}

impl RbdDevice {
    /// Opens an image: to read from, or with its exclusive lock to write to. Without
    /// [`exclusive`](OpenOptions::exclusive) nothing is locked; librbd then acquires the lock with the first write, if no client holds
    /// it or its owner is one that hands it over.
    ///
    /// A reader is refused while a client writes the image. A client that begins to write later is not kept out; a snapshot does not
    /// change.
    ///
    /// # Errors
    /// [`BlockError::Locked`]: another client holds the lock, and is alive; [`BlockError::Busy`]: the same, of a reader.
    /// [`BlockError::Open`]: librbd is not installed, the cluster can't be reached, the image does not exist or lacks the feature
    /// `exclusive-lock`, or it or its pool sets options with which writes could be lost; `EROFS`: a snapshot is to be written.
    pub fn open(address: &RbdAddress, options: &OpenOptions) -> Result<RbdDevice> {
        let failed = |source| open_error(address, source);
        if !options.read_only && address.snapshot.is_some() {
            return Err(failed(io::Error::from_raw_os_error(EROFS)));
        }
        let pool = cluster::connect(address, Breaking::Blocklists).map_err(failed)?;
        let mut fenced = Vec::new();
        let image = match options.read_only {
            true => open_to_read(address, &pool, options.exclusive)?,
            false => {
                let image = Arc::new(Image::open(&pool, &address.name).map_err(failed)?);
                settings::check(address, &image).map_err(failed)?;
                if options.exclusive {
                    fenced = lock(address, &pool, &image)?;
                }
                image
            }
        };
        let geometry = image.geometry().map_err(failed)?;
        if options.size.is_some_and(|size| size > geometry.bytes) {
            let why = format!("it has {} bytes, which is too small", geometry.bytes);
            return Err(failed(io::Error::new(ErrorKind::InvalidInput, why)));
        }
        let (sender, events) = mpsc::channel();
        let claim = Arc::new(Claim::new(image, pool, geometry.bytes, sender));
        let keeper = match options.exclusive && !options.read_only {
            true => Some(keep(address, &claim, |claim| {
                Keeper::start(claim, fenced, events)
            })?),
            false => None,
        };
        Ok(RbdDevice {
            address: address.clone(),
            is_read_only: options.read_only,
            keeper,
            claim,
            object_bytes: geometry.object_bytes.max(1),
            flush_times: DurationCounter::default(),
        })
    }

    /// Takes the lock of an image from its owner, which may be alive: the cluster refuses all that the owner sends from then on. Returns
    /// the addresses of the owners; none if the image was not locked.
    ///
    /// # Errors
    /// [`BlockError::Open`].
    pub fn break_lock(address: &RbdAddress) -> Result<Vec<String>> {
        address.refuse_snapshot()?;
        let failed = |source| open_error(address, source);
        let pool = cluster::connect(address, Breaking::Blocklists).map_err(failed)?;
        let image = Image::open(&pool, &address.name).map_err(failed)?;
        check_lockable(address, &image)?;
        lock::break_all(address, &pool, &image).map_err(failed)
    }

    /// Refuses a call that can't be.
    fn check(&self, op: BlockOp, offset: u64, len: u64) -> Result<()> {
        assert_may_block("a call of a cluster");
        if op != BlockOp::Read {
            if self.is_read_only && op != BlockOp::Flush {
                return Err(BlockError::ReadOnly { op, offset, len });
            }
            self.claim.check(op, offset, len)?;
        }
        check_range(op, offset, len, self.claim.len)
    }

    /// Reads ranges, of which `bytes` begin at `offset` or behind it.
    fn read_ranges<'a>(
        &self,
        ranges: impl IntoIterator<Item = (u64, &'a mut [u8])>,
        (offset, bytes): (u64, u64),
    ) -> Result<()> {
        let requests = requests::in_objects(ranges, self.object_bytes).into_iter();
        let done = self.claim.image.run(requests.map(|(offset, bufs)| Request {
            offset,
            transfer: Transfer::Read(bufs.into_iter().map(IoSliceMut::new).collect()),
        }));
        done.map_err(|e| self.claim.error(BlockOp::Read, offset, bytes, e))
    }

    /// Writes ranges, of which `bytes` begin at `offset` or behind it.
    fn write_ranges<'a>(
        &self,
        ranges: impl IntoIterator<Item = (u64, &'a [u8])>,
        (offset, bytes): (u64, u64),
    ) -> Result<()> {
        let requests = requests::in_objects(ranges, self.object_bytes).into_iter();
        let done = self.claim.image.run(requests.map(|(offset, bufs)| Request {
            offset,
            transfer: Transfer::Write(bufs.into_iter().map(IoSlice::new).collect()),
        }));
        done.map_err(|e| self.claim.error(BlockOp::Write, offset, bytes, e))
    }

    /// Runs requests for a range of any length.
    fn run_parts(
        &self,
        op: BlockOp,
        (offset, len): (u64, u64),
        transfer: impl Fn(u64) -> Transfer<'static>,
    ) -> Result<()> {
        self.check(op, offset, len)?;
        let done = requests::parts(offset, len, RANGE_MAX).try_for_each(|(offset, len)| {
            let transfer = transfer(len);
            self.claim.image.run([Request { offset, transfer }])
        });
        done.map_err(|e| self.claim.error(op, offset, len, e))
    }

    /// Makes what was written durable for `op`, and the image still ours after that.
    fn make_durable(&self, op: BlockOp, offset: u64, len: u64) -> Result<()> {
        let claim = &self.claim;
        let is_ours = || match self.keeper {
            Some(_) => claim.image.is_lock_owner(),
            None => Ok(true),
        };
        let start = Instant::now();
        let flushed = claim.image.run([Request {
            offset: 0,
            transfer: Transfer::Flush,
        }]);
        let owned = flushed
            .and_then(|()| claim.check_len())
            .and_then(|()| is_ours());
        self.flush_times.add(start.elapsed());
        match owned {
            Ok(true) => {}
            Ok(false) => claim.lose(LeaseLoss::LockBroken),
            Err(e) => {
                let error = claim.error(op, offset, len, e);
                claim.fail(Failure::WritesLost);
                return Err(error);
            }
        }
        claim.check(op, offset, len)
    }
}

fn open_error(address: &RbdAddress, source: io::Error) -> BlockError {
    BlockError::Open {
        path: PathBuf::from(address.to_string()),
        source,
    }
}

/// Refuses an image that has not an exclusive lock.
fn check_lockable(address: &RbdAddress, image: &Image) -> Result<()> {
    let failed = |source| open_error(address, source);
    if !image.has_exclusive_lock().map_err(failed)? {
        let why = format!(
            "the image has not the feature exclusive-lock, without which two hosts could write it; \
             `rbd feature enable {} exclusive-lock` adds it",
            address.image_spec()
        );
        return Err(failed(io::Error::new(ErrorKind::Unsupported, why)));
    }
    Ok(())
}

/// Opens an image or a snapshot to read from, unless `excludes_writers` and a client writes it.
fn open_to_read(
    address: &RbdAddress,
    pool: &Arc<Pool>,
    excludes_writers: bool,
) -> Result<Arc<Image>> {
    let failed = |source| open_error(address, source);
    let snapshot = address.snapshot.as_deref();
    let image = Image::open_read_only(pool, &address.name, snapshot).map_err(failed)?;
    if excludes_writers && snapshot.is_none() {
        let owners = image.lockers().map_err(failed)?;
        let watchers = image.watchers().map_err(failed)?;
        if owners.iter().any(|owner| watchers.contains(owner)) {
            return Err(BlockError::Busy {
                path: PathBuf::from(address.to_string()),
                mode: "read-write",
            });
        }
    }
    Ok(Arc::new(image))
}

/// Acquires the lock of an image; returns the clients that were fenced for it.
fn lock(address: &RbdAddress, pool: &Arc<Pool>, image: &Arc<Image>) -> Result<Vec<String>> {
    check_lockable(address, image)?;
    lock::acquire(address, pool, image).map_err(|e| match e {
        LockError::Held { owner } => BlockError::Locked {
            path: PathBuf::from(address.to_string()),
            owner,
        },
        LockError::Io(e) => open_error(address, e),
    })
}

/// Watches an image whose lock this client has acquired.
fn keep(
    address: &RbdAddress,
    claim: &Arc<Claim>,
    start: impl FnOnce(&Arc<Claim>) -> io::Result<Keeper>,
) -> Result<Keeper> {
    let failed = |source| open_error(address, source);
    let keeper = start(claim).map_err(failed)?;
    // From here on the watch reports what happens to the lock.
    match claim.image.is_lock_owner().map_err(failed)? {
        true => Ok(keeper),
        false => Err(failed(io::Error::other("its lock was lost at once"))),
    }
}

impl BlockDevice for RbdDevice {
    fn len(&self) -> u64 {
        self.claim.len
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = buf.len() as u64;
        self.check(BlockOp::Read, offset, len)?;
        self.read_ranges([(offset, buf)], (offset, len))
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        let len = total_len_mut(bufs);
        self.check(BlockOp::Read, offset, len)?;
        let mut at = offset;
        let ranges = bufs.iter_mut().map(|buf| {
            at += buf.len() as u64;
            (at - buf.len() as u64, &mut buf[..])
        });
        self.read_ranges(ranges, (offset, len))
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let mut bytes = 0;
        for (at, buf) in reads.iter() {
            self.check(BlockOp::Read, *at, buf.len() as u64)?;
            bytes += buf.len() as u64;
        }
        let first = reads.first().map_or(0, |(at, _)| *at);
        let ranges = reads.iter_mut().map(|(at, buf)| (*at, &mut **buf));
        self.read_ranges(ranges, (first, bytes))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let len = buf.len() as u64;
        self.check(BlockOp::Write, offset, len)?;
        self.write_ranges([(offset, buf)], (offset, len))
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len = total_len(bufs);
        self.check(BlockOp::Write, offset, len)?;
        let mut at = offset;
        let ranges = bufs.iter().map(|buf| {
            at += buf.len() as u64;
            (at - buf.len() as u64, &buf[..])
        });
        self.write_ranges(ranges, (offset, len))
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let mut bytes = 0;
        for (at, buf) in writes {
            self.check(BlockOp::Write, *at, buf.len() as u64)?;
            bytes += buf.len() as u64;
        }
        let first = writes.first().map_or(0, |(at, _)| *at);
        self.write_ranges(writes.iter().copied(), (first, bytes))
    }

    fn flush(&self) -> Result<()> {
        self.check(BlockOp::Flush, 0, 0)?;
        match self.is_read_only {
            true => Ok(()),
            false => self.make_durable(BlockOp::Flush, 0, 0),
        }
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let len = buf.len() as u64;
        self.check(BlockOp::Write, offset, len)?;
        self.write_ranges([(offset, buf)], (offset, len))
            .inspect_err(|_| self.claim.fail(Failure::WritesLost))?;
        self.make_durable(BlockOp::Write, offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.run_parts(BlockOp::Discard, (offset, len), Transfer::Discard)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.run_parts(BlockOp::Zero, (offset, len), Transfer::Zero)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check(BlockOp::SetLen, 0, 0)?;
        match len == self.claim.len {
            true => Ok(()),
            false => Err(BlockError::io(
                BlockOp::SetLen,
                0,
                len,
                io::Error::from_raw_os_error(EINVAL),
            )),
        }
    }

    fn is_fenced(&self) -> bool {
        self.keeper.is_some()
    }

    fn release(&self) {
        if self.keeper.is_some() {
            self.claim.release();
        }
    }

    fn remote_stats(&self) -> Option<RemoteStats> {
        let lease = match (&self.keeper, self.claim.is_lost()) {
            (_, true) => Lease::Lost,
            (Some(_), false) => Lease::Held,
            (None, false) => Lease::NotHeld,
        };
        Some(RemoteStats {
            kind: "rbd",
            lease: Some(lease),
            epoch_and_root: None,
            connections: None,
            flushes: self.flush_times.snapshot(),
            cache: None,
        })
    }

    fn identity(&self) -> Option<DeviceId> {
        Some(self.address.identity())
    }
}

impl fmt::Debug for RbdDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RbdDevice")
            .field("address", &self.address)
            .field("len", &self.claim.len)
            .field("is_read_only", &self.is_read_only)
            .field("failure", &self.claim.failure())
            .finish_non_exhaustive()
    }
}
