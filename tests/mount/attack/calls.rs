//! Attacks by system calls.
#![allow(unsafe_code, reason = "calls as an attacker makes them")]

use crate::target::Target;
use crate::{Attack, Needs};
use rustix::process::Signal;
use std::ffi::{c_long, c_void};
use std::io::{Error, Result};
use std::os::unix::net::UnixStream;
use std::ptr::{null, null_mut};
use uext4_testkit::prelude::*;

pub const ATTACKS: &[(&str, Needs, Attack)] = &[
    ("open", Needs::Nothing, |t| {
        File::open(t.path("secret")).map(drop)
    }),
    ("create", Needs::Root, |t| {
        File::create(t.path("new")).map(drop)
    }),
    ("stat", Needs::HostRoot, stat),
    ("list", Needs::Nothing, |t| {
        std::fs::read_dir(&t.dir).map(drop)
    }),
    ("proc_mem", Needs::Nothing, |t| {
        let pid = t.victim.as_raw_nonzero();
        File::open(format!("/proc/{pid}/mem")).map(drop)
    }),
    ("unix_path", Needs::Nothing, |t| {
        UnixStream::connect(t.path("socket")).map(drop)
    }),
    ("unix_abstract", Needs::Nothing, |t| {
        UnixStream::connect_addr(&t.abstract_name()).map(drop)
    }),
    ("socketpair", Needs::Nothing, |_| {
        UnixStream::pair().map(drop)
    }),
    ("tcp", Needs::Nothing, |t| t.connect_tcp().map(drop)),
    ("ptrace", Needs::Nothing, |t| {
        let pid = c_long::from(t.victim.as_raw_nonzero().get());
        call(libc::SYS_ptrace, &[c_long::from(libc::PTRACE_SEIZE), pid])
    }),
    ("process_vm_readv", Needs::Nothing, process_vm_readv),
    ("kill", Needs::Nothing, |t| {
        Ok(rustix::process::kill_process(t.victim, Signal::CONT)?)
    }),
    ("tgkill", Needs::Nothing, |t| {
        let pid = c_long::from(t.victim.as_raw_nonzero().get());
        call(libc::SYS_tgkill, &[pid, pid, c_long::from(libc::SIGCONT)])
    }),
    ("pidfd", Needs::Nothing, |t| {
        let flags = rustix::process::PidfdFlags::empty();
        let process = rustix::process::pidfd_open(t.victim, flags)?;
        Ok(rustix::process::pidfd_send_signal(&process, Signal::CONT)?)
    }),
    ("owner_of_descriptor", Needs::Nothing, |t| {
        let pid = t.victim.as_raw_nonzero().get();
        // SAFETY: the call takes numbers.
        let set = unsafe { libc::fcntl(t.pipe.0.as_raw_fd(), libc::F_SETOWN, pid) };
        done(c_long::from(set))
    }),
    ("limit_of_another", Needs::Nothing, limit_of_another),
    ("cpus_of_another", Needs::Nothing, |t| {
        let cpus = rustix::thread::sched_getaffinity(None)?;
        Ok(rustix::thread::sched_setaffinity(Some(t.victim), &cpus)?)
    }),
    ("execve", Needs::Nothing, |_| {
        let program = c"/bin/true";
        let argv = [program.as_ptr(), null()];
        // SAFETY: strings and lists end with null.
        unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), argv[1..].as_ptr()) };
        Err(Error::last_os_error())
    }),
    ("fork", Needs::Nothing, |_| {
        let flags = c_long::from(libc::SIGCHLD);
        // SAFETY: the child ends at once.
        match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
            0 => std::process::exit(0),
            pid => done(pid),
        }
    }),
    ("code", Needs::Nothing, |_| {
        let (prot, flags) = (
            libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new memory, which nothing uses.
        let at = unsafe { libc::mmap(null_mut(), 4096, prot, flags, -1, 0) };
        done(if at == libc::MAP_FAILED { -1 } else { 0 })
    }),
    ("mount", Needs::Root, |t| {
        let flags = rustix::mount::MountFlags::empty();
        Ok(rustix::mount::mount(
            "none",
            t.path("mnt"),
            "tmpfs",
            flags,
            None,
        )?)
    }),
    ("user_namespace", Needs::Nothing, |_| {
        call(libc::SYS_unshare, &[c_long::from(libc::CLONE_NEWUSER)])
    }),
    ("superuser", Needs::Root, |_| {
        call(libc::SYS_setresuid, &[0, 0, 0])
    }),
    ("name_to_handle", Needs::Nothing, |t| {
        handle(&t.path("secret")).map(drop)
    }),
    ("open_by_handle", Needs::Root, open_by_handle),
];

