//! The test suite of the mq_* manual pages for programs that call the C library, unmodified: on the kernel's queues, which
//! proves the driver, and on those of a mount, which the preloaded library leads to.
//!
//! `UEXT4_MQ_SIDE` (`kernel`, `mount`) chooses one side. With `UEXT4_MQ_SUITE_DIR`, the mount is that one, for one
//! test after the other.

mod at_once;
#[path = "../../../mqueue/tests/suite/calls.rs"]
mod calls;
mod differences;
mod driver;
#[path = "../library/mod.rs"]
mod library;
#[path = "../../../mqueue/tests/machine/mod.rs"]
#[expect(dead_code, reason = "a thread of the driver becomes a user by itself")]
mod machine;
mod mq;
#[path = "../../../mqueue/tests/suite/mq_close.rs"]
mod mq_close;
#[path = "../../../mqueue/tests/suite/mq_getattr.rs"]
mod mq_getattr;
#[path = "../../../mqueue/tests/suite/mq_notify.rs"]
mod mq_notify;
#[path = "../../../mqueue/tests/suite/mq_open.rs"]
mod mq_open;
#[path = "../../../mqueue/tests/suite/mq_overview.rs"]
mod mq_overview;
#[path = "../../../mqueue/tests/suite/mq_receive.rs"]
mod mq_receive;
#[path = "../../../mqueue/tests/suite/mq_send.rs"]
mod mq_send;
#[path = "../../../mqueue/tests/suite/mq_unlink.rs"]
mod mq_unlink;
#[path = "../namespace/mod.rs"]
mod namespace;
#[path = "../program/mod.rs"]
mod program;
