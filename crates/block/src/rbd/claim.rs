//! The right to write an image, and how it ends.
//!
//! # Resigning
//! A client whose write has no answer does not know whether an OSD still has the write; a client that has lost its watch may have its lock
//! taken, or librbd may acquire it again. Such a client does not release the lock: it has itself blocklisted, after which no OSD
//! applies anything that is late. The lock stays until the next owner breaks it, which finds that the client watches the image no longer.

use super::cluster::BLOCKLIST_SECONDS;
use super::librbd::{Pool, image::Image, watch::Notification};
use super::{EBLOCKLISTED, EROFS};
use crate::error::{BlockError, BlockOp, Failure, LeaseLoss, Result, check_failure};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// The time between two attempts of a client to have itself blocklisted.
pub const RETRY: Duration = Duration::from_secs(1);

/// What wakes the thread that keeps a claim.
pub enum Event {
    /// The image was changed by a client, which waits until this is dropped.
    Notified(Notification),
    /// The claim may have failed.
    Wake,
    /// The image is closed.
    End,
}

/// An image, and whether this client may write it.
pub struct Claim {
    /// Closed before the pool.
    pub image: Arc<Image>,
    pub pool: Arc<Pool>,
    /// Bytes of the device.
    pub len: u64,
    failure: OnceLock<Failure>,
    /// The cluster does not watch this client any more.
    is_unwatched: AtomicBool,
    /// A request that changes the image failed, and may be carried out later.
    has_unknown_outcome: AtomicBool,
    has_resigned: AtomicBool,
    /// To the thread that keeps the claim.
    keeper: Sender<Event>,
}

impl Claim {
    pub fn new(image: Arc<Image>, pool: Arc<Pool>, len: u64, keeper: Sender<Event>) -> Claim {
        Claim {
            image,
            pool,
            len,
            failure: OnceLock::new(),
            is_unwatched: AtomicBool::new(false),
            has_unknown_outcome: AtomicBool::new(false),
            has_resigned: AtomicBool::new(false),
            keeper,
        }
    }

    pub fn failure(&self) -> Option<Failure> {
        self.failure.get().copied()
    }

    /// Sends an event to the thread that keeps the claim, if one does.
    pub fn send(&self, event: Event) {
        let _ = self.keeper.send(event);
    }

    /// Refuses a call after a failure for good.
    pub fn check(&self, op: BlockOp, offset: u64, len: u64) -> Result<()> {
        self.check_watch();
        check_failure(&self.failure, op, offset, len)
    }

    /// Notes that the watch is lost, in a thread that must not block.
    pub fn note_unwatched(&self) {
        self.is_unwatched.store(true, Ordering::Release);
        self.send(Event::Wake);
    }

    /// Fails if the watch is lost.
    pub fn check_watch(&self) {
        if self.is_unwatched.load(Ordering::Acquire) && self.failure.get().is_none() {
            self.lose(LeaseLoss::WatchLost);
        }
    }

    /// Fails if the image became shorter than the device, of which librbd would drop the writes behind its end.
    ///
    /// # Errors
    /// The cluster's.
    pub fn check_len(&self) -> io::Result<()> {
        let bytes = self.image.bytes()?;
        if bytes < self.len {
            let device_bytes = self.len;
            self.fail(Failure::Truncated {
                bytes,
                device_bytes,
            });
        }
        Ok(())
    }

    /// Fails for good, unless it has.
    pub fn fail(&self, failure: Failure) {
        let _ = self.failure.set(failure);
        self.send(Event::Wake);
    }

    /// After the right to write was lost: notes how, of which `seen` is what was seen of it.
    pub fn lose(&self, seen: LeaseLoss) {
        let is_blocked = |e: &io::Error| e.raw_os_error() == Some(EBLOCKLISTED);
        let how = match self.image.is_lock_owner() {
            Err(e) if is_blocked(&e) => LeaseLoss::Blocklisted,
            Ok(false) => match self.image.lock_owners() {
                Err(e) if is_blocked(&e) => LeaseLoss::Blocklisted,
                Ok(owners) if owners.is_empty() => LeaseLoss::LockBroken,
                Ok(_) => LeaseLoss::TakenOver,
                Err(_) => seen,
            },
            _ => seen,
        };
        self.fail(Failure::LeaseLost(how));
    }

    /// The error of a call that has failed on the cluster.
    pub fn error(&self, op: BlockOp, offset: u64, len: u64, e: io::Error) -> BlockError {
        let changes = op != BlockOp::Read;
        if changes {
            self.has_unknown_outcome.store(true, Ordering::Release);
        }
        match e.raw_os_error() {
            Some(EBLOCKLISTED) => self.fail(Failure::LeaseLost(LeaseLoss::Blocklisted)),
            // What librbd answers a client without the lock.
            Some(EROFS) if changes => self.lose(LeaseLoss::LockBroken),
            _ => {}
        }
        match check_failure(&self.failure, op, offset, len) {
            Err(failed) if changes || self.is_lost() => failed,
            _ => BlockError::io(op, offset, len, e),
        }
    }

    /// Whether another client may have the right to write.
    pub fn is_lost(&self) -> bool {
        matches!(self.failure.get(), Some(Failure::LeaseLost(_)))
    }

    /// Has this client blocklisted, once: nothing that it has sent or sends is carried out after the next owner has the lock.
    ///
    /// # Errors
    /// The cluster's.
    pub fn resign(&self) -> io::Result<()> {
        if !self.has_resigned.load(Ordering::Acquire) {
            blocklist_self(&self.pool)?;
            self.has_resigned.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Releases the lock, or resigns where that is not safe. What fails is found by the next owner.
    pub fn release(&self) {
        let _ = match self.must_resign() {
            true => self.resign(),
            false => self.image.unlock(),
        };
    }

    /// Whether closing the image must not release its lock.
    fn must_resign(&self) -> bool {
        let writes_lost = self.failure.get() == Some(&Failure::WritesLost);
        writes_lost || self.is_lost() || self.has_unknown_outcome.load(Ordering::Acquire)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.must_resign() && self.resign().is_err() {
            // The lock is kept until no OSD takes what is late.
            let (image, pool) = (self.image.clone(), self.pool.clone());
            thread::spawn(move || {
                while blocklist_self(&pool).is_err() {
                    thread::sleep(RETRY);
                }
                drop(image);
            });
        }
    }
}

fn blocklist_self(pool: &Pool) -> io::Result<()> {
    let cluster = pool.cluster();
    cluster.blocklist(&cluster.address()?, BLOCKLIST_SECONDS)
}
