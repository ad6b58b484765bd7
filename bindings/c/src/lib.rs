//! libuext4: the crate uext4 for programs in C, declared in `include/uext4.h`.
//!
//! Handles are references that may be null, so that the compiler has what C promises of them. Strings and buffers are pointers,
//! which `argument` and `settings` turn into slices.
//!
//! | module | holds |
//! | --- | --- |
//! | `failure` | the text of a thread's last failure; panics end here |
//! | `argument`, `settings` | pointers of C as references and slices; lists of `name=value` |
//! | `mkfs`, `check` | images that are not open: made, checked, repaired |
//! | `fs` | open images |
//! | `names`, `attributes`, `xattr` | what is done by path |
//! | `file`, `dir` | open files and directories |
#![allow(
    non_camel_case_types,
    reason = "the names of structures are those of C"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the head of the header has what every pointer must be"
)]

mod argument;
mod attributes;
mod check;
mod dir;
mod failure;
mod file;
mod fs;
mod mkfs;
mod names;
mod settings;
mod xattr;

/// Threads share handles.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<fs::uext4_fs>();
    shared::<file::uext4_file>();
    shared::<dir::uext4_dir>();
    shared::<check::uext4_report>();
};
