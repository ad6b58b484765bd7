//! uext4 jbd2.
#![forbid(unsafe_code)]
