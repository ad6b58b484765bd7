//! uext4 ondisk.
#![forbid(unsafe_code)]
