//! The system calls that a server may make.
//!
//! A call that is not on the list fails with `EPERM`: an unforeseen call must not end a server that has
//! data in flight. Only calls that a server never makes and that an attacker would make first end it.

use super::Serves;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// The rules of each call by its number; a call without rules matches whatever its arguments are.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filter cannot be built or installed.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// It cannot be built.
    #[error("{0}")]
    Compile(#[from] seccompiler::BackendError),
    /// The kernel refuses it.
    #[error("{0}")]
    Install(#[from] seccompiler::Error),
}

/// Calls that are allowed with any arguments.
const ALLOWED: &[libc::c_long] = &[
    // The image, the FUSE connection, the socket to the monitor.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_fadvise64,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_flock,
    libc::SYS_dup,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_shutdown,
    libc::SYS_ppoll,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_munlock,
    // Threads and their CPUs.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
    // The process's own signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    // Clocks and random numbers.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // The C library falls back to clone, whose flags can be checked: see [`MISSING`].
    libc::SYS_clone3,
];

/// Calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_arch_prctl, libc::SYS_time];
/// Calls that only this architecture has.
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[libc::c_long] = &[];

/// Further calls of a server of an image. Its rings are made and restricted before; none can be made or changed later.
const ALLOWED_FOR_IMAGES: &[libc::c_long] = &[libc::SYS_io_uring_enter];

/// Further calls of a check: its signals go through a pair of sockets that is there before.
const ALLOWED_FOR_TERMINALS: &[libc::c_long] = &[libc::SYS_sendto];

/// Further calls of a server of queues, which signals processes and reads their users.
const ALLOWED_FOR_QUEUES: &[libc::c_long] = &[
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_sched_getparam,
    libc::SYS_getpriority,
];

/// Calls that end the process.
const DEADLY: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
];

/// Calls that fail with `ENOSYS`, as on a kernel that does not have them.
const MISSING: &[libc::c_long] = &[libc::SYS_clone3];

/// The allowed types of ioctl: of block devices, of FUSE, and of the peers of rings.
const IOCTL_TYPES: [u64; 2] = [0x12 << 8, 0xe5 << 8];
/// The type of ioctl that reports the user of a process.
const IOCTL_TYPE_PIDFD: u64 = 0xff << 8;
/// The commands of fcntl(2). Not `F_SETOWN`, which would signal any process of the user.
const FCNTLS: [libc::c_int; 5] = [
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
];
/// The bits of an ioctl's number that hold its type.
const IOCTL_TYPE_MASK: u64 = 0xff << 8;

/// `PR_GET_AUXV` of `linux/prctl.h`: the values that the kernel passes at the start of a process.
const PR_GET_AUXV: libc::c_int = 0x4155_5856;

/// Installs the filters for the calling thread and all that it starts.
///
/// # Errors
/// This architecture has no filters, or the kernel was built without them.
pub fn install(serves: Serves) -> Result<(), FilterError> {
    let not_there = SeccompAction::Errno(libc::ENOSYS as u32);
    let not_allowed = SeccompAction::Errno(libc::EPERM as u32);
    let filters = [
        (
            any(DEADLY),
            SeccompAction::Allow,
            SeccompAction::KillProcess,
        ),
        (any(MISSING), SeccompAction::Allow, not_there),
        (allowed(serves)?, not_allowed, SeccompAction::Allow),
    ];
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let mut programs = Vec::new();
    for (rules, otherwise, matched) in filters {
        let filter = SeccompFilter::new(rules, otherwise, matched, arch)?;
        programs.push(BpfProgram::try_from(filter)?);
    }
    for program in &programs {
        seccompiler::apply_filter(program)?;
    }
    Ok(())
}

fn any(calls: &[libc::c_long]) -> Rules {
    calls.iter().map(|&call| (call, Vec::new())).collect()
}

