//! x
#![forbid(unsafe_code)]
pub mod engine;
