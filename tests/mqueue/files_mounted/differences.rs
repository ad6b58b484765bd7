//! Where a mount of ours answers otherwise than Linux's.

use crate::machine;
use crate::mount::{Mount, beside_the_kernel};
use crate::permissions::{BY_NAME, in_each_mode};
use crate::reading::{RANGES, with_queue};
use libc::{EACCES, EEXIST, EFBIG, EINVAL, ENOENT, ENOSPC, ENXIO, EOPNOTSUPP, ESTALE};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use uext4_testkit::prelude::*;

/// As capabilities(7) numbers it.
const CAP_SYS_RESOURCE: u64 = 1 << 24;

#[test]
fn handles() {
    beside_the_kernel(|both| {
        with_queue(both);
        for name in ["q", "."] {
            assert_eq!(both.differ(|m| m.handle(name)), (Ok(()), Err(EOPNOTSUPP)));
        }
        let ours = &both.ours;
        let handle = ours.handle_of("q").expect("available");
        let file = rustix::fs::openat(&ours.fd, "q", OFlags::RDONLY, Mode::empty());
        ours.unlink("q").expect("goes");
        // The kernel has the file, and does not ask.
        assert_eq!(ours.open_handle(&handle), Ok(()), "as it is open");
        drop(file.expect("opens"));
        // Until the server has answered that it is closed, the kernel has it.
        while ours.open_handle(&handle).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(ours.open_handle(&handle), Err(ESTALE));
        ours.create("q", 0o600).expect("makes it");
        assert_eq!(ours.open_handle(&handle), Err(ESTALE));
    });
}

/// What Linux answers in a directory that may not be searched.
fn unsearched_by_linux(what: &str) -> Result<(), i32> {
    match what {
        "mq_open" | "mq_open what is there" => Ok(()),
        "mq_open, exclusive" => Err(EEXIST),
        "mq_open nothing" | "mq_unlink" | "mq_unlink nothing" => Err(ENOENT),
        _ => Err(EACCES),
    }
}

/// Linux does not search the directory to find a queue by its name; here open(2) and unlink(2) do.
#[test]
fn queues_by_name_in_a_directory_that_may_not_be_searched() {
    beside_the_kernel(|both| {
        in_each_mode(both, |mode| {
            let search = both.same("search", |m| m.stat("own").map(drop));
            for (what, step) in BY_NAME {
                let call = format!("{what}: {mode}");
                if search.is_ok() {
                    both.same(&call, step).ok();
                } else {
                    let want = (Err(EACCES), unsearched_by_linux(what));
                    assert_eq!(both.differ(step), want, "{call}");
                }
            }
        });
    });
}

/// The kernel's FUSE knows that it has no such calls, and not how long a queue's file may be.
#[test]
fn ranges_that_move_others() {
    beside_the_kernel(|both| {
        with_queue(both);
        for what in [Fallocate::CollapseRange, Fallocate::InsertRange] {
            for (offset, len) in RANGES {
                let call = format!("{what:?} {offset} {len}");
                let (ours, linux) = both.differ(|m| m.fallocate("q", what, offset, len));
                let want = match linux {
                    Err(EFBIG) if offset + len < 1 << 63 => EOPNOTSUPP,
                    Err(e) => e,
                    Ok(()) => panic!("{call}"),
                };
                assert_eq!(ours, Err(want), "{call}");
            }
        }
    });
}

/// The kernel's FUSE does not forward an empty write.
#[test]
fn writing_nothing() {
    beside_the_kernel(|both| {
        with_queue(both);
        assert_eq!(both.differ(|m| m.write("q", 0)), (Ok(0), Err(EINVAL)));
    });
}

/// On Linux it is a capability of the caller; FUSE passes its number alone.
#[test]
fn the_superuser_beyond_the_limit() {
    beside_the_kernel(|both| {
        both.same("max", |m| m.set_queues_max(1));
        with_queue(both);
        let linux = match machine::capabilities() & CAP_SYS_RESOURCE {
            0 => Err(ENOSPC),
            _ => Ok(()),
        };
        assert_eq!(both.differ(|m| m.create("more", 0o600)), (Ok(()), linux));
        both.same("a user", |m| m.become_user(4803));
        let answer = both.same("a user's", |m| m.create("most", 0o600));
        assert_eq!(answer, Err(ENOSPC));
    });
}

/// The kernel's FUSE takes all of a directory for data, and does not ask the server.
#[test]
fn data_and_holes_of_the_directory() {
    beside_the_kernel(|both| {
        let size = both.same("size", |m| m.stat(".")).expect("is there").size;
        for offset in [0, size - 1, size, 1 << 40] {
            for hole in [false, true] {
                let ours = match (offset < size, hole) {
                    (true, true) => Ok(size),
                    (true, false) => Ok(offset),
                    (false, _) => Err(ENXIO),
                };
                let answers = both.differ(|m| m.seek(".", hole, offset));
                assert_eq!(answers, (ours, Err(EINVAL)), "{offset} {hole}");
            }
        }
    });
}

/// Linux makes the queue before it finds that it can't be opened like that.
#[test]
fn queues_made_for_direct_reading() {
    beside_the_kernel(|both| {
        let flags = OFlags::DIRECT | OFlags::CREATE | OFlags::RDWR;
        for dir in [&both.ours.fd, &both.kernel.fd] {
            for flags in [flags, flags | OFlags::EXCL] {
                rustix::fs::unlinkat(dir, "q", AtFlags::empty()).ok();
                let opened = rustix::fs::openat(dir, "q", flags, Mode::RUSR);
                assert_eq!(opened.map(drop), Err(Errno::INVAL));
            }
        }
        let is_there = both.differ(|m| m.stat("q").map(drop));
        assert_eq!(is_there, (Err(ENOENT), Ok(())));
        assert_eq!(both.ours.create("q", 0o600), Ok(()));
    });
}
