//! Where a namespace answers as Linux does, and a mount of it cannot, as FUSE answers or the path is checked first: the test of
//! mounted files (`crates/mq-client/tests/files`) says what is answered there.

use crate::mount::beside_the_kernel;
use crate::permissions::{BY_NAME, in_each_mode};
use crate::reading::{RANGES, with_queue};
use libc::{EINVAL, ENOSPC};
use uext4_vfs::Fallocate;

#[test]
fn queues_by_name_in_a_directory_of_any_mode() {
    beside_the_kernel(|both| {
        in_each_mode(both, |mode| {
            for (what, step) in BY_NAME {
                both.same(&format!("{what}: {mode}"), step).ok();
            }
        });
    });
}

#[test]
fn ranges_that_move_others() {
    beside_the_kernel(|both| {
        with_queue(both);
        for what in [Fallocate::CollapseRange, Fallocate::InsertRange] {
            for (offset, len) in RANGES {
                let call = format!("{what:?} {offset} {len}");
                both.same(&call, |m| m.fallocate("q", what, offset, len))
                    .expect_err("never");
            }
        }
    });
}

#[test]
fn writing_nothing() {
    beside_the_kernel(|both| {
        with_queue(both);
        assert_eq!(both.same("write", |m| m.write("q", 0)), Err(EINVAL));
    });
}

#[test]
fn the_superuser_beyond_the_limit() {
    beside_the_kernel(|both| {
        both.same("max", |m| m.set_queues_max(1));
        with_queue(both);
        both.same("root's, by its capabilities", |m| m.create("more", 0o600))
            .ok();
        both.same("a user", |m| m.become_user(4803));
        let answer = both.same("a user's", |m| m.create("most", 0o600));
        assert_eq!(answer, Err(ENOSPC));
    });
}

#[test]
fn data_and_holes_of_the_directory() {
    beside_the_kernel(|both| {
        for offset in [0, 39, 40, 1 << 40] {
            for hole in [false, true] {
                let answer = both.same("seek", |m| m.seek(".", hole, offset));
                assert_eq!(answer, Err(EINVAL));
            }
        }
    });
}
