//! The same calls on a namespace as a file system, and on Linux's mount of type `mqueue`: the same answers,
//! but for what `docs/SEMANTICS.md` lists, where there is a difference indeed.
//!
//! Linux's side needs root for an IPC and a mount namespace, and skips, saying so, without.
mod beyond_fuse;
mod calls;
mod changing;
mod differences;
mod directory;
mod kernel;
#[path = "../machine.rs"]
mod machine;
mod mount;
mod names;
mod ours;
mod permissions;
mod reading;
mod sides;
