//! The library that is preloaded.

use std::path::PathBuf;

/// Where it is.
pub fn library() -> PathBuf {
    std::env::var_os("UEXT4_MQ_LIBRARY")
        .expect("its path")
        .into()
}
