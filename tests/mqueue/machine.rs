//! What the machine lets a test do, and as which user.

/// The capabilities of this process, as capabilities(7) numbers them: the kernel's side has no more.
pub fn capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    u64::from_str_radix(line.expect("a line").trim(), 16).expect("a number")
}

/// This thread continues as that user, in the group of the same number and no other; root's rights wait
/// in the saved user.
pub fn become_user(uid: u32) {
    let uid = i64::from(uid);
    // The saved user is the way back; the real one is charged.
    // SAFETY: no memory is passed; the bare system calls are for this thread alone.
    unsafe {
        if libc::geteuid() != 0 {
            assert_eq!(libc::syscall(libc::SYS_setresuid, 0, 0, 0), 0);
        }
        assert_eq!(libc::syscall(libc::SYS_setgroups, 0, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_setresgid, uid, uid, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, uid, uid, 0), 0);
    }
}
