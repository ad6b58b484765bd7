//! The files of mounted queues, by the same system calls on a mount of ours and on Linux's: the same answers, but for what
//! `docs/SEMANTICS.md` lists, where there is a difference indeed.
//!
//! The tests are those of a namespace as a file system (`tests/mqueue/files`).

mod by_calls;
#[path = "../files/calls.rs"]
mod calls;
#[path = "../files/changing.rs"]
mod changing;
mod differences;
#[path = "../files/directory.rs"]
mod directory;
#[path = "../files/kernel.rs"]
mod kernel;
#[path = "../machine.rs"]
mod machine;
mod mount;
mod mounted;
#[path = "../files/names.rs"]
mod names;
#[path = "../namespace.rs"]
#[expect(dead_code, reason = "no program is started here")]
mod namespace;
#[path = "../files/permissions.rs"]
mod permissions;
#[path = "../files/reading.rs"]
mod reading;
#[path = "../files/sides.rs"]
mod sides;
