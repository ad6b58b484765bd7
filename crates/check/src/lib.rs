//! uext4 check.
#![forbid(unsafe_code)]
