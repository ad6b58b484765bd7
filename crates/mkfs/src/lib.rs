//! uext4 mkfs.
#![forbid(unsafe_code)]
