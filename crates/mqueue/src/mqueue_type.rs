//! The file system type of message queues: a superblock for each IPC namespace, in one registry.
//!
//! # Variants
//! [`SuperVariant`] (`mqueue-super=`), as [`uext4_vfs::registry`] has them. A namespace that is created has a
//! number that was never given out, so that only the `keyed` variant searches for it; mounting the queues of
//! one that exists uses its number in every variant, so that two mounts show the same queues.
//!
//! # Invariants
//! A number is given out once. Threads have series of numbers, each with a shard of the registry and a
//! reference to the accounts, so that namespaces are created without writing what all write.

use crate::account::{Accounts, SharedAccounts};
use crate::ipc_namespace::IpcNamespace;
use crate::limits::Limits;
use crate::namespace::Namespace;
use crate::namespace_id::{NamespaceId, SERIES};
use std::sync::Arc;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};
use uext4_sync::{CachePadded, thread_number};
use uext4_vfs::{Errno, Registry, Result, SuperVariant};

/// The message queues of a process, all namespaces of it; users are charged over all of them.
pub struct MqueueType {
    registry: Registry<NamespaceId, Namespace>,
    series: Box<[CachePadded<Series>]>,
}

/// What belongs to a thread, and to those that come [`SERIES`] threads later.
struct Series {
    /// How many numbers were given out.
    given: AtomicU64,
    accounts: Arc<SharedAccounts>,
}

impl Default for MqueueType {
    fn default() -> MqueueType {
        MqueueType::new(SuperVariant::default())
    }
}

impl MqueueType {
    /// Without a namespace.
    pub fn new(variant: SuperVariant) -> MqueueType {
        MqueueType::with_accounts(variant, Accounts::new())
    }

    /// Without a namespace; users are charged in `accounts`.
    pub fn with_accounts(variant: SuperVariant, accounts: Arc<Accounts>) -> MqueueType {
        MqueueType {
            registry: Registry::new(variant),
            series: (0..SERIES)
                .map(|_| {
                    CachePadded::new(Series {
                        given: AtomicU64::new(0),
                        accounts: SharedAccounts::new(Arc::clone(&accounts)),
                    })
                })
                .collect(),
        }
    }

    /// Creates a namespace without queues (`CLONE_NEWIPC`), and mounts its queues.
    ///
    /// # Locks
    /// Takes `registry`.
    pub fn create(&self, limits: Limits) -> IpcNamespace {
        let series = thread_number() % SERIES;
        let here = &self.series[series];
        let id = NamespaceId::new(series, here.given.fetch_add(1, Relaxed));
        let fill = || Ok(Namespace::new(id, limits, Arc::clone(&here.accounts)));
        match self.registry.get_tree_nodev::<Errno>(id, fill) {
            Ok(superblock) => IpcNamespace::new(superblock),
            Err(_) => unreachable!("filling cannot fail"),
        }
    }

    /// Mounts the queues of a namespace that exists, once more.
    ///
    /// # Locks
    /// Takes `registry`; may sleep.
    ///
    /// # Errors
    /// `ENOENT`: it is gone.
    pub fn mount(&self, id: NamespaceId) -> Result<IpcNamespace> {
        let superblock = self.registry.find(&id).ok_or(Errno::ENOENT)?;
        Ok(IpcNamespace::new(superblock))
    }

    /// How many namespaces there are.
    ///
    /// # Locks
    /// Takes `registry`, one shard after the other.
    pub fn namespaces(&self) -> usize {
        self.registry.len()
    }
}
