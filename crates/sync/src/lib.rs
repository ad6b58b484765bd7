//! Ranked, counted locks: the one place where uext4 makes a lock.
//!
//! Every lock belongs to a [`LockClass`]; a class has a [`Rank`] in the lock order of
//! `docs/LOCKING.md`, which is generated from the tables in [`class`]. Debug builds keep the ranks a
//! thread holds and panic on an acquisition that breaks the order, naming both classes. With
//! [`stat::enable`] every class counts acquisitions, contention, waiting and holding time; off, that
//! costs one relaxed load.
//!
//! Built with `--cfg shuttle` the primitives are Shuttle's, so that lock protocols can be explored
//! schedule by schedule. Built with `--cfg loom` the atomics are loom's, so that what only they guard
//! can be proved for every order that the memory model allows.
//!
//! | module | holds |
//! | --- | --- |
//! | [`class`] | the table of ranks and classes |
//! | [`order`] | the debug check of the lock order |
//! | [`stat`], [`probe`] | lock statistics; counts and times of the create path |
//! | [`mutex`], [`rwlock`], [`condvar`] | the locks |
//! | [`rwsem`], [`range_lock`] | the locks of inodes: for many readers, and on ranges |
//! | [`gate`] | what many threads pass at once, and what is closed once in a while |
//! | [`adaptive_spin`] | spinning before a thread sleeps |
//! | [`percpu`], [`batched_count`] | values per CPU; a count that many CPUs change |
//! | [`durations`] | how long work took |
//! | [`word_copy`] | words that a lock guards, read without it |
//! | [`clock`] | the clock of files, which Shuttle simulates |
//! | `virtual_cpus` | CPUs that the machine need not have, with `--cfg virtual_cpus` |
//! | `transfers`, `counted_atomic` | how lines move between virtual CPUs, with Shuttle as well |
//! | [`atomic`], [`thread`], [`thread_local`] | what Shuttle replaces as well, and loom the first |

pub mod adaptive_spin;
pub mod batched_count;
pub mod class;
pub mod clock;
pub mod condvar;
#[cfg(all(shuttle, virtual_cpus))]
pub mod counted_atomic;
mod counters;
pub mod durations;
pub mod gate;
mod imp;
pub mod mutex;
pub mod order;
pub mod percpu;
pub mod probe;
pub mod range_lock;
pub mod rwlock;
pub mod rwsem;
pub mod stat;
#[cfg(all(shuttle, virtual_cpus))]
pub mod transfers;
#[cfg(virtual_cpus)]
pub mod virtual_cpus;
pub mod word_copy;

pub use adaptive_spin::AdaptiveSpin;
pub use batched_count::BatchedCount;
pub use class::{LockClass, Rank};
pub use condvar::Condvar;
pub use durations::{DurationCounter, Durations};
pub use gate::{Closed, Gate, Pass};
pub use imp::{atomic, thread, thread_local};
pub use mutex::{Mutex, MutexGuard};
pub use order::assert_may_block;
pub use percpu::{PerCpu, PerUsedCpu, thread_number};
pub use range_lock::{RangeGuard, RangeLock};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use rwsem::{RwSem, RwSemGuard};
pub use word_copy::WordCopy;

pub use crossbeam_utils::CachePadded;