fn call(number: c_long, args: &[c_long]) -> Result<()> {
    let arg = |i: usize| args.get(i).copied().unwrap_or(0);
    // SAFETY: all arguments are numbers; none is taken for an address.
    done(unsafe { libc::syscall(number, arg(0), arg(1), arg(2), arg(3)) })
}

fn done(result: c_long) -> Result<()> {
    match result {
        -1 => Err(Error::last_os_error()),
        _ => Ok(()),
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// As a server may ask for a descriptor's attributes, with a path instead.
fn stat(target: &Target) -> Result<()> {
    let path = c_path(&target.path("secret"));
    // SAFETY: the path ends with null, and there is room for the answer.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        let flags = libc::AT_EMPTY_PATH;
        let found = libc::fstatat(libc::AT_FDCWD, path.as_ptr(), &mut found, flags);
        done(c_long::from(found))
    }
}

fn process_vm_readv(target: &Target) -> Result<()> {
    let mut byte = 0_u8;
    let local = libc::iovec {
        iov_base: (&raw mut byte).cast::<c_void>(),
        iov_len: 1,
    };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(target.memory),
        iov_len: 1,
    };
    let pid = target.victim.as_raw_nonzero().get();
    // SAFETY: one byte is written, to where there is room for it.
    done(unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) } as c_long)
}

/// The new limits lie where the low half of the address is 0, as that of no limits is.
fn limit_of_another(target: &Target) -> Result<()> {
    const ADDRESS: usize = 0x6_0000_0000;
    let pid = target.victim.as_raw_nonzero().get();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let at = std::ptr::without_provenance_mut::<libc::rlimit>(ADDRESS);
    // SAFETY: the memory is new; the victim's limits stay as they are.
    unsafe {
        let at = libc::mmap(at.cast(), 4096, prot, flags, -1, 0).cast::<libc::rlimit>();
        if at.addr() != ADDRESS {
            return Err(Error::last_os_error());
        }
        let kind = libc::RLIMIT_NOFILE;
        done(c_long::from(libc::prlimit(pid, kind, null(), at)))?;
        done(c_long::from(libc::prlimit(pid, kind, at, null_mut())))
    }
}

/// `struct file_handle`, with room for any.
#[repr(C)]
pub struct Handle {
    bytes: u32,
    kind: i32,
    handle: [u8; 128],
}

/// The handle of a file.
pub fn handle(path: &Path) -> Result<Handle> {
    let path = c_path(path);
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        handle: [0; 128],
    };
    let mut mount_id = 0;
    // SAFETY: the path ends with null, and the structure is as long as it says.
    done(unsafe {
        let at = (&raw mut handle).cast::<libc::file_handle>();
        c_long::from(libc::name_to_handle_at(
            libc::AT_FDCWD,
            path.as_ptr(),
            at,
            &mut mount_id,
            0,
        ))
    })?;
    Ok(handle)
}

/// Through any descriptor on the same file system, of a file whose handle can be guessed.
fn open_by_handle(target: &Target) -> Result<()> {
    let at: *const Handle = &target.handle;
    let fd = target.image.as_raw_fd();
    // SAFETY: the structure is one that the kernel filled, and reads now.
    let opened = unsafe {
        let at = at.cast_mut().cast::<libc::file_handle>();
        libc::open_by_handle_at(fd, at, libc::O_RDONLY)
    };
    done(c_long::from(opened))?;
    // SAFETY: it was opened here.
    drop(unsafe { File::from_raw_fd(opened) });
    Ok(())
}