fn allowed(serves: Serves) -> Result<Rules, FilterError> {
    let mut rules = any(ALLOWED);
    rules.extend(any(match serves {
        Serves::Image => ALLOWED_FOR_IMAGES,
        Serves::Terminal => ALLOWED_FOR_TERMINALS,
        Serves::Queues => ALLOWED_FOR_QUEUES,
    }));
    rules.extend(any(ALLOWED_HERE));
    let masked = |arg, mask: i32, value: i32| {
        let (mask, value) = (mask as u32, value as u32);
        let value = u64::from(value);
        condition(arg, SeccompCmpOp::MaskedEq(u64::from(mask)), value)
    };
    // Memory is never made executable.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![masked(2, libc::PROT_EXEC, 0)?]);
    }
    // Threads, not processes.
    let thread = libc::CLONE_THREAD | libc::CLONE_VM;
    rules.insert(libc::SYS_clone, vec![masked(0, thread, thread)?]);
    // Signals to threads of its own, as a panic or an abort sends.
    let own = u64::from(std::process::id());
    let mut signals = vec![condition(0, SeccompCmpOp::Eq, own)?];
    if serves == Serves::Queues {
        // Signal 0 asks whether a thread is a process's.
        signals.push(condition(2, SeccompCmpOp::Eq, 0)?);
    }
    rules.insert(libc::SYS_tgkill, signals);
    let options = [
        libc::PR_SET_NAME,
        libc::PR_GET_NAME,
        libc::PR_SET_VMA,
        PR_GET_AUXV,
    ];
    let options = options.map(|option| condition(0, SeccompCmpOp::Eq, option as u64));
    rules.insert(
        libc::SYS_prctl,
        options.into_iter().collect::<Result<_, _>>()?,
    );
    rules.insert(libc::SYS_ioctl, ioctls(serves)?);
    // As for a descriptor. A path can still be passed beside the flag, which allows reading the attributes of that path.
    let empty_path = libc::AT_EMPTY_PATH;
    rules.insert(libc::SYS_statx, vec![masked(2, empty_path, empty_path)?]);
    rules.insert(
        libc::SYS_newfstatat,
        vec![masked(3, empty_path, empty_path)?],
    );
    // Limits are read, not set: neither its own nor those of the user's other processes. All 64 bits of the pointer count.
    let limits = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![limits])?]);
    let fcntls = FCNTLS.map(|command| condition(1, SeccompCmpOp::Eq, command as u64));
    rules.insert(
        libc::SYS_fcntl,
        fcntls.into_iter().collect::<Result<_, _>>()?,
    );
    // Only of the calling thread (0): another number may be that of another process.
    let own_thread = condition(0, SeccompCmpOp::Eq, 0)?;
    rules.insert(libc::SYS_sched_setaffinity, vec![own_thread]);
    Ok(rules)
}

/// The ioctls that are allowed.
fn ioctls(serves: Serves) -> Result<Vec<SeccompRule>, FilterError> {
    let mut types = IOCTL_TYPES.to_vec();
    if serves == Serves::Queues {
        types.push(IOCTL_TYPE_PIDFD);
    }
    let ioctls = types
        .into_iter()
        .map(|kind| condition(1, SeccompCmpOp::MaskedEq(IOCTL_TYPE_MASK), kind));
    let mut ioctls: Vec<SeccompRule> = ioctls.collect::<Result<_, _>>()?;
    if serves == Serves::Terminal {
        for request in [libc::TCGETS, libc::TCGETS2, libc::TIOCGWINSZ] {
            // Signed for musl; the kernel has 32 bits.
            let request = u64::from(request as u32);
            ioctls.push(condition(1, SeccompCmpOp::Eq, request)?);
        }
    }
    Ok(ioctls)
}

/// A rule that compares the low 32 bits of an argument.
fn condition(arg: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompRule, FilterError> {
    let condition = SeccompCondition::new(arg, SeccompCmpArgLen::Dword, op, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}
