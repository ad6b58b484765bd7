//! libuext4: the crate uext4 for programs in C, declared in `include/uext4.h`.
//!
//! | module | holds |
//! | --- | --- |
//! | `failure` | the text of a thread's last failure; panics end here |
//! | `argument` | pointers of C as references |
//! | `fs` | images: made, opened, closed, and what is done by path |
//! | `file` | open files |

mod argument;
mod failure;
mod file;
mod fs;
