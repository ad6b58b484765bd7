//! A test suite for each mq_* manual page, with every documented errno, on the library and on the kernel's
//! own message queues through the C library: the two agree.
//!
//! The kernel's side needs root for an IPC namespace of its own, and skips, saying so, without.
mod calls;
mod kernel;
mod library;
mod limits_of_root;
#[path = "../machine.rs"]
mod machine;
mod mq;
mod mq_close;
mod mq_getattr;
mod mq_notify;
mod mq_open;
mod mq_overview;
mod mq_receive;
mod mq_send;
mod mq_unlink;
