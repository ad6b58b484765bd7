//! The credentials of this thread, by system calls that are for it alone.

#![allow(unsafe_code)]

use super::person::Person;
use std::io::Error;

/// `SECBIT_NO_SETUID_FIXUP`: capabilities stay whatever the user becomes.
const KEEP: libc::c_ulong = 4;
/// `_LINUX_CAPABILITY_VERSION_3`
const VERSION: u32 = 0x2008_0522;

/// What capset(2) takes: which version and thread, then effective, permitted and inheritable twice.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

fn check(result: i64, what: &str) {
    assert!(result >= 0, "{what}: {}", Error::last_os_error());
}

/// This thread has a umask and a working directory of its own from now on, and keeps what it may.
pub fn prepare() {
    // SAFETY: no memory is passed.
    unsafe {
        check(libc::unshare(libc::CLONE_FS).into(), "unshare");
        check(
            libc::prctl(libc::PR_SET_SECUREBITS, KEEP, 0, 0, 0).into(),
            "secure bits",
        );
    }
}

/// The capabilities that the thread has, whether they are in effect or not.
fn permitted() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("/proc");
    let line = status.lines().find_map(|l| l.strip_prefix("CapPrm:"));
    u64::from_str_radix(line.expect("a line").trim(), 16).expect("a number")
}

fn set_effective(effective: u64, permitted: u64) {
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    let half = |set: u64, at: u32| (set >> (32 * at)) as u32;
    let data = [0, 1].map(|at| [half(effective, at), half(permitted, at), 0]);
    // SAFETY: header and data live through the call, and are as long as the version says.
    check(
        unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) },
        "capset",
    );
}

/// The credentials of a thread, and how they change.
pub struct Identity {
    permitted: u64,
}

impl Identity {
    pub fn of_thread() -> Identity {
        Identity {
            permitted: permitted(),
        }
    }

    /// The thread uses these credentials from now on.
    pub fn become_person(&self, who: &Person) {
        set_effective(self.permitted, self.permitted);
        let groups = &who.groups;
        // SAFETY: the groups live through the call; nothing else is pointed at.
        unsafe {
            check(
                libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()),
                "setgroups",
            );
            libc::syscall(libc::SYS_setfsgid, who.gid);
            libc::syscall(libc::SYS_setfsuid, who.uid);
            libc::umask(who.umask.into());
        }
        // What this test does not know of has nothing to do with files.
        set_effective(who.capabilities.bits() & self.permitted, self.permitted);
    }

    /// The thread acts for the superuser.
    pub fn become_root(&self) {
        self.become_person(&Person::root());
    }
}
