//! uext4 vfs.
#![forbid(unsafe_code)]
