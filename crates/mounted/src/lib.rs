//! Directories to compare: a mount of uext4, and one of the kernel's own ext4.
//!
//! The tests of this crate do the same in both by system calls, and compare what they see.
#![forbid(unsafe_code)]

pub mod place;
pub mod program;
pub mod served;
