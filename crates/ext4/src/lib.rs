//! uext4 ext4.
#![forbid(unsafe_code)]
