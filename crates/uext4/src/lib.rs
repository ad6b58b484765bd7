//! uext4 uext4.
#![forbid(unsafe_code)]
