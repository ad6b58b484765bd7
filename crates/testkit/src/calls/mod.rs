//! Random calls that two sides answer: a mount by system calls, the library by its own.
//!
//! | module | holds |
//! | --- | --- |
//! | [`call`], [`values`] | the calls, and what they pass |
//! | [`person`], [`thread`] | the callers; a thread with a caller's credentials |
//! | [`side`] | what answers, and how |
//! | [`mounted`] | a side that makes system calls |
//! | [`sequence`] | calls on two sides, compared |
#![allow(missing_docs)]

pub mod call;
pub mod mounted;
pub mod person;
pub mod sequence;
pub mod side;
pub mod thread;
pub mod values;
