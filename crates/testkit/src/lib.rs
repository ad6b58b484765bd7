//! uext4 testkit.
#![forbid(unsafe_code)]
