//! uext4 bench.
#![forbid(unsafe_code)]
