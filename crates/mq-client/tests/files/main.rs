//! The files of mounted queues, by the same system calls on a mount of ours and on Linux's: the same answers, but for what
//! `docs/SEMANTICS.md` lists, where there is a difference indeed.
//!
//! The tests are those of a namespace as a file system (`crates/mqueue/tests/kernel_mount`).

mod by_calls;
#[path = "../../../mqueue/tests/kernel_mount/calls.rs"]
mod calls;
#[path = "../../../mqueue/tests/kernel_mount/changing.rs"]
mod changing;
mod differences;
#[path = "../../../mqueue/tests/kernel_mount/directory.rs"]
mod directory;
#[path = "../../../mqueue/tests/kernel_mount/kernel.rs"]
mod kernel;
#[path = "../library/mod.rs"]
mod library;
#[path = "../../../mqueue/tests/machine/mod.rs"]
mod machine;
mod mount;
mod mounted;
#[path = "../../../mqueue/tests/kernel_mount/names.rs"]
mod names;
#[path = "../namespace/mod.rs"]
#[expect(dead_code, reason = "no program is started here")]
mod namespace;
#[path = "../../../mqueue/tests/kernel_mount/permissions.rs"]
mod permissions;
#[path = "../../../mqueue/tests/kernel_mount/reading.rs"]
mod reading;
#[path = "../../../mqueue/tests/kernel_mount/sides.rs"]
mod sides;
