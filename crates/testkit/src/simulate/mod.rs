//! Deterministic simulation: one seed decides what several threads do to a mount, in which order they run, which calls of the
//! device fail, when the power is lost, how the file system is mounted again, and what its clock shows.
//!
//! # Data model
//! A [`Plan`] is what a seed decides, and what a command line says of it. A run is a series of *lives*: the file system is mounted, workers
//! apply operations to it and to their models beside three threads that contend for other names, and it ends by an unmount, a power loss or a failed device.
//! The next life mounts what that left: recovery must have kept what was guaranteed.
//!
//! | module | holds |
//! | --- | --- |
//! | [`plan`] | what a seed decides; the command line that repeats it |
//! | [`scheduler`] | which thread runs next |
//! | [`power`] | a device whose power is lost at some write |
//! | [`life`] | from one mount to its end |
//! | [`run`] | the lives of one seed |
//! | [`tally`] | what runs came to |
//! | [`minimise`] | the smallest plan that still fails |
//!
//! # Locking
//! All threads of a run are tasks of one thread of the machine, which switches between them at each lock and atomic access of the engine. What
//! the simulation shares between them is in locks of the standard library, held across no such place.

mod life;
pub mod minimise;
pub mod plan;
mod power;
pub mod run;
mod scheduler;
mod tally;

pub use plan::Plan;
pub use run::run;
pub use tally::Tally;
