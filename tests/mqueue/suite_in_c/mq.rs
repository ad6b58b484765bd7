//! Running a test on the kernel's queues and on those of a mount.

use crate::driver::{Driver, Queues};
use crate::namespace::{Mounted, can_mount};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use uext4_testkit::exclusive::Exclusive;
use uext4_testkit::require;

pub use crate::calls::*;

static USER_BYTES: Exclusive<&str> = Exclusive::new("users' bytes, counted over all namespaces");
/// The names in `/proc/sys/fs/mqueue`.
const LIMITS: [&str; 5] = [
    "msg_default",
    "msg_max",
    "msgsize_default",
    "msgsize_max",
    "queues_max",
];

/// Runs a test in a driver, which has to end well.
fn run(queues: Queues, test: &dyn Fn(&Driver)) {
    let side = format!("{queues:?}");
    let driver = require!(some Driver::start(queues).expect("the driver starts"));
    let ran = catch_unwind(AssertUnwindSafe(|| test(&driver)));
    if let Err(panic) = ran {
        eprintln!("on the queues of {side}:");
        resume_unwind(panic);
    }
    driver.finish().expect("the driver ends");
}

/// The limits of a mount as their files would have them.
fn limits(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let get = |name| {
        let name = format!("uext4.{name}");
        let mut value = vec![0; 32];
        let len = rustix::fs::getxattr(dir, &*name, &mut value).expect("a limit");
        value.truncate(len);
        (name, value)
    };
    LIMITS.map(get).to_vec()
}

/// On a mount that other tests use before and after.
fn run_in(dir: PathBuf, test: &dyn Fn(&Driver)) {
    let before = limits(&dir);
    let ran = catch_unwind(AssertUnwindSafe(|| run(Queues::Mount(dir.clone()), test)));
    for queue in std::fs::read_dir(&dir).expect("is mounted") {
        let path = queue.expect("a queue").path();
        std::fs::remove_file(path).expect("unlinks");
    }
    for (name, value) in before {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&dir, name, &value, flags).expect("as root");
    }
    // What failed leaves nothing to the test after it.
    if let Err(panic) = ran {
        resume_unwind(panic);
    }
}

/// Runs a test on the kernel's queues, then on those of a mount.
pub fn both(test: fn(&dyn Mq)) {
    on_both(&|driver| test(driver));
}

/// The same with what only a driver can do.
pub fn on_both(test: &dyn Fn(&Driver)) {
    let side = std::env::var("UEXT4_MQ_SIDE").unwrap_or_default();
    if side != "mount" {
        let _bytes = USER_BYTES.take();
        run(Queues::Kernel, test);
    }
    require!(can_mount());
    if let Some(dir) = std::env::var_os("UEXT4_MQ_SUITE_DIR") {
        return run_in(dir.into(), test);
    }
    let mounted = Mounted::new().expect("mounts");
    run(Queues::Mount(mounted.dir().to_owned()), test);
    mounted.unmount().expect("unmounts");
}
