//! The descriptors that a new process inherits.

/// The first descriptor after the standard ones.
const FIRST: i32 = 3;

/// Closes the caller's descriptors in processes that are started from now on. Locks and pipes of the caller must not stay
/// open during a mount.
pub fn close_on_exec() {
    close_fds::set_fds_cloexec(FIRST, &[]);
}
