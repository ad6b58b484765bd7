//! Where the library is that the tests preload.

use std::path::PathBuf;

/// The library as cargo built it for this test: beside the test's own program. Cargo copies it one directory up only
/// when it is built for itself, so what is there may be old.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().expect("the test has a path");
    let library = program.with_file_name("libuext4_mq.so");
    assert!(library.exists(), "{}: not built", library.display());
    library
}
