//! Where a program sees that its queues are those of a mount; and close to that, where it does not.

use crate::driver::{Driver, Queues};
use crate::mq::{Mq, on_both};
use libc::{EFAULT, EINTR, SIGSEGV, SIGUSR1, SIGUSR2};
use std::cell::Cell;

/// What a call that waits gives after a handler with `SA_RESTART` ran some times: a message is sent then.
fn after_restarts(driver: &Driver) -> Result<(), i32> {
    let d = driver.small(b"/q", 0);
    let before = driver.told();
    let sent = Cell::new(false);
    let receive = || driver.receive(d, 16).map(drop);
    let result = driver.signalled(&receive, SIGUSR1, |done| {
        if driver.told() > before + 3 && !sent.replace(true) {
            driver.send(d, b"x", 0).expect("fits");
        }
        !done
    });
    driver
        .unlink(b"/q")
        .and_then(|()| driver.close(d))
        .expect("goes");
    result
}

#[test]
fn handlers_that_restart() {
    on_both(&|driver| {
        // There is a handler without, too: on a mount it is unknown which of them has run.
        let mixed = match driver.queues() {
            Queues::Kernel => Ok(()),
            Queues::Mount(_) => Err(EINTR),
        };
        assert_eq!(after_restarts(driver), mixed);
        driver.forget_signal(SIGUSR2);
        assert_eq!(after_restarts(driver), Ok(()));
    });
}

#[test]
fn bad_addresses() {
    on_both(&|driver| {
        let d = driver.small(b"/q", 0);
        driver.send(d, b"x", 0).expect("fits");
        // The library reads what is sent, as any function of a program does.
        let sending = match driver.queues() {
            Queues::Kernel => Err(EFAULT),
            Queues::Mount(_) => Ok(SIGSEGV),
        };
        assert_eq!(driver.bad_address(d, 0), sending);
        assert_eq!(driver.bad_address(d, 1), Err(EFAULT), "receiving");
    });
}
