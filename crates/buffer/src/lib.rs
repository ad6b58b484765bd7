//! uext4 buffer.
#![forbid(unsafe_code)]
