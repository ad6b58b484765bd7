//! Tests of the journal as a whole, on a device that records what it is asked for.
//!
//! | module | holds |
//! | --- | --- |
//! | `device` | the device |
//! | `setup` | a journal on it |
//! | `fast_commits` | fast commits |
//! | `faults` | every call of the device fails in turn |
//! | `recovered` | what is in the log, and what recovery makes of it |
//! | `writes` | what is written, where and in which order |
//! | `waiting` | calls that wait for the commit thread, and calls that do not |

pub(crate) mod device;
mod fast_commits;
mod faults;
mod recovered;
mod setup;
mod waiting;
mod writes;
