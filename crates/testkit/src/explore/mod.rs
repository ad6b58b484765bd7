//! The crash explorer: what power losses leave of workloads, state by state.
//!
//! # Data model
//! A [`base::Base`] is a tiny image with stale data in its free blocks. A sequence ([`alphabet`]) runs on a
//! recorded copy of it ([`record`]). At each point where something becomes durable, [`states`] lists what a
//! power loss can leave. A state is a content of the device; each is tried once ([`tally::Seen`]).
//!
//! The journal of every state is recovered ([`recovery::replay`]). What that leaves, the log aside, decides
//! everything else: so the rest of the recovery, the walk and the verifier run once for each content that is
//! left ([`recovery::recover`]), and what they found holds for all states that lead there. Within that run,
//! and within the log's replay, power is lost again.
//!
//! # What must hold ([`judge`])
//! - Recovery succeeds; then `uext4-check` finds nothing, and in a sample and for every new shape of the tree
//!   e2fsck neither; e2fsck's own recovery, and in a smaller sample the kernel's, leaves the same tree.
//! - The tree equals that after some step, and that step is not before the last one that a sync guaranteed
//!   ([`crate::verdict`]): operations of one handle are atomic, synced data is there, no byte is stale.
//! - The log has no copy of a free block, or of one that holds data which does not go through it.
//! - After a crash within a recovery, the next one leaves the same tree.
//! - Without a journal, `e2fsck -fy` repairs everything, and what was synced and not changed since is there.
//!
//! | module | holds |
//! | --- | --- |
//! | [`base`] | kinds of file systems, images to begin with |
//! | [`alphabet`] | operations, and all sequences of one, two and three |
//! | [`record`] | a sequence on a recorded device |
//! | [`states`] | what a power loss can leave |
//! | [`recovery`] | what recovery makes of it |
//! | [`judge`] | whether that is allowed |
//! | [`others`] | e2fsck and the kernel |
//! | [`bug`], [`canary`] | planted bugs, all of which are caught |
//! | [`tally`] | what was explored |
//! | [`random`] | long workloads of several threads |
//! | [`run`], [`shared`], [`results`] | many sequences, on several threads; what they found |

pub mod alphabet;
pub mod base;
pub mod bug;
pub mod canary;
pub mod judge;
pub mod others;
pub mod random;
pub mod record;
pub mod recovery;
pub mod results;
pub mod run;
pub mod shared;
pub mod states;
pub mod tally;
