//! The test suite of the mq_* manual pages for programs that call the C library, unmodified: on the kernel's queues, which
//! proves the driver, and on those of a mount, which the preloaded library leads to.
//!
//! `UEXT4_MQ_SIDE` (`kernel`, `mount`) chooses one side. With `UEXT4_MQ_SUITE_DIR`, the mount is that one, for one
//! test after the other.

mod at_once;
#[path = "../c_program.rs"]
mod c_program;
#[path = "../suite/calls.rs"]
mod calls;
mod differences;
mod driver;
#[path = "../machine.rs"]
#[expect(dead_code, reason = "a thread of the driver becomes a user by itself")]
mod machine;
mod mq;
#[path = "../suite/mq_close.rs"]
mod mq_close;
#[path = "../suite/mq_getattr.rs"]
mod mq_getattr;
#[path = "../suite/mq_notify.rs"]
mod mq_notify;
#[path = "../suite/mq_open.rs"]
mod mq_open;
#[path = "../suite/mq_overview.rs"]
mod mq_overview;
#[path = "../suite/mq_receive.rs"]
mod mq_receive;
#[path = "../suite/mq_send.rs"]
mod mq_send;
#[path = "../suite/mq_unlink.rs"]
mod mq_unlink;
#[path = "../namespace.rs"]
mod namespace;
